import json
import sys


def constants(path):
    import ast

    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        if isinstance(node.value, ast.Constant):
            for target in targets:
                if isinstance(target, ast.Name):
                    found[target.id] = node.value.value
    return found


def torch():
    import importlib.metadata
    import importlib.util
    import os

    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        return None
    path = os.path.join(os.path.dirname(spec.origin), "version.py")
    if not os.path.exists(path):
        return None
    found = constants(path)
    try:
        requires = importlib.metadata.requires("torch") or []
    except importlib.metadata.PackageNotFoundError:
        requires = []
    return {
        "version": str(found.get("__version__")),
        "cuda": found.get("cuda"),
        "hip": found.get("hip"),
        "requires": requires,
    }


sys.path[:] = [folder for folder in sys.path if folder]
answer = {"version": list(sys.version_info[:3])}
if sys.version_info >= (3, 9):
    answer["torch"] = torch()
print(json.dumps(answer))
