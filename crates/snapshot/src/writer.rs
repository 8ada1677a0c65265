//! A snapshot as the pickle that PyTorch itself would have dumped, for its own viewer. It has the keys that the snapshot's
//! [`Schema`](crate::Schema) has, so that what was read from an old release is written as that release did.

use oomproof_pickle::{Reference, Writer};
use oomproof_units::Bytes;

use crate::annotation::Annotation;
use crate::entry::{Action, Entry, PoolId};
use crate::segment::{Block, Segment};
use crate::settings::{RecordedSettings, SettingValue};
use crate::snapshot::Snapshot;
use crate::stack_table::{FrameId, StackId};
use crate::text_table::TextId;

/// The bytes of a `.pickle` file of protocol 4.
///
/// PyTorch writes an allocation that failed with `device_free`, and unknown words are written as they were read. What the
/// model does not hold ([`Origin::unknown_keys`](crate::Origin::unknown_keys)) is not written.
pub fn write_snapshot(snapshot: &Snapshot) -> Vec<u8> {
    let mut pickled = Pickled {
        snapshot,
        writer: Writer::new(),
        stacks: vec![None; snapshot.stacks.len()],
        frames: vec![None; snapshot.stacks.n_frames()],
        pools: Vec::new(),
    };
    let schema = snapshot.origin.schema;
    if !schema.dictionary {
        pickled.segments();
        return pickled.writer.finish();
    }
    pickled.writer.begin_dict();
    pickled.writer.text("segments");
    pickled.segments();
    pickled.writer.text("device_traces");
    pickled.traces();
    if let Some(settings) = &snapshot.settings {
        pickled.writer.text("allocator_settings");
        pickled.settings(settings);
    }
    if schema.annotations {
        pickled.writer.text("external_annotations");
        pickled.writer.begin_list();
        for annotation in &snapshot.annotations {
            pickled.annotation(annotation);
        }
        pickled.writer.end();
    }
    if schema.host {
        for key in ["host_segments", "host_traces"] {
            pickled.writer.text(key);
            pickled.writer.begin_list();
            pickled.writer.end();
        }
    }
    pickled.writer.end();
    pickled.writer.finish()
}

/// The pickle so far, and what of the snapshot's tables it has already.
struct Pickled<'a> {
    snapshot: &'a Snapshot,
    writer: Writer,
    stacks: Vec<Option<Reference>>,
    frames: Vec<Option<Reference>>,
    pools: Vec<(PoolId, Reference)>,
}

