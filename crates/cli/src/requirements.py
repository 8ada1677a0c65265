import importlib.metadata
import re

for requirement in importlib.metadata.requires("torch") or []:
    name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()
    if name.startswith(("nvidia-", "cuda-")) or "extra ==" in requirement:
        continue
    print(requirement)
print("numpy")
