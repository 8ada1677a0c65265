"""Puts the parts together in the order that the script's own imports dictate.

Before PyTorch runs, the virtual device and the stand-ins must be mapped; after it ran, hooks can be set. Nothing is
loaded in a process that never imports PyTorch.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import platform
import sys
from typing import Any, Callable, Dict, Optional

from . import checkpoints, failure, warned
from .batchsize import BatchSize
from .compiling import Compiling
from .course import Course
from .device import Device, DeviceError, VersionError
from .exits import Exits
from .extensions import Extensions
from .frames import Frames
from .frameworks import Frameworks
from .history import History
from .importhook import ImportHook
from .libraries import StandIns
from .loaders import Loaders
from .modules import Modules
from .names import FORWARD
from .offline import Offline
from .ooms import Ooms, is_out_of_memory
from .phases import Phases
from .planfacts import PlanFacts
from .plans import Plans
from .processes import Followed, after_fork_in_child, prepare_environment
from .ranks import Ranks
from .roles import Roles
from .sites import Sites
from .steady import LEAST_STEPS, PLANNED_STEPS, Steady
from .steps import Steps

SCHEMA = 1

# The agent of this process, for what is started as a program of its own.
running: Optional[Agent] = None


def start(run_json: str) -> None:
    """Begins to watch this process, as the settings in `run_json` say."""
    with open(run_json, encoding="utf-8") as text:
        settings = json.load(text)
    if settings.get("schema") != SCHEMA:
        failure.give_up(
            settings,
            f"the settings of this run have schema {settings.get('schema')}, and the agent reads {SCHEMA}",
            "the command and the agent's folder are of different versions; reinstall oomproof",
        )
    global running
    running = Agent(settings, run_json)
    running.install()


class Agent:
    """All parts for one process."""

    def __init__(self, settings: Dict[str, Any], run_json: str) -> None:
        self._settings = settings
        self._run_json = run_json
        self.device = Device()
        self.frames = Frames(self.device.site)
        self.phases = Phases(self.device)
        self.ooms = Ooms(self.device, self.frames, self.phases.moment)
        self.sites = Sites(self.device, self.frames)
        self.modules = Modules(self.device, self.phases)
        self.exits = Exits(self.device, self.frames)
        self._steady = steady = Steady(
            steps=settings.get("steps"), full=settings.get("full", False), least=_least_steps(settings)
        )
        self.course = Course(
            stop=self._stop,
            time_limit=settings.get("timeout_secs"),
            training_only=settings.get("training_only", False),
        )
        self.steps = Steps(self.device, steady, self.course, on_end=self._step_ended)
        self.ranks = Ranks(self.device, step=lambda: self.steps.count)
        self.course.agree = self.ranks.agree
        self.loaders = Loaders(self.device, self.course, steady, self.steps, place=self._place)
        self.imports = ImportHook()
        self.offline = Offline(scratch=settings["scratch"], note=self.device.note)
        self.history = History(folder=settings["run_dir"])
        self.followed = Followed(folder=_folder(), run_json=run_json)
        self._warm: Optional[Any] = None
        self._files: Optional[Any] = None
        self._init_skip: Optional[Any] = None
        self._autograd: Dict[str, Any] = {}
        self._facts: Optional[PlanFacts] = None
        self._plans: Optional[Plans] = None

    def install(self) -> None:
        files = _part("files")
        self._init_skip = _part("initskip")
        prepare_environment(standins=self._settings["standins"])
        if files is not None:
            self._files = files.install(self._settings, self.device.note)
        self.offline.watch(self.imports)
        self.imports.on("torch", before=self._before_torch, after=self._after_torch)
        self.imports.install()
        self.followed.watch(self.imports)
        after_fork_in_child(self._forked)
        _leave_path()

    def _before_torch(self) -> None:
        try:
            standins = StandIns(self._settings["standins"])
            self.device.attach(library=self._settings["vgpu"], run_json=self._run_json)
            standins.load()
            standins.watch_python()
            self.frames.hide(os.path.dirname(ctypes.__file__))
            Extensions(self.device, place=self._place).watch()
        except VersionError as error:
            failure.give_up(
                self._settings,
                str(error),
                "the agent's folder and the library are of different versions; reinstall oomproof",
            )
        except (DeviceError, OSError) as error:
            failure.give_up(
                self._settings,
                f"the virtual GPU could not be started: {error}",
                "set TMPDIR to a folder on a disk with room; if it has, reinstall oomproof",
            )
        self.exits.waiting_for = self.steps.waiting_for
        self.exits.on_error = self._failed
        self.exits.on_terminate = self.course.out_of_time
        self.exits.before_end = self._before_end
        self.exits.watch()

    def _after_torch(self, torch: Any) -> None:
        try:
            self._watch_torch(torch)
        except Exception as error:  # noqa: BLE001 - half of the hooks would give figures that look whole
            failure.give_up(
                self._settings,
                f"torch {torch.__version__} could not be watched: {type(error).__name__}: {error}",
                "oomproof supports torch 2.4 to 2.15",
            )

    def _watch_torch(self, torch: Any) -> None:
        self.device.note(
            kind="python",
            version=platform.python_version(),
            executable=sys.executable,
            torch=str(torch.__version__),
            cuda=torch.version.cuda,
        )
        if torch.cuda.get_allocator_backend() != "native" or "PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ:
            self.device.ledger()
        if self._init_skip is not None:
            self._init_skip.install(self._settings, self.device.note)
        if self._settings.get("snapshot", False):
            self.history.watch(torch)
        self.ranks.watch(torch)
        self._watch_optimizers()
        sizes = BatchSize(wanted=self._settings.get("batch_size"), note=self.device.note, place=self._place)
        self.imports.when_loaded("torch.utils.data.dataloader", sizes.watch)
        if not self._settings.get("full", False) and self._settings.get("steps") is None:
            self.imports.when_loaded("torch.utils.data.dataloader", self.loaders.watch)
            Frameworks(self.loaders, self.device.note).watch(self.imports)
        if self._settings.get("labels", True):
            self._watch_labels(torch)
        else:
            torch.autograd.backward = self.steps.wrap_backward(torch.autograd.backward)
        if self._settings.get("probe", False):
            self._facts = PlanFacts(self.device, self.phases, self.steps, torch)
            self._facts.watch(self.imports)
        self._apply_plan()
        if self._settings.get("warm") is not None:
            warm = importlib.import_module(".warm", __package__)
            self._warm = warm.Warm(self._settings["warm"], count=self.device.n_devices, become=self._become)
            self._warm.watch(torch)

    def _become(self, settings: Dict[str, Any], run_json: str) -> None:
        """In a fork of a script that waited: goes on as the run with these settings."""
        os.environ["OOMPROOF_RUN"] = run_json
        os.environ["PATH"] = os.environ["PATH"].replace(os.path.dirname(self._run_json), os.path.dirname(run_json), 1)
        self._settings, self._run_json = settings, run_json
        self.device.restart(run_json=run_json)
        self.course.limit(settings.get("timeout_secs"))
        self.course.training_only = settings.get("training_only", False)
        self._steady.least = _least_steps(settings)
        self.followed.run_json = run_json
        self.history.folder = settings["run_dir"]
        self.offline.scratch = settings["scratch"]
        if self._files is not None:
            self._files.move(scratch=settings["scratch"], free=[settings["run_dir"]])
        if self._facts is not None and not settings.get("probe", False):
            self._facts.leave()
            self._facts = None
        self._apply_plan()

    def _apply_plan(self) -> None:
        if self._settings.get("plan") is not None and self._settings.get("labels", True):
            self.sites.watch_hooks_of_levers()
        self._plans = Plans(self._settings, self.device, self.exits, self.frames)
        self._plans.watch(optimizers=self.steps.optimizers)

    def _watch_optimizers(self) -> None:
        # The package hides its module of that name.
        optimizer = importlib.import_module("torch.optim.optimizer")
        optimizer.register_optimizer_step_post_hook(self._optimizer_stepped)
        optimizer.Optimizer.__init__ = self.steps.wrap_init(optimizer.Optimizer.__init__)
        optimizer.register_optimizer_step_pre_hook(self._optimizer_begins)

    def _watch_labels(self, torch: Any) -> None:
        self.frames.hide(os.path.dirname(os.path.abspath(torch.__file__)))
        self.roles = Roles(self.device, torch)
        self.modules.on_open += [self._outermost_begins]
        self.modules.on_change += [self.roles.walk]
        self.modules.on_close += [lambda module: self.steps.forward_ended()]
        self.modules.watch()
        self.ooms.first_seen += [self.roles.out_of_memory, self.phases.failed, self.sites.release]
        self.phases.on_backward_end += [self.steps.backward_ended]
        for name, then_rest in (("backward", True), ("grad", False)):
            original = getattr(torch.autograd, name)
            self._autograd[name] = original
            wrapped = self.phases.wrap_backward(original, then_rest=then_rest, failed=self._failed)
            setattr(torch.autograd, name, wrapped)
        torch.nn.Module._apply = _label_after_apply(torch.nn.Module._apply, self.roles.walk)
        self.phases.on_first += [self.course.news]
        checkpoints.watch(self.phases, self.imports)
        compiling = Compiling(self._step_aside)
        compiling.watch(torch)
        self.imports.when_loaded("torch.export", compiling.watch_export)
        warned.watch()
        self.sites.watch(on_out_of_memory=self.ooms.passed)

    def _outermost_begins(self, module: Any) -> None:
        import torch

        evaluating = not (torch.is_grad_enabled() and module.training)
        if not evaluating:
            self._training_begins()
        self.sites.release()
        self.phases.forward_begins(evaluating=evaluating)
        self.roles.opened(module)

    def _optimizer_begins(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self._training_begins()
        if self._facts is not None:
            self._facts.optimizer_begins(optimizer)
        if not self._settings.get("labels", True):
            return
        self.sites.hold()
        self.phases.optimizer_begins()
        self.roles.optimizer_begins(optimizer)

    def _optimizer_stepped(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._facts is not None:
            self._facts.optimizer_ended()
        if self._settings.get("labels", True):
            self.sites.release()
            self.roles.optimizer_ended(optimizer)
            self.phases.optimizer_ends()
        self.steps.optimizer_ended(optimizer)

    def _training_begins(self) -> None:
        # Each time: a script may build another model after it trained one.
        if self._init_skip is not None:
            self._init_skip.flush()

    def _step_ended(self, step: int) -> None:
        self.ooms.step_ended()
        self.phases.step_ended(step)
        if self._facts is not None:
            self._facts.step_ended(step)

    def _before_end(self) -> None:
        if self._facts is not None:
            self._facts.conclude()
        self.history.write()

    def _stop(self, reason: str, step: int) -> None:
        self.loaders.conclude()
        self.exits.stop(reason, step)

    def _place(self) -> Optional[str]:
        place = self.frames.here()
        return f"{place.file}:{place.line}" if place else None

    def _failed(self, error: BaseException) -> None:
        if is_out_of_memory(error):
            self.ooms.passed(error)
        elif self._plans is not None:
            self._plans.failed(error)

    def _step_aside(self, what: str) -> None:
        import torch

        self.device.note(kind="compile", what=what)
        self.sites.step_aside()
        self.modules.step_aside()
        if self._facts is not None:
            self._facts.step_aside()
        torch.autograd.grad = self._autograd["grad"]
        self.phases.rest = FORWARD

    def _forked(self) -> None:
        if self._warm is not None and self._warm.forking:
            return
        self.device.detach()
        self.exits.forget()
        self.history.forget()
        self.ranks.forget()
        self.loaders.step_aside()
        self.sites.step_aside()
        self.modules.step_aside()


def _least_steps(settings: Dict[str, Any]) -> int:
    is_last_word = settings.get("plan") is not None and not settings.get("training_only", False)
    return PLANNED_STEPS if is_last_word else LEAST_STEPS


def _part(name: str) -> Optional[Any]:
    try:
        return importlib.import_module(f".{name}", __package__)
    except ModuleNotFoundError as error:
        if error.name == f"{__package__}.{name}":
            return None
        raise


def _label_after_apply(function: Any, walk: Callable[[Any], None]) -> Any:
    """`Module._apply`, which moves a model to the device, with the moved parameters labeled even if it fails."""
    depth = 0

    def _apply(module: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        depth += 1
        try:
            return function(module, *args, **kwargs)
        finally:
            depth -= 1
            if depth == 0:
                walk(module)

    _apply.__wrapped__ = function  # type: ignore[attr-defined]
    return _apply


def _folder() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _leave_path() -> None:
    folder = _folder()
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != folder]
