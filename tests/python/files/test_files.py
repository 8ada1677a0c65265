"""A script sees what it wrote; its folder does not change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import pytest

AGENT = Path(__file__).resolve().parents[3] / "python" / "oomproof" / "agent"

# Stand-ins let a torch without NVIDIA's libraries be imported.
STANDINS = os.environ.get("OOMPROOF_TEST_STANDINS", "")

BEFORE = """
import ctypes, json, os, sys
sys.path.insert(0, {agent!r})
notes = []
from _oomproof_agent import files
files.install({settings!r}, notes.append)
standins = {standins!r}
if standins:
    with open(standins + "/load_order.txt") as order:
        for name in order.read().split():
            ctypes.CDLL(standins + "/" + name, mode=ctypes.RTLD_GLOBAL)
import shutil, pathlib, glob, tempfile
from pathlib import Path
def raises(what, call, *args, **options):
    try:
        call(*args, **options)
    except what as error:
        return error
    raise AssertionError("nothing was raised")
def python(code):
    import subprocess
    subprocess.run([sys.executable, "-c", open(sys.argv[0]).read().partition("# the " + "script")[0] + code], check=True)
# the script
"""

AFTER = """
view = {}
for folder, folders, names in os.walk("."):
    for name in folders:
        view[os.path.relpath(os.path.join(folder, name), ".") + "/"] = None
    for name in names:
        path = os.path.join(folder, name)
        with open(path, "rb") as data:
            content = data.read()
        assert os.path.getsize(path) == len(content) and os.path.exists(path) and not os.path.isdir(path)
        view[os.path.relpath(path, ".")] = content.decode("latin-1") if len(content) < 100 else len(content)
print("\\nRESULT " + json.dumps({"view": view, "notes": notes}))
"""

START: Dict[str, Optional[str]] = {
    "best.pt": "good",
    "logs/": None,
    "logs/old.txt": "line\n",
    "ckpt-1/": None,
    "ckpt-1/model.bin": "one",
    "ckpt-1/sub/": None,
    "ckpt-1/sub/x": "x",
    "ckpt-2/": None,
    "ckpt-2/model.bin": "two",
    "empty/": None,
}


def fill(project: Path) -> None:
    for name, content in START.items():
        path = project / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.write_text(content)
    (project / "link").symlink_to("ckpt-1")


def state(folder: Path) -> Dict[str, Any]:
    """All that could have changed: names, kinds, modes, times and bytes."""
    result: Dict[str, Any] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else os.readlink(path) if path.is_symlink() else None
        result[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, status.st_nlink, content)
    return result


def run(script: str, tmp_path: Path, *, folders: Sequence[str] = ("project",), **changed: Any) -> Dict[str, Any]:
    project = tmp_path / "project"
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
        fill(tmp_path / folder)
    settings = {
        "allow_writes": False,
        "scratch": str(tmp_path / "scratch"),
        "run_dir": str(tmp_path / "run"),
        **changed,
    }
    program = tmp_path / "program.py"
    before = BEFORE.format(agent=str(AGENT), settings=settings, standins=STANDINS)
    program.write_text(before + script + AFTER)
    was = state(project)
    done = subprocess.run([sys.executable, str(program)], cwd=project, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    result: Dict[str, Any] = json.loads(done.stdout.rpartition("\nRESULT ")[2])
    result["changed"] = state(project) != was
    return result


def check(script: str, changes: Dict[str, Any], tmp_path: Path) -> None:
    """`changes` is what differs from START in the script's view; the value `...` means that the entry is gone."""
    result = run(script, tmp_path)
    expected = {**START, "link/": None, **changes}
    assert result["view"] == {name: content for name, content in expected.items() if content is not ...}
    assert not result["changed"]


GONE_1 = {"ckpt-1/": ..., "ckpt-1/model.bin": ..., "ckpt-1/sub/": ..., "ckpt-1/sub/x": ...}
GONE_2 = {"ckpt-2/": ..., "ckpt-2/model.bin": ...}

