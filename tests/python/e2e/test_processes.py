"""Several processes of one script on one card."""

from __future__ import annotations

from virtual_run import Program

CHILD_FAILS = Program(
    """
    import subprocess, torch

    held = torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
    child = "import torch; torch.empty(5 << 30, dtype=torch.uint8, device='cuda')"
    code = subprocess.run([sys.executable, "-c", child]).returncode
    model = torch.nn.Linear(64, 64).cuda()
    model(torch.ones(1, 64, device="cuda")).sum().backward()
    result(code=code, pid=os.getpid(), reserved=torch.cuda.memory_reserved())
    """,
    ("--memory", "8GiB"),
)

# Each child fits beside its parent; both children at once need nearly all of the card.
TOGETHER = Program(
    """
    import torch, torch.multiprocessing as processes

    def train(rank, ready):
        model = torch.nn.Linear(64, 64).cuda()
        held = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
        ready.wait()
        for _ in range(2):
            model(torch.ones(8, 64, device="cuda")).sum().backward()

    if __name__ == "__main__":
        held = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
        ready = processes.get_context("spawn").Barrier(2)
        processes.spawn(train, args=(ready,), nprocs=2)
    """,
    ("--memory", "8GiB"),
)


def test_a_child_that_runs_out_of_memory_decides_and_the_holder_is_named():
    run = CHILD_FAILS.result()
    parent = run.results["pid"]
    assert (run.results["code"], run.code, run.verdict["verdict"]) == (1, 10, "does_not_fit")
    assert run.reasons() == ["out_of_memory"]
    (holder,) = run.verdict["oom"]["held_by_others"]
    assert holder["pid"] == parent
    # What the parent had before it made its model, and its context.
    assert holder["bytes"] == (3 << 30) + run.verdict["context_bytes"]["likely"]
    assert f"process {parent} of the script held" in run.verdict["reasons"][0]["text"]
    (other,) = run.verdict["other_processes"]
    assert (other["pid"], other["reserved_bytes"]) == (parent, run.results["reserved"])


def test_all_processes_together_need_the_card():
    run = TOGETHER.result()
    context = run.verdict["context_bytes"]
    beside = run.verdict["beside_bytes"]
    assert len(run.verdict["other_processes"]) == 2
    reserved = sum(other["reserved_bytes"] for other in run.verdict["other_processes"])
    assert beside["likely"] == reserved + 2 * context["likely"]
    assert beside["high"] == reserved + 2 * context["high"]
    whole = beside["likely"] + run.peak["process_bytes"]["likely"]
    assert run.peak["headroom_bytes"] == (8 << 30) - whole
    # One of them alone leaves most of the card.
    assert (run.verdict["verdict"], run.reasons()) == ("tight", ["upper_end_above_card"])
