"""The optimizer's state lives on the host, and its step is taken there.

Before a step the gradients go to the host, afterwards the parameters come back; between them the script's optimizer
works on host copies in place of the parameters. Its state stays under the parameters' names, so that saving it works.
"""

from __future__ import annotations

import functools
import types
from typing import Any, Dict, List, Optional, Tuple

from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known
from .patches import Patches

NAME = "optimizer-offload"
MOMENT = Moment.MODEL


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters)
    for optimizer in context.optimizers():
        if optimizer.state:
            return "the optimizer has stepped already, and its state is on the device"
        if any(group.get("capturable") for group in optimizer.param_groups):
            return "the optimizer is captured into a graph"
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    patches = Patches()

    def meet(optimizer: Any) -> None:
        offloaded = _Offloaded(context, optimizer)
        patches.wrap(optimizer, "step", offloaded.around)

    patches.later(context.each_optimizer(meet))
    return patches.undo


class _Offloaded:
    def __init__(self, context: Context, optimizer: Any) -> None:
        self._context = context
        self._torch = context.torch
        self._optimizer = optimizer
        # By parameter: its copy on the host, with room for its gradient.
        self._host: Dict[Any, Tuple[Any, Any]] = {}

    def around(self, original: Any) -> Any:
        @functools.wraps(original)
        def step(_optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            closure = args[0] if args else kwargs.get("closure")
            if closure is not None:
                self._context.refuse("the optimizer computes the loss itself, in a closure", lever=NAME)
            groups = self._optimizer.param_groups
            with self._torch.no_grad():
                moved = [
                    self._to_host(entry) for group in groups for entry in group["params"] if entry.grad is not None
                ]
            if any(parameter.is_cuda for parameter, _ in moved):
                self._torch.cuda.current_stream().synchronize()
            self._optimizer.param_groups = [{**group, "params": self._hosts(group)} for group in groups]
            try:
                result = original(*args, **kwargs)
            finally:
                self._optimizer.param_groups = groups
                for parameter, host in moved:
                    state = self._optimizer.state.pop(host, None)
                    if state is not None:
                        self._optimizer.state[parameter] = state
            with self._torch.no_grad():
                for parameter, host in moved:
                    parameter.copy_(host, non_blocking=parameter.is_cuda)
            return result

        return types.MethodType(step, self._optimizer)

    def _to_host(self, parameter: Any) -> Tuple[Any, Any]:
        on_gpu = parameter.is_cuda
        if parameter not in self._host:
            host = self._torch.empty_like(parameter, device="cpu", pin_memory=on_gpu)
            host.copy_(parameter)
            room = self._torch.empty_like(parameter.grad, device="cpu", pin_memory=on_gpu)
            self._host[parameter] = (host, room)
        host, room = self._host[parameter]
        room.copy_(parameter.grad, non_blocking=on_gpu)
        host.grad = room
        state = self._optimizer.state.pop(parameter, None)
        if state is not None:
            self._optimizer.state[host] = state
        return parameter, host

    def _hosts(self, group: Any) -> List[Any]:
        return [self._host[entry][0] for entry in group["params"] if entry.grad is not None]
