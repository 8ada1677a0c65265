"""A virtual run computes garbage and scripts save: the user's folder is as it was."""

from __future__ import annotations

from virtual_run import Program

FILES = {
    "best.pt": "the good one",
    "checkpoints/step-1/model.pt": "one",
    "checkpoints/step-1/trainer.json": "{}",
    "checkpoints/step-2/model.pt": "two",
    "logs/events.txt": "begun\n",
    "old.log": "old",
    "config.json": '{"rows": 8}',
}

SAVES = """
import glob, json, logging, pathlib, shutil, tempfile
import torch
logging.basicConfig(filename="logs/events.txt", level=logging.INFO)
rows = json.load(open("config.json"))["rows"]
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
best = None
for step in range(3, 7):
    model(torch.randn(rows, 64).cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    logging.info("step %d", step)
    folder = pathlib.Path("checkpoints") / f"step-{step}"
    folder.mkdir(parents=True)
    torch.save(model.state_dict(), folder / "model.pt.tmp")
    os.replace(folder / "model.pt.tmp", folder / "model.pt")
    (folder / "trainer.json").write_text(json.dumps({"step": step}))
    kept = sorted(glob.glob("checkpoints/step-*"))
    for old in kept[:-2]:
        shutil.rmtree(old)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "best.pt")
if os.path.exists("old.log"):
    os.remove("old.log")
os.rename("config.json", "config.old.json")
os.makedirs("results/deep", exist_ok=True)
with open("results/deep/figures.csv", "a") as figures:
    figures.write("1,2\\n")
shutil.copy("best.pt", "final.pt")
os.symlink("final.pt", "latest.pt")
os.chmod("train.py", 0o600)
os.utime("train.py", (1, 1))
with open("logs/binary", "wb", buffering=0) as raw:
    raw.write(b"x")
state = torch.load("best.pt", map_location="cpu")
result(
    view=sorted(os.listdir("checkpoints")), files=sorted(os.listdir(".")), loaded=sorted(state),
    log=open("logs/events.txt").read().splitlines()[0], size=os.path.getsize("final.pt") > 1000,
)
"""

KEPT = Program(SAVES, ["--gpu", "t4", "--full"], files=FILES)
ALLOWED = Program(SAVES, ["--gpu", "t4", "--full", "--allow-writes"], files=FILES, writes=True)


def test_the_folder_is_as_it_was() -> None:
    finished = KEPT.result()
    assert finished.code == 0, finished.err
    assert finished.before == finished.after
    assert len(finished.before) > len(FILES)


def test_the_script_sees_what_it_wrote() -> None:
    results = KEPT.result().results
    assert results["view"] == ["step-5", "step-6"]
    assert results["loaded"] == ["model", "optimizer"]
    assert results["log"] == "begun"
    assert results["size"]
    assert "old.log" not in results["files"] and "latest.pt" in results["files"]


def test_the_verdict_says_so() -> None:
    assert len(KEPT.result().assumptions("writes_redirected")) == 1
    assert ALLOWED.result().assumptions("writes_redirected") == []


def test_writes_that_are_allowed_happen() -> None:
    finished = ALLOWED.result()
    assert finished.code == 0, finished.err
    assert finished.results == KEPT.result().results
    assert (finished.folder / "final.pt").stat().st_size > 1000
    assert not (finished.folder / "old.log").exists()
    assert (finished.folder / "train.py").stat().st_mtime == 1


def test_both_ways_have_the_same_peak() -> None:
    assert KEPT.result().peak["allocated_bytes"] == ALLOWED.result().peak["allocated_bytes"]
    assert "save" in KEPT.result().verdict["phases"]
