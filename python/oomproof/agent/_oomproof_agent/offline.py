"""A run without a network: nothing waits for one, and models are built without their weights.

Only the values of weights are on the other side of the network; what they take is decided by the configuration, or for
torchvision and timm by the name of the model. Where even that is not on this machine the script's own error stands, and
`missing` says in one sentence what it lacks.
"""

from __future__ import annotations

import copy
import functools
import os
import sys
import tempfile
from typing import Any, Callable, Dict, Optional, Set
from urllib.parse import urlparse

from . import missing, weights
from .absent import AbsentState
from .importhook import ImportHook

# Arguments that say where the weights are, which is answered.
_PLACES = ("subfolder", "revision", "cache_dir", "variant", "use_safetensors", "token", "use_auth_token",
           "local_files_only", "force_download", "proxies", "_commit_hash")  # fmt: skip


class Offline:
    """Changes the functions that load weights; they are asked first, and only their failure is answered."""

    def __init__(self, *, scratch: str, note: Callable[..., None]) -> None:
        self.scratch = scratch
        self._note = note
        self._told: Set[str] = set()

    def watch(self, imports: ImportHook) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        imports.when_loaded("torch.hub", self._watch_hub)
        imports.when_loaded("torch.nn.modules.module", self._watch_modules)
        imports.when_loaded("transformers.modeling_utils", self._watch_transformers)
        imports.when_loaded("diffusers.models.modeling_utils", self._watch_diffusers)
        imports.when_loaded("timm.models._builder", self._watch_timm)

    def _watch_modules(self, modules: Any) -> None:
        load = modules.Module.load_state_dict

        @functools.wraps(load)
        def load_state_dict(module: Any, state: Any, *args: Any, **options: Any) -> Any:
            if isinstance(state, AbsentState):
                self._tell(state.name, "the model keeps the values it was made with; the sizes are the same")
                return modules._IncompatibleKeys([], [])
            return load(module, state, *args, **options)

        modules.Module.load_state_dict = load_state_dict

    def _tell(self, name: str, rest: str, *, kind: str = "weights_not_local") -> None:
        if name in self._told:
            return
        self._told.add(name)
        place = missing.line_of_script(sys._getframe(1))
        self._note(
            kind="assumption",
            assumption=kind,
            text=f"the weights of `{name}` are not on this machine: {rest}",
            where=f"{place[0]}:{place[1]}" if place else None,
        )

    def _watch_hub(self, hub: Any) -> None:
        load = hub.load_state_dict_from_url

        @functools.wraps(load)
        def load_state_dict_from_url(url: str, model_dir: Optional[str] = None, *args: Any, **options: Any) -> Any:
            folder = model_dir or os.path.join(hub.get_dir(), "checkpoints")
            name = options.get("file_name") or os.path.basename(urlparse(url).path)
            if not os.path.exists(os.path.join(folder, name)) and _offline():
                return AbsentState(name)
            return load(url, model_dir, *args, **options)

        hub.load_state_dict_from_url = load_state_dict_from_url

    def _watch_timm(self, builder: Any) -> None:
        load = builder.load_pretrained

        @functools.wraps(load)
        def load_pretrained(model: Any, *args: Any, **options: Any) -> Any:
            try:
                return load(model, *args, **options)
            except Exception as error:
                if not _of_network(error):
                    raise
            self._tell(type(model).__name__, "the model keeps the values it was made with; the sizes are the same")
            return None

        builder.load_pretrained = load_pretrained

    def _watch_transformers(self, module: Any) -> None:
        def build(kind: Any, folder: str, args: Any, options: Dict[str, Any]) -> Any:
            config = options.get("config")
            if config is None or isinstance(config, (str, os.PathLike)):
                rest = {key: value for key, value in options.items() if key not in ("config", "dtype", "torch_dtype")}
                config, _ = kind.config_class.from_pretrained(folder, return_unused_kwargs=True, **rest)
            if getattr(config, "quantization_config", None) is not None:
                raise weights.UnbuildableError("they are quantized, and how is known to their files alone")
            with module.torch.device("meta"):
                model = kind(copy.deepcopy(config), *args)
            if hasattr(model, "tie_weights"):
                model.tie_weights()
            return model, _dtype_of(module.torch, config)

        self._answer(module.PreTrainedModel, build, config="config.json", file="model.safetensors")

    def _watch_diffusers(self, module: Any) -> None:
        def build(kind: Any, folder: str, args: Any, options: Dict[str, Any]) -> Any:
            config = kind.load_config(folder)
            if config.get("quantization_config") is not None:
                raise weights.UnbuildableError("they are quantized, and how is known to their files alone")
            with module.torch.device("meta"):
                return kind.from_config(config), None

        self._answer(module.ModelMixin, build, config="config.json", file="diffusion_pytorch_model.safetensors")

    def _answer(self, owner: Any, build: Callable[..., Any], *, config: str, file: str) -> None:
        """Has `owner.from_pretrained` load a file of holes where it finds no weights."""
        load = owner.__dict__["from_pretrained"].__func__

        @functools.wraps(load)
        def from_pretrained(kind: Any, name: Any = None, *args: Any, **options: Any) -> Any:
            try:
                # The library changes what it is given.
                return load(kind, name, *args, **dict(options))
            except OSError as error:
                if not isinstance(name, (str, os.PathLike)) or options.get("gguf_file") or options.get("state_dict"):
                    raise
                source = weights.folder_of(
                    os.fspath(name),
                    file=config,
                    subfolder=options.get("subfolder") or "",
                    cache=options.get("cache_dir"),
                    revision=options.get("revision"),
                )
                if source is None or weights.has_weights(source):
                    raise
                failed = error
            rest = {key: value for key, value in options.items() if key not in _PLACES}
            try:
                model, dtype = build(kind, source, args, rest)
                folder = os.path.join(tempfile.mkdtemp(prefix="weights-", dir=self.scratch), "model")
                weights.write(
                    folder, file=file, source=source, tensors=weights.tensors_of(model, dtype=dtype or _default())
                )
            except weights.UnbuildableError as error:
                raise OSError(
                    f"the weights of `{name}` are not on this machine, and cannot be imitated: {error}"
                ) from failed
            del model
            word = str(dtype or _default()).replace("torch.", "")
            why = "as its configuration says" if dtype is not None else "because its configuration names no type"
            kind_of = "weights_not_local" if dtype is not None or _asks_for_type(options) else "weights_type"
            rest_of = f"a file of the same sizes in {word}, {why}, is loaded instead"
            self._tell(os.fspath(name), rest_of, kind=kind_of)
            loaded = load(kind, folder, *args, **rest)
            _rename(loaded, os.fspath(name))
            return loaded

        owner.from_pretrained = classmethod(from_pretrained)


def _rename(loaded: Any, name: str) -> None:
    model = loaded[0] if isinstance(loaded, tuple) else loaded
    for owner, attribute in ((model, "name_or_path"), (getattr(model, "config", None), "_name_or_path")):
        if owner is not None and hasattr(owner, attribute):
            try:
                setattr(owner, attribute, name)
            except Exception:  # noqa: BLE001 - a name that cannot be changed stays
                continue


def _dtype_of(torch: Any, config: Any) -> Any:
    for each in (config, getattr(config, "text_config", None)):
        found = getattr(each, "dtype", None) or getattr(each, "torch_dtype", None)
        if isinstance(found, str):
            found = getattr(torch, found, None)
        if isinstance(found, torch.dtype):
            return found
    return None


def _default() -> Any:
    return sys.modules["torch"].float32


def _asks_for_type(options: Dict[str, Any]) -> bool:
    """Whether the tensors get a type that is not that of the file."""
    return any(isinstance(options.get(name), sys.modules["torch"].dtype) for name in ("dtype", "torch_dtype"))


def _offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _of_network(error: BaseException) -> bool:
    return isinstance(error, OSError) or missing.is_of_network(error)
