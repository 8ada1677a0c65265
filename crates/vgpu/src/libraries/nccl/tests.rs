//! Ranks of the tests are threads of one process, each with a device or communicator of its own.

use std::ffi::c_int;
use std::thread;

use super::*;
use crate::libraries::testing::machine;

#[test]
fn the_version_is_that_of_the_settings() {
    machine();
    let mut version = -1;
    // SAFETY: a place for a number.
    let result = unsafe { ncclGetVersion(&raw mut version) };
    assert_eq!((result, version), (NcclResult::SUCCESS, 23007));
    // SAFETY: null is refused.
    let result = unsafe { ncclGetVersion(std::ptr::null_mut()) };
    assert_eq!(result, NcclResult::INVALID_ARGUMENT);
}

/// The stream that every call goes to.
const STREAM: u64 = 0;
const I32: c_int = 2;
const F32: c_int = 7;
const SUM: c_int = 0;
/// Devices that no other test uses.
const DEVICES: [c_int; 2] = [2, 3];

/// A communicator of two ranks, each a thread with a device of its own.
fn two_ranks<R: Send>(body: impl Fn(u64, usize) -> R + Sync) -> [R; 2] {
    machine();
    let mut id = std::mem::MaybeUninit::uninit();
    // SAFETY: a place for an id, which the function fills.
    let id = unsafe {
        assert_eq!(ncclGetUniqueId(id.as_mut_ptr()), NcclResult::SUCCESS);
        id.assume_init()
    };
    let rank = |rank: usize| {
        assert_eq!(crate::runtime::cudaSetDevice(DEVICES[rank]).0, 0);
        let mut communicator = 0;
        // SAFETY: a place for a communicator.
        let joined = unsafe { ncclCommInitRank(&raw mut communicator, 2, id, rank as c_int) };
        assert_eq!(joined, NcclResult::SUCCESS);
        let result = body(communicator, rank);
        assert_eq!(ncclCommDestroy(communicator), NcclResult::SUCCESS);
        result
    };
    thread::scope(|scope| {
        let threads = [0, 1].map(|number| scope.spawn(move || rank(number)));
        threads.map(|thread| thread.join().unwrap())
    })
}

/// A block of device memory with these numbers.
fn block(numbers: &[i32]) -> u64 {
    let address = crate::libraries::testing::known_block(numbers.len().max(1) * 4);
    let bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_ne_bytes())
        .collect();
    machine().memory().contents.write(address, &bytes);
    address
}

/// The numbers at an address, those that are not known as `None`.
fn numbers(address: u64, count: u64) -> Vec<Option<i32>> {
    let memory = machine().memory();
    (0..count)
        .map(|index| {
            let known = memory.contents.known(address + 4 * index, 4)?;
            Some(i32::from_ne_bytes(known.bytes.try_into().ok()?))
        })
        .collect()
}

fn forget(address: u64, len: u64) {
    machine().memory().contents.forget(address, len);
}

#[test]
fn what_is_known_is_computed_and_the_rest_stays_unknown() {
    let results = two_ranks(|communicator, rank| {
        let own = rank as i32;
        let send = block(&[1 + own, 10, 20 * own]);
        if rank == 1 {
            forget(send + 4, 4);
        }
        let receive = block(&[0; 3]);
        let done = ncclAllReduce(send, receive, 3, I32, SUM, communicator, STREAM);
        assert_eq!(done, NcclResult::SUCCESS);
        numbers(receive, 3)
    });
    for result in results {
        assert_eq!(result, [Some(3), None, Some(20)]);
    }
}

#[test]
fn each_collective_brings_what_its_name_says() {
    let check = |name: &str, expected: [&[i32]; 2], run: &(dyn Fn(u64, u64, u64) + Sync)| {
        let results = two_ranks(|communicator, rank| {
            let own = 100 * rank as i32;
            let send = block(&[own, own + 1, own + 2, own + 3]);
            let receive = block(&[-1; 4]);
            run(send, receive, communicator);
            numbers(receive, 4)
        });
        for (result, expected) in results.into_iter().zip(expected) {
            let expected: Vec<_> = expected.iter().copied().map(Some).collect();
            assert_eq!(result, expected, "{name}");
        }
    };
    let ok = |result: NcclResult| assert_eq!(result, NcclResult::SUCCESS);
    check(
        "AllGather",
        [&[0, 1, 100, 101]; 2],
        &|send, receive, with| {
            ok(ncclAllGather(send, receive, 2, I32, with, STREAM));
        },
    );
    check(
        "AlltoAll",
        [&[0, 1, 100, 101], &[2, 3, 102, 103]],
        &|send, receive, with| {
            ok(ncclAlltoAll(send, receive, 2, I32, with, STREAM));
        },
    );
    check(
        "ReduceScatter",
        [&[100, 102, -1, -1], &[104, 106, -1, -1]],
        &|send, receive, with| {
            ok(ncclReduceScatter(send, receive, 2, I32, SUM, with, STREAM));
        },
    );
    check(
        "Broadcast",
        [&[100, 101, 102, 103]; 2],
        &|send, receive, with| {
            ok(ncclBroadcast(send, receive, 4, I32, 1, with, STREAM));
        },
    );
    check(
        "Reduce",
        [&[100, 102, 104, 106], &[-1; 4]],
        &|send, receive, with| {
            ok(ncclReduce(send, receive, 4, I32, SUM, 0, with, STREAM));
        },
    );
    check(
        "Gather",
        [&[-1; 4], &[0, 1, 100, 101]],
        &|send, receive, with| {
            ok(ncclGather(send, receive, 2, I32, 1, with, STREAM));
        },
    );
    check(
        "Scatter",
        [&[0, 1, -1, -1], &[2, 3, -1, -1]],
        &|send, receive, with| {
            ok(ncclScatter(send, receive, 2, I32, 0, with, STREAM));
        },
    );
    check(
        "a ring in a group",
        [&[100, 101, 102, -1], &[0, 1, 2, -1]],
        &|send, receive, with| {
            let mut rank = 0;
            // SAFETY: a place for a number.
            ok(unsafe { ncclCommUserRank(with, &raw mut rank) });
            ok(ncclGroupStart());
            ok(ncclRecv(receive, 3, I32, 1 - rank, with, STREAM));
            ok(ncclSend(send, 3, I32, 1 - rank, with, STREAM));
            ok(ncclGroupEnd());
        },
    );
}

