//! The whole model, and what it means for two snapshots to be equal.

use crate::annotation::Annotation;
use crate::origin::Origin;
use crate::segment::Segments;
use crate::settings::RecordedSettings;
use crate::stack_table::Stacks;
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
