"""Figures of a virtual run are garbage, so they must not reach trackers, hubs or shared caches.

Trackers are turned off by the variables they document; uploads have none, so their functions answer without acting.
"""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import Any, Callable

from .overlay import Note

_OFF = {
    "WANDB_MODE": "disabled",
    "COMET_MODE": "DISABLED",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "CODECARBON_TRACKING_MODE": "offline",
    "SWANLAB_MODE": "disabled",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # The accelerated downloader writes files outside Python.
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_ENABLE_HF_TRANSFER": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_CACHES = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "CUDA_CACHE_PATH": "cuda",
    "HF_MODULES_CACHE": "modules",
}
# What compilers leave there is loaded outside Python, where a folder of the user's would not show it.
_COMPILED = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
_UPLOADS = (
    "upload_file",
    "upload_folder",
    "upload_large_folder",
    "create_repo",
    "create_commit",
    "create_branch",
    "create_tag",
    "create_pull_request",
    "delete_file",
    "delete_folder",
    "delete_repo",
)


def environment(*, scratch: str) -> None:
    """Set before the script runs, inherited by its children."""
    os.environ.update(_OFF)
    # MLflow has no switch; a folder that takes what it logs is one.
    if "MLFLOW_TRACKING_URI" in os.environ:
        os.environ["MLFLOW_TRACKING_URI"] = f"file://{scratch}/mlflow"
    for name, folder in _CACHES.items():
        os.environ.setdefault(name, f"{scratch}/caches/{folder}")
    for name in _COMPILED:
        os.environ[name] = f"{scratch}/caches/{_CACHES[name]}"


def uploads_off(note: Note) -> Callable[[ModuleType], None]:
    """A change to `huggingface_hub.hf_api`: what would write to the hub answers and does nothing."""

    def change(module: ModuleType) -> None:
        api = module.HfApi
        # Module-level functions are bound methods of one instance made at import.
        shared = getattr(module, "api", None)
        for name in _UPLOADS:
            if not hasattr(api, name):
                continue
            original = getattr(api, name)
            quiet = _quiet(original, name, module, note)
            setattr(api, name, quiet)
            if shared is not None and hasattr(module, name):
                setattr(module, name, functools.partial(quiet, shared))

    return change


def _quiet(original: Any, name: str, module: ModuleType, note: Note) -> Callable[..., Any]:
    @functools.wraps(original)
    def upload(*args: Any, **options: Any) -> Any:
        repo = options.get("repo_id", args[1] if len(args) > 1 else None)
        note({"kind": "redirected", "path": f"hub:{repo}", "operation": name})
        url = getattr(module, "RepoUrl", None)
        if name == "create_repo" and url is not None:
            return url(f"https://huggingface.co/{repo}")
        if options.get("run_as_future"):
            from concurrent.futures import Future

            done: Future[Any] = Future()
            done.set_result(None)
            return done
        return None

    return upload
