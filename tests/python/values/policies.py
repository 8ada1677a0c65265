"""What is assumed of values that nobody knows. Prints one JSON line for each case: its name and what came out."""

from __future__ import annotations

import json
import math
import sys
from typing import Any, Callable, Dict, List

import torch
from torch import nn
from torch.nn import functional

CASES: Dict[str, Callable[[], Any]] = {}


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    CASES[function.__name__] = function
    return function


def unknown(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    # Small random numbers are drawn as on a GPU; of what is not written nothing is known.
    return torch.empty(*shape, device="cuda", dtype=dtype)


@case
def masked_after_other_work() -> Any:
    # What was freed before must not show as a count.
    junk = [torch.full((n,), 10**9, dtype=torch.int32, device="cuda") for n in range(1, 2000, 7)]
    del junk
    y = unknown(1000)
    return y[y > 0].numel(), y.masked_select(y > 0.5).numel(), (unknown(30, 40) > 0).nonzero().shape


@case
def many_masked() -> Any:
    return int(unknown(3_000_000).gt(0).nonzero().numel()), unknown(700, 900).to_sparse().values().numel()


@case
def a_part_and_the_rest() -> Any:
    y = unknown(1000)
    above, others = y > 0.3, y <= 0.3
    return above.nonzero().numel() + others.nonzero().numel()


@case
def loss_over_chosen_rows() -> Any:
    hidden, head = unknown(240, 16), unknown(100, 16)
    chosen = unknown(240) < 0.15
    return (hidden[chosen] @ head.T).shape


@case
def distinct() -> Any:
    y = unknown(500)
    values, inverse, counts = torch.unique(y, return_inverse=True, return_counts=True)
    return [
        torch.unique(y).numel(),
        torch.unique(y.mul(9).long()).numel(),
        torch.unique_consecutive(y).numel(),
        [values.numel(), inverse.numel(), counts.numel()],
        torch.unique(unknown(4, 60), dim=1).shape,
    ]


@case
def sparse_gradient() -> Any:
    embedding = nn.Embedding(1000, 8, sparse=True).cuda()
    embedding(unknown(64).mul(100).long().abs()).sum().backward()
    return embedding.weight.grad.coalesce().values().shape


@case
def healthy() -> Any:
    y = unknown(50)
    return [
        bool(torch.isnan(y).any()),
        bool(torch.isinf(y).any()),
        bool(torch.isfinite(y).all()),
        bool(torch.isfinite(y.bfloat16()).all()),
        torch.allclose(y, y + 1),
        bool((y == float("inf")).any()),
        bool((y.half() > float("-inf")).all()),
    ]


@case
def choices() -> Any:
    scores = unknown(6, 8)
    best, two = scores.argmax(-1), scores.topk(2).indices
    return [
        sorted(best.tolist()),
        sorted(two.flatten().tolist()),
        len(set(two[0].tolist())),
        sorted(scores.max(0).indices.tolist()),
        torch.multinomial(scores.softmax(-1), 3, replacement=True).shape,
        [0 < token < 31_000 for token in unknown(2, 32_000).argmax(-1).tolist()],
        unknown(3, 5000, dtype=torch.bfloat16).topk(3).indices.shape,
    ]


@case
def orders() -> Any:
    return [
        sorted(unknown(9).sort().indices.tolist()),
        unknown(2, 6000).argsort(stable=True)[1, :3].tolist(),
        sorted(unknown(5, 7).sort(dim=0).indices[:, 3].tolist()),
    ]


@case
def experts() -> Any:
    # Every expert of an eager mixture is hit, or it would get no gradients.
    torch.manual_seed(0)
    router, layers = nn.Linear(16, 8).cuda(), nn.ModuleList(nn.Linear(16, 16) for _ in range(8)).cuda()
    x = unknown(40, 16)
    weights, chosen = router(x).softmax(-1).topk(2, dim=-1)
    out = torch.zeros_like(x)
    rows = []
    for number, expert in enumerate(layers):
        token, slot = torch.where(chosen == number)
        rows.append(token.numel())
        if token.numel() > 0:
            out = out.index_add(0, token, expert(x[token]) * weights[token, slot, None])
    out.sum().backward()
    return rows, sum(parameter.grad is not None for parameter in layers.parameters())


@case
def an_answer_that_the_user_knows() -> Any:
    mask = unknown(100) > 0
    return mask.nonzero().numel()  # asked


@case
def losses() -> Any:
    read = [functional.mse_loss(unknown(8), unknown(8)).item() for _ in range(5)]
    assert all(math.log(value) <= 0 for value in read)
    return read == sorted(read, reverse=True) and len(set(read)) == 5


@case
def a_loop_until_it_converges_ends() -> Any:
    steps = 0
    while functional.mse_loss(unknown(8), unknown(8)).item() > 1e-3:
        steps += 1
    return 10 < steps < 2000


@case
def one_number_is_no_mask() -> Any:
    norm = unknown(64).abs().max()
    weight = nn.Parameter(unknown(64))
    optimizer = torch.optim.LBFGS([weight], max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.mse_loss(weight, unknown(64))
        loss.backward()
        return loss

    optimizer.step(closure)
    return bool(norm <= 1e-7), bool(norm > 0), "d" in optimizer.state[weight]


@case
def a_plateau_is_not_seen() -> Any:
    weight = nn.Parameter(unknown(8))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
    for _ in range(12):
        loss = functional.mse_loss(weight, torch.zeros_like(weight))
        scheduler.step(loss.item())
    return optimizer.param_groups[0]["lr"]


@case
def scaled_steps_are_taken() -> Any:
    return scaled_steps(clip=False), scaled_steps(clip=True)


def scaled_steps(*, clip: bool) -> Any:
    model = nn.Linear(64, 64).cuda()
    optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cuda")
    for _ in range(3):
        loss = model(unknown(2, 64)).mean()
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return [int(state["step"]) for state in optimizer.state.values()]


@case
def the_scale_stays() -> Any:
    ways: List[Dict[str, bool]] = [{"foreach": True}, {"fused": True}, {"foreach": False}]
    return [scales(clip=clip, unscale=unscale, **way) for way in ways for clip, unscale in ((0, 0), (0, 1), (1, 1))]


def scales(*, clip: bool, unscale: bool, **way: bool) -> List[float]:
    """The scale after each of a few steps; lists of tensors of many lengths leave addresses on the stack."""
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 640)).cuda()
    optimizer, scaler = torch.optim.AdamW(model.parameters(), **way), torch.amp.GradScaler("cuda")
    seen = []
    for _ in range(4):
        loss = model(unknown(2, 64)).mean()
        scaler.scale(loss).backward()
        if unscale:
            scaler.unscale_(optimizer)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        seen.append(scaler.get_scale())
    return seen


