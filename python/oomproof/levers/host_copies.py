"""Tensors on their way to host memory and back, beside the arithmetic.

Copies run on streams of their own, and no memory is used before it is ready: a copy waits for what computes its source,
a tensor lives until it was read, and what computes waits for the copy that it needs. Memory is let go of only on the
stream that computes and after that has waited, so that the allocator may hand it out again at once; had the copying
stream been named to the allocator instead, it would depend on the speed of the bus how much is held. At most `AHEAD`
tensors are under way in each direction: the program that computes waits for the bus rather than for memory.

The backward pass needs tensors about in the opposite order of the forward pass, so when one is asked for, those that
were kept before it are fetched.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Tuple

# Tensors under way in one direction.
AHEAD = 2


class Kept:
    """A tensor in host memory."""

    def __init__(self, host: Any, device: Any, written: Any) -> None:
        self.host = host
        self.device = device
        # The event after which the host's memory has its values; `None` where it has.
        self.written = written


class Use:
    """One operator's hold on a kept tensor, in the order in which they are taken."""

    def __init__(self, kept: Kept, position: int) -> None:
        self.kept = kept
        self.position = position


class HostCopies:
    """The copies of one program."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        # Both directions of the bus work at once.
        self._streams: Dict[Tuple[Any, str], Any] = {}
        # Sources of copies.
        self._leaving: List[_UnderWay] = []
        # The graph holds the uses: what is dropped with it is not fetched.
        self._order: List[Any] = []
        self._fetched: Dict[int, _UnderWay] = {}

    def begin(self) -> None:
        """A forward pass begins; what nobody came for is let go of."""
        for position in list(self._fetched):
            self._fetched.pop(position).wait()
        while self._order and self._order[-1]() is None:
            self._order.pop()

    def keep(self, tensor: Any) -> Kept:
        """Copies a tensor to the host, from which `back` has it again."""
        torch = self._torch
        host = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
        if not tensor.is_cuda:
            host.copy_(tensor)
            return Kept(host, tensor.device, None)
        computing = torch.cuda.current_stream(tensor.device)
        stream = self._stream(tensor.device, "out")
        stream.wait_stream(computing)
        with torch.cuda.stream(stream):
            host.copy_(tensor, non_blocking=True)
            written = stream.record_event()
        self._leaving.append(_UnderWay(tensor, written, computing))
        self._let_go(AHEAD)
        return Kept(host, tensor.device, written)

    def use(self, kept: Kept) -> Use:
        found = Use(kept, len(self._order))
        self._order.append(weakref.ref(found))
        return found

    def end(self) -> None:
        """Nothing more leaves for now: what was copied is let go of."""
        self._let_go(0)

    def back(self, use: Use) -> Any:
        """The tensor on its device, for the stream that computes."""
        kept = use.kept
        if kept.written is None:
            # What is on the CPU already is copied too, so that a run there takes the same way.
            return kept.host.to(kept.device, copy=True)
        self._let_go(0)
        found = self._fetched.pop(use.position, None)
        if found is not None and found.computing != self._torch.cuda.current_stream(kept.device):
            # It was fetched for another stream, whose memory it has.
            found.wait()
            found = None
        if found is None:
            found = self._fetch(kept)
        found.wait()
        self._fetch_before(use)
        return found.tensor

    def _fetch_before(self, use: Use) -> None:
        position = use.position
        while position > 0 and len(self._fetched) < AHEAD:
            position -= 1
            before = self._order[position]() if position < len(self._order) else None
            if before is None or before.kept.written is None or before.kept.device != use.kept.device:
                continue
            if position not in self._fetched:
                self._fetched[position] = self._fetch(before.kept)

    def _fetch(self, kept: Kept) -> _UnderWay:
        torch = self._torch
        computing = torch.cuda.current_stream(kept.device)
        tensor = torch.empty_like(kept.host, device=kept.device, pin_memory=False)
        stream = self._stream(kept.device, "in")
        # The memory may have been another tensor's until now.
        stream.wait_stream(computing)
        stream.wait_event(kept.written)
        with torch.cuda.stream(stream):
            tensor.copy_(kept.host, non_blocking=True)
            return _UnderWay(tensor, stream.record_event(), computing)

    def _let_go(self, most: int) -> None:
        while len(self._leaving) > most:
            self._leaving.pop(0).wait()

    def _stream(self, device: Any, direction: str) -> Any:
        found = self._streams.get((device, direction))
        if found is None:
            found = self._streams[device, direction] = self._torch.cuda.Stream(device)
        return found


class _UnderWay:
    """A tensor of the device that is read or written by a copy."""

    def __init__(self, tensor: Any, done: Any, computing: Any) -> None:
        self.tensor = tensor
        self.done = done
        # The stream whose memory it has.
        self.computing = computing

    def wait(self) -> None:
        """The stream that computes goes on when the copy is done; after that the memory may go back to it."""
        self.computing.wait_event(self.done)
