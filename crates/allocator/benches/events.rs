//! How many allocations and frees a second, by how many blocks are held: `cargo bench -p oomproof-allocator`.
//!
//! The program holds so many blocks, and at each step frees one at random and asks for another. All statistics are
//! kept; `traced` also writes the trace down, and `plain` is the second opinion of the tests, which has neither.

#[path = "../tests/plain/mod.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod plain;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use oomproof_allocator::{
    Action, AddressStructure, Allocator, Card, Configuration, FreeStructure, Release, Request,
    Structures, TraceEntry, TraceSink,
};
use oomproof_units::{Bytes, DeviceAddress};

use plain::{Plain, Tie};

/// As many entries as a trace keeps at most; then it begins anew, as PyTorch's does.
#[derive(Default)]
struct Ring(Vec<TraceEntry>);

const RING: usize = 100_000;

impl TraceSink for Ring {
    #[inline]
    fn record(&mut self, entry: TraceEntry) {
        if self.0.len() == RING {
            self.0.clear();
        }
        self.0.push(entry);
    }
}

/// Numbers that a seed decides.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    /// Mostly small tensors, as training has; one in ten is of a few MiB, one in a hundred larger.
    fn size(&mut self) -> u64 {
        match self.below(100) {
            0 => (10 << 20) + self.below(30 << 20),
            1..=10 => (1 << 20) + self.below(9 << 20),
            11..=50 => 1 + self.below(4096),
            _ => 512 * (1 + self.below(2000)),
        }
    }
}

trait Subject {
    fn allocate(&mut self, size: u64) -> u64;
    fn free(&mut self, address: u64);
}

impl<S: TraceSink> Subject for Allocator<Card, S> {
    fn allocate(&mut self, size: u64) -> u64 {
        let request = Request::new(Bytes::new(size));
        Allocator::allocate(self, request).map_or(0, DeviceAddress::get)
    }
    fn free(&mut self, address: u64) {
        let _ = Allocator::free(self, DeviceAddress::new(address));
    }
}

impl Subject for Plain {
    fn allocate(&mut self, size: u64) -> u64 {
        Plain::allocate(self, size, 0)
    }
    fn free(&mut self, address: u64) {
        Plain::free(self, address);
    }
}

fn allocator<S: TraceSink>(free_blocks: FreeStructure, sink: S) -> Allocator<Card, S> {
    let configuration = Configuration {
        structures: Structures {
            free_blocks,
            addresses: AddressStructure::Hashed,
        },
        ..Configuration::new(Release::NEWEST)
    };
    let card = Card::new(Bytes::from_gib(1 << 20), Bytes::ZERO);
    Allocator::with_trace(configuration, card, sink)
}

fn measure(criterion: &mut Criterion, name: &str, n_held: usize, subject: &mut impl Subject) {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut held: Vec<u64> = (0..n_held)
        .map(|_| subject.allocate(random.size()))
        .collect();
    let mut group = criterion.benchmark_group("events");
    group.throughput(Throughput::Elements(2));
    group.sample_size(20);
    group.bench_function(BenchmarkId::new(name, n_held), |bencher| {
        bencher.iter(|| {
            let at = random.below(n_held as u64) as usize;
            subject.free(held[at]);
            held[at] = black_box(subject.allocate(random.size()));
        });
    });
    group.finish();
}

fn events(criterion: &mut Criterion) {
    for n_held in [1_000, 10_000, 100_000, 1_000_000] {
        let mut binned = allocator(FreeStructure::Binned, Ring::default());
        measure(criterion, "traced", n_held, &mut binned);
        assert!(
            binned
                .sink()
                .0
                .iter()
                .any(|entry| entry.action == Action::Alloc)
        );
        let mut sorted = allocator(FreeStructure::Sorted, Ring::default());
        measure(criterion, "traced, one tree", n_held, &mut sorted);
        let mut plain = Plain::new(Tie::SegmentThenAddress, 1 << 40);
        measure(criterion, "plain", n_held, &mut plain);
    }
}

criterion_group!(benches, events);
criterion_main!(benches);
