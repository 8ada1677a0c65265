//! What a run wrote beside its trace: begin and end of steps, `zero_grad`, compilation.

use oomproof_units::Micros;

use crate::text_table::TextId;

/// One of the `external_annotations` (torch 2.5 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// What it marks, such as `Optimizer.step#Adam.step`.
    pub name: TextId,
    /// `START` or `END`.
    pub stage: TextId,
    /// Index of the device that was current.
    pub device: u32,
    /// When.
    pub time: Option<Micros>,
}
