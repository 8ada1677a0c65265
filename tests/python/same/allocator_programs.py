"""What the caching allocator does by itself: rounding, segments, splitting, merging, streams, refusals."""

from __future__ import annotations

import torch
from model import KIB, MIB, Model
from program import Program, take


class TinyTensorsTake512Bytes(Program):
    @staticmethod
    def real(mark):
        kept = [take(size) for size in range(1, 200)]
        mark()
        del kept
        mark()

    @staticmethod
    def rules(m: Model):
        kept = [m.malloc(size) for size in range(1, 200)]
        m.mark()
        m.free(*kept)
        m.mark()


class OneMebibyteIsSmallAndOneMoreByteIsLarge(Program):
    @staticmethod
    def real(mark):
        small = take(MIB)
        mark()
        large = take(MIB + 1)
        mark()
        del small, large
        torch.cuda.empty_cache()
        mark()

    @staticmethod
    def rules(m: Model):
        small = m.malloc(MIB)
        m.mark()
        large = m.malloc(MIB + 1)
        m.mark()
        m.free(small, large)
        m.empty_cache()
        m.mark()


class SegmentsByTheSizeOfTheRequest(Program):
    sizes = (1, 600 * KIB, 2 * MIB, 10 * MIB - 512, 10 * MIB, 10 * MIB + 1, 33 * MIB + 1)

    @staticmethod
    def real(mark):
        kept = []
        for size in SegmentsByTheSizeOfTheRequest.sizes:
            kept.append(take(size))
            mark()

    @staticmethod
    def rules(m: Model):
        for size in SegmentsByTheSizeOfTheRequest.sizes:
            m.malloc(size)
            m.mark()


class ThreeSixesShareASegment(Program):
    @staticmethod
    def real(mark):
        kept = [take(6 * MIB) for _ in range(3)]
        mark()
        kept.append(take(6 * MIB))
        mark()

    @staticmethod
    def rules(m: Model):
        for _ in range(3):
            m.malloc(6 * MIB)
        m.mark()
        m.malloc(6 * MIB)
        m.mark()


class ARestOfAMebibyteIsNotSplitOff(Program):
    @staticmethod
    def real(mark):
        whole = take(12 * MIB)
        del whole
        kept = take(11 * MIB)
        mark()
        del kept
        kept = take(11 * MIB - 512)
        mark()
        del kept

    @staticmethod
    def rules(m: Model):
        m.free(m.malloc(12 * MIB))
        kept = m.malloc(11 * MIB)
        m.mark()
        m.free(kept)
        m.malloc(11 * MIB - 512)
        m.mark()


class TheBestFitIsTaken(Program):
    @staticmethod
    def real(mark):
        big, middle, small = take(40 * MIB), take(30 * MIB), take(20 * MIB)
        del big, middle, small
        kept = [take(25 * MIB), take(35 * MIB)]
        mark()
        kept.append(take(15 * MIB))
        mark()

    @staticmethod
    def rules(m: Model):
        m.free(m.malloc(40 * MIB), m.malloc(30 * MIB), m.malloc(20 * MIB))
        m.malloc(25 * MIB)
        m.malloc(35 * MIB)
        m.mark()
        m.malloc(15 * MIB)
        m.mark()


class NeighborsMerge(Program):
    @staticmethod
    def real(mark):
        first, second, third = take(5 * MIB), take(6 * MIB), take(7 * MIB)
        del first, second
        joined = take(11 * MIB)
        mark()
        del third, joined
        torch.cuda.empty_cache()
        mark()

    @staticmethod
    def rules(m: Model):
        first, second, third = m.malloc(5 * MIB), m.malloc(6 * MIB), m.malloc(7 * MIB)
        m.free(first, second)
        joined = m.malloc(11 * MIB)
        m.mark()
        m.free(third, joined)
        m.empty_cache()
        m.mark()


class ASegmentInUseIsNotReleased(Program):
    @staticmethod
    def real(mark):
        kept = [take(3 * MIB) for _ in range(9)]
        del kept[1:]
        torch.cuda.empty_cache()
        mark()

    @staticmethod
    def rules(m: Model):
        kept = [m.malloc(3 * MIB) for _ in range(9)]
        m.free(*kept[1:])
        m.empty_cache()
        m.mark()


class StreamsDoNotShare(Program):
    @staticmethod
    def real(mark):
        gone = take(50 * MIB)
        del gone
        with torch.cuda.stream(torch.cuda.Stream()):
            kept = take(50 * MIB)
        mark()
        del kept
        mark()

    @staticmethod
    def rules(m: Model):
        m.free(m.malloc(50 * MIB))
        kept = m.malloc(50 * MIB, stream=1)
        m.mark()
        m.free(kept)
        m.mark()


class ABlockInUseOnAnotherStreamWaits(Program):
    @staticmethod
    def real(mark):
        used = take(30 * MIB)
        used.record_stream(torch.cuda.Stream())
        del used
        mark()
        torch.cuda.synchronize()
        kept = take(30 * MIB)
        mark()
        del kept

    @staticmethod
    def rules(m: Model):
        used = m.malloc(30 * MIB)
        m.free(used, used_elsewhere=True)
        m.mark()
        m.malloc(30 * MIB)
        m.mark()


class ARequestThatNoCardHasRoomFor(Program):
    @staticmethod
    def real(mark):
        cached = take(64 * MIB)
        kept = take(3 * MIB)
        del cached
        for _ in range(2):
            try:
                take(1 << 42)
            except torch.OutOfMemoryError:
                mark()
        del kept

    @staticmethod
    def rules(m: Model):
        cached = m.malloc(64 * MIB)
        m.malloc(3 * MIB)
        m.free(cached)
        for _ in range(2):
            m.refuse()
            m.mark()


class AFragmentedCacheGrows(Program):
    @staticmethod
    def real(mark):
        kept = [take((2 + at % 5) * MIB) for at in range(40)]
        del kept[::2]
        mark()
        more = [take(7 * MIB) for _ in range(5)]
        mark()
        del kept, more

    @staticmethod
    def rules(m: Model):
        kept = [m.malloc((2 + at % 5) * MIB) for at in range(40)]
        m.free(*kept[::2])
        m.mark()
        for _ in range(5):
            m.malloc(7 * MIB)
        m.mark()


class PowersOfTwoInFourths(Program):
    sizes = (1000, 5000, 70_000, 3 * MIB + 7, 9 * MIB, 70 * MIB)

    @staticmethod
    def real(mark):
        change = torch.cuda.memory._set_allocator_settings
        change("roundup_power2_divisions:4")
        kept = [take(size) for size in PowersOfTwoInFourths.sizes]
        mark()
        change("roundup_power2_divisions:1")
        del kept
        mark()

    @staticmethod
    def rules(m: Model):
        m.divisions = 4
        kept = [m.malloc(size) for size in PowersOfTwoInFourths.sizes]
        m.mark()
        m.free(*kept)
        m.mark()


class PinnedMemoryIsTheHosts(Program):
    @staticmethod
    def real(mark):
        pinned = torch.empty(8 * MIB, dtype=torch.uint8).pin_memory()
        kept = pinned.to("cuda", non_blocking=True)
        torch.cuda.synchronize()
        mark()
        del kept

    @staticmethod
    def rules(m: Model):
        m.malloc(8 * MIB)
        m.mark()
