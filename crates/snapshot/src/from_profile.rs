//! Profiles of `oomproof run`. They have every block and every call to the driver, with line, and lack what the virtual
//! device does not see: what was requested before rounding, pools, settings.

use oomproof_profile::{AllocatorEvent, DriverAction, Profile, Record};
use oomproof_units::{Bytes, DeviceAddress, Micros};

use crate::builder::SnapshotBuilder;
use crate::entry::{Action, Entry, StreamHandle};
use crate::origin::Container;
use crate::read::ReadError;
use crate::snapshot::Snapshot;
use crate::stack_table::StackId;

/// What a profile cannot say.
const LACKS: [&str; 3] = [
    "sizes are those of blocks, rounded up from what was requested",
    "there are no segments at the end, streams, pools and settings",
    "times count from the start of the run",
];

/// Reads a profile.
pub(crate) fn read_profile(file: &[u8]) -> Result<Snapshot, ReadError> {
    let profile = Profile::read(file)?;
    let mut builder = SnapshotBuilder::new();
    let mut texts = Vec::new();
    let mut stacks = Vec::new();
    for record in &profile.records {
        let mut entry = |device: u8, nanos: u64, action, address, size, site: u32| {
            let stack = (site as usize)
                .checked_sub(1)
                .and_then(|index| stacks.get(index));
            let entry = Entry {
                action,
                address: DeviceAddress::new(address),
                size: Bytes::new(size),
                stream: StreamHandle::DEFAULT,
                time: Some(Micros::new(nanos / 1000)),
                stack: stack.copied().unwrap_or(StackId::EMPTY),
                pool: None,
                compile_context: None,
                user_metadata: None,
                internal_metadata: None,
            };
            builder.entry(u32::from(device), &entry);
        };
        let mut block = |action, event: &AllocatorEvent| {
            entry(
                event.device,
                event.nanos,
                action,
                event.address,
                event.size,
                event.site,
            );
        };
        match record {
            Record::Text(text) => texts.push(text.as_str()),
            Record::Site {
                file,
                line,
                function,
            } => {
                let text = |id: u32| {
                    (id as usize)
                        .checked_sub(1)
                        .and_then(|index| texts.get(index))
                };
                let (file, function) = (text(*file), text(*function));
                let frame = builder.frame(file.unwrap_or(&"??"), *line, function.unwrap_or(&"??"));
                stacks.push(builder.stack(&[frame]));
            }
            Record::Alloc(event) => block(Action::Alloc, event),
            Record::Free(event) => {
                block(Action::FreeRequested, event);
                block(Action::FreeCompleted, event);
            }
            Record::Driver {
                nanos,
                action: action @ (DriverAction::Malloc | DriverAction::Free),
                device,
                address,
                size,
                ..
            } => {
                let action = match action {
                    DriverAction::Malloc => Action::SegmentAlloc,
                    _ => Action::SegmentFree,
                };
                entry(*device, *nanos, action, *address, *size, 0);
            }
            Record::OutOfMemory(event) => {
                entry(
                    event.device,
                    event.nanos,
                    Action::OutOfMemory,
                    event.free,
                    event.requested,
                    event.site,
                );
            }
            _ => {}
        }
    }
    Ok(builder.finish_from(Container::Profile, LACKS.to_vec()))
}