CASES: List[Any] = [
    ("", {}),
    # Opening
    ("open('best.pt', 'w').write('bad')", {"best.pt": "bad"}),
    ("open('best.pt', 'wb').write(b'bad')", {"best.pt": "bad"}),
    ("open('best.pt', 'a').write('+')", {"best.pt": "good+"}),
    ("f = open('best.pt', 'r+'); f.seek(1); f.write('00'); f.close()", {"best.pt": "g00d"}),
    ("open('new', 'x').write('n')", {"new": "n"}),
    ("f = open('new', 'w'); f.write('n'); f.close(); assert f.name == 'new'", {"new": "n"}),
    ("raises(FileExistsError, open, 'best.pt', 'x')", {}),
    ("raises(IsADirectoryError, open, 'logs', 'w')", {}),
    ("e = raises(FileNotFoundError, open, 'no/x', 'w'); assert e.filename == 'no/x'", {}),
    ("raises(NotADirectoryError, open, 'best.pt/x', 'w')", {}),
    ("open('new', 'w').close(); e = raises(FileNotFoundError, open, 'other'); assert e.filename == 'other'", {"new": ""}),
    ("open('new', 'w').close(); raises(IsADirectoryError, open, 'logs')", {"new": ""}),
    ("open(b'new', 'w').write('n')", {"new": "n"}),
    ("open(os.path.abspath('new'), 'w').write('n')", {"new": "n"}),
    ("open('logs/../new', 'w').write('n')", {"new": "n"}),
    ("open('link/model.bin', 'w').write('1')", {"ckpt-1/model.bin": "1"}),
    ("open('logs/new', 'w').write('n'); assert sorted(os.listdir('logs')) == ['new', 'old.txt']", {"logs/new": "n"}),
    ("Path('best.pt').write_text('bad'); assert Path('best.pt').read_text() == 'bad'", {"best.pt": "bad"}),
    ("Path('new').touch(); assert Path('new').exists()", {"new": ""}),
    ("import io; io.open('best.pt', 'w').write('bad')", {"best.pt": "bad"}),
    ("import io; io.FileIO('best.pt', 'w').write(b'bad')", {"best.pt": "bad"}),
    ("import codecs; codecs.open('best.pt', 'w', 'utf-8').write('bad')", {"best.pt": "bad"}),
    ("import gzip; gzip.open('best.pt', 'wb').close()", {"best.pt": ...}, "size"),
    ("import bz2; bz2.open('new', 'wb').close(); import lzma; lzma.open('new', 'wb').close()", {"new": ...}, "size"),
    ("fd = os.open('best.pt', os.O_WRONLY | os.O_TRUNC); os.write(fd, b'b'); os.close(fd)", {"best.pt": "b"}),
    ("fd = os.open('best.pt', os.O_RDWR); os.write(fd, b'b'); os.close(fd)", {"best.pt": "bood"}),
    ("raises(FileNotFoundError, os.open, 'new', os.O_WRONLY)", {}),
    ("d = os.open('logs', os.O_RDONLY); os.close(os.open('n', os.O_CREAT | os.O_WRONLY, dir_fd=d))", {"logs/n": ""}),
    # Removing
    ("os.remove('best.pt'); assert not os.path.exists('best.pt')", {"best.pt": ...}),
    ("os.remove('best.pt'); raises(FileNotFoundError, open, 'best.pt')", {"best.pt": ...}),
    ("os.remove('best.pt'); raises(FileNotFoundError, os.remove, 'best.pt')", {"best.pt": ...}),
    ("os.remove('best.pt'); raises(FileNotFoundError, os.stat, 'best.pt')", {"best.pt": ...}),
    ("os.remove('best.pt'); assert not os.access('best.pt', os.R_OK)", {"best.pt": ...}),
    ("os.remove('best.pt'); open('best.pt', 'w').write('2')", {"best.pt": "2"}),
    ("os.remove('best.pt'); open('best.pt', 'a').write('2')", {"best.pt": "2"}),
    ("open('best.pt', 'w').close(); os.unlink('best.pt')", {"best.pt": ...}),
    ("Path('best.pt').unlink()", {"best.pt": ...}),
    ("raises(IsADirectoryError, os.remove, 'logs')", {}),
    ("os.remove('link')", {"link/": ...}),
    ("os.rmdir('empty'); assert not os.path.isdir('empty')", {"empty/": ...}),
    ("e = raises(OSError, os.rmdir, 'logs'); import errno; assert e.errno == errno.ENOTEMPTY", {}),
    ("os.remove('logs/old.txt'); os.rmdir('logs')", {"logs/": ..., "logs/old.txt": ...}),
    ("os.remove('logs/old.txt'); os.removedirs('logs'); ", {"logs/": ..., "logs/old.txt": ...}),
    ("shutil.rmtree('ckpt-1'); assert not os.path.exists('link')", {**GONE_1, "link/": ..., "link": ...}, "dangling"),
    ("shutil.rmtree(Path('ckpt-2')); assert sorted(glob.glob('ckpt-*')) == ['ckpt-1']", GONE_2),
    ("open('ckpt-2/new', 'w').close(); shutil.rmtree('ckpt-2')", GONE_2),
    ("shutil.rmtree('ckpt-2'); os.mkdir('ckpt-2'); assert os.listdir('ckpt-2') == []", {"ckpt-2/model.bin": ...}),
    ("shutil.rmtree('ckpt-2'); os.makedirs('ckpt-2/a/b', exist_ok=True)",
     {"ckpt-2/model.bin": ..., "ckpt-2/a/": None, "ckpt-2/a/b/": None}),
    ("shutil.rmtree('none', ignore_errors=True)", {}),
    # Making folders
    ("os.mkdir('d'); assert os.path.isdir('d')", {"d/": None}),
    ("os.makedirs('d/e'); open('d/e/f', 'w').write('f')", {"d/": None, "d/e/": None, "d/e/f": "f"}),
    ("os.makedirs('logs', exist_ok=True); raises(FileExistsError, os.mkdir, 'logs')", {}),
    ("raises(FileNotFoundError, os.mkdir, 'd/e')", {}),
    ("Path('d/e').mkdir(parents=True, exist_ok=True)", {"d/": None, "d/e/": None}),
    ("os.mkdir('d'); os.chdir('d'); open('f', 'w').write('f'); assert os.getcwd().endswith('project/d'); os.chdir('..')",
     {"d/": None, "d/f": "f"}),
    # Renaming
    ("os.rename('best.pt', 'old.pt')", {"best.pt": ..., "old.pt": "good"}),
    ("open('t', 'w').write('bad'); os.replace('t', 'best.pt')", {"best.pt": "bad"}),
    ("os.replace('ckpt-2/model.bin', 'best.pt')", {"best.pt": "two", "ckpt-2/model.bin": ...}),
    ("os.rename('ckpt-2', 'ckpt-3'); assert os.path.isfile('ckpt-3/model.bin')",
     {**GONE_2, "ckpt-3/": None, "ckpt-3/model.bin": "two"}),
    ("os.remove('ckpt-1/model.bin'); os.rename('ckpt-1', 'c'); os.remove('link')",
     {**GONE_1, "link/": ..., "c/": None, "c/sub/": None, "c/sub/x": "x"}),
    ("os.rename('ckpt-2', 'empty')", {**GONE_2, "empty/model.bin": "two"}),
    ("os.rename('ckpt-2', 'c'); os.mkdir('ckpt-2')", {"ckpt-2/model.bin": ..., "c/": None, "c/model.bin": "two"}),
    ("raises(OSError, os.rename, 'ckpt-2', 'ckpt-1')", {}),
    ("raises(NotADirectoryError, os.rename, 'ckpt-2', 'best.pt')", {}),
    ("raises(IsADirectoryError, os.rename, 'best.pt', 'logs')", {}),
    ("e = raises(FileNotFoundError, os.rename, 'no', 'b'); assert e.filename2 == 'b'", {}),
    ("shutil.move('best.pt', 'logs'); ", {"best.pt": ..., "logs/best.pt": "good"}),
    ("shutil.move('ckpt-2', 'c')", {**GONE_2, "c/": None, "c/model.bin": "two"}),
    ("Path('best.pt').rename('b')", {"best.pt": ..., "b": "good"}),
    ("os.rename('best.pt', 'best.pt')", {}),
    ("f = tempfile.NamedTemporaryFile('w', delete=False); f.write('t'); f.close(); shutil.move(f.name, 'best.pt')",
     {"best.pt": "t"}),
    # Copying and linking
    ("shutil.copy('best.pt', 'b'); shutil.copyfile('best.pt', 'logs/b'); shutil.copy2('best.pt', 'c')",
     {"b": "good", "logs/b": "good", "c": "good"}),
    ("shutil.copytree('ckpt-2', 'c')", {"c/": None, "c/model.bin": "two"}),
    ("os.link('best.pt', 'b'); open('b', 'w').write('bad')", {"b": "bad", "best.pt": "bad"}),
    ("os.symlink('best.pt', 'latest'); open('latest', 'w').write('bad')", {"latest": "bad", "best.pt": "bad"}),
    ("os.symlink('ckpt-2', 'latest'); assert open('latest/model.bin').read() == 'two'", {"latest/": None}),
    ("os.remove('link'); os.symlink('ckpt-2', 'link'); assert open('link/model.bin').read() == 'two'", {}),
    ("os.symlink('ckpt-2', 'latest'); assert os.readlink('latest') == 'ckpt-2' and os.path.islink('latest')",
     {"latest/": None}),
    ("os.symlink('ckpt-2', 'l'); assert os.path.realpath('l') == os.path.realpath('ckpt-2')", {"l/": None}),
    # Attributes
    ("os.truncate('best.pt', 2)", {"best.pt": "go"}),
    ("os.chmod('best.pt', 0o600); assert os.stat('best.pt').st_mode & 0o777 == 0o600", {}),
    ("os.utime('best.pt', (1, 1)); assert os.path.getmtime('best.pt') == 1", {}),
    ("os.utime('logs', (1, 1)); assert os.path.getmtime('logs') == 1", {}),
    ("m = os.path.getmtime('best.pt'); open('best.pt', 'a').close(); assert os.path.getmtime('best.pt') == m", {}),
    # Listing
    ("open('n', 'w').close(); assert sorted(e.name for e in os.scandir('.') if e.is_file()) == ['best.pt', 'n']", {"n": ""}),
    ("open('n', 'w').close(); assert 'n' in os.listdir() and b'n' in os.listdir(b'.')", {"n": ""}),
    ("open('logs/n', 'w').close(); assert sorted(glob.glob('logs/*')) == ['logs/n', 'logs/old.txt']", {"logs/n": ""}),
    ("open('n', 'w').close(); assert {p.name for p in Path('.').iterdir() if p.is_dir()} >= {'logs', 'link'}", {"n": ""}),
    ("os.mkdir('d'); os.chdir('logs'); assert os.listdir('.') == ['old.txt'] and os.path.isdir('../d'); os.chdir('..')",
     {"d/": None}),
    ("os.mkdir('d'); d = os.open('.', os.O_RDONLY); assert 'd' in os.listdir(d) and os.stat('d', dir_fd=d)", {"d/": None}),
    # Other writers
    ("import logging; logging.basicConfig(filename='logs/old.txt', format='%(message)s'); logging.error('e')",
     {"logs/old.txt": "line\ne\n"}),
    ("import sqlite3; c = sqlite3.connect('new.db'); c.execute('create table t(x)'); c.commit(); c.close();"
     "c = sqlite3.connect('new.db'); c.execute('insert into t values (1)'); c.close()", {"new.db": ...}, "size"),
    ("import zipfile; z = zipfile.ZipFile('z', 'w'); z.writestr('a', 'b'); z.close()", {"z": 101}),
    ("import json; json.dump({}, open('best.pt', 'w'))", {"best.pt": "{}"}),
    # Other processes and threads
    ("p = os.fork()\nif not p:\n open('best.pt', 'w').write('c'); os.remove('logs/old.txt'); os._exit(0)\nos.waitpid(p, 0)",
     {"best.pt": "c", "logs/old.txt": ...}),
    ("open('best.pt', 'w').write('bad'); os.mkdir('d')\n"
     "python(\"open('best.pt', 'a').write('+'); os.remove('logs/old.txt'); os.rename('d', 'e')\")",
     {"best.pt": "bad+", "logs/old.txt": ..., "e/": None}),
    ("python(\"open('best.pt', 'a').write('+')\")", {"best.pt": "good+"}),
    ("import threading; open('n', 'w').close()\nt = [threading.Thread(target=lambda i=i: (os.makedirs('d/e', exist_ok=True),"
     " open(f'd/e/{i}', 'w').write('t'))) for i in range(8)]\n[x.start() for x in t]; [x.join() for x in t]",
     {"n": "", "d/": None, "d/e/": None, **{f"d/e/{i}": "t" for i in range(8)}}),
    # numpy
    ("import numpy; numpy.save('best.pt', numpy.zeros(1)); os.rename('best.pt.npy', 'best.pt')", {"best.pt": 136}),
    ("import numpy; numpy.frombuffer(b'bad', 'u1').tofile('best.pt')", {"best.pt": "bad"}),
    ("import numpy; m = numpy.memmap('best.pt', 'u1', 'r+'); m[0] = 98; m.flush()", {"best.pt": "bood"}),
    ("import numpy; m = numpy.memmap('new', 'u1', 'w+', shape=3); m[:] = 98; m.flush()", {"new": "bbb"}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0][:60])
