//! The whole model, and what it means for two snapshots to be equal.

use crate::annotation::Annotation;
use crate::entry::{Action, Entry};
use crate::origin::Origin;
use crate::segment::{Block, Segment, SegmentInfo, Segments};
use crate::settings::RecordedSettings;
use crate::stack_table::{StackId, Stacks};
use crate::text_table::{TextId, Texts};
use crate::trace::Trace;

/// A memory snapshot of PyTorch, whatever it was read from.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) texts: Texts,
    pub(crate) stacks: Stacks,
    pub(crate) segments: Segments,
    pub(crate) traces: Vec<Trace>,
    pub(crate) settings: Option<RecordedSettings>,
    pub(crate) annotations: Vec<Annotation>,
    pub(crate) origin: Origin,
}

impl Snapshot {
    /// The segments and blocks at the moment of the snapshot.
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// One trace for each device, by its index; empty for a device that recorded nothing.
    pub fn traces(&self) -> &[Trace] {
        &self.traces
    }

    /// The stacks that entries, segments and blocks point to.
    pub fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// The text of an id that this snapshot gave.
    pub fn text(&self, id: TextId) -> &str {
        self.texts.get(id)
    }

    /// All texts.
    pub fn texts(&self) -> &Texts {
        &self.texts
    }

    /// The allocator's settings (torch 2.3 and later).
    pub fn settings(&self) -> Option<&RecordedSettings> {
        self.settings.as_ref()
    }

    /// The marks that the run left beside its trace.
    pub fn annotations(&self) -> &[Annotation] {
        &self.annotations
    }

    /// Where it came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

/// Two snapshots are equal when they say the same. The numbers of their texts and stacks may differ, and so may where they
/// came from.
impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        let stack = |of: &Self, id: StackId| of.stacks.describe(&of.texts, id);
        let note = |of: &Self, id: Option<TextId>| id.map(|id| of.text(id).to_owned());
        let entry = |of: &Self, entry: Entry| {
            let word = match entry.action {
                Action::Unknown(word) => of.text(word).to_owned(),
                action => action.word().unwrap_or_default().to_owned(),
            };
            let plain = Entry {
                action: Action::Snapshot,
                stack: StackId::EMPTY,
                compile_context: None,
                user_metadata: None,
                internal_metadata: None,
                ..entry
            };
            (
                word,
                plain,
                stack(of, entry.stack),
                note(of, entry.compile_context),
                note(of, entry.user_metadata),
                note(of, entry.internal_metadata),
            )
        };
        let trace = |of: &Self, trace: &Trace| trace.entries().map(|row| entry(of, row)).collect();
        let traces =
            |of: &Self| -> Vec<Vec<_>> { of.traces.iter().map(|each| trace(of, each)).collect() };
        let block = |of: &Self, block: &Block| {
            let plain = Block {
                stack: StackId::EMPTY,
                ..*block
            };
            (plain, stack(of, block.stack))
        };
        let segments = |of: &Self| -> Vec<_> {
            let described = |segment: Segment<'_>| {
                let plain = SegmentInfo {
                    stack: StackId::EMPTY,
                    ..*segment.info()
                };
                let blocks: Vec<_> = segment.blocks().iter().map(|row| block(of, row)).collect();
                (plain, stack(of, segment.stack), blocks)
            };
            of.segments.iter().map(described).collect()
        };
        let annotations = |of: &Self| -> Vec<_> {
            let described = |row: &Annotation| {
                let (name, stage) = (of.text(row.name).to_owned(), of.text(row.stage).to_owned());
                (name, stage, row.device, row.time)
            };
            of.annotations.iter().map(described).collect()
        };
        self.settings == other.settings
            && segments(self) == segments(other)
            && traces(self) == traces(other)
            && annotations(self) == annotations(other)
    }
}
