//! The verdict as an exit code, which is all that a CI job reads.

use crate::circumstances::{Circumstances, EndedBy, Strictness};
use crate::verdict::{Answer, ReasonKind, Verdict};

impl Verdict {
    /// The documented exit code of `oomproof run`: 0 fits or tight, 3 the script failed by itself, 10 does not fit (when
    /// strict also tight), 11 unknown, 130 interrupted.
    pub fn exit_code(&self, circumstances: &Circumstances) -> u8 {
        let failed = |reason: &crate::Reason| {
            matches!(reason.kind, ReasonKind::ScriptFailed | ReasonKind::Signal)
        };
        match (self.verdict, circumstances.strictness) {
            _ if circumstances.ended_by == EndedBy::Interrupt => 130,
            (Answer::Fits, _) | (Answer::Tight, Strictness::Lenient) => 0,
            (Answer::DoesNotFit, _) | (Answer::Tight, Strictness::Strict) => 10,
            (Answer::Unknown, _) if self.reasons.iter().any(failed) => 3,
            (Answer::Unknown, _) => 11,
        }
    }
}