impl Pickled<'_> {
    fn number(&mut self, key: &str, value: u64) {
        self.writer.text(key);
        self.writer.unsigned(value);
    }

    fn word(&mut self, key: &str, value: &str) {
        self.writer.text(key);
        self.writer.text(value);
    }

    fn text(&mut self, key: &str, value: TextId) {
        let text = self.snapshot.texts.get(value);
        self.word(key, text);
    }

    fn segments(&mut self) {
        self.writer.begin_list();
        for segment in self.snapshot.segments.iter() {
            self.segment(&segment);
        }
        self.writer.end();
    }

    fn segment(&mut self, segment: &Segment<'_>) {
        let schema = self.snapshot.origin.schema;
        self.writer.begin_dict();
        self.number("device", u64::from(segment.device));
        self.number("address", segment.address.get());
        self.number("total_size", segment.total_size.get());
        self.number("allocated_size", segment.allocated_size.get());
        self.number("active_size", segment.active_size.get());
        if schema.requested_size || segment.requested_size != Bytes::ZERO {
            self.number("requested_size", segment.requested_size.get());
        }
        self.number("stream", segment.stream.get());
        self.word("segment_type", segment.kind.word());
        if schema.segment_pool {
            self.writer.text("segment_pool_id");
            self.pool(segment.pool);
        }
        if schema.segment_pool || segment.is_expandable {
            self.writer.text("is_expandable");
            self.writer.bool(segment.is_expandable);
        }
        if schema.segment_pool || segment.stack != StackId::EMPTY {
            self.stack(segment.stack);
        }
        self.writer.text("blocks");
        self.writer.begin_list();
        for block in segment.blocks() {
            self.block(block);
        }
        self.writer.end();
        self.writer.end();
    }

    fn block(&mut self, block: &Block) {
        let schema = self.snapshot.origin.schema;
        self.writer.begin_dict();
        if schema.block_address {
            self.number("address", block.address.get());
        }
        self.number("size", block.size.get());
        let in_history = !schema.block_address && !schema.requested_size;
        if !in_history {
            self.number("requested_size", block.requested_size.get());
        }
        self.word("state", block.state.word());
        if schema.block_address {
            self.stack(block.stack);
        } else if block.stack != StackId::EMPTY || in_history {
            self.writer.text("history");
            self.writer.begin_list();
            self.writer.begin_dict();
            self.number("addr", block.address.get());
            self.number("real_size", block.requested_size.get());
            self.stack(block.stack);
            self.writer.end();
            self.writer.end();
        }
        self.writer.end();
    }

    fn traces(&mut self) {
        self.writer.begin_list();
        for trace in &self.snapshot.traces {
            self.writer.begin_list();
            for entry in trace.entries() {
                self.entry(&entry);
            }
            self.writer.end();
        }
        self.writer.end();
    }

    fn entry(&mut self, entry: &Entry) {
        self.writer.begin_dict();
        match entry.action {
            Action::Unknown(word) => self.text("action", word),
            action => self.word("action", action.word().unwrap_or_default()),
        }
        let address = match entry.action {
            Action::OutOfMemory => "device_free",
            _ => "addr",
        };
        self.number(address, entry.address.get());
        self.number("size", entry.size.get());
        self.number("stream", entry.stream.get());
        if let Some(time) = entry.time {
            self.number("time_us", time.get());
        }
        if let Some(context) = entry.compile_context {
            self.text("compile_context", context);
        }
        if let Some(metadata) = entry.user_metadata {
            self.text("user_metadata", metadata);
        }
        if let Some(metadata) = entry.internal_metadata {
            self.text("internal_metadata", metadata);
        }
        if let Some(pool) = entry.pool {
            self.writer.text("pool_id");
            self.pool(pool);
        }
        // Releases without settings write no frames where none were recorded.
        if entry.stack != StackId::EMPTY || self.snapshot.origin.schema.settings {
            self.stack(entry.stack);
        }
        self.writer.end();
    }

    fn pool(&mut self, pool: PoolId) {
        if let Some(&(_, reference)) = self.pools.iter().find(|(known, _)| *known == pool) {
            return self.writer.again(reference);
        }
        let reference = self.writer.pair(pool.0, pool.1);
        // A search through many pools would cost more than writing a pair again.
        if self.pools.len() < 16 {
            self.pools.push((pool, reference));
        }
    }

    fn stack(&mut self, stack: StackId) {
        self.writer.text("frames");
        if let Some(reference) = self.stacks[stack.index()] {
            return self.writer.again(reference);
        }
        self.stacks[stack.index()] = Some(self.writer.begin_list());
        let snapshot = self.snapshot;
        for &frame in snapshot.stacks.frame_ids(stack) {
            self.frame(frame);
        }
        self.writer.end();
    }

    fn frame(&mut self, id: FrameId) {
        if let Some(reference) = self.frames[id.index()] {
            return self.writer.again(reference);
        }
        self.frames[id.index()] = Some(self.writer.begin_dict());
        let snapshot = self.snapshot;
        let frame = snapshot.stacks.frame(id);
        self.text("name", frame.function);
        self.text("filename", frame.file);
        self.number("line", u64::from(frame.line));
        for note in snapshot.stacks.notes(id) {
            let key = snapshot.texts.get(note.key);
            self.text(key, note.value);
        }
        self.writer.end();
    }

    fn annotation(&mut self, annotation: &Annotation) {
        self.writer.begin_dict();
        self.text("stage", annotation.stage);
        self.text("name", annotation.name);
        self.number("device", u64::from(annotation.device));
        if let Some(time) = annotation.time {
            self.number("time_us", time.get());
        }
        self.writer.end();
    }

    fn settings(&mut self, settings: &RecordedSettings) {
        self.writer.begin_dict();
        self.word("PYTORCH_CUDA_ALLOC_CONF", &settings.conf);
        self.writer.text("max_split_size");
        match settings.max_split_size {
            Some(size) => self.writer.unsigned(size.get()),
            None => self.writer.int(-1),
        }
        self.writer.text("garbage_collection_threshold");
        self.writer.float(settings.garbage_collection_threshold);
        self.writer.text("expandable_segments");
        self.writer.bool(settings.expandable_segments);
        for (name, value) in &settings.others {
            self.writer.text(name);
            match value {
                SettingValue::Flag(flag) => self.writer.bool(*flag),
                SettingValue::Number(number) => self.writer.int(*number),
                SettingValue::Fraction(number) => self.writer.float(*number),
                SettingValue::Text(text) => self.writer.text(text),
            }
        }
        self.writer.text("roundup_power2_divisions");
        self.writer.begin_dict();
        for (from, divisions) in &settings.roundup_power2_divisions {
            self.number(&from.to_string(), *divisions);
        }
        self.writer.end();
        self.writer.end();
    }
}
