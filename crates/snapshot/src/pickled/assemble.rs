//! From rows to a snapshot: which segments, entries and settings the outermost dictionary names, checked against each other.

use oomproof_pickle::Value;
use oomproof_units::{Bytes, DeviceAddress};

use crate::origin::{Container, Origin};
use crate::pickled::fields::{Field, Fields};
use crate::pickled::misfit::Misfit;
use crate::pickled::settings::recorded_settings;
use crate::pickled::sink::Rows;
use crate::pickled::slots::{Kind, Slot};
use crate::pickled::words_table as words;
use crate::segment::Segments;
use crate::snapshot::Snapshot;
use crate::text_table::TextId;
use crate::trace::Trace;

/// More devices than this are a forgery, and a summary looks at all segments for each device.
const MOST_DEVICES: usize = 512;

/// Something is wrong with the content, and where it stands if it stands in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) misfit: Misfit,
    pub(crate) offset: Option<usize>,
}

impl From<Misfit> for Flaw {
    fn from(misfit: Misfit) -> Self {
        Self {
            misfit,
            offset: None,
        }
    }
}

/// The snapshot that a pickle's value stands for.
pub(super) fn assemble(
    mut rows: Rows,
    value: Value,
    container: Container,
) -> Result<Snapshot, Flaw> {
    let root = match rows.slots.of(value) {
        Some(Slot::Pending(index) | Slot::Dict(index)) => {
            std::mem::take(&mut rows.slots.pending[index as usize])
        }
        Some(Slot::List(_) | Slot::EmptyList)
            if rows.slots.rows(value, Kind::Segment).is_some() =>
        {
            return bare_list(rows, value, container);
        }
        Some(Slot::Row(kind, _)) => return Err(Misfit::NoSnapshot(kind.word()).into()),
        Some(Slot::List(_)) => {
            return Err(Misfit::NoSnapshot("a list of something else than segments").into());
        }
        Some(Slot::EmptyDict) => return Err(Misfit::NoSnapshot("an empty dictionary").into()),
        _ => return Err(Misfit::NoSnapshot("something else").into()),
    };
    let fields = Fields::new(&root);
    if !fields.has(words::SEGMENTS) && !fields.has(words::DEVICE_TRACES) {
        return Err(Misfit::NoSnapshot("a dictionary without segments and traces").into());
    }
    rows.schema.dictionary = true;
    let mut segments = Segments::default();
    let mut traces = Vec::new();
    let mut settings = None;
    let mut annotations = Vec::new();
    let mut lacks = Vec::new();
    for key in words::SEGMENTS..=words::HOST_TRACES {
        let Some(value) = fields.get(key) else {
            continue;
        };
        let field = Field {
            value,
            key,
            whose: "the snapshot",
        };
        match key {
            words::SEGMENTS => segments = rows.listed_segments(field)?,
            words::DEVICE_TRACES => traces = rows.listed_traces(field)?,
            words::ALLOCATOR_SETTINGS => {
                settings = recorded_settings(&mut rows, field)?;
                rows.schema.settings = settings.is_some();
            }
            words::EXTERNAL_ANNOTATIONS => {
                rows.schema.annotations = true;
                let listed = rows
                    .slots
                    .rows(value, Kind::Annotation)
                    .ok_or_else(|| field.wrong("a list of annotations"))?;
                annotations = listed
                    .iter()
                    .map(|&row| rows.annotations[row as usize])
                    .collect();
            }
            words::HOST_SEGMENTS | words::HOST_TRACES => {
                rows.schema.host = true;
                if rows.slots.of(value) != Some(Slot::EmptyList) {
                    lacks.push("what it says of pinned host memory was left out");
                }
            }
            _ => {}
        }
    }
    for (key, _) in fields.iter() {
        if !(words::SEGMENTS..=words::HOST_TRACES).contains(&key) && key != u32::MAX {
            rows.unknown_keys.insert(TextId(key));
        }
    }
    lacks.dedup();
    let mut snapshot = finish(rows, segments, traces, container);
    snapshot.settings = settings;
    snapshot.annotations = annotations;
    snapshot.origin.lacks = lacks;
    Ok(snapshot)
}

/// What `torch.cuda.memory_snapshot()` returns.
fn bare_list(rows: Rows, value: Value, container: Container) -> Result<Snapshot, Flaw> {
    let field = Field {
        value,
        key: words::SEGMENTS,
        whose: "the snapshot",
    };
    let segments = rows.listed_segments(field)?;
    let mut snapshot = finish(rows, segments, Vec::new(), container);
    snapshot
        .origin
        .lacks
        .push("it is a bare list of segments, without trace and settings");
    Ok(snapshot)
}

fn finish(rows: Rows, segments: Segments, traces: Vec<Trace>, container: Container) -> Snapshot {
    let mut unknown_keys: Vec<String> = rows
        .unknown_keys
        .iter()
        .map(|&key| rows.texts.get(key).chars().take(80).collect())
        .collect();
    unknown_keys.sort_unstable();
    Snapshot {
        texts: rows.texts,
        stacks: rows.stacks,
        segments,
        traces,
        settings: None,
        annotations: Vec::new(),
        origin: Origin {
            containers: vec![container],
            schema: rows.schema,
            releases: rows.schema.releases(),
            unknown_keys,
            lacks: Vec::new(),
        },
    }
}

