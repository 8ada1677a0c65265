//! The device's own account, for an allocator of PyTorch that reports nothing.
//!
//! With `cudaMallocAsync`, or without its cache, PyTorch passes every tensor on to CUDA and reports no blocks. What
//! CUDA hands out then is what PyTorch allocates, so the same events are made here.

use std::sync::Mutex;
use std::sync::PoisonError;

use oomproof_profile::DriverAction;

use crate::allocator_events::{out_of_memory, usage};
use crate::memory::DriverEvent;
use crate::session::Session;

/// What each device has handed out and what its pools have taken; `None` while PyTorch's allocator reports itself.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Option<Vec<u64>>>);

impl Ledger {
    /// From now on what CUDA hands out counts as PyTorch's.
    pub(crate) fn begin(&self, n_devices: usize) {
        let mut allocated = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        allocated.get_or_insert_with(|| vec![0; n_devices]);
    }

    /// Whether it has begun.
    pub(crate) fn is_kept(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// Hears of something that the driver did with memory.
    pub(crate) fn hear(&self, session: &Session, event: &DriverEvent) {
        let mut allocated = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(allocated) = allocated.as_mut() else {
            return;
        };
        let Some(ordinal) = session
            .visible()
            .iter()
            .position(|machine| *machine as usize == event.device)
        else {
            return;
        };
        let pools = session.memory().pools.of_device(event.device);
        let now = &mut allocated[event.device];
        let signed = event.size as i64;
        let change = match event.action {
            DriverAction::Malloc => signed,
            DriverAction::Free => -signed,
            DriverAction::Refused => {
                let reserved = *now - pools.used + pools.reserved;
                out_of_memory(signed, *now, reserved, ordinal as u8);
                return;
            }
            DriverAction::Create | DriverAction::Release => return,
        };
        *now = now.saturating_add_signed(change);
        let reserved = now.saturating_sub(pools.used) + pools.reserved;
        usage(event.address, change, *now, reserved, ordinal as u8);
    }
}