def test_script_sees_its_writes_and_the_folder_stays(case: Any, tmp_path: Path) -> None:
    script, changes, *how = case
    script += "\n"
    if how == ["size"]:
        result = run(script, tmp_path)
        assert not result["changed"]
        assert set(result["view"]) == {*START, "link/", *changes}
    elif how == ["dangling"]:
        result = run(script + "assert os.path.islink('link'); os.remove('link')\n", tmp_path)
        assert not result["changed"]
        assert set(result["view"]) == {*START, "link/"} - set(changes)
    else:
        check(script, changes, tmp_path)


TORCH_CASES: List[str] = [
    "torch.save(W, 'best.pt'); assert same(torch.load('best.pt'))",
    "torch.save(W, Path('best.pt')); assert same(torch.load(Path('best.pt'), mmap=True))",
    "torch.save(W, 'best.pt'); assert same(torch.load('best.pt', mmap=True))",
    "f = open('best.pt', 'wb'); torch.save(W, f); f.close(); assert same(torch.load(open('best.pt', 'rb')))",
    "f = open('best.pt', 'wb'); torch.save(W, f); n = f.tell(); f.close(); assert n == os.path.getsize('best.pt')",
    "torch.save(W, 'best.pt', _use_new_zipfile_serialization=False); assert same(torch.load('best.pt'))",
    "torch.save(W, 'n\\u00e9.pt'); assert same(torch.load('n\\u00e9.pt')); os.remove('n\\u00e9.pt')",
    "raises(RuntimeError, torch.save, W, 'none/best.pt'); raises(FileNotFoundError, torch.load, 'none')",
    "torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), 'best.pt'); torch.jit.load('best.pt')",
    "torch.jit.script(torch.nn.Linear(2, 2)).save('best.pt'); torch.jit.load('best.pt')",
    "t = torch.from_file('best.pt', shared=True, size=4, dtype=torch.uint8); t.fill_(65)\n"
    "assert open('best.pt').read() == 'AAAA'",
    "for i in range(4):\n os.makedirs(f'ckpt-{i}', exist_ok=True); torch.save(W, f'ckpt-{i}/model.bin')\n"
    " if i > 1: shutil.rmtree(f'ckpt-{i - 2}')\n"
    "os.remove('link'); assert sorted(glob.glob('ckpt-*')) == ['ckpt-2', 'ckpt-3'] and same(torch.load('ckpt-3/model.bin'))",
    "big = {'x': torch.empty(1 << 28)}; torch.save(big, 'best.pt'); s = os.stat('best.pt')\n"
    "assert s.st_size > 1 << 30 and s.st_blocks * 512 < 1 << 20, s\n"
    "assert torch.load('best.pt', mmap=True)['x'].shape == (1 << 28,)",
    # A device's memory is not brought to the host; small tensors are kept.
    "torch.UntypedStorage.device = property(lambda storage: torch.device('cuda:0'))\n"
    "try: torch.save({**W, 'z': torch.ones(1 << 28)}, 'best.pt')\nfinally: del torch.UntypedStorage.device\n"
    "assert os.stat('best.pt').st_blocks * 512 < 1 << 20; back = torch.load('best.pt', map_location='cpu', mmap=True)\n"
    "assert torch.equal(back['a'], W['a']) and back['b'].shape == W['b'].shape and not back['b'].any()",
    "from safetensors.torch import save_file, load_file; save_file(W, 'best.pt'); assert same(load_file('best.pt'))",
    "from safetensors.torch import save_file, load_file; save_file(W, Path('best.pt'), {'format': 'pt'})\n"
    "from safetensors import safe_open\n"
    "with safe_open('best.pt', framework='pt') as f: assert f.metadata() == {'format': 'pt'}",
    "from safetensors.torch import save_file; raises(RuntimeError, save_file, {'a': W['a'], 'b': W['a']}, 'best.pt')",
    "from safetensors.torch import save_model, load_model; m = torch.nn.Linear(8, 8); save_model(m, 'best.pt')\n"
    "w = m.weight.clone(); torch.nn.init.zeros_(m.weight); load_model(m, 'best.pt'); assert torch.equal(m.weight, w)",
    "from safetensors.numpy import save_file, load_file; import numpy; save_file({'x': numpy.ones(3)}, 'best.pt')\n"
    "assert load_file('best.pt')['x'].sum() == 3",
]  # fmt: skip

