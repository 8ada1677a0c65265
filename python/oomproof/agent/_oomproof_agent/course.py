"""Whether the script goes on: the one place where that is decided.

The later a memory error comes the dearer it is, so once training has shown its peak its loop is cut short and the
script itself goes on to evaluation, saving and the next epoch. A loop that cannot be cut runs on for as long again as
training took; then the run is ended from inside. Ranks of one job must decide alike, or one waits for another for
good, so what they decide together passes through `agree`: twice at the end of every step, and after the rest of the
data was looked at. In a loop without training steps, which may run on one rank alone, none waits for another.
"""

from __future__ import annotations

import time
from typing import Callable, Optional

# Seconds that a script gets after it showed something new, or as many times what training took if that is longer. They
# are seconds of its own work, so that an answer does not hang on what else the machine does; of the clock's there are
# as many times more.
PATIENCE = 10.0
AGAIN = 1.0
IDLING = 3.0
# How often something new may start the wait again.
RENEWALS = 8
# Seconds kept free before the time limit of the run, which would leave no answer.
MARGIN = 3.0


# Where agreement is asked for.
STEP = "step"
DATA = "data"
ALONE = "alone"


def alone(point: str, wanted: bool) -> bool:
    """The agreement of a process that has nobody to ask."""
    del point
    return wanted


class Course:
    """Settles training, renews the wait when something new comes, and ends the run when nothing does."""

    def __init__(
        self,
        *,
        stop: Callable[[str, int], None],
        time_limit: Optional[float],
        training_only: bool = False,
        clock: Callable[[], float] = time.monotonic,
        work: Callable[[], float] = time.thread_time,
    ) -> None:
        self._stop = stop
        self.training_only = training_only
        self._clock = clock
        self._work = work
        self._worked = 0.0
        self._enough = 0.0
        self._limit: Optional[float] = None
        self.limit(time_limit)
        self._began: Optional[float] = None
        self._deadline: Optional[float] = None
        self._renewals = 0
        self._step = 0
        # What this rank knew last; it may be asked to act on it a step later.
        self._known: Optional[str] = None
        # Why the peak of training is known; None while it is not.
        self.reason: Optional[str] = None
        # The same for the loop over data that the last step was in.
        self.pass_reason: Optional[str] = None
        # Whether all ranks want what this one wants. Every rank asks equally often at `STEP` and at `DATA`; at `ALONE`
        # it may be the only one.
        self.agree: Callable[[str, bool], bool] = alone

    def limit(self, seconds: Optional[float]) -> None:
        """So long from now on the run may last."""
        self._limit = None if seconds is None else self._clock() + seconds - MARGIN

    @property
    def settled(self) -> bool:
        return self.reason is not None

    def step_ended(self, *, step: int, reason: Optional[str]) -> None:
        """A step ended; `reason` says why its peak is known."""
        now = self._clock()
        self._step = step
        if self._began is None:
            self._began, self._worked = now, self._work()
        # All ranks end the same number of steps, so none has to ask.
        if reason != "steps":
            self._known = reason or self._known
            reason = self._known if self.agree(STEP, reason is not None) else None
        self.pass_reason = reason
        if reason == "steps" or (reason is not None and self.training_only):
            self.reason = reason
            self._stop(reason, step)
            return
        if reason is not None and self.reason is None:
            self.reason = reason
            self._wait(now)
        self.look(STEP)

    def news(self) -> None:
        """Something came that had not been seen before."""
        if self.settled and self._renewals < RENEWALS:
            self._renewals += 1
            self._wait(self._clock())

    def look(self, point: str) -> None:
        """Ends the run when it has waited long enough."""
        if self.agree(point, self.reason is not None and self._expired()) and self.reason is not None:
            self._stop(self.reason, self._step)

    def out_of_time(self) -> None:
        """The time limit ends the run; what is known by then is an answer."""
        if self.reason is not None:
            self._stop(self.reason, self._step)

    def _expired(self) -> bool:
        if self._deadline is None:
            return False
        return self._work() >= self._enough or self._clock() >= self._deadline

    def _wait(self, now: float) -> None:
        took = now - (self._began if self._began is not None else now)
        self._deadline = now + max(IDLING * PATIENCE, AGAIN * took)
        if self._limit is not None:
            self._deadline = min(self._deadline, self._limit)
        worked = self._work()
        self._enough = worked + max(PATIENCE, AGAIN * (worked - self._worked))
