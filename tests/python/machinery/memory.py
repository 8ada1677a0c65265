"""Host memory, pools and memory of other processes; each function's result is printed, and test_machinery.py says what
it must be."""

import ctypes
import os

import torch
import torch.multiprocessing as mp
from report import case

MIB = 1 << 20


def child(questions, answers):
    tensor = questions.get()
    answers.put([list(tensor.shape), str(tensor.device), torch.cuda.memory_allocated()])
    own = torch.zeros(4 * MIB, dtype=torch.uint8, device="cuda")
    answers.put(own)
    answers.put(torch.cuda.memory_allocated() // MIB)
    questions.get()
    del tensor, own
    torch.cuda.ipc_collect()


def pinned_memory_is_known():
    plain, pinned = torch.zeros(1000), torch.zeros(1000).pin_memory()
    runtime = torch.cuda.cudart()
    seen = [plain.is_pinned(), pinned.is_pinned()]
    runtime.cudaHostRegister(plain.data_ptr(), 4000, 0)
    seen.append(plain.is_pinned())
    runtime.cudaHostUnregister(plain.data_ptr())
    return [*seen, plain.is_pinned()]


def pinned_memory_is_freed():
    size = 256 * MIB
    block = torch.zeros(size, dtype=torch.uint8, pin_memory=True)
    start = block.data_ptr()

    # Of these addresses alone: what the programs before give back meanwhile would count in a total.
    def mapped():
        total = 0
        with open("/proc/self/maps") as text:
            for line in text:
                low, high = (int(end, 16) for end in line.split(maxsplit=1)[0].split("-"))
                total += max(0, min(high, start + size) - max(low, start))
        return total

    held = mapped()
    del block
    torch._C._host_emptyCache()
    return [held == size, mapped() == 0]


def managed_memory_is_the_hosts_too():
    major = torch.version.cuda.split(".")[0]
    runtime = ctypes.CDLL(f"libcudart.so.{major}")
    address, size = ctypes.c_void_p(), ctypes.c_size_t(MIB)
    free = torch.cuda.mem_get_info()[0]
    codes = [runtime.cudaMallocManaged(ctypes.byref(address), size, 1)]
    ctypes.memset(address.value, 7, MIB)
    where = (0, None) if major == "12" else (ctypes.c_uint64(1), 0, None)
    codes.append(runtime.cudaMemPrefetchAsync(address, size, *where))
    codes.append(runtime.cudaMemPrefetchAsync(ctypes.c_void_p(8), size, *where))
    byte = ctypes.string_at(address.value + MIB - 1, 1)[0]
    codes.append(runtime.cudaFree(address))
    runtime.cudaGetLastError()
    return [*codes, byte, free - torch.cuda.mem_get_info()[0]]


def a_pool_of_ones_own():
    torch.cuda.empty_cache()
    pool = torch.cuda.MemPool()
    before = torch.cuda.memory_reserved()
    with torch.cuda.use_mem_pool(pool):
        block = torch.zeros(16 * MIB, dtype=torch.uint8, device="cuda")
    inside = torch.cuda.memory_reserved() - before
    del block
    torch.cuda.empty_cache()
    kept = torch.cuda.memory_reserved() - before
    del pool
    torch.cuda.empty_cache()
    return [inside // MIB, kept // MIB, (torch.cuda.memory_reserved() - before) // MIB]


def the_history_of_memory_is_recorded():
    torch.cuda.memory._record_memory_history()
    block = torch.zeros(16 * MIB, dtype=torch.uint8, device="cuda")
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    sizes = [entry["size"] // MIB for entry in snapshot["device_traces"][0] if entry["action"] == "alloc"]
    return [sizes, block.numel() // MIB]


def tensors_go_to_other_processes_and_come_back():
    context = mp.get_context("spawn")
    questions, answers = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(questions, answers))
    process.start()
    sent = torch.ones(64 * MIB, dtype=torch.uint8, device="cuda")
    questions.put(sent)
    seen = answers.get()
    back, in_child = answers.get(), answers.get()
    told = [seen, in_child, list(back.shape), str(back.device), torch.cuda.memory_allocated() // MIB]
    del back
    torch.cuda.ipc_collect()
    questions.put("done")
    process.join()
    return [*told, process.exitcode]


def streams_have_priorities_and_come_from_outside():
    stream = torch.cuda.Stream(priority=-1)
    outside = torch.cuda.ExternalStream(stream.cuda_stream)
    with torch.cuda.stream(outside):
        values = torch.ones(3, device="cuda")
    outside.synchronize()
    return [stream.priority, values.tolist()]


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    for function in (
        tensors_go_to_other_processes_and_come_back,
        pinned_memory_is_known,
        pinned_memory_is_freed,
        managed_memory_is_the_hosts_too,
        a_pool_of_ones_own,
        the_history_of_memory_is_recorded,
        streams_have_priorities_and_come_from_outside,
    ):
        case(function)
