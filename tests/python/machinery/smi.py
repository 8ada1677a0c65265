"""What scripts ask `nvidia-smi` for; each function's result is printed, and test_machinery.py says what it must be."""

import subprocess

import torch
from report import case

MIB = 1 << 20


def smi(*arguments):
    done = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, check=False)
    return [done.returncode, done.stdout]


def used():
    return int(smi("--query-gpu=memory.used", "--format=csv,noheader,nounits")[1])


@case
def memory_is_what_the_device_says():
    before = used()
    block = torch.zeros(100 * MIB, dtype=torch.uint8, device="cuda")
    free, total = torch.cuda.mem_get_info()
    told = used()
    of_process = smi("--query-compute-apps=used_memory", "--format=csv,noheader,nounits")[1]
    return [before, told == (total - free) // MIB, told - block.numel() // MIB > 200, int(of_process) == told]


@case
def the_card_is_named():
    name, total = torch.cuda.get_device_name(), torch.cuda.get_device_properties(0).total_memory // MIB
    answer = smi("--query-gpu=name,memory.total,compute_cap", "--format=csv,noheader")[1]
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    listed = smi("-L")[1]
    return [answer == f"{name}, {total} MiB, 9.0\n", listed == f"GPU 0: {name} (UUID: GPU-{uuid})\n"]


@case
def all_forms():
    return [
        smi("--query-gpu=index,temperature.gpu,utilization.gpu", "--format=csv"),
        smi("--query-gpu", "count", "--format", "csv,noheader", "-i", "0"),
        smi("--query-gpu=index,nonsense", "--format=csv"),
        smi("topo", "-m"),
        smi("-i", "3", "-L"),
        ["virtual" in smi()[1], torch.cuda.get_device_name() in smi()[1]],
    ]
