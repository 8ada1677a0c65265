"""What a compiled step keeps of its activations, under a budget: the 0-1 knapsack.

PyTorch's own solver rounds each size to a ten-thousandth of all activations, up or down, so that many small ones come
out as nothing and the budget is exceeded. Here sizes are not rounded: a state is what some choice takes and saves, and
one that takes more and saves less than another is dropped. Where that leaves too many, those of about the same size
are thinned to the one that saves most, which may miss the best by a little and never exceeds the budget.
"""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

# To be raised when the same items may give another choice.
VERSION = 1
# So many states are looked at for one more item.
MOST_STATES = 4096

# What a choice takes, what it saves, and its items, the last one first.
_Items = Optional[Tuple[int, "_Items"]]
_State = Tuple[float, float, _Items]


def solve(memory: Sequence[float], runtimes: Sequence[float], max_memory: float) -> Tuple[float, List[int], List[int]]:
    """The time that is saved, the items to keep, and those to compute again, as PyTorch's solvers give them."""
    states: List[_State] = [(0.0, 0.0, None)]
    for item, (size, time) in enumerate(zip(memory, runtimes)):
        taken = [(took + size, saved + time, (item, items)) for took, saved, items in states]
        states = _thinned(_best(states, [state for state in taken if state[0] <= max_memory]), max_memory)
    _, saved, items = states[-1]
    keep = []
    while items is not None:
        keep.append(items[0])
        items = items[1]
    keep.reverse()
    kept = set(keep)
    return saved, keep, [item for item in range(len(memory)) if item not in kept]


def _best(without: List[_State], with_item: List[_State]) -> List[_State]:
    """Both lists in the order of what they take, without those that another beats."""
    merged = sorted(without + with_item, key=lambda state: (state[0], -state[1]))
    found = merged[:1]
    for state in merged[1:]:
        if state[1] > found[-1][1]:
            found.append(state)
    return found


def _thinned(states: List[_State], max_memory: float) -> List[_State]:
    if len(states) <= MOST_STATES:
        return states
    # The states are in the order of both, so that the last of a stretch saves most.
    stretches = {int(state[0] / max_memory * (MOST_STATES - 1)): state for state in states}
    return list(stretches.values())
