//! The address space of the devices: reserved in this process without access rights, so that no host allocation can
//! ever lie where a device pointer points, and never touched, so that it costs nothing and never reaches a core dump.
//!
//! Under a small `ulimit -v` the reservation shrinks by halves. Below what the card needs, addresses above the
//! user half of the address space are handed out instead: no host memory can exist there either.

use std::collections::BTreeMap;

const FIRST_RESERVATION: u64 = 1 << 44;
/// The first address that user space on x86-64 can not map without asking for five-level paging.
const ABOVE_USER_SPACE: u64 = 1 << 47;

/// Hands out address ranges; first fit, neighbours that are given back are joined.
#[derive(Debug)]
pub(crate) struct Arena {
    start: u64,
    len: u64,
    free: BTreeMap<u64, u64>,
}

impl Arena {
    /// Reserves address space that comfortably holds `needed` bytes.
    pub(crate) fn reserve(needed: u64) -> Self {
        let mut len = FIRST_RESERVATION;
        while len >= needed {
            // SAFETY: a fresh mapping without access rights; nothing is ever read or written through it.
            let base = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    len as usize,
                    libc::PROT_NONE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if base != libc::MAP_FAILED {
                // SAFETY: the range was just mapped; advice does not change what it holds.
                unsafe { libc::madvise(base, len as usize, libc::MADV_DONTDUMP) };
                return Self::over(base as u64, len);
            }
            len /= 2;
        }
        Self::over(ABOVE_USER_SPACE, FIRST_RESERVATION)
    }

    fn over(start: u64, len: u64) -> Self {
        Self {
            start,
            len,
            free: BTreeMap::from([(start, len)]),
        }
    }

    /// Gives the address space back; nothing is handed out any more.
    pub(crate) fn unreserve(&mut self) {
        self.free.clear();
        if self.start < ABOVE_USER_SPACE {
            // SAFETY: reserved by `reserve`, never accessed, and no range of it is handed out from now on.
            unsafe { libc::munmap(self.start as *mut libc::c_void, self.len as usize) };
        }
        self.len = 0;
    }

    /// Whether `address` lies in the space of the devices.
    pub(crate) fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.len
    }

    /// A free range of `len` bytes that starts at a multiple of `align`, or `None` when there is none.
    pub(crate) fn take(&mut self, len: u64, align: u64) -> Option<u64> {
        let (hole, hole_len, start) = self.free.iter().find_map(|(&hole, &hole_len)| {
            let start = hole.next_multiple_of(align);
            let end = start.checked_add(len)?;
            (end <= hole + hole_len).then_some((hole, hole_len, start))
        })?;
        self.free.remove(&hole);
        if start > hole {
            self.free.insert(hole, start - hole);
        }
        let end = start + len;
        if end < hole + hole_len {
            self.free.insert(end, hole + hole_len - end);
        }
        Some(start)
    }

    /// Gives a range back.
    pub(crate) fn give(&mut self, mut start: u64, mut len: u64) {
        if let Some((&before, &before_len)) = self.free.range(..start).next_back()
            && before + before_len == start
        {
            self.free.remove(&before);
            start = before;
            len += before_len;
        }
        if let Some(after_len) = self.free.remove(&(start + len)) {
            len += after_len;
        }
        self.free.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn ranges_are_disjoint_and_come_back() {
        let mut arena = Arena::over(0, 16 * MIB);
        let a = arena.take(4 * MIB, 2 * MIB).unwrap();
        let b = arena.take(MIB, 2 * MIB).unwrap();
        let c = arena.take(2 * MIB, 2 * MIB).unwrap();
        assert_eq!([a, b, c], [0, 4 * MIB, 6 * MIB]);
        arena.give(a, 4 * MIB);
        arena.give(c, 2 * MIB);
        arena.give(b, MIB);
        assert_eq!(arena.take(16 * MIB, 1), Some(0));
        assert_eq!(arena.take(1, 1), None);
    }

    #[test]
    fn an_absurd_length_is_refused() {
        let mut arena = Arena::over(4096, 16 * MIB);
        assert_eq!(arena.take(u64::MAX - 8, 4096), None);
    }

    #[test]
    fn a_reservation_is_never_smaller_than_needed() {
        let arena = Arena::reserve(1 << 40);
        assert!(arena.len >= 1 << 40);
        assert!(arena.contains(arena.start));
        assert!(!arena.contains(arena.start + arena.len));
    }
}
