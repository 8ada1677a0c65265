"""The build backend: maturin's, and before it the library that the wheel must carry.

The wheel holds two Rust libraries, and maturin builds one, the extension module. The other is the virtual device,
which is loaded by path and not by `import`. So a wheel is built in two steps: cargo makes the virtual device, which
is copied into the package as a plain file, and maturin packs everything. For the same reason the source archive is
packed here: maturin takes only the crates that the extension depends on.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import maturin
from maturin import (  # noqa: F401  (hooks that need nothing of ours)
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "oomproof"
LIBRARY = "liboomproof_vgpu.so"
SOURCES = (
    *("Cargo.toml", "Cargo.lock", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"),
    *(".cargo", "build_backend", "crates", "python"),
)


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds the wheel, with the virtual device in it where there is one for the platform."""
    _put_virtual_device_into_package()
    name: str = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    return name


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds the extension for work on the sources, which are used in place."""
    _put_virtual_device_into_package()
    name: str = maturin.build_editable(wheel_directory, config_settings, metadata_directory)
    return name


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Packs the sources that a wheel is built from."""
    with tempfile.TemporaryDirectory() as folder:
        name: str = maturin.prepare_metadata_for_build_wheel(folder, config_settings)
        metadata = Path(folder, name, "METADATA").read_bytes()
    stem = name.removesuffix(".dist-info")
    with tarfile.open(Path(sdist_directory, f"{stem}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        about = tarfile.TarInfo(f"{stem}/PKG-INFO")
        about.size = len(metadata)
        archive.addfile(about, io.BytesIO(metadata))
        for entry in SOURCES:
            archive.add(ROOT / entry, f"{stem}/{entry}", filter=_source)
    return f"{stem}.tar.gz"


def _source(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    path = Path(entry.name)
    if path.name in ("__pycache__", "target") or path.suffix in (".so", ".new", ".pyc"):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _put_virtual_device_into_package() -> None:
    target = PACKAGE / LIBRARY
    if not sys.platform.startswith("linux") or os.uname().machine != "x86_64":
        # The other commands work everywhere; `oomproof run` says what to use instead.
        print("oomproof: no virtual device on this platform", file=sys.stderr)
        target.unlink(missing_ok=True)
        return
    print("oomproof: building the virtual device", file=sys.stderr)
    built = _build_virtual_device()
    # Renamed into place, so that a process that has the old one mapped keeps it.
    fresh = target.with_suffix(".new")
    shutil.copyfile(built, fresh)
    fresh.chmod(0o755)
    fresh.replace(target)


def _build_virtual_device() -> Path:
    command = [
        os.environ.get("CARGO", "cargo"),
        *("build", "--release", "--locked", "--package", "oomproof-vgpu"),
        *("--message-format", "json-render-diagnostics"),
    ]
    try:
        built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    except FileNotFoundError:
        raise SystemExit("cargo was not found\n\nhint: install Rust 1.95 or later with rustup") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"the virtual device could not be built: {error}") from None
    for line in built.stdout.splitlines():
        for name in json.loads(line).get("filenames", []):
            if Path(name).name == LIBRARY:
                return Path(name)
    raise SystemExit(f"cargo built no {LIBRARY}")
