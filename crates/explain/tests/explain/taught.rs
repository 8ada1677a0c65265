//! What holds of every answer: nothing is offered and ruled out at once, and commands are those of the user.

use oomproof_explain::{Backend, Explanation, Input, explain};

use crate::texts::{Card, FULL, raised};

const SCRIPTS: &[Option<&str>] = &[
    None,
    Some("total = 0\nfor x in loader:\n    loss = model(x)\n    total += loss\n"),
    Some(
        "data = torch.randn(90000, 3, 64, 64).to(\"cuda\")\nfor i in order:\n    model(data[i:i + 32])\n",
    ),
];

/// Lines of source, each of another moment.
const LINES: &[&str] = &[
    "out = model(x)",
    "loss.backward()",
    "optimizer.step()",
    "model.to(device)",
    "torch.save(state, path)",
    "out = model.generate(x)",
    "state = torch.load(path)",
    "loss.backward(retain_graph=True)",
];

/// Failures without a traceback, of every device.
fn messages() -> Vec<String> {
    let in_pieces = Card {
        live: 12_000,
        idle: 11_000,
        ..FULL
    };
    let huge = Card {
        tried: 90_000,
        ..FULL
    };
    let mut messages = Vec::new();
    for card in [FULL, in_pieces, huge] {
        let text = card.second_generation("");
        messages.push(text.replace("CUDA out", "HIP out"));
        messages.push(text.replace("CUDA out", "XPU out"));
        messages.push(card.first_generation());
        messages.push(card.first_generation().replace("CUDA", "NPU"));
        messages.push(text);
    }
    messages.push("RuntimeError: MPS backend out of memory (MPS allocated: 17.98 GB, other allocations: 1.20 MB, max allowed: 18.13 GB). Tried to allocate 256.00 MB on private pool.".into());
    messages.push(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory."
            .into(),
    );
    messages.push(
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes.".into(),
    );
    messages
        .push("out of resource: shared memory, Required: 140000, Hardware limit: 101376.".into());
    messages.push("RuntimeError: CUDA error: out of memory".into());
    messages
}

/// Each message at each moment, with each script.
fn each(mut check: impl FnMut(&str, &Explanation)) {
    for message in messages() {
        for line in LINES {
            for function in ["train", "validate"] {
                let text = raised(&[("my.py", function, line)], &message);
                for script in SCRIPTS {
                    let found = explain(&Input {
                        text: &text,
                        script: *script,
                        script_path: script.map(|_| "runs/leak.py"),
                        ..Input::default()
                    });
                    check(&text, &found);
                }
            }
        }
    }
}

#[test]
fn nothing_is_offered_and_ruled_out_at_once() {
    let mut both_lists = 0;
    each(|text, found| {
        for ruled_out in &found.useless {
            assert!(
                found
                    .remedies
                    .iter()
                    .all(|remedy| remedy.id != ruled_out.id),
                "{} is offered and ruled out: {text}",
                ruled_out.id
            );
        }
        both_lists += usize::from(!found.useless.is_empty() && !found.remedies.is_empty());
    });
    assert!(both_lists > 100, "{both_lists}");
}

#[test]
fn commands_name_the_user_s_script() {
    let mut named = 0;
    each(|text, found| {
        let codes = found.remedies.iter().map(|remedy| &remedy.code);
        for command in codes.chain(&found.decide_with) {
            assert!(!command.contains("SCRIPT"), "{command}: {text}");
            named += usize::from(command.contains("runs/leak.py"));
        }
    });
    assert!(named > 100, "{named}");
}

#[test]
fn a_text_without_a_failure_is_answered_with_the_script_that_was_named() {
    let found = explain(&Input {
        text: "it hangs",
        script_path: Some("leak.py"),
        ..Input::default()
    });
    assert_eq!(
        found.decide_with.as_deref(),
        Some("oomproof run --gpu GPU leak.py")
    );
}

/// Words that mean nothing on a device.
fn foreign(backend: Backend) -> &'static [&'static str] {
    const OTHERS: &[&str] = &[
        "\"cuda\"",
        "torch.cuda",
        "CUDA_",
        "nvidia-smi",
        "bitsandbytes",
        "BitsAndBytes",
        "oomproof run",
        "Ampere",
        "NCCL_",
    ];
    match backend {
        Backend::Hip => &["nvidia-smi", "CUDA_", "Ampere", "compute-sanitizer"],
        Backend::Mps | Backend::Xpu | Backend::Npu => OTHERS,
        Backend::Cuda | Backend::Other | Backend::Host => &[],
    }
}

#[test]
fn remedies_are_in_the_words_of_the_device() {
    let mut seen = Vec::new();
    each(|text, found| {
        let backend = found.failures[0].backend;
        for remedy in &found.remedies {
            for word in foreign(backend) {
                assert!(
                    !remedy.code.contains(word),
                    "{} says {word} of {text}: {}",
                    remedy.id,
                    remedy.code
                );
            }
        }
        let own = match backend {
            Backend::Mps => "torch.autocast(\"mps\"",
            Backend::Xpu => "torch.autocast(\"xpu\"",
            Backend::Npu => "torch.autocast(\"npu\"",
            _ => return,
        };
        if found
            .remedies
            .iter()
            .any(|remedy| remedy.code.contains(own))
        {
            seen.push(own);
        }
    });
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 3, "{seen:?}");
}
