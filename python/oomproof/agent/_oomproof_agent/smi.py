"""`nvidia-smi` of the virtual device: what scripts ask it for, answered from the run's own files.

It runs as a program of its own, often many times and beside the script, so it imports nothing of the agent, loads no
device and only reads. What a card without sensors cannot tell is `[N/A]`, as the real one writes it; a question that
is not known is an error, never a guess.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Tuple

MIB = 1 << 20
# Where the header of a profile has its process and the bytes of the device that are in use.
PID_AT = 24
USED_AT = 128 + 8 * 4
# The page that the processes of a run share: words of the header, words of a row, and where a row has what.
BOARD = "processes.board"
BOARD_HEADER, BOARD_ROW, BOARD_PID, BOARD_USED, BOARD_DEVICES = 8, 32, 0, 8, 16
ABSENT = "[N/A]"

# The oldest driver that brings a CUDA version.
DRIVERS = (
    (13010, "590.44.01"),
    (13000, "580.65.06"),
    (12090, "575.51.03"),
    (12080, "570.26"),
    (12060, "560.28.03"),
    (12040, "550.54.14"),
    (12010, "530.30.02"),
    (0, "525.60.13"),
)


class Process(NamedTuple):
    pid: int
    device: int
    used: int


class Card(NamedTuple):
    ordinal: int
    name: str
    uuid: str
    bus: str
    total: int
    used: int
    capability: str
    driver: str
    n_cards: int


def cards(settings: Dict[str, Any], processes: Sequence[Process]) -> List[Card]:
    device, count = settings["device"], settings["device_count"]
    others = min(settings["reserved_by_others_bytes"], device["total_bytes"])
    found = []
    for index in range(count):
        identity = (b"oomproof-vgpu\0\0\0"[:12] + struct.pack(">I", index)).hex()
        parts = (identity[:8], identity[8:12], identity[12:16], identity[16:20], identity[20:])
        used = others + sum(process.used for process in processes if process.device == index)
        found.append(
            Card(
                ordinal=index,
                name=device["name"],
                uuid="GPU-" + "-".join(parts),
                bus=f"00000000:{index + 1:02X}:00.0",
                total=device["total_bytes"],
                used=min(used, device["total_bytes"]),
                capability=".".join(map(str, device["compute_capability"])),
                driver=next(driver for cuda, driver in DRIVERS if settings["cuda_version"] >= cuda),
                n_cards=count,
            )
        )
    return found


def processes_of(settings: Dict[str, Any]) -> List[Process]:
    """What each living process of the run holds of each device."""
    folder = settings["run_dir"]
    board = os.path.join(folder, BOARD)
    if os.path.exists(board):
        found = _on_board(board)
    else:
        found = _in_profiles(folder, others=settings["reserved_by_others_bytes"])
    return [process for process in found if process.used > 0 and os.path.exists(f"/proc/{process.pid}")]


def _on_board(path: str) -> List[Process]:
    with open(path, "rb") as file:
        raw = file.read()
    words = struct.unpack(f"<{len(raw) // 8}Q", raw[: len(raw) // 8 * 8])
    rows = [words[at : at + BOARD_ROW] for at in range(BOARD_HEADER, len(words) - BOARD_ROW + 1, BOARD_ROW)]
    return [
        Process(pid=row[BOARD_PID], device=device, used=row[BOARD_USED + device])
        for row in rows
        for device in range(BOARD_DEVICES)
        if 0 < row[BOARD_PID] < 1 << 32
    ]


def _in_profiles(folder: str, *, others: int) -> List[Process]:
    found = []
    for name in os.listdir(folder):
        if name.endswith(".oomprofile"):
            with open(os.path.join(folder, name), "rb") as file:
                header = file.read(4096)
            if len(header) == 4096:
                (pid,) = struct.unpack_from("<Q", header, PID_AT)
                (used,) = struct.unpack_from("<Q", header, USED_AT)
                found.append(Process(pid=pid, device=0, used=max(used - others, 0)))
    return found


def _mib(value: int) -> Tuple[str, str]:
    return str(value // MIB), "MiB"


Field = Callable[[Card], Tuple[str, str]]
# Each gives the value and its unit.
FIELDS: Dict[str, Field] = {
    "timestamp": lambda card: (time.strftime("%Y/%m/%d %H:%M:%S.000"), ""),
    "index": lambda card: (str(card.ordinal), ""),
    "count": lambda card: (str(card.n_cards), ""),
    "name": lambda card: (card.name, ""),
    "uuid": lambda card: (card.uuid, ""),
    "pci.bus_id": lambda card: (card.bus, ""),
    "driver_version": lambda card: (card.driver, ""),
    "compute_cap": lambda card: (card.capability, ""),
    "memory.total": lambda card: _mib(card.total),
    "memory.used": lambda card: _mib(card.used),
    "memory.free": lambda card: _mib(card.total - card.used),
}
ALIASES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
# What a real card has sensors for.
SENSORS = {
    "memory.reserved", "utilization.gpu", "utilization.memory", "temperature.gpu", "temperature.memory", "power.draw",
    "power.limit", "power.max_limit", "power.draw.average", "power.draw.instant", "enforced.power.limit", "fan.speed",
    "pstate", "clocks.sm", "clocks.mem", "clocks.gr", "clocks.max.sm", "clocks.max.mem", "clocks.current.sm",
    "clocks.current.memory", "clocks.current.graphics", "ecc.mode.current", "persistence_mode", "compute_mode",
    "display_active", "display_mode", "serial", "vbios_version", "pcie.link.gen.current", "pcie.link.gen.max",
    "pcie.link.width.current", "pcie.link.width.max", "mig.mode.current", "clocks_throttle_reasons.active",
    "encoder.stats.sessionCount", "ecc.errors.uncorrected.volatile.total",
}  # fmt: skip


def query(fields: str, cards: Sequence[Card], *, csv: Sequence[str]) -> str:
    names = [field.strip() for field in fields.split(",") if field.strip()]
    for name in names:
        if ALIASES.get(name, name) not in FIELDS and name not in SENSORS:
            fail(f'Field "{name}" is not a valid field to query of this virtual device.')
    rows = []
    for card in cards:
        row = []
        for name in names:
            value, unit = FIELDS[ALIASES.get(name, name)](card) if name not in SENSORS else (ABSENT, "")
            row.append(value if "nounits" in csv or not unit else f"{value} {unit}")
        rows.append(row)
    units = [FIELDS[ALIASES.get(name, name)](cards[0])[1] if name not in SENSORS and cards else "" for name in names]
    return _table(_heads(names, units, csv=csv), rows, csv=csv)


def query_processes(fields: str, cards: Sequence[Card], processes: Sequence[Process], *, csv: Sequence[str]) -> str:
    names = [field.strip() for field in fields.split(",") if field.strip()]
    known: Dict[str, Callable[[Card, Process], Tuple[str, str]]] = {
        "pid": lambda card, process: (str(process.pid), ""),
        "process_name": lambda card, process: (_name_of(process.pid), ""),
        "name": lambda card, process: (_name_of(process.pid), ""),
        "used_memory": lambda card, process: _mib(process.used),
        "used_gpu_memory": lambda card, process: _mib(process.used),
        "gpu_uuid": lambda card, process: (card.uuid, ""),
        "gpu_name": lambda card, process: (card.name, ""),
        "gpu_bus_id": lambda card, process: (card.bus, ""),
        "timestamp": lambda card, process: FIELDS["timestamp"](card),
    }
    for name in names:
        if name not in known:
            fail(f'Field "{name}" is not a valid field to query of this virtual device.')
    rows = []
    for card in cards:
        for process in processes:
            if process.device == card.ordinal:
                values = [known[name](card, process) for name in names]
                rows.append([v if "nounits" in csv or not unit else f"{v} {unit}" for v, unit in values])
    units = ["MiB" if "memory" in name else "" for name in names]
    return _table(_heads(names, units, csv=csv), rows, csv=csv)


def _name_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return "[Not Found]"


def _heads(names: Sequence[str], units: Sequence[str], *, csv: Sequence[str]) -> List[str]:
    return [f"{name} [{unit}]" if unit and "nounits" not in csv else name for name, unit in zip(names, units)]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, csv: Sequence[str]) -> str:
    lines = [] if "noheader" in csv else [", ".join(heads)]
    return "".join(line + "\n" for line in [*lines, *(", ".join(row) for row in rows)])


def overview(cards: Sequence[Card], processes: Sequence[Process], *, cuda: int) -> str:
    version = f"{cuda // 1000}.{cuda % 1000 // 10}"
    lines = [f"NVIDIA-SMI (virtual, of oomproof)   Driver Version: {cards[0].driver}   CUDA Version: {version}"]
    lines += [
        f"| {card.ordinal:>3}  {card.name:<32} {card.bus} | {card.used // MIB}MiB / {card.total // MIB}MiB |"
        for card in cards
    ]
    lines += ["Processes:"] + [
        f"| {process.device:>3}  {process.pid:>8}  C  {_name_of(process.pid)}  {process.used // MIB}MiB |"
        for process in processes
    ]
    return "".join(line + "\n" for line in lines)


def fail(text: str) -> NoReturn:
    sys.stdout.write(text + "\n")
    raise SystemExit(2)


def _value(name: str, arguments: List[str]) -> Optional[str]:
    """The value of `--name=value` or `--name value`, which is taken out of the arguments."""
    for at, argument in enumerate(arguments):
        if argument.startswith(name + "="):
            return arguments.pop(at)[len(name) + 1 :]
        if argument == name and at + 1 < len(arguments):
            arguments.pop(at)
            return arguments.pop(at)
    return None


def _chosen(wanted: Optional[str], found: Sequence[Card]) -> List[Card]:
    if wanted is None:
        return list(found)
    chosen = []
    for each in wanted.split(","):
        matching = [card for card in found if each in (str(card.ordinal), card.uuid, card.bus)]
        if not matching:
            fail("No devices were found")
        chosen += matching
    return chosen


def answer(settings: Dict[str, Any], arguments: List[str]) -> str:
    processes = processes_of(settings)
    found = cards(settings, processes)
    chosen = _chosen(_value("-i", arguments) or _value("--id", arguments), found)
    csv = [word.strip() for word in (_value("--format", arguments) or "").split(",")]
    for name in ("--query-gpu", "--query-compute-apps"):
        fields = _value(name, arguments)
        if fields is None:
            continue
        if arguments:
            fail(f"The virtual nvidia-smi does not know `{' '.join(arguments)}`.")
        if "csv" not in csv:
            fail("The virtual nvidia-smi writes --format=csv only.")
        return (
            query(fields, chosen, csv=csv)
            if name == "--query-gpu"
            else query_processes(fields, chosen, processes, csv=csv)
        )
    if arguments in (["-L"], ["--list-gpus"]):
        return "".join(f"GPU {card.ordinal}: {card.name} (UUID: {card.uuid})\n" for card in chosen)
    if arguments:
        fail(f"The virtual nvidia-smi does not know `{' '.join(arguments)}`.")
    return overview(chosen, processes, cuda=settings["cuda_version"])


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as text:
        settings = json.load(text)
    sys.stdout.write(answer(settings, sys.argv[2:]))


if __name__ == "__main__":
    main()
