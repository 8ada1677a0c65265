//! Random programs get the same answers from the crate, in every manner of keeping its books, and from a plain
//! implementation that shares no code with it.

mod plain;

use oomproof_allocator::{
    AddressStructure, Allocator, BlockState, Card, Configuration, FreeStructure, Request, Stream,
    Structures, TraceEntry,
};
use oomproof_units::{Bytes, DeviceAddress};
use proptest::prelude::*;

use plain::{Plain, Tie};

#[derive(Clone, Debug)]
enum Step {
    Allocate {
        size: u64,
        stream: u64,
    },
    /// The block that was the `nth` of those held, counted around.
    Free(usize),
    EmptyCache,
}

fn a_step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![
        4 => 1..3000_u64,
        2 => 1..1_u64 << 20,
        3 => (1..4000_u64).prop_map(|n| n * 512),
        3 => (1_u64 << 20)..(11 << 20),
        1 => (10_u64 << 20)..(80 << 20),
        1 => prop::sample::select(vec![512, 1 << 20, (1 << 20) + 1, 10 << 20, (10 << 20) - 512, 12 << 20]),
    ];
    prop_oneof![
        6 => (size, 0..3_u64).prop_map(|(size, stream)| Step::Allocate { size, stream }),
        5 => any::<usize>().prop_map(Step::Free),
        1 => Just(Step::EmptyCache),
    ]
}

const FIRST: u64 = 1 << 40;

fn crate_for(release: &str, structures: Structures) -> Allocator<Card, Vec<TraceEntry>> {
    let configuration = Configuration {
        structures,
        ..Configuration::new(release.parse().unwrap())
    };
    let card =
        Card::new(Bytes::from_gib(1 << 20), Bytes::ZERO).starting_at(DeviceAddress::new(FIRST));
    Allocator::with_trace(configuration, card, Vec::new())
}

fn layout<S: oomproof_allocator::TraceSink>(
    allocator: &Allocator<Card, S>,
) -> Vec<(u64, u64, bool)> {
    let blocks = allocator
        .segments()
        .into_iter()
        .flat_map(|segment| segment.blocks);
    blocks
        .map(|block| {
            let is_free = block.state == BlockState::Inactive;
            (block.address.get(), block.size.get(), is_free)
        })
        .collect()
}

fn check(release: &str, tie: Tie, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut plain = Plain::new(tie, FIRST);
    let mut manners = Vec::new();
    for free_blocks in [FreeStructure::Binned, FreeStructure::Sorted] {
        for addresses in [AddressStructure::Hashed, AddressStructure::Sorted] {
            manners.push(crate_for(
                release,
                Structures {
                    free_blocks,
                    addresses,
                },
            ));
        }
    }
    let mut held = Vec::new();
    for step in steps {
        match step {
            Step::Allocate { size, stream } => {
                let address = plain.allocate(*size, *stream);
                for allocator in &mut manners {
                    let request = Request::new(Bytes::new(*size)).on(Stream::from_handle(*stream));
                    prop_assert_eq!(allocator.allocate(request), Ok(DeviceAddress::new(address)));
                }
                held.push(address);
            }
            Step::Free(nth) if !held.is_empty() => {
                let address = held.swap_remove(nth % held.len());
                plain.free(address);
                for allocator in &mut manners {
                    prop_assert_eq!(allocator.free(DeviceAddress::new(address)), Ok(()));
                }
            }
            Step::Free(_) => {}
            Step::EmptyCache => {
                plain.empty_cache();
                for allocator in &mut manners {
                    prop_assert_eq!(allocator.empty_cache(), Ok(()));
                }
            }
        }
    }
    for allocator in &manners {
        prop_assert_eq!(layout(allocator), plain.layout());
        let statistics = allocator.statistics();
        prop_assert_eq!(
            statistics.allocated_bytes.all.current,
            plain.allocated.cast_signed()
        );
        prop_assert_eq!(
            statistics.reserved_bytes.all.current,
            plain.reserved.cast_signed()
        );
        prop_assert_eq!(allocator.statistics(), manners[0].statistics());
        prop_assert_eq!(allocator.sink(), manners[0].sink());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn all_say_the_same(steps in prop::collection::vec(a_step(), 1..250)) {
        check("2.8", Tie::Address, &steps)?;
        check("2.12", Tie::BlockNumber, &steps)?;
        check("2.15", Tie::SegmentThenAddress, &steps)?;
    }
}
