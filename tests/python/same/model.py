"""PyTorch's caching allocator as arithmetic: what `memory_stats()` must say, without torch.

Independent of the product and of PyTorch's code. It knows rounding, segments, best fit, splitting, merging, deferred
frees and the release of cached segments, and PyTorch's own rules for the workspaces of cuBLAS.
"""

from __future__ import annotations

from dataclasses import dataclass, field

KIB = 1024
MIB = 1024 * KIB


@dataclass
class Block:
    """A piece of a segment."""

    segment: int
    offset: int
    size: int
    requested: int
    is_small: bool
    stream: int
    is_allocated: bool = False


@dataclass
class Level:
    """A figure and its highest value."""

    current: int = 0
    peak: int = 0

    def change(self, by: int) -> None:
        self.current += by
        self.peak = max(self.peak, self.current)


@dataclass
class Model:
    """One device."""

    torch: tuple[int, int]
    compute_capability: tuple[int, int]
    divisions: int = 0
    allocated: Level = field(default_factory=Level)
    active: Level = field(default_factory=Level)
    requested: Level = field(default_factory=Level)
    reserved: Level = field(default_factory=Level)
    segments: Level = field(default_factory=Level)
    allocations: Level = field(default_factory=Level)
    retries: int = 0
    ooms: int = 0
    blocks: list[Block] = field(default_factory=list)
    pending: list[Block] = field(default_factory=list)
    workspaces: dict[tuple[str, str], Block] = field(default_factory=dict)
    marks: list[dict[str, int]] = field(default_factory=list)

    def malloc(self, size: int, *, stream: int = 0) -> Block:
        """A block for `size` bytes."""
        self._finish_pending()
        rounded = self._rounded(size)
        is_small = rounded <= MIB
        fitting = [
            block
            for block in self.blocks
            if not block.is_allocated
            and block not in self.pending
            and (block.is_small, block.stream) == (is_small, stream)
            and block.size >= rounded
        ]
        if fitting:
            block = min(fitting, key=lambda block: (block.size, block.segment, block.offset))
        else:
            block = self._new_segment(rounded, is_small=is_small, stream=stream)
        rest = block.size - rounded
        if rest >= 512 if is_small else rest > MIB:
            tail = Block(block.segment, block.offset + rounded, rest, 0, is_small, stream)
            self.blocks.append(tail)
            block.size = rounded
        block.is_allocated = True
        block.requested = size
        self.allocations.change(1)
        self.allocated.change(block.size)
        self.active.change(block.size)
        self.requested.change(size)
        return block

    def free(self, *blocks: Block, used_elsewhere: bool = False) -> None:
        """Takes blocks back; one that another stream uses is only free at the next call."""
        for block in blocks:
            block.is_allocated = False
            self.allocations.change(-1)
            self.allocated.change(-block.size)
            if used_elsewhere:
                self.pending.append(block)
            else:
                self._finish(block)

    def empty_cache(self) -> None:
        """Gives whole free segments back to the driver."""
        self._finish_pending()
        for segment in {block.segment for block in self.blocks}:
            pieces = [block for block in self.blocks if block.segment == segment]
            if len(pieces) == 1 and not pieces[0].is_allocated:
                self.blocks.remove(pieces[0])
                self.reserved.change(-pieces[0].size)
                self.segments.change(-1)

    def refuse(self) -> None:
        """A request that no card has room for: the cache is released, one more try, an error."""
        self.retries += 1
        self.empty_cache()
        self.ooms += 1

    def reset_peaks(self) -> None:
        for level in (self.allocated, self.active, self.requested, self.reserved, self.segments, self.allocations):
            level.peak = level.current

    def mark(self) -> None:
        """Notes the figures of this moment."""
        self.marks.append(
            {
                "allocated": self.allocated.current,
                "peak_allocated": self.allocated.peak,
                "active": self.active.current,
                "requested": self.requested.current,
                "peak_requested": self.requested.peak,
                "reserved": self.reserved.current,
                "peak_reserved": self.reserved.peak,
                "segments": self.segments.current,
                "allocations": self.allocations.current,
                "retries": self.retries,
                "ooms": self.ooms,
            }
        )

    # PyTorch's workspaces for cuBLAS.

    def cublas(self, *, thread: str = "main") -> None:
        """A plain product, such as `mm` without bias, after its result was allocated."""
        if self.torch >= (2, 15):
            self.free(self.malloc(self._cublas_bytes()))
        elif ("cublas", thread) not in self.workspaces:
            self.workspaces["cublas", thread] = self.malloc(self._cublas_bytes())

    def cublaslt(self, *, thread: str = "main") -> None:
        """A product by cuBLASLt, such as a linear layer with bias."""
        if self.torch >= (2, 15):
            self.free(self.malloc(MIB))
        elif self.torch >= (2, 12):
            self.cublas(thread=thread)
        elif self.torch < (2, 9):
            own = self.malloc(MIB)
            self.cublas(thread=thread)
            self.free(own)
        else:
            if ("lt", thread) not in self.workspaces:
                self.workspaces["lt", thread] = self.malloc(MIB)
            self.cublas(thread=thread)

    def _cublas_bytes(self) -> int:
        major, _ = self.compute_capability
        is_large = major >= 9 if self.torch >= (2, 12) else major == 9
        return 32 * MIB if is_large else 8320 * KIB

    # Inside.

    def _rounded(self, size: int) -> int:
        if size < 512:
            return 512
        if self.divisions > 1 and size > 512 * self.divisions:
            floor = 1 << (size.bit_length() - 1)
            step = floor // self.divisions
            return floor if size == floor else -(-size // step) * step
        return -(-size // 512) * 512

    def _new_segment(self, rounded: int, *, is_small: bool, stream: int) -> Block:
        if is_small:
            size = 2 * MIB
        elif rounded < 10 * MIB:
            size = 20 * MIB
        else:
            size = -(-rounded // (2 * MIB)) * 2 * MIB
        number = max((block.segment for block in self.blocks), default=-1) + 1
        block = Block(number, 0, size, 0, is_small, stream)
        self.blocks.append(block)
        self.reserved.change(size)
        self.segments.change(1)
        return block

    def _finish_pending(self) -> None:
        pending, self.pending = self.pending, []
        for block in pending:
            self._finish(block)

    def _finish(self, block: Block) -> None:
        self.active.change(-block.size)
        self.requested.change(-block.requested)
        for other in list(self.blocks):
            if other.segment != block.segment or other.is_allocated or other is block or other in self.pending:
                continue
            if other.offset + other.size == block.offset:
                block.offset = other.offset
            elif block.offset + block.size != other.offset:
                continue
            block.size += other.size
            self.blocks.remove(other)
