"""Every way a process can end, and what else of Python must stay as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

# The ends of a process do not depend on PyTorch, which takes seconds to import.
SMALL_TORCH = """
import sys, types
__version__ = "0"
version = types.SimpleNamespace(cuda=None)
autograd = types.SimpleNamespace(backward=lambda: None)
cuda = types.SimpleNamespace(get_allocator_backend=lambda: "native")
"""
SMALL_OPTIMIZER = """
def register_optimizer_step_post_hook(hook): pass
def register_optimizer_step_pre_hook(hook): pass
class Optimizer:
    def __init__(self): pass
"""


@pytest.fixture
def run(run, tmp_path: Path):
    package = tmp_path / "small" / "torch" / "optim"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text(SMALL_TORCH)
    (package / "__init__.py").write_text("")
    (package / "optimizer.py").write_text(SMALL_OPTIMIZER)
    run.settings["labels"] = False
    run.paths.append(package.parent.parent)
    return run


@pytest.mark.parametrize(
    ("script", "code", "expected"),
    [
        ("import torch", 0, {"how": "return", "code": 0}),
        ("import torch, sys; sys.exit(7)", 7, {"how": "sys.exit", "code": 7}),
        ("import torch, sys; sys.exit()", 0, {"how": "sys.exit", "code": 0}),
        ("import torch, sys; sys.exit('text')", 1, {"how": "sys.exit", "code": 1}),
        ("import torch, os; os._exit(9)", 9, {"how": "os._exit", "code": 9}),
        ("import torch, os; os.execvp('true', ['true'])", 0, {"how": "exec"}),
        ("import torch, os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15, {"how": "signal", "signal": 15}),
        (
            "import torch, os, signal; signal.signal(2, signal.default_int_handler); os.kill(os.getpid(), 2)",
            -2,
            {"how": "signal", "signal": 2},
        ),
        ("import torch, sys; sys.excepthook = lambda *_: None; 1 / 0", 1, {"how": "exception"}),
        ("import torch\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    pass", 0, {"how": "return"}),
    ],
)
def test_ends(run, script, code, expected):
    done = run(script)
    assert done.code == code, done.err
    note = done.note("exit")
    assert {key: note[key] for key in expected} == expected
    assert done.lines[-1] == "close"


def test_an_uncaught_exception_is_located(run):
    done = run("import torch\n\ndef f():\n    return {}['x']\n\nf()\n")
    assert done.code == 1
    error = done.note("exit")["exception"]
    assert (error["type"], error["text"], error["line"]) == ("KeyError", "'x'", 4)
    assert done.err.splitlines()[-1] == "KeyError: 'x'"
    assert "_oomproof_agent" not in done.err


def test_a_handler_of_the_script_keeps_sigterm(run):
    script = """
    import torch, os, signal, sys
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    os.kill(os.getpid(), signal.SIGTERM)
    """
    done = run(script)
    assert (done.code, done.note("exit")["how"]) == (3, "sys.exit")


def test_without_torch_nothing_is_loaded(run):
    done = run("import importlib.util\nprint(importlib.util.find_spec('torch') is not None)\n")
    assert (done.out, done.lines, done.pid_logs) == ("True\n", [], 0)


def test_arguments_and_main_are_the_scripts(run):
    script = """
    import sys, __main__, torch
    print(sys.argv[1:], __name__, [n for n in vars(__main__) if "oom" in n], [p for p in sys.path if "agent" in p])
    """
    assert run(script, "--gpu", "-h").out == "['--gpu', '-h'] __main__ [] []\n"


def test_a_fork_leaves_the_profile_alone(run):
    script = """
    import torch, os
    if os.fork() == 0:
        print('child')
        os._exit(0)
    os.wait()
    """
    done = run(script)
    assert done.kinds() == ["python", "exit"]
    assert done.note("exit")["how"] == "return"


def test_a_shadowed_sitecustomize_still_runs(run, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("value = 42\n")
    run.paths.append(other)
    done = run("import sitecustomize; print(sitecustomize.value)\n")
    assert done.out == "42\n"


def test_a_device_that_refuses_ends_with_one_sentence(run):
    done = run("import torch\nprint('not reached')\n", run_name="run-refused.json")
    assert (done.code, done.out) == (5, "")
    assert done.err.startswith("oomproof: the virtual GPU could not be started: the fake refuses\nhint: ")
    assert "Traceback" not in done.err


def test_closed_libraries_become_stand_ins(run):
    script = """
    import torch, ctypes, pathlib
    ctypes.CDLL("/opt/nvidia/lib/libcudart.so.13")
    ctypes.CDLL("libcudart.so")
    try:
        ctypes.CDLL("/opt/nvidia/lib/libcudart.so.11.0")
    except OSError as error:
        print(error)
    print(ctypes.CDLL(None) is not None, ctypes.CDLL("libc.so.6").getpid() > 0)
    """
    done = run(script)
    assert done.out == ("libcudart.so.11.0: cannot open shared object file: No such file or directory\nTrue True\n"), (
        done.err
    )


CHILD = "import sys; print('_oomproof_agent' in sys.modules, sys.path[1:2])"


@pytest.mark.parametrize(
    "call",
    [
        "subprocess.run(command)",
        "subprocess.run(command, env={'PYTHONPATH': os.pathsep.join(sys.path), 'PATH': os.environ['PATH']})",
        "subprocess.run(command, env={})",
        "subprocess.run(command, env={b'PYTHONPATH': b'/there'})",
        "os.environ.pop('PYTHONPATH'); os.environ.pop('OOMPROOF_RUN'); subprocess.run(command)",
    ],
)
def test_a_python_child_is_followed_in_any_environment(run, call):
    done = run(f"import os, subprocess, sys\ncommand = [sys.executable, '-c', {CHILD!r}]\n{call}\n")
    assert done.code == 0, done.err
    assert done.out.startswith("True"), done.out


def test_the_environment_of_a_child_is_otherwise_as_given(run):
    child = "import os; print(sorted(os.environ.items()))"
    done = run(
        f"import subprocess, sys\n"
        f"given = {{'A': '1', 'PYTHONPATH': '/there'}}\n"
        f"subprocess.run([sys.executable, '-c', {child!r}], env=given)\n"
        f"print(given)\n"
    )
    assert done.code == 0, done.err
    assert "('A', '1')" in done.out and ":/there')" in done.out
    assert done.out.endswith("{'A': '1', 'PYTHONPATH': '/there'}\n"), done.out


def test_memory_without_a_cache_is_counted_by_the_device(run):
    for first, expected in (("", 0), ("import os\nos.environ['PYTORCH_NO_CUDA_MEMORY_CACHING'] = '1'\n", 1)):
        done = run(f"{first}import torch\nprint('on')\n")
        assert (done.code, done.out) == (0, "on\n"), done.err
        assert done.lines.count("ledger") == expected