TORCH = """
import torch
W = {"a": torch.randn(3, 5), "b": torch.randn(1 << 20), "c": torch.arange(7), "h": torch.ones(4, dtype=torch.bfloat16)}
def same(loaded):
    return loaded.keys() == W.keys() and all(torch.equal(loaded[name], W[name]) for name in W)
"""


# Importing torch takes longer than all cases, so one process runs them, each in a folder of its own.
EACH = """
import traceback
failed = {{}}
for number, case in enumerate({cases!r}):
    os.chdir(f"{{number}}")
    try:
        exec(case, globals())
    except BaseException:
        failed[case] = traceback.format_exc()
    os.chdir("..")
assert not failed, "".join(f"{{case}}\\n{{text}}\\n" for case, text in failed.items())
"""


def test_checkpoints_load_again_in_the_same_run(tmp_path: Path) -> None:
    script = TORCH + EACH.format(cases=TORCH_CASES)
    folders = [f"project/{number}" for number in range(len(TORCH_CASES))]
    assert not run(script, tmp_path, folders=folders)["changed"]


def test_allowed_writes_happen(tmp_path: Path) -> None:
    assert run("open('best.pt', 'w').write('bad')\n", tmp_path, allow_writes=True)["changed"]


def test_each_redirected_path_is_noted_once(tmp_path: Path) -> None:
    result = run("for _ in range(3): open('best.pt', 'w').close()\nos.remove('logs/old.txt')\n", tmp_path)
    project = os.path.realpath(tmp_path / "project")
    assert result["notes"] == [
        {"kind": "redirected", "path": f"{project}/best.pt", "operation": "write"},
        {"kind": "redirected", "path": f"{project}/logs/old.txt", "operation": "remove"},
    ]


