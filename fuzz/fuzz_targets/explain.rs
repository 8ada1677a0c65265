//! Any bytes as an out-of-memory text and as a script: an answer comes, and what it points at is there.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oomproof_explain::{Input, explain};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let found = explain(&Input {
        text: &text,
        script: Some(&text),
        ..Input::default()
    });
    assert!(found.explained.is_none_or(|index| index < found.failures.len()));
    let n_sure = found.causes.iter().filter(|cause| cause.sure).count();
    assert!(n_sure <= 1);
    for suspect in &found.suspects {
        assert!((suspect.line as usize) <= text.lines().count());
    }
});
