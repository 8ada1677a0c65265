"""Loops over data with a fake of PyTorch's loaders: what a loop costs in, how many batches it gets out."""

from __future__ import annotations

import sys
import types
import weakref
from collections import namedtuple
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "python" / "oomproof" / "agent"))

from _oomproof_agent import ragged
from _oomproof_agent.course import DATA, PATIENCE, STEP, Course
from _oomproof_agent.loaders import Loaders
from _oomproof_agent.names import ALLOCATED, KERNELS, STEP_PEAK_ALLOCATED, STEP_PEAK_RESERVED
from _oomproof_agent.steady import Steady
from _oomproof_agent.steps import Steps

MIB = 1 << 20
Tensor = namedtuple("Tensor", "shape itemsize is_cuda", defaults=(4, False))


class Optimizer:
    pass


class Stopped(Exception):  # noqa: N818 - it is no error
    pass


class World:
    """A device, a clock, an optimizer, and `torch.utils.data.dataloader`, without PyTorch."""

    def __init__(self, *, steps=None, full=False):
        self.now = 0.0
        self.counters = dict.fromkeys(range(16), 0)
        self.notes = []
        self.attached = False
        steady = Steady(steps=steps, full=full)
        self.course = Course(stop=self._stop, time_limit=None, clock=lambda: self.now, work=lambda: self.now)
        self.steps = Steps(self, steady, self.course, on_end=lambda step: None)
        self.loaders = Loaders(self, self.course, steady, self.steps, place=lambda: None, clock=lambda: self.now)
        self.module = dataloader()
        self.loaders.watch(self.module)
        self.optimizer = Optimizer()
        self.steps.made(self.optimizer)

    def counter(self, index):
        return self.counters[index]

    def note(self, **fields):
        self.notes.append(fields)

    def step(self, count):
        pass

    def _stop(self, reason, step):
        raise Stopped(reason, step)

    def work(self, *, peak=MIB, level=0):
        self.now += 0.1
        self.counters[KERNELS] += 1
        self.counters[8] += 1
        self.counters[STEP_PEAK_ALLOCATED] = peak
        self.counters[STEP_PEAK_RESERVED] = MIB
        self.counters[ALLOCATED] = level or self.counters[ALLOCATED]

    def train(self, *, peak=MIB):
        self.work(peak=peak)
        self.steps.backward_ended()
        self.steps.optimizer_ended(self.optimizer)

    def loader(self, count, shape=lambda number: (8, 16), **settings):
        return self.module.DataLoader([Tensor(shape(number)) for number in range(count)], **settings)

    def kinds(self):
        return [note.get("assumption", note["kind"]) for note in self.notes]


def dataloader():
    """The parts of the module that are built upon."""

    class Fetcher:
        def __init__(self, dataset):
            self.dataset = dataset

        def fetch(self, index):
            return self.dataset[index[0]]

    class BaseIter:
        def __init__(self, loader):
            self._dataset_kind = 1 if loader.stream else 0
            self._dataset = loader.dataset
            self._auto_collation = True
            self._collate_fn = None
            self._drop_last = False
            self._index_sampler = [[number] for number in range(len(loader.dataset))]
            self._sampler_iter = iter(self._index_sampler)
            self._pin_memory = False

        def __iter__(self):
            return self

        def _next_data(self):
            return self._dataset[next(self._sampler_iter)[0]]

        def __next__(self):
            return self._next_data()

    class Data(list):
        def __bool__(self):
            raise RuntimeError("a tensor's truth is ambiguous")

    class DataLoader:
        def __init__(self, dataset, *, stream=False):
            self.dataset = Data(dataset)
            self.stream = stream

        def __len__(self):
            return len(self.dataset)

        def __iter__(self):
            return self._get_iterator()

        def _get_iterator(self):
            return BaseIter(self)

    kind = types.SimpleNamespace(create_fetcher=lambda kind, dataset, *rest: Fetcher(dataset))
    return types.SimpleNamespace(DataLoader=DataLoader, _BaseDataLoaderIter=BaseIter, _DatasetKind=kind)


