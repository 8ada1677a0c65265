//! Requests that the driver refused and that PyTorch's allocator never heard of.

use oomproof_analysis::{Answer, AskedBy, Circumstances, Verdict};
use oomproof_units::Bytes;

use crate::notation::profile;

fn verdict(timeline: &str, exit_code: i32) -> Verdict {
    let circumstances = Circumstances {
        exit_code: Some(exit_code),
        ..Circumstances::default()
    };
    Verdict::from_profile(&profile(timeline), &circumstances).expect("settings are there")
}

/// Whether the run failed for a library's request.
fn check(timeline: &str, exit_code: i32, expected: bool) {
    let verdict = verdict(timeline, exit_code);
    let of_library = verdict
        .oom
        .as_ref()
        .is_some_and(|oom| oom.asked_by == AskedBy::Library);
    assert_eq!(of_library, expected, "{timeline}");
    assert_eq!(
        verdict.verdict == Answer::DoesNotFit,
        expected,
        "{timeline}"
    );
}

#[test]
fn the_last_refusal_of_a_script_that_failed_counts() {
    const RAISED: &str = r#"note {"kind":"exit","how":"exception","exception":{"type":"RuntimeError","text":"TEXT","file":"a.py","line":3}}"#;
    let ended_by = |text: &str| RAISED.replace("TEXT", text);
    check("alloc w 100MiB; refused 2000MiB", 134, true);
    check("refused 2000MiB", 1, true);
    check("alloc w 100MiB; refused 2000MiB", 0, false);
    check("refused 2000MiB; alloc w 100MiB", 1, false);
    check("refused 2000MiB; used 300MiB", 1, false);
    check("alloc w 100MiB", 1, false);
    check(
        &format!("refused 2000MiB; {}", ended_by("CUDA error: out of memory")),
        1,
        true,
    );
    check(
        &format!("refused 2000MiB; {}", ended_by("no such key")),
        1,
        false,
    );
}

#[test]
fn its_figures_are_those_of_the_record() {
    let oom = verdict("alloc w 100MiB; refused 2000MiB used=300MiB; free w", 134)
        .oom
        .unwrap();
    assert_eq!(oom.message, None);
    assert_eq!(oom.requested_bytes, Some(Bytes::from_mib(2000)));
    assert_eq!(oom.free_bytes, Some(Bytes::from_mib(1024 - 300)));
    assert_eq!(oom.would_have_fitted_bytes, Some(Bytes::from_mib(2300)));
    let held: Bytes = oom.held_by.values().copied().sum();
    assert_eq!(held, Bytes::from_mib(100));
    assert!(!oom.survived);
}
