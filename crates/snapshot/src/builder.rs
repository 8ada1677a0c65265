//! Builds a snapshot from a program's own events, so that a virtual or replayed run can be written and opened elsewhere.

use crate::annotation::Annotation;
use crate::entry::Entry;
use crate::origin::{Container, Origin, ReleaseRange};
use crate::schema::Schema;
use crate::segment::{Block, SegmentInfo, Segments};
use crate::settings::RecordedSettings;
use crate::snapshot::Snapshot;
use crate::stack_table::{Frame, FrameId, FrameNote, StackId, Stacks};
use crate::text_table::{TextId, Texts};
use crate::trace::Trace;

/// A snapshot in the making. Ids come from the same builder.
#[derive(Clone, Debug, Default)]
pub struct SnapshotBuilder {
    texts: Texts,
    stacks: Stacks,
    segments: Segments,
    traces: Vec<Trace>,
    settings: Option<RecordedSettings>,
    annotations: Vec<Annotation>,
    schema: Schema,
}

impl SnapshotBuilder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts with the texts and stacks of another snapshot, so that its ids stay valid here.
    pub fn with_tables_of(snapshot: &Snapshot) -> Self {
        Self {
            texts: snapshot.texts.clone(),
            stacks: snapshot.stacks.clone(),
            ..Self::default()
        }
    }

    /// The id of a text.
    pub fn text(&mut self, text: &str) -> TextId {
        self.texts.intern(text)
    }

    /// The id of a frame.
    pub fn frame(&mut self, file: &str, line: u32, function: &str) -> FrameId {
        let frame = Frame {
            file: self.texts.intern(file),
            line,
            function: self.texts.intern(function),
        };
        self.stacks.intern_frame(frame)
    }

    /// The id of a frame with more fields than the usual three.
    pub fn noted_frame(&mut self, frame: Frame, notes: &[FrameNote]) -> FrameId {
        self.stacks.intern_noted_frame(frame, notes)
    }

    /// The id of a stack, innermost frame first.
    pub fn stack(&mut self, frames: &[FrameId]) -> StackId {
        self.stacks.intern(frames)
    }

    /// Adds a segment; its blocks follow with [`SnapshotBuilder::block`].
    pub fn segment(&mut self, info: SegmentInfo) -> &mut Self {
        self.segments.push(info);
        self
    }

    /// Adds a block to the segment that was added last; without one it does nothing.
    pub fn block(&mut self, block: Block) -> &mut Self {
        self.segments.push_block(block);
        self
    }

    /// Adds an entry to the trace of a device.
    pub fn entry(&mut self, device: u32, entry: &Entry) -> &mut Self {
        let device = device as usize;
        if self.traces.len() <= device {
            self.traces.resize_with(device + 1, Trace::default);
        }
        self.schema.time |= entry.time.is_some();
        self.schema.entry_pool |= entry.pool.is_some();
        self.schema.compile_context |= entry.compile_context.is_some();
        self.schema.user_metadata |= entry.user_metadata.is_some();
        self.schema.internal_metadata |= entry.internal_metadata.is_some();
        self.schema.any_entry = true;
        self.traces[device].push(entry);
        self
    }

    /// Sets the allocator's settings.
    pub fn settings(&mut self, settings: RecordedSettings) -> &mut Self {
        self.settings = Some(settings);
        self
    }

    /// Adds a mark beside the trace.
    pub fn annotation(&mut self, annotation: Annotation) -> &mut Self {
        self.annotations.push(annotation);
        self.schema.annotations = true;
        self
    }

    /// The finished snapshot.
    pub fn finish(self) -> Snapshot {
        self.finish_from(Container::Built, Vec::new())
    }

    /// The finished snapshot of a source that cannot tell everything.
    pub(crate) fn finish_from(self, container: Container, lacks: Vec<&'static str>) -> Snapshot {
        let mut schema = self.schema;
        schema.dictionary = true;
        schema.any_segment = !self.segments.is_empty();
        schema.any_block = !self.segments.blocks().is_empty();
        schema.requested_size = schema.any_segment;
        schema.segment_pool = schema.any_segment;
        schema.block_address = schema.any_block;
        schema.settings = self.settings.is_some();
        Snapshot {
            texts: self.texts,
            stacks: self.stacks,
            segments: self.segments,
            traces: self.traces,
            settings: self.settings,
            annotations: self.annotations,
            origin: Origin {
                schema,
                releases: match container {
                    // The keys of other kinds of files say nothing.
                    Container::ChromeTrace | Container::Profile => ReleaseRange::ANY,
                    _ => schema.releases(),
                },
                containers: vec![container],
                unknown_keys: Vec::new(),
                lacks,
            },
        }
    }
}
