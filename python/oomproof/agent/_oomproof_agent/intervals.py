"""The most that was allocated between two moments.

The header of the profile has the peak of a step and no finer one. PyTorch keeps a peak of its own that can be started
anew at any time; only what a script prints of it changes, so this is for runs whose output nobody reads. Intervals
nest, and each ends with the highest of what lies inside it.
"""

from __future__ import annotations

from typing import Any, List, Optional

from .device import Device
from .names import ALLOCATED, DEVICE_TIME


class Interval:
    """Something that began and has not ended."""

    def __init__(self, *, before: int, time: int) -> None:
        self.before = before
        self.peak = before
        self.began = time


class Intervals:
    """Open intervals, the innermost last."""

    def __init__(self, device: Device, torch: Any) -> None:
        self._device = device
        self._cuda = torch._C if hasattr(torch._C, "_cuda_resetPeakMemoryStats") else None
        self._torch = torch
        self._open: List[Interval] = []
        # The highest since this was last set to 0.
        self.highest = 0

    @property
    def known(self) -> bool:
        """Whether there is a device whose memory can be asked for."""
        return self._cuda is not None and bool(self._torch.cuda.is_initialized())

    def allocated(self) -> int:
        return self._device.counter(ALLOCATED)

    def time(self) -> int:
        """Nanoseconds of the device's clock; 0 when it is not known."""
        return self._device.counter(DEVICE_TIME)

    def mark(self) -> int:
        """Ends a stretch of time: the most that was allocated since the last one ended."""
        if not self.known:
            return self.allocated()
        device = self._torch.cuda.current_device()
        peak = int(self._cuda._cuda_memoryStats(device)["allocated_bytes"]["all"]["peak"])  # type: ignore[union-attr]
        self._cuda._cuda_resetPeakMemoryStats(device)  # type: ignore[union-attr]
        self.highest = max(self.highest, peak)
        for interval in self._open:
            interval.peak = max(interval.peak, peak)
        return peak

    def begin(self) -> Interval:
        self.mark()
        interval = Interval(before=self.allocated(), time=self.time())
        self._open.append(interval)
        return interval

    def end(self, interval: Optional[Interval]) -> None:
        """Ends an interval, and those inside it that an error left open."""
        self.mark()
        if interval is not None and interval in self._open:
            del self._open[self._open.index(interval) :]

    def clear(self) -> None:
        del self._open[:]
