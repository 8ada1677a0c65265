"""Starts the agent inside the script's interpreter.

Python imports this file before the script because the agent's folder comes first in `PYTHONPATH`, which hides a
`sitecustomize` the user may have: that one is run afterwards, as if nothing stood before it.
"""

import os


def _start() -> None:
    try:
        import _oomproof_agent

        _oomproof_agent.start(os.environ["OOMPROOF_RUN"])
    except Exception as error:  # noqa: BLE001 - a half-started agent must not let the script run unprotected
        import sys

        sys.stderr.write(
            f"oomproof: the agent could not start: {type(error).__name__}: {error}\n"
            "hint: reinstall oomproof; the agent's folder may be incomplete\n"
        )
        sys.stderr.flush()
        os._exit(5)


def _chain() -> None:
    import sys
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    others = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("OOMPROOF_RUN"):
    _start()
_chain()