def test_programs_are_said_not_to_be_covered(tmp_path: Path) -> None:
    script = "import subprocess; subprocess.run(['true']); os.system('true'); subprocess.run([sys.executable, '-V'])\n"
    notes = run(script, tmp_path)["notes"]
    assert [(note["assumption"], note["text"].split()[0]) for note in notes] == [("subprocess_not_covered", "true")]


def test_new_temporary_files_are_free(tmp_path: Path) -> None:
    script = "with tempfile.TemporaryDirectory() as d: open(d + '/x', 'w').write('x')\nassert not os.path.exists(d)\n"
    result = run(script, tmp_path)
    assert result["notes"] == [] and not result["changed"]


def test_programs_find_temporary_files_where_the_script_is_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "project"))
    script = """
import subprocess
with tempfile.TemporaryDirectory() as d:
    open(d + '/x.c', 'w').write('text')
    assert subprocess.run(['cat', d + '/x.c'], capture_output=True, text=True).stdout == 'text'
    subprocess.run(['cp', d + '/x.c', d + '/x.o'], check=True)
    assert open(d + '/x.o').read() == 'text'
assert not os.path.exists(d)
open('best.pt', 'w').write('bad')
"""
    result = run(script, tmp_path)
    paths = [note["path"] for note in result["notes"] if note["kind"] == "redirected"]
    assert paths == [os.path.realpath(tmp_path / "project" / "best.pt")] and not result["changed"]


def test_compiled_code_goes_where_it_can_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "project"))
    script = """
path = os.environ['TRITON_CACHE_DIR'] + '/x.so'
os.makedirs(os.path.dirname(path), exist_ok=True)
open(path, 'w').write('code')
import subprocess
assert subprocess.run(['cat', path], capture_output=True, text=True).stdout == 'code'
"""
    assert not run(script, tmp_path)["changed"]
