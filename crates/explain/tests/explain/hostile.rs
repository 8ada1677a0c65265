//! No bytes make it fail, and no text makes it slow.

use std::time::{Duration, Instant};

use oomproof_explain::{Input, explain, suspects};
use proptest::prelude::*;

use crate::texts::FULL;

fn explained(text: &str) {
    let found = explain(&Input {
        text,
        script: Some(text),
        ..Input::default()
    });
    assert!(
        found
            .explained
            .is_none_or(|index| index < found.failures.len())
    );
    serde_json::to_string(&found).unwrap();
}

/// Pieces of real texts, so that random ones go deep.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("CUDA out of memory. ".to_owned()),
        Just("Tried to allocate ".to_owned()),
        Just("GPU 0 has a total capacity of ".to_owned()),
        Just(" is free. ".to_owned()),
        Just(" already allocated; ".to_owned()),
        Just("Process 12 has ".to_owned()),
        Just(" is allocated by PyTorch, and ".to_owned()),
        Just(" is reserved by PyTorch but unallocated.".to_owned()),
        Just("Traceback (most recent call last):\n".to_owned()),
        Just("  File \"a.py\", line 3, in f\n    loss.backward()\n".to_owned()),
        Just("[rank7]: ".to_owned()),
        Just("| 0 N/A N/A 12 C python 3MiB |\n".to_owned()),
        Just("\n".to_owned()),
        (0_u64..u64::MAX, 0_usize..5).prop_map(|(number, unit)| {
            format!("{number}.00 {}", ["bytes", "KiB", "MiB", "GiB", "GB"][unit])
        }),
        ".{0,12}",
    ]
}

proptest! {
    #[test]
    fn any_text(text in ".{0,400}") {
        explained(&text);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        explained(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_pieces(pieces in prop::collection::vec(piece(), 0..40)) {
        explained(&pieces.concat());
    }

    #[test]
    fn any_cut_of_a_text(at in 0_usize..700) {
        let text = FULL.second_generation("Process 4711 has 12.50 GiB memory in use. ");
        explained(&text[..at.min(text.len())]);
        explained(&text[at.min(text.len())..]);
    }

    #[test]
    fn any_script(script in "(loss|\\.append\\(|\\+=|total|\n| |torch.load\\(|#){0,40}") {
        suspects(&script);
    }
}

#[test]
fn long_scripts_are_read_in_time() {
    for line in [
        "x = a.to(device)\n",
        "y = model(x)\n",
        "opt = optim.A(model.parameters())\n",
        "(((((((((\n",
    ] {
        let began = Instant::now();
        suspects(&line.repeat(5_000));
        suspects(&format!(
            "for i in r:\n{}",
            format!("    {line}").repeat(5_000)
        ));
        assert!(began.elapsed() < Duration::from_secs(5), "{line}");
    }
}

#[test]
fn long_logs_are_read_in_time() {
    let message = format!(
        "{}\n",
        FULL.second_generation("Process 1 has 1.00 GiB memory in use. ")
    );
    for text in [
        message.repeat(300),
        "a".repeat(1 << 18),
        "Tried to allocate\n".repeat(3000),
    ] {
        let began = Instant::now();
        explained(&text);
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{} bytes",
            text.len()
        );
    }
}
