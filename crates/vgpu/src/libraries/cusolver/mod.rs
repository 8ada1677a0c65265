//! cuSOLVER: factorizations that are not carried out.
//!
//! What a script sees of them is the size of their scratch memory, which is an estimate, and whether they succeeded,
//! which they always do: an `info` of 0 is written and known, the factors are not known. Signatures are tables.

mod factorization;
mod handle;
mod scratch;
mod sizes;

pub use factorization::*;
pub use handle::*;
pub use sizes::*;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libraries::testing::{known_block, machine, unknown};

    fn handle() -> u64 {
        machine();
        let mut handle = 0;
        assert_eq!(
            // SAFETY: a place for a handle.
            unsafe { cusolverDnCreate(&raw mut handle) },
            CusolverStatus::SUCCESS
        );
        handle
    }

    fn bytes(address: u64) -> Option<[u8; 4]> {
        let mut bytes = [9; 4];
        let missing = machine().memory().contents.read(address, &mut bytes);
        (missing == 0).then_some(bytes)
    }

    #[test]
    fn a_factorization_spoils_the_matrix_and_succeeds() {
        let handle = handle();
        let [a, work, info] = [64, 64, 64].map(known_block);
        assert_eq!(
            // SAFETY: no argument is on the host.
            unsafe { cusolverDnSpotrf(handle, 0, 4, a, 4, work, 16, info) },
            CusolverStatus::SUCCESS
        );
        assert_eq!([a, info].map(|block| unknown(block, 64)), [64, 0]);
        assert_eq!(bytes(info), Some([0; 4]));
        assert_eq!(bytes(info + 4), Some([7; 4]));
    }

    #[test]
    fn a_batch_is_followed_through_known_addresses() {
        let handle = handle();
        let [a, b, other, info] = [64; 4].map(known_block);
        let array = known_block(16);
        let addresses = [a.to_ne_bytes(), b.to_ne_bytes()].concat();
        machine().memory().contents.write(array, &addresses);
        assert_eq!(
            // SAFETY: no argument is on the host.
            unsafe { cusolverDnSpotrfBatched(handle, 0, 4, array, 4, info, 2) },
            CusolverStatus::SUCCESS
        );
        assert_eq!([a, b, other].map(|block| unknown(block, 64)), [64, 64, 0]);
        assert_eq!(
            [0, 4, 8].map(|at| bytes(info + at)),
            [Some([0; 4]), Some([0; 4]), Some([7; 4])]
        );
    }

    #[test]
    fn sizes_are_written_on_every_path() {
        let handle = handle();
        let mut elements = 77;
        let mut ask = |handle, n| {
            elements = 77;
            // SAFETY: a place for a size.
            let status =
                unsafe { cusolverDnSpotrf_bufferSize(handle, 0, n, 0, n, &raw mut elements) };
            (status, elements)
        };
        assert_eq!(ask(handle, 10), (CusolverStatus::SUCCESS, 640));
        assert_eq!(ask(handle, -1), (CusolverStatus::INVALID_VALUE, 0));
        assert_eq!(ask(0, 10), (CusolverStatus::NOT_INITIALIZED, 0));
        let (mut device, mut host) = (77, 77);
        assert_eq!(
            // SAFETY: places for sizes.
            unsafe {
                cusolverDnXpotrf_bufferSize(
                    handle,
                    0,
                    0,
                    10,
                    5,
                    0,
                    10,
                    5,
                    &raw mut device,
                    &raw mut host,
                )
            },
            CusolverStatus::SUCCESS
        );
        assert_eq!((device, host), (640 * 16, 0));
    }
}
