//! Records to bytes: `kind: u16`, two zero bytes, `len: u32`, then `len` bytes of payload in the order of the fields.

use crate::record::{AllocatorEvent, OutOfMemory, Record, UnknownRead};

pub(crate) mod kind {
    pub(crate) const TEXT: u16 = 1;
    pub(crate) const SITE: u16 = 2;
    pub(crate) const MODULE: u16 = 3;
    pub(crate) const ALLOC: u16 = 4;
    pub(crate) const FREE: u16 = 5;
    pub(crate) const DRIVER: u16 = 6;
    pub(crate) const PHASE: u16 = 7;
    pub(crate) const LABEL: u16 = 8;
    pub(crate) const TOUCH: u16 = 9;
    pub(crate) const UNKNOWN_READ: u16 = 10;
    pub(crate) const UNSUPPORTED: u16 = 11;
    pub(crate) const OUT_OF_MEMORY: u16 = 12;
    pub(crate) const STEP: u16 = 13;
    pub(crate) const NOTE: u16 = 14;

    /// The kinds this version knows; later ones are skipped.
    pub(crate) const ALL: std::ops::RangeInclusive<u16> = TEXT..=NOTE;
}

/// Appends `record` to `out`.
pub fn encode(record: &Record, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    let kind = payload(record, out);
    let len = (out.len() - start - 8) as u32;
    out[start..start + 2].copy_from_slice(&kind.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
}

fn payload(record: &Record, out: &mut Vec<u8>) -> u16 {
    match record {
        Record::Text(text) => {
            out.extend_from_slice(text.as_bytes());
            kind::TEXT
        }
        Record::Site {
            file,
            line,
            function,
        } => {
            words(out, &[*file, *line, *function]);
            kind::SITE
        }
        Record::Module { path, class } => {
            words(out, &[*path, *class]);
            kind::MODULE
        }
        Record::Alloc(event) => {
            allocator_event(event, out);
            kind::ALLOC
        }
        Record::Free(event) => {
            allocator_event(event, out);
            kind::FREE
        }
        Record::Driver {
            nanos,
            action,
            device,
            address,
            size,
            used,
        } => {
            longs(out, &[*nanos, *address, *size, *used]);
            out.extend_from_slice(&[action.code(), *device]);
            kind::DRIVER
        }
        Record::Phase { nanos, phase, step } => {
            longs(out, &[*nanos]);
            words(out, &[*step]);
            out.push(phase.code());
            kind::PHASE
        }
        Record::Label {
            nanos,
            address,
            role,
            name,
        } => {
            longs(out, &[*nanos, *address]);
            words(out, &[*name]);
            out.push(role.code());
            kind::LABEL
        }
        Record::Touch {
            nanos,
            address,
            touch,
        } => {
            longs(out, &[*nanos, *address]);
            out.push(touch.code());
            kind::TOUCH
        }
        Record::UnknownRead(read) => {
            unknown_read(read, out);
            kind::UNKNOWN_READ
        }
        Record::Unsupported {
            nanos,
            function,
            library,
            site,
        } => {
            longs(out, &[*nanos]);
            words(out, &[*function, *library, *site]);
            kind::UNSUPPORTED
        }
        Record::OutOfMemory(oom) => {
            out_of_memory(oom, out);
            kind::OUT_OF_MEMORY
        }
        Record::Step {
            nanos,
            step,
            peak_allocated,
            peak_reserved,
            device_nanos,
        } => {
            longs(out, &[*nanos, *peak_allocated, *peak_reserved]);
            words(out, &[*step]);
            longs(out, &[*device_nanos]);
            kind::STEP
        }
        Record::Note { nanos, json } => {
            longs(out, &[*nanos]);
            out.extend_from_slice(json.as_bytes());
            kind::NOTE
        }
    }
}

fn allocator_event(event: &AllocatorEvent, out: &mut Vec<u8>) {
    longs(
        out,
        &[
            event.nanos,
            event.address,
            event.size,
            event.allocated,
            event.reserved,
        ],
    );
    words(out, &[event.step, event.site, event.module]);
    out.extend_from_slice(&[event.phase.code(), event.device]);
}

fn unknown_read(read: &UnknownRead, out: &mut Vec<u8>) {
    longs(out, &[read.nanos, read.address, read.size, read.given]);
    words(out, &[read.origin, read.step, read.site, read.module]);
    words(out, &[read.assumption, read.assumed_at]);
    out.extend_from_slice(&[read.phase.code(), read.basis.code()]);
}

fn out_of_memory(oom: &OutOfMemory, out: &mut Vec<u8>) {
    longs(
        out,
        &[
            oom.nanos,
            oom.requested,
            oom.allocated,
            oom.reserved,
            oom.free,
            oom.total,
        ],
    );
    words(out, &[oom.step, oom.site, oom.module]);
    out.extend_from_slice(&[oom.phase.code(), oom.device]);
}

fn longs(out: &mut Vec<u8>, values: &[u64]) {
    for value in values {
        out.extend_from_slice(&value.to_le_bytes());
    }
}

fn words(out: &mut Vec<u8>, values: &[u32]) {
    for value in values {
        out.extend_from_slice(&value.to_le_bytes());
    }
}