@case
def a_minimizer_goes_on() -> Any:
    return [evaluations(line_search_fn=None), evaluations(line_search_fn="strong_wolfe")]


def evaluations(**options: Any) -> List[int]:
    """How often each step of a minimizer asks for the loss."""
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)).cuda()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5, **options)
    x, asked = unknown(8, 16), [0]

    def closure() -> torch.Tensor:
        asked[0] += 1
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    counts = []
    for _ in range(3):
        optimizer.step(closure)
        counts.append(asked[0])
    return counts


@case
def what_is_only_read_stays_known() -> Any:
    live = torch.arange(64, device="cuda").remainder(3) == 0
    # Freed addresses are on the stack when the kernels that index are launched.
    freed = [unknown(n) for n in range(1, 40)]
    del freed
    values, chosen = torch.zeros(64, 4, device="cuda"), unknown(22, 4).requires_grad_()
    values[live] = chosen
    values.sum().backward()
    actions = torch.tensor([[1], [2]], device="cuda")
    unknown(2, 3).gather(1, actions)
    unknown(2, 3).scatter_(1, actions, unknown(2, 1))
    return int(live.sum()), list(chosen.grad.shape), actions.tolist()


@case
def clipping_checks_the_norm() -> Any:
    model = nn.Linear(8, 8).cuda()
    model(unknown(2, 8)).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    return True


@case
def a_sampler_ends_at_its_limit() -> Any:
    # As samplers are written: sequences end at a certain token or at a length.
    ids = torch.tensor([[5, 6]], device="cuda").repeat(3, 1)
    unfinished = torch.ones(3, dtype=torch.long, device="cuda")
    while True:
        following = unknown(3, 32_000).argmax(-1)
        following = following * unfinished + 2 * (1 - unfinished)
        ids = torch.cat([ids, following[:, None]], dim=-1)
        done = (ids[:, -1] == 2) | torch.full((3,), ids.shape[1] >= 20, device="cuda", dtype=torch.bool)
        unfinished = unfinished & ~done
        if unfinished.max() == 0:
            break
        assert ids.shape[1] < 100
    return ids.shape


@case
def beams_end_at_their_limit() -> Any:
    # As beam search is written: what has not ended is marked, and must not push out what has.
    beams, words, limit = 3, 1000, 6
    scores, lengths = (
        torch.full((2, beams), -1e9, device="cuda"),
        torch.zeros(2, beams, dtype=torch.long, device="cuda"),
    )
    ended = torch.zeros(2, beams, dtype=torch.bool, device="cuda")
    is_first = torch.arange(2 * beams, device="cuda") < beams
    for length in range(1, limit + 1):
        best = unknown(2, beams * words).topk(2 * beams)[0]
        ends = torch.full((2, 2 * beams), length == limit, device="cuda") & is_first
        best += (~ends) * -1e9
        merged = torch.cat((scores, best), dim=1)
        chosen = merged.topk(beams)[1]
        scores = merged.gather(1, chosen)
        lengths = torch.cat((lengths, torch.full_like(ends, length, dtype=torch.long)), dim=1).gather(1, chosen)
        ended = torch.cat((ended, ends), dim=1).gather(1, chosen)
    return lengths.min().item(), bool(ended.all())


@case
def slices_by_an_unknown_box_agree() -> Any:
    box = unknown(4).to(torch.int64)
    width = int(box[2] - box[0] + 1)
    first, end = max(box[0], 0), min(box[2] + 1, 192)
    row = torch.zeros(192, device="cuda")
    row[first:end] = torch.ones(max(width, 1), device="cuda")[first - box[0] : end - box[0]]
    return width >= 1


@case
def some_of_the_best_pass_a_threshold() -> Any:
    best, _ = unknown(5, 300).max(0)
    return int((best < 0.5).sum()), int((best >= 0.5).sum())


def main() -> None:
    # What a first product of matrices allocates must not count for the case that happens to be first.
    layer = nn.Linear(64, 64).cuda()
    layer(unknown(240, 64)).sum().backward()
    unknown(240, 16) @ unknown(100, 16).T
    del layer
    for name in sys.argv[1:] or list(CASES):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        try:
            result = CASES[name]()
        except Exception as error:
            result = repr(error)[:300]
        peak = torch.cuda.max_memory_allocated() - before
        print(json.dumps({"case": name, "result": result, "peak": peak}))


main()
