"""A plan put into effect, and taken back.

Each lever acts at its moment. When one refuses, those before it are undone: a plan that is applied in part was never
verified.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Union

from . import expectations
from .context import Context, Moment
from .lever import Lever, Undo
from .parameters import Parameters
from .patches import Patches
from .plan import Plan, PlanLike, read
from .refusal import PlanRefused
from .registry import LEVERS


class Applied:
    """What a plan has changed."""

    def __init__(self, plan: Plan, context: Context) -> None:
        self.plan = plan
        self._context = context
        self._undo: List[Undo] = []
        self._chosen = [(_lever(name), parameters) for name, parameters in plan.levers]
        context.names = [path for _, parameters in plan.levers for path in _paths(parameters)]

    @property
    def levers(self) -> List[str]:
        """Names of the levers of the plan."""
        return [name for name, _ in self.plan.levers]

    def undo(self) -> None:
        """Takes everything back, in the opposite order."""
        while self._undo:
            self._undo.pop()()

    def at(self, moment: Moment) -> None:
        """Applies the levers of a moment."""
        for lever, parameters in self._chosen:
            if lever.MOMENT is moment:
                self._apply(lever, parameters)

    @property
    def waits_for_model(self) -> bool:
        expects = self._context.expects
        named = bool(expects.get("modules")) or expects.get("parameters") is not None
        wanted = (lever.MOMENT is Moment.MODEL or getattr(lever, "LOOKS_AT_MODEL", False) for lever, _ in self._chosen)
        return named or any(wanted)

    def later(self, undo: Undo) -> None:
        self._undo.append(undo)

    def _apply(self, lever: Lever, parameters: Parameters) -> None:
        try:
            reason = lever.check(self._context, parameters)
            if reason is not None:
                raise PlanRefused(reason)
            self._undo.append(lever.apply(self._context, parameters))
        except PlanRefused as error:
            self.undo()
            raise PlanRefused(error.reason, lever=error.lever or lever.NAME) from None


def apply(plan: PlanLike, model: Any, optimizer: Union[Any, Sequence[Any], None] = None) -> Applied:
    """Applies a plan inside a script, before the first training step.

    Args:
        plan: The path of a `plan.toml`, or what is in it as a mapping.
        model: The model that the plan names modules of.
        optimizer: The optimizer, or several; optimizers that are made later are found by themselves.

    Raises:
        PlanRefused: The plan does not match the script; nothing is changed then.

    Returns:
        What was applied; its `undo()` takes it back.
    """
    import torch

    whole = read(plan)
    context = Context(torch=torch, expects=whole.expects)
    applied = Applied(whole, context)
    expectations.check_release(context)
    context.model = model
    expectations.check_model(context)
    applied.later(_watch_optimizers(context, _listed(optimizer)))
    for moment in (Moment.START, Moment.MODEL):
        applied.at(moment)
    return applied


def install(
    plan: PlanLike,
    *,
    optimizers: Iterable[Any] = (),
    values_are_known: bool = True,
    on_applied: Callable[[], None],
    on_refused: Callable[[PlanRefused], None],
) -> Optional[Applied]:
    """Applies a plan to a script that knows nothing of it, once its objects show themselves.

    Args:
        plan: As for `apply`.
        optimizers: Those that exist already.
        values_are_known: Whether tensors have the values that they are computed to have, which they have not on a
            virtual GPU.
        on_applied: Called when all levers act.
        on_refused: Called when the plan does not match; it is expected not to return.
    """
    import torch

    try:
        whole = read(plan)
        context = Context(torch=torch, expects=whole.expects)
        context.on_refused = on_refused
        context.values_are_known = values_are_known
        applied = Applied(whole, context)
        expectations.check_release(context)
        applied.later(_watch_optimizers(context, list(optimizers)))
        applied.at(Moment.START)
    except PlanRefused as error:
        on_refused(error)
        return None
    if applied.waits_for_model:
        _Waiting(applied, context, on_applied=on_applied).begin()
    else:
        on_applied()
    return applied


class _Waiting:
    """For the first call of the model for training."""

    def __init__(self, applied: Applied, context: Context, *, on_applied: Callable[[], None]) -> None:
        self._applied = applied
        self._context = context
        self._on_applied = on_applied
        self._patches = Patches()
        self._depth = 0
        self._lacking = "no module was called for training"

    def begin(self) -> None:
        # What a hook of the module itself replaces is not used in the call that it was made in: the module's `forward`
        # has been looked up by then.
        self._patches.wrap(self._context.torch.nn.Module, "__call__", self._wrap)
        self._patches.later(self._context.each_optimizer(self._too_late))
        self._applied.later(self._patches.undo)

    def _wrap(self, function: Any) -> Any:
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth == 0 and module.training and self._context.torch.is_grad_enabled():
                self._called(module)
            self._depth += 1
            try:
                return function(module, *args, **kwargs)
            finally:
                self._depth -= 1

        return call

    def _called(self, module: Any) -> None:
        context = self._context
        if context.model is not None:
            return
        lacking = expectations.is_the_model(context, module)
        if lacking is not None:
            self._lacking = lacking
            return
        context.model = module
        self._patches.undo()
        try:
            expectations.check_model(context)
            self._applied.at(Moment.MODEL)
        except PlanRefused as error:
            context.on_refused(error)
            return
        self._on_applied()

    def _too_late(self, optimizer: Any) -> None:
        def before_step(*_: Any) -> None:
            if self._context.model is None:
                self._context.on_refused(PlanRefused(self._lacking))

        handle = optimizer.register_step_pre_hook(before_step)
        self._patches.later(handle.remove)


def _watch_optimizers(context: Context, known: List[Any]) -> Undo:
    patches = Patches()

    def wrap(function: Any) -> Any:
        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            function(optimizer, *args, **kwargs)
            context.met(optimizer)

        init.__wrapped__ = function  # type: ignore[attr-defined]
        return init

    patches.wrap(context.torch.optim.Optimizer, "__init__", wrap)
    for optimizer in known:
        context.met(optimizer)
    return patches.undo


def _listed(optimizer: Union[Any, Sequence[Any], None]) -> List[Any]:
    if optimizer is None:
        return []
    given = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
    # accelerate's stands around the one that steps.
    return [getattr(entry, "optimizer", entry) for entry in given]


def _lever(name: str) -> Lever:
    for lever in LEVERS:
        if name == lever.NAME:
            return lever
    raise PlanRefused("there is no such lever", lever=name)


def _paths(parameters: Dict[str, Any]) -> List[str]:
    modules = parameters.get("modules", [])
    return [path for path in modules if isinstance(path, str)] if isinstance(modules, list) else []
