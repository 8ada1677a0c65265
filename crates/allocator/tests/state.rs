//! An allocator that begins from what a snapshot shows goes on as the one that the snapshot was of, and what cannot be
//! is refused.

use oomproof_allocator::{
    Allocator, BlockState, Card, Configuration, Driver, PoolId, Release, Request, Segment,
    SegmentKind, SegmentRequest, Settings, StateError, Stream, TraceEntry, UseError,
};
use oomproof_units::{Bytes, DeviceAddress};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
type Traced = Allocator<Card, Vec<TraceEntry>>;

fn configuration(settings: &str) -> Configuration {
    let release = Release::new(2, 8).unwrap();
    Configuration::new(release).with_settings(Settings::parse(settings, release).unwrap())
}

fn card() -> Card {
    Card::new(Bytes::from_gib(8), Bytes::ZERO).starting_at(DeviceAddress::new(1 << 40))
}

/// A card on which the same memory is taken, so that the next segment lies where it would have.
fn card_with(segments: &[Segment]) -> Card {
    let mut card = card();
    for segment in segments {
        let request = SegmentRequest {
            size: segment.size,
            stream: segment.stream,
            pool: segment.pool,
        };
        assert_eq!(card.allocate(request), Some(segment.address));
    }
    card
}

fn request(size: u64, stream: u64) -> Request {
    Request::new(Bytes::new(size)).on(Stream::from_handle(stream))
}

/// Allocates all sizes, and frees those that are marked.
fn run(allocator: &mut Traced, sizes: &[(u64, u64, bool)]) {
    let mut gone = Vec::new();
    for (size, stream, is_freed) in sizes {
        let address = allocator.allocate(request(*size, *stream)).unwrap();
        if *is_freed {
            gone.push(address);
        }
    }
    for address in gone {
        allocator.free(address).unwrap();
    }
}

fn a_program() -> impl Strategy<Value = Vec<(u64, u64, bool)>> {
    let size = prop_oneof![1..4000_u64, 1..MIB, MIB..12 * MIB];
    prop::collection::vec((size, 0..2_u64, any::<bool>()), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn it_goes_on_as_before(first in a_program(), second in a_program()) {
        let mut before: Traced = Allocator::with_trace(configuration(""), card(), Vec::new());
        run(&mut before, &first);
        let state = before.segments();
        let taken = card_with(&state);
        let mut after = Allocator::from_state(configuration(""), taken, Vec::new(), &state).unwrap();
        prop_assert_eq!(after.segments(), state);
        let now = |allocator: &Traced| {
            let all = allocator.statistics();
            [all.allocated_bytes, all.reserved_bytes, all.active_bytes, all.inactive_split_bytes, all.inactive_split, all.segment, all.requested_bytes]
                .map(|by| [by.all.current, by.small_pool.current, by.large_pool.current])
        };
        prop_assert_eq!(now(&after), now(&before));
        before.sink_mut().clear();
        run(&mut before, &second);
        run(&mut after, &second);
        prop_assert_eq!(after.sink(), before.sink());
        prop_assert_eq!(after.segments(), before.segments());
        prop_assert_eq!(now(&after), now(&before));
    }

    #[test]
    fn expandable_segments_come_back(program in a_program()) {
        let settings = "expandable_segments:True";
        let mut before: Traced = Allocator::with_trace(configuration(settings), card(), Vec::new());
        run(&mut before, &program);
        before.empty_cache().unwrap();
        let state = before.segments();
        let after = Allocator::from_state(configuration(settings), card(), Vec::new(), &state);
        prop_assert_eq!(after.unwrap().segments(), state);
    }
}

#[test]
fn what_waits_is_finished_when_the_trace_says_so() {
    let mut state = one_segment();
    state[0].blocks[0].state = BlockState::PendingFree;
    let address = state[0].address;
    let mut allocator =
        Allocator::from_state(configuration(""), card(), Vec::new(), &state).unwrap();
    assert_eq!(
        allocator.free(address),
        Err(UseError::UnknownAddress(address))
    );
    assert_eq!(allocator.statistics().active_bytes.all.current, 5 << 20);
    assert_eq!(allocator.finish_pending(address), Ok(()));
    assert_eq!(
        allocator.finish_pending(address),
        Err(UseError::UnknownAddress(address))
    );
    assert_eq!(allocator.segments()[0].blocks.len(), 1);
}

/// 5 MiB of 20 MiB.
fn one_segment() -> Vec<Segment> {
    let mut allocator: Traced = Allocator::with_trace(configuration(""), card(), Vec::new());
    allocator.allocate(request(5 * MIB, 0)).unwrap();
    allocator.segments()
}

fn check_refused(
    change: impl Fn(&mut Vec<Segment>),
    expected: impl Fn(DeviceAddress) -> StateError,
) {
    let mut state = one_segment();
    let address = state[0].address;
    change(&mut state);
    let refused = Allocator::from_state(configuration(""), card(), Vec::new(), &state);
    assert_eq!(refused.err(), Some(expected(address)));
}

#[test]
fn impossible_states_are_refused() {
    check_refused(|state| state.push(state[0].clone()), StateError::Overlap);
    check_refused(|state| state[0].blocks.clear(), StateError::Blocks);
    check_refused(
        |state| state[0].size = Bytes::new(u64::MAX),
        StateError::Blocks,
    );
    check_refused(
        |state| state[0].blocks[1].size = Bytes::new(u64::MAX),
        StateError::Blocks,
    );
    check_refused(
        |state| state[0].blocks[1].size = Bytes::ZERO,
        StateError::Blocks,
    );
    check_refused(
        |state| {
            let space = Some((DeviceAddress::new(0), Bytes::new(1)));
            state[0].kind = SegmentKind::Expandable { space };
        },
        StateError::Pages,
    );
}

#[test]
fn hostile_use_is_an_error_and_changes_nothing() {
    let mut allocator: Traced = Allocator::with_trace(configuration(""), card(), Vec::new());
    let address = allocator.allocate(request(5 * MIB, 0)).unwrap();
    let before = allocator.segments();
    let inside = address.offset(Bytes::new(512));
    let unknown = |address| Err(UseError::UnknownAddress(address));
    assert_eq!(allocator.free(inside), unknown(inside));
    assert_eq!(
        allocator.free(DeviceAddress::new(u64::MAX)),
        unknown(DeviceAddress::new(u64::MAX))
    );
    assert_eq!(
        allocator.record_stream(inside, Stream::DEFAULT),
        unknown(inside)
    );
    let pool = PoolId(1, 2);
    assert_eq!(allocator.end_pool(pool), Err(UseError::NotFilled(pool)));
    assert_eq!(
        allocator.release_pool(pool),
        Err(UseError::UnknownPool(pool))
    );
    let options = oomproof_allocator::PoolOptions::default();
    assert_eq!(
        allocator.hold_pool(PoolId::DEFAULT, options),
        Err(UseError::DefaultPool)
    );
    assert!(allocator.allocate(request(u64::MAX, 0)).is_err());
    assert_eq!(allocator.segments(), before);
    assert_eq!(allocator.free(address), Ok(()));
    assert_eq!(allocator.free(address), unknown(address));
}
