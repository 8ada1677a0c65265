//! Handles of objects without memory: streams, events, descriptors, library handles.
//!
//! A handle is a number that is never reused and is checked against its kind at every use, so that a destroyed or
//! foreign handle is an error as it is with the real libraries, and never a wild pointer.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

const FIRST: u64 = 0x7600_0000_1000;
const STEP: u64 = 0x10;

/// Objects of one kind.
pub(crate) struct Handles<T> {
    objects: Mutex<HashMap<u64, T>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self {
            objects: Mutex::new(HashMap::new()),
        }
    }
}

fn next() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(FIRST);
    NEXT.fetch_add(STEP, Ordering::Relaxed)
}

impl<T> Handles<T> {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, T>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new handle for `object`.
    pub(crate) fn add(&self, object: T) -> u64 {
        let handle = next();
        self.lock().insert(handle, object);
        handle
    }

    /// Forgets a handle; `None` when it does not exist (any more).
    pub(crate) fn remove(&self, handle: u64) -> Option<T> {
        self.lock().remove(&handle)
    }

    /// Whether the handle exists.
    pub(crate) fn has(&self, handle: u64) -> bool {
        self.lock().contains_key(&handle)
    }

    /// Looks at or changes the object of a handle; `None` when it does not exist.
    pub(crate) fn with<R>(&self, handle: u64, look: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.lock().get_mut(&handle).map(look)
    }
}

/// Tables of handles by the type of their objects, for the closed libraries.
#[derive(Default)]
pub(crate) struct Registry {
    tables: Mutex<HashMap<std::any::TypeId, &'static (dyn Any + Send + Sync)>>,
}

impl Registry {
    /// The table of objects of type `T`; it lives as long as the process.
    pub(crate) fn of<T: Send + 'static>(&self) -> &'static Handles<T> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let table = tables
            .entry(std::any::TypeId::of::<T>())
            .or_insert_with(|| Box::leak(Box::new(Handles::<T>::default())));
        table
            .downcast_ref()
            .unwrap_or_else(|| unreachable!("the table was made for this very type"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_ends_with_its_object() {
        let handles = Handles::default();
        let handle = handles.add(5);
        assert_eq!(handles.with(handle, |object| *object), Some(5));
        assert_eq!(handles.remove(handle), Some(5));
        assert_eq!(handles.remove(handle), None);
        assert!(!handles.has(handle));
        assert_ne!(handles.add(6), handle);
    }

    #[test]
    fn kinds_do_not_mix() {
        struct Stream;
        struct Event;
        let registry = Registry::default();
        let stream = registry.of::<Stream>().add(Stream);
        assert!(registry.of::<Stream>().has(stream));
        assert!(!registry.of::<Event>().has(stream));
    }
}