impl Rows {
    fn listed_segments(&self, field: Field) -> Result<Segments, Flaw> {
        let listed = self
            .slots
            .rows(field.value, Kind::Segment)
            .ok_or_else(|| field.wrong("a list of segments"))?;
        once(listed, self.segments.len(), "segment")?;
        let mut block_seen = vec![false; self.blocks.len()];
        let mut segments = Segments::default();
        for &row in listed {
            let segment = &self.segments[row as usize];
            let at = |misfit| Flaw {
                misfit,
                offset: Some(segment.offset),
            };
            let info = segment.info;
            if info.device as usize >= MOST_DEVICES {
                return Err(at(Misfit::TooManyDevices(info.device as usize)));
            }
            let end = end_of("segment", info.address, info.total_size).map_err(at)?;
            segments.push(info);
            let mut next = info.address;
            for &row in self
                .slots
                .rows(segment.blocks, Kind::Block)
                .unwrap_or_default()
            {
                if std::mem::replace(&mut block_seen[row as usize], true) {
                    return Err(at(Misfit::Twice("block")));
                }
                let row = &self.blocks[row as usize];
                let mut block = row.block;
                if !row.has_address {
                    block.address = next;
                }
                let after = end_of("block", block.address, block.size);
                next = after
                    .and_then(|after| {
                        if block.address < next || after > end {
                            return Err(Misfit::Overlap("block", block.address));
                        }
                        Ok(after)
                    })
                    .map_err(|misfit| Flaw {
                        misfit,
                        offset: Some(row.offset),
                    })?;
                segments.push_block(block);
            }
        }
        self.check_apart(listed)?;
        Ok(segments)
    }

    /// No two segments of a device have memory in common.
    fn check_apart(&self, listed: &[u32]) -> Result<(), Flaw> {
        let mut order: Vec<u32> = listed.to_vec();
        let info = |row: u32| &self.segments[row as usize].info;
        order.sort_by_key(|&row| (info(row).device, info(row).address));
        for pair in order.windows(2) {
            let (before, after) = (info(pair[0]), info(pair[1]));
            if before.device == after.device
                && before.address.offset(before.total_size) > after.address
            {
                return Err(Flaw {
                    misfit: Misfit::Overlap("segment", after.address),
                    offset: Some(self.segments[pair[1] as usize].offset),
                });
            }
        }
        Ok(())
    }

    fn listed_traces(&mut self, field: Field) -> Result<Vec<Trace>, Flaw> {
        let devices = self
            .slots
            .rows(field.value, Kind::List)
            .ok_or_else(|| field.wrong("a list with a list of entries for each device"))?
            .to_vec();
        if devices.len() > MOST_DEVICES {
            return Err(Misfit::TooManyDevices(devices.len()).into());
        }
        let mut all: Vec<&[u32]> = Vec::with_capacity(devices.len());
        for &handle in &devices {
            let value = Value::Object(oomproof_pickle::Handle(handle));
            all.push(
                self.slots
                    .rows(value, Kind::Entry)
                    .ok_or_else(|| field.wrong("a list with a list of entries for each device"))?,
            );
        }
        let n_listed: usize = all.iter().map(|rows| rows.len()).sum();
        if n_listed > self.entries.len() {
            return Err(Misfit::Twice("entry").into());
        }
        let in_order = |rows: &[u32]| {
            rows.iter()
                .enumerate()
                .all(|(index, &row)| index == row as usize)
        };
        if let Some(device) = all
            .iter()
            .position(|rows| rows.len() == self.entries.len() && in_order(rows))
        {
            let mut traces = vec![Trace::default(); devices.len()];
            traces[device] = std::mem::take(&mut self.entries);
            return Ok(traces);
        }
        let joined: Vec<u32> = all.iter().flat_map(|rows| rows.iter().copied()).collect();
        once(&joined, self.entries.len(), "entry")?;
        Ok(all
            .iter()
            .map(|rows| {
                let mut trace = Trace::default();
                for &row in *rows {
                    trace.push(&self.entries.entry(row as usize));
                }
                trace
            })
            .collect())
    }
}

fn end_of(
    what: &'static str,
    address: DeviceAddress,
    size: Bytes,
) -> Result<DeviceAddress, Misfit> {
    address
        .get()
        .checked_add(size.get())
        .map(DeviceAddress::new)
        .ok_or(Misfit::TooLong(what, address))
}

/// No row is listed twice.
fn once(listed: &[u32], n_rows: usize, what: &'static str) -> Result<(), Misfit> {
    let mut seen = vec![false; n_rows];
    for &row in listed {
        if std::mem::replace(&mut seen[row as usize], true) {
            return Err(Misfit::Twice(what));
        }
    }
    Ok(())
}
