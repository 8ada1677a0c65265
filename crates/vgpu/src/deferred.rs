//! What work does to memory when it is captured into a graph: recorded now, done at every launch of the graph.
//!
//! The code that knows what a kernel writes must not know of graphs, so it runs as always, on memory whose contents
//! are put aside: what it finds out is taken down here, and the memory is as before. Of its inputs nothing is known
//! then, because what they will hold at a launch is not known either; constants that it writes are.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::contents::Contents;
use crate::memory::Memory;

/// Device memory whose bytes are no longer known once the work ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overwritten {
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// Id of the text naming what wrote.
    pub(crate) origin: u32,
}

/// What some work does to memory, in order.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    steps: Vec<(Vec<Overwritten>, Contents)>,
    /// How long it takes on the device, an estimate.
    nanos: u64,
}

impl Effects {
    /// Nanoseconds that it takes on the device.
    pub(crate) fn nanos(&self) -> u64 {
        self.nanos
    }

    /// Does it.
    pub(crate) fn apply(&self, memory: &mut Memory) {
        for (overwritten, known) in &self.steps {
            for range in overwritten {
                memory.overwrite(*range);
            }
            memory.contents.overlay(known);
        }
    }

    /// Makes all that it may write unknown: whether it runs is decided on the device.
    pub(crate) fn apply_perhaps(&self, memory: &mut Memory) {
        for (overwritten, known) in &self.steps {
            for range in overwritten {
                memory.overwrite(*range);
            }
            for (start, len) in known.extents() {
                memory.contents.forget(start, len);
            }
        }
    }
}

thread_local! {
    static TAKEN_DOWN: RefCell<Option<Effects>> = const { RefCell::new(None) };
}

/// Threads that take down effects now; asked first, because a thread's own variable costs more to reach.
static N_DEFERRING: AtomicUsize = AtomicUsize::new(0);

/// Runs `work` on this thread without its effects on memory, and returns them.
pub(crate) fn deferred<R>(work: impl FnOnce() -> R) -> (R, Effects) {
    struct Ended;
    impl Drop for Ended {
        fn drop(&mut self) {
            N_DEFERRING.fetch_sub(1, Ordering::Relaxed);
        }
    }
    N_DEFERRING.fetch_add(1, Ordering::Relaxed);
    let _ended = Ended;
    TAKEN_DOWN.set(Some(Effects::default()));
    let result = work();
    (result, TAKEN_DOWN.take().unwrap_or_default())
}

/// Takes down that work takes so long, if this thread takes down effects; else it passes now.
pub(crate) fn put_off(nanos: u64) -> bool {
    N_DEFERRING.load(Ordering::Relaxed) > 0
        && TAKEN_DOWN.with_borrow_mut(|effects| {
            let effects = effects.as_mut();
            effects.map(|effects| effects.nanos += nanos).is_some()
        })
}

/// The locked memory of all devices.
pub(crate) struct LockedMemory<'a> {
    memory: MutexGuard<'a, Memory>,
    /// What was known before, while effects are taken down.
    put_aside: Option<Contents>,
}

impl<'a> LockedMemory<'a> {
    pub(crate) fn new(mut memory: MutexGuard<'a, Memory>) -> Self {
        let put_aside =
            if N_DEFERRING.load(Ordering::Relaxed) > 0 && TAKEN_DOWN.with_borrow(Option::is_some) {
                memory.deferred = Some(Vec::new());
                Some(std::mem::take(&mut memory.contents))
            } else {
                None
            };
        Self { memory, put_aside }
    }
}

impl Drop for LockedMemory<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.put_aside.take() {
            let known = std::mem::replace(&mut self.memory.contents, before);
            let overwritten = self.memory.deferred.take().unwrap_or_default();
            TAKEN_DOWN.with_borrow_mut(|effects| {
                if let Some(effects) = effects {
                    effects.steps.push((overwritten, known));
                }
            });
        }
    }
}

impl Deref for LockedMemory<'_> {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl DerefMut for LockedMemory<'_> {
    fn deref_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::arena::Arena;
    use crate::contents::Pattern;
    use crate::memory::Kind;

    const MIB: u64 = 1 << 20;

    #[test]
    fn deferred_work_changes_memory_only_when_it_is_done() {
        let memory = Mutex::new(Memory::new(Arena::reserve(1 << 32), 1, 64 * MIB, 0));
        let lock = || LockedMemory::new(memory.lock().unwrap());
        let (block, _) = lock().allocate(0, 4 * MIB, Kind::Malloc).unwrap();
        lock().contents.write(block, &[9; 64]);
        let ones = Pattern::new(&[1]).unwrap();
        let ((), effects) = deferred(|| {
            assert_eq!(
                lock().contents.unknown(block, 64),
                64,
                "inputs hold nothing"
            );
            lock().contents.fill(block, 8, ones);
            lock().overwritten(block + 32, 5);
            assert!(put_off(7) && put_off(8));
        });
        assert!(!put_off(9));
        assert_eq!(effects.nanos(), 15);
        assert_eq!(
            lock().contents.unknown(block, 64),
            0,
            "nothing happened yet"
        );
        effects.apply(&mut lock());
        let mut bytes = [0; 32];
        assert_eq!(lock().contents.read(block, &mut bytes), 0);
        assert_eq!((bytes[7], bytes[8]), (1, 9));
        assert_eq!(lock().contents.unknown(block, 64), 32);
        effects.apply_perhaps(&mut lock());
        assert_eq!(lock().contents.unknown(block, 64), 40);
    }
}