@pytest.fixture(autouse=True)
def without_torch(monkeypatch):
    monkeypatch.setattr(ragged, "_same_random_numbers", ragged.contextlib.nullcontext)


def epoch(world, loader, *, peak=lambda batch: MIB):
    """The shapes of the batches that a training loop was given."""
    shapes = []
    for batch in loader:
        world.train(peak=peak(batch))
        shapes.append(batch.shape)
    return shapes


def evaluate(world, loader, *, keeps=0):
    count = 0
    for _ in loader:
        count += 1
        world.work(level=count * keeps, peak=MIB + count * keeps)
    return count


def test_epochs_become_short():
    world = World()
    loader = world.loader(100)
    assert [len(epoch(world, loader)) for _ in range(4)] == [3, 2, 1, 1]
    assert world.notes[0] == {
        "kind": "cut", "where": None, "batches": 3, "of": 100, "reason": "steady", "training": True,
        "growth": 0, "step": 3,
    }  # fmt: skip


def test_a_higher_peak_in_a_later_epoch_is_followed():
    world = World()
    loader = world.loader(100)
    epoch(world, loader)
    assert len(epoch(world, loader, peak=lambda batch: 2 * MIB)) == 3


def test_what_another_optimizer_leaves_is_waited_for():
    world = World()
    loader = world.loader(100)
    assert [len(epoch(world, loader)) for _ in range(4)] == [3, 2, 1, 1]
    world.steps.made(Optimizer())
    assert len(epoch(world, loader)) == 3
    world.counters[ALLOCATED] = MIB
    assert len(epoch(world, loader)) == 3
    assert len(epoch(world, loader)) == 1


@pytest.mark.parametrize("settings", [{"full": True}, {"steps": 90}])
def test_whole_when_asked_for(settings):
    world = World(**settings)
    assert len(epoch(world, world.loader(50))) == 50


def test_evaluation_is_short_and_shorter():
    world = World()
    epoch(world, world.loader(100))
    loader = world.loader(100)
    assert [evaluate(world, loader) for _ in range(3)] == [3, 2, 2]


def test_evaluation_that_keeps_its_outputs_is_whole():
    world = World()
    epoch(world, world.loader(100))
    assert evaluate(world, world.loader(100), keeps=MIB) == 100
    assert evaluate(world, world.loader(100), keeps=512) == 3


def test_a_loop_without_work_on_the_device_is_whole():
    world = World()
    epoch(world, world.loader(100))
    assert len(list(world.loader(100))) == 100


def test_what_is_collected_before_training_is_whole_if_it_is_short():
    world = World()
    assert evaluate(world, world.loader(90)) == 90
    assert evaluate(world, world.loader(900)) in range(99, 103)


def test_accumulation_waits_for_its_step():
    world = World()
    count = 0
    for _ in world.loader(100):
        count += 1
        world.work()
        world.steps.backward_ended()
        if count % 4 == 0:
            world.steps.optimizer_ended(world.optimizer)
    assert count == 12


def test_a_loop_that_counts_for_itself_is_not_cut():
    world = World()
    batches = iter(world.loader(50))
    for _ in range(50):
        next(batches)
        world.train()
    assert world.steps.count == 50 and "cut" not in world.kinds()


def test_a_loop_of_a_loader_of_its_own_making_is_cut():
    world = World()

    class Endless(world.module.DataLoader):
        def __iter__(self):
            batches = super().__iter__()
            for _ in range(len(self)):
                yield next(batches)

    assert len(epoch(world, Endless(Tensor((8, 16)) for _ in range(50)))) == 3


def by_size(batch):
    return batch.shape[1] * 1024


LONGEST_LAST = (lambda number: (8, 500 if number == 97 else 16 + number % 3), (8, 500))


class Batch:
    """It may be moved to the device in place, so a reference to it holds memory there."""

    def __init__(self, number, longest):
        self.tokens = Tensor(LONGEST_LAST[0](number) if longest else (8, 16))


class Made:
    def __init__(self, count, longest):
        self.count = count
        self.longest = longest

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        return Batch(number, self.longest)


