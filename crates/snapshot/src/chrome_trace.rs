//! The JSON traces of PyTorch's profiler, taken with `profile_memory=True`: an event `[memory]` for every block that was
//! handed out or taken back. They say less than a snapshot, and what they do not say is named.
//!
//! The file may have gigabytes of other events, so events are looked at one by one as the parser meets them.

use std::borrow::Cow;
use std::fmt;

use oomproof_units::{Bytes, DeviceAddress, Micros};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::builder::SnapshotBuilder;
use crate::entry::{Action, Entry, StreamHandle};
use crate::origin::Container;
use crate::read::ReadError;
use crate::snapshot::Snapshot;
use crate::stack_table::StackId;

/// PyTorch's number for CUDA devices.
const CUDA: i64 = 1;

/// Devices beyond this are a forgery.
const MOST_DEVICES: u32 = 512;

/// What such a trace cannot say.
const LACKS: [&str; 3] = [
    "sizes are those of blocks, rounded up from what was requested",
    "there are no segments, streams, pools and settings, and no entries of what the driver gave",
    "stacks were left out: the trace has them only as intervals of time",
];

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(default)]
    ts: Option<f64>,
    #[serde(default)]
    args: Option<Arguments>,
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(rename = "Addr", default)]
    address: Option<u64>,
    #[serde(rename = "Bytes", default)]
    bytes: Option<i64>,
    #[serde(rename = "Device Id", default)]
    device: Option<i64>,
    #[serde(rename = "Device Type", default)]
    device_type: Option<i64>,
}

/// One event about memory of a CUDA device.
struct Memory {
    time: f64,
    device: u32,
    is_failure: bool,
    address: u64,
    bytes: i64,
}

/// What was found while parsing.
#[derive(Default)]
struct Found {
    has_events: bool,
    events: Vec<Memory>,
    base_nanos: f64,
}

/// Reads a trace.
pub(crate) fn read_chrome_trace(file: &[u8]) -> Result<Snapshot, ReadError> {
    let mut found = Found::default();
    let mut parser = serde_json::Deserializer::from_slice(file);
    Outermost(&mut found)
        .deserialize(&mut parser)
        .and_then(|()| parser.end())
        .map_err(|error| ReadError::Json {
            line: error.line(),
            column: error.column(),
            reason: reason(&error),
        })?;
    if !found.has_events || found.events.is_empty() {
        return Err(ReadError::NothingInside("JSON"));
    }
    found
        .events
        .sort_by(|one, other| one.time.total_cmp(&other.time));
    let mut builder = SnapshotBuilder::new();
    for event in &found.events {
        let micros = (event.time + found.base_nanos / 1e3).max(0.0);
        #[expect(
            clippy::cast_sign_loss,
            reason = "it is not negative, and a cast from a float saturates"
        )]
        let time = (event.time.is_finite()).then(|| Micros::new(micros as u64));
        let actions: &[Action] = match event.bytes {
            _ if event.is_failure => &[Action::OutOfMemory],
            0.. => &[Action::Alloc],
            _ => &[Action::FreeRequested, Action::FreeCompleted],
        };
        for &action in actions {
            let entry = Entry {
                action,
                address: DeviceAddress::new(event.address),
                size: Bytes::new(event.bytes.unsigned_abs()),
                stream: StreamHandle::DEFAULT,
                time,
                stack: StackId::EMPTY,
                pool: None,
                compile_context: None,
                user_metadata: None,
                internal_metadata: None,
            };
            builder.entry(event.device, &entry);
        }
    }
    Ok(builder.finish_from(Container::ChromeTrace, LACKS.to_vec()))
}

/// The parser's words without the place, which has fields of its own.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// The object around the events, or the bare list of them.
struct Outermost<'f>(&'f mut Found);

impl<'de> DeserializeSeed<'de> for Outermost<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Outermost<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `traceEvents`, or a list of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match key.as_ref() {
                "traceEvents" => map.next_value_seed(Events(self.0))?,
                "baseTimeNanoseconds" => self.0.base_nanos = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        Events(self.0).visit_seq(seq)
    }
}

struct Events<'f>(&'f mut Found);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.has_events = true;
        while let Some(Lenient(event)) = seq.next_element::<Lenient<'de>>()? {
            if let Some(memory) = event.and_then(|event| memory(&event)) {
                self.0.events.push(memory);
            }
        }
        Ok(())
    }
}

/// An event, or something else that is passed over.
struct Lenient<'a>(Option<Event<'a>>);

impl<'de> Deserialize<'de> for Lenient<'de> {
    fn deserialize<D: Deserializer<'de>>(parser: D) -> Result<Self, D::Error> {
        let raw = <&serde_json::value::RawValue>::deserialize(parser)?;
        let text = raw.get();
        if !text.contains("[memory]") && !text.contains("[OutOfMemory]") {
            return Ok(Self(None));
        }
        Ok(Self(serde_json::from_str(text).ok()))
    }
}

fn memory(event: &Event<'_>) -> Option<Memory> {
    let is_failure = match event.name.as_deref()? {
        "[memory]" => false,
        "[OutOfMemory]" => true,
        _ => return None,
    };
    let arguments = event.args.as_ref()?;
    let device = u32::try_from(arguments.device?).ok()?;
    if arguments.device_type? != CUDA || device > MOST_DEVICES {
        return None;
    }
    Some(Memory {
        time: event.ts?,
        device,
        is_failure,
        address: match arguments.address {
            Some(address) => address,
            None if is_failure => 0,
            None => return None,
        },
        bytes: arguments.bytes?,
    })
}