#[test]
fn large_messages_do_not_travel() {
    const COUNT: usize = 1 << 20;
    let unknown = two_ranks(|communicator, _| {
        let send = crate::libraries::testing::known_block(4 * COUNT);
        let done = ncclAllReduce(send, send, COUNT, F32, SUM, communicator, STREAM);
        assert_eq!(done, NcclResult::SUCCESS);
        crate::libraries::testing::unknown(send, 4 * COUNT as u64)
    });
    assert_eq!(unknown, [4 * COUNT as u64; 2]);
}

#[test]
fn parts_of_a_communicator_have_their_own_ranks() {
    let parts = two_ranks(|communicator, rank| {
        let mut part = 0;
        // The keys turn the order round.
        // SAFETY: a place for a communicator.
        let split = unsafe {
            ncclCommSplit(
                communicator,
                7,
                -(rank as c_int),
                &raw mut part,
                std::ptr::null_mut(),
            )
        };
        assert_eq!(split, NcclResult::SUCCESS);
        let (mut size, mut own) = (0, 0);
        // SAFETY: places for numbers.
        unsafe {
            ncclCommCount(part, &raw mut size);
            ncclCommUserRank(part, &raw mut own);
        }
        let send = block(&[rank as i32]);
        let receive = block(&[0; 2]);
        ncclAllGather(send, receive, 1, I32, part, STREAM);
        ncclCommDestroy(part);
        (size, own, numbers(receive, 2))
    });
    let gathered = vec![Some(1), Some(0)];
    assert_eq!(parts, [(2, 1, gathered.clone()), (2, 0, gathered)]);
}

#[test]
fn a_rank_outside_a_split_gets_nothing() {
    let parts = two_ranks(|communicator, rank| {
        let mut part = 7;
        // SAFETY: a place for a communicator.
        let split = unsafe {
            ncclCommSplit(
                communicator,
                rank as c_int - 1,
                0,
                &raw mut part,
                std::ptr::null_mut(),
            )
        };
        assert_eq!(split, NcclResult::SUCCESS);
        part
    });
    assert_eq!(parts[0], 0);
    assert_ne!(parts[1], 0);
}

#[test]
fn calls_that_make_no_sense_are_refused() {
    two_ranks(|communicator, _| {
        let refused = |result: NcclResult| assert_eq!(result, NcclResult::INVALID_ARGUMENT);
        let at = block(&[0]);
        refused(ncclAllReduce(at, at, 1, 99, SUM, communicator, STREAM));
        refused(ncclAllReduce(at, at, 1, I32, 99, communicator, STREAM));
        refused(ncclBroadcast(at, at, 1, I32, 2, communicator, STREAM));
        refused(ncclSend(at, 1, I32, -1, communicator, STREAM));
        refused(ncclAllReduce(at, at, 1, I32, SUM, 12345, STREAM));
        assert_eq!(ncclGroupEnd(), NcclResult::INVALID_USAGE);
    });
}

#[test]
fn two_ranks_on_one_device_are_refused() {
    machine();
    let mut id = std::mem::MaybeUninit::uninit();
    // SAFETY: a place for an id, which the function fills.
    let id = unsafe {
        ncclGetUniqueId(id.as_mut_ptr());
        id.assume_init()
    };
    let results = thread::scope(|scope| {
        let threads = [0, 1].map(|rank| {
            scope.spawn(move || {
                assert_eq!(crate::runtime::cudaSetDevice(DEVICES[0]).0, 0);
                let mut communicator = 0;
                // SAFETY: a place for a communicator.
                unsafe { ncclCommInitRank(&raw mut communicator, 2, id, rank) }
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(results, [NcclResult::INVALID_USAGE; 2]);
}

#[test]
fn a_scaled_sum_multiplies_first() {
    let results = two_ranks(|communicator, rank| {
        let mut operator = 0;
        let factor = 0.5_f32;
        // SAFETY: a place for a number, and one float on the host.
        let made = unsafe {
            ncclRedOpCreatePreMulSum(
                &raw mut operator,
                (&raw const factor) as u64,
                F32,
                1,
                communicator,
            )
        };
        assert_eq!(made, NcclResult::SUCCESS);
        let send = block(&[(2.0 + rank as f32).to_bits().cast_signed()]);
        ncclAllReduce(send, send, 1, F32, operator, communicator, STREAM);
        assert_eq!(
            ncclRedOpDestroy(operator, communicator),
            NcclResult::SUCCESS
        );
        assert_eq!(
            ncclRedOpDestroy(operator, communicator),
            NcclResult::INVALID_ARGUMENT,
            "twice"
        );
        numbers(send, 1)
    });
    let sum = 2.5_f32.to_bits().cast_signed();
    assert_eq!(results, [vec![Some(sum)], vec![Some(sum)]]);
}
