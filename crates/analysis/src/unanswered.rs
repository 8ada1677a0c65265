//! A request that the driver refused and that PyTorch's allocator never heard of: a library's, the context's, or one
//! after which the process was gone. A refusal alone ends nothing, because libraries ask for less when they get none,
//! so it counts only when the script failed, nothing was handed out after it, and no other error is to blame.

use oomproof_profile::{Phase, RunSettings};
use oomproof_units::Bytes;

use crate::circumstances::{Circumstances, EndedBy};
use crate::holding::{Holding, Moments};
use crate::notes::Note;
use crate::roles::Roles;
use crate::timeline::Timeline;
use crate::verdict::{AskedBy, Oom};

/// Words of errors that stand for a refused request, in small letters.
const OF_MEMORY: &[&str] = &[
    "out of memory",
    "memory allocation",
    "memoryallocation",
    "alloc_failed",
    "cannot allocate",
    "failed to allocate",
    "bad_alloc",
];

/// The refused request at which the script ended.
pub(crate) fn unanswered(
    timeline: &Timeline,
    roles: &Roles<'_>,
    circumstances: &Circumstances,
    settings: &RunSettings,
) -> Option<Oom> {
    let refused = timeline.unanswered?;
    let failed = circumstances.signal.is_some() || circumstances.exit_code != Some(0);
    if !failed || circumstances.ended_by != EndedBy::Script {
        return None;
    }
    let text = timeline.last_note("exit").and_then(raised);
    if text.as_deref().is_some_and(|text| !is_of_memory(text)) {
        return None;
    }
    let end = timeline.end;
    let phase = end.map_or(Phase::Load, |end| end.phase);
    let moment = Moments {
        device: refused.device,
        at: refused.at,
        allocated: refused.allocated,
    };
    let total = Bytes::new(settings.device.total_bytes);
    let size = Bytes::new(refused.size);
    let used = Bytes::new(refused.used);
    Some(Oom {
        asked_by: AskedBy::Library,
        message: text,
        phase,
        r#where: timeline
            .last_note("exit")
            .and_then(|exit| crate::notes::place(exit.fields.get("exception")?)),
        tried_bytes: None,
        requested_bytes: Some(size),
        free_bytes: Some(total.saturating_sub(used)),
        reserved_bytes: Some(Bytes::new(refused.reserved)),
        held_by: Holding::at(timeline, roles, moment).by_role(),
        held_by_others: Vec::new(),
        would_have_fitted_bytes: (used + size > total).then(|| used + size),
        survived: false,
        step: end.map_or(0, |end| end.step),
        module: None,
    })
}

/// The error that ended the script, in the words of a traceback's last line.
fn raised(exit: &Note) -> Option<String> {
    let exception = exit.fields.get("exception")?;
    let word = |name: &str| exception.get(name)?.as_str();
    Some(format!("{}: {}", word("type")?, word("text")?))
}

fn is_of_memory(text: &str) -> bool {
    let text = text.to_lowercase();
    OF_MEMORY.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: bool) {
        assert_eq!(is_of_memory(text), expected, "{text}");
    }

    #[test]
    fn errors_of_memory_are_known_by_their_words() {
        check("RuntimeError: CUDA error: out of memory", true);
        check(
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            true,
        );
        check(
            "MemoryError: std::bad_alloc: cudaErrorMemoryAllocation: out of memory",
            true,
        );
        check("KeyError: 'labels'", false);
        check("", false);
    }
}