@pytest.mark.parametrize("longest", [False, True])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("accumulated", [1, 2])
def test_no_batch_is_kept_once_it_was_given(longest, stream, accumulated):
    world = World()
    world.module.DataLoader.__init__ = lambda loader, dataset: vars(loader).update(dataset=dataset, stream=stream)
    data = Made(100, longest)
    given = []
    for _ in range(2):
        for batch in world.module.DataLoader(data):
            assert all(each() is None or each() is batch for each in given)
            given.append(weakref.ref(batch))
            world.work(peak=MIB)
            world.steps.backward_ended()
            if len(given) % accumulated == 0:
                world.steps.optimizer_ended(world.optimizer)
        del batch
        assert all(each() is None for each in given)
    assert world.kinds().count("cut") == 2


def test_a_generator_that_is_cut_lets_go_of_its_batches():
    world = World()
    made = []

    class Ahead(world.module.DataLoader):
        def __iter__(self):
            batches = super().__iter__()
            ahead = next(batches)
            for _ in batches:
                yield ahead
                ahead = Batch(0, longest=False)
                made.append(weakref.ref(ahead))

    batches = iter(Ahead(Tensor((8, 16)) for _ in range(50)))
    for _ in batches:
        world.train()
    del _
    assert "cut" in world.kinds() and all(each() is None for each in made)


def test_a_loop_is_at_its_end_only_after_a_step_of_its_own():
    world = World()
    loader = world.loader(100)
    assert [len(epoch(world, loader)) for _ in range(2)] == [3, 2]
    ends = []
    for _ in loader:
        world.work()
        world.steps.backward_ended()
        ends.append(world.loaders.at_end)
        world.steps.optimizer_ended(world.optimizer)
        ends.append(world.loaders.at_end)
    assert ends == [False, True]


@pytest.mark.parametrize(("stream", "kind"), [(False, "largest_batch_run"), (True, "largest_batch_run")])
def test_the_largest_batch_is_run_before_the_end(stream, kind):
    shape, largest = LONGEST_LAST
    world = World()
    shapes = epoch(world, world.loader(100, shape, stream=stream), peak=by_size)
    # The data's own last batch comes last, so that what is held after the loop is as large as it would be.
    assert shapes[-2:] == [largest, shape(99)] and len(shapes) == 10
    assert kind in world.kinds()


def test_one_larger_batch_among_equal_ones_is_run():
    world = World()
    shapes = epoch(world, world.loader(60, lambda number: (8, 500 if number == 9 else 16)), peak=by_size)
    assert shapes == [(8, 16)] * 3 + [(8, 500), (8, 16)]
    assert world.kinds() == ["cut", "largest_batch_run"]


def test_batches_that_were_not_looked_at_are_told(monkeypatch):
    monkeypatch.setattr(ragged, "_SECONDS", -1.0)
    world = World()
    epoch(world, world.loader(100, LONGEST_LAST[0]), peak=by_size)
    (note,) = [note for note in world.notes if note.get("assumption") == "ragged_batches"]
    assert note["text"] == (
        "batches differ in size; the largest of 8 that were seen, 8x18, was run, and 92 were not looked at"
    )


def test_a_shorter_last_batch_is_no_difference():
    world = World()
    epoch(world, world.loader(100, lambda number: (3 if number == 99 else 8, 16)))
    assert world.kinds() == ["cut"]


def test_without_anything_new_the_run_ends():
    world = World()
    loader = world.loader(100)
    with pytest.raises(Stopped) as stopped:
        while True:
            epoch(world, loader)
    assert stopped.value.args[0] == "steady"
    assert PATIENCE <= world.now < PATIENCE + 1


def test_a_rank_goes_on_while_another_is_not_steady():
    world = World()
    world.course.agree = lambda point, wanted: False
    assert len(epoch(world, world.loader(300))) == 300


def test_a_rank_runs_as_many_batches_as_the_others():
    world = World()
    asked = []

    def agree(point, wanted):
        asked.append(point)
        # Another rank has two larger batches.
        return wanted and (point != DATA or asked.count(DATA) > 2)

    world.course.agree = agree
    assert len(epoch(world, world.loader(300))) == 5
    assert asked.count(DATA) == 3 and asked.count(STEP) == 2 * 5
