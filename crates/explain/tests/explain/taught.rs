//! What holds of every answer: nothing is offered and ruled out at once, and commands are those of the user and of
//! the device. And what each strategy that people are taught tells of the case at hand.

use std::sync::LazyLock;

use oomproof_explain::{Backend, Explanation, Held, HeldBy, Input, Moment, explain};
use oomproof_units::Bytes;

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

/// Each message at each moment, with each script, and its answer; all that holds of them is asked of the same ones.
static ANSWERS: LazyLock<Vec<(String, Explanation)>> = LazyLock::new(|| {
    let mut answers = Vec::new();
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
                    answers.push((text.clone(), found));
                }
            }
        }
    }
    answers
});

fn each(mut check: impl FnMut(&str, &Explanation)) {
    for (text, found) in ANSWERS.iter() {
        check(text, found);
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

/// What a strategy is read from.
#[derive(Default)]
struct Given<'a> {
    text: String,
    script: Option<&'a str>,
    held: Option<Held>,
}

/// The remedy stands in the answer, and says each of these words in its text or its code.
fn check_taught(given: &Given<'_>, id: &str, saves: Option<&str>, words: &[&str]) {
    let found = explain(&Input {
        text: &given.text,
        script: given.script,
        script_path: given.script.map(|_| "my.py"),
        held: given.held.as_ref(),
        ..Input::default()
    });
    let ids: Vec<&str> = found.remedies.iter().map(|remedy| remedy.id).collect();
    let Some(remedy) = found.remedies.iter().find(|remedy| remedy.id == id) else {
        panic!("{id} is not among {ids:?} of {}", given.text);
    };
    let said = format!("{}\n{}", remedy.text, remedy.code);
    for word in words {
        assert!(said.contains(word), "{id} does not say `{word}`: {said}");
    }
    if let Some(saves) = saves {
        let told = remedy.saves_bytes.map(|bytes| bytes.to_string());
        assert_eq!(told.as_deref(), Some(saves), "{id}: {said}");
    }
}

/// A text alone.
fn told(text: String) -> Given<'static> {
    Given {
        text,
        ..Given::default()
    }
}

/// A text of a failure in this line.
fn at(function: &str, line: &str) -> Given<'static> {
    told(raised(
        &[("my.py", function, line)],
        &FULL.second_generation(""),
    ))
}

fn with_script(line: &str, script: &'static str) -> Given<'static> {
    Given {
        script: Some(script),
        ..at("main", line)
    }
}

fn recorded() -> Given<'static> {
    let by = |name: &str, mib| HeldBy {
        name: name.to_owned(),
        bytes: Bytes::from_mib(mib),
    };
    Given {
        held: Some(Held {
            model_bytes: Bytes::from_mib(3000),
            gradient_bytes: Bytes::from_mib(3000),
            optimizer_bytes: Bytes::from_mib(6000),
            batch_bytes: Bytes::from_mib(10_900),
            modules: vec![by("decoder.head", 2048)],
            lines: vec![by("my.py:21 forward", 5120)],
            phase: Some(Moment::Forward),
            ..Held::default()
        }),
        ..at("main", "out = model(x)")
    }
}

const SUMS: &str = "total = 0\nfor x in loader:\n    loss = model(x)\n    total += loss\n";
const OUTPUTS: &str = "outs = []\nfor x in loader:\n    out = model(x)\n    outs.append(out)\n";
const WHOLE: &str = "data = torch.randn(90000, 3, 64, 64).to(\"cuda\")\nmodel = Net().to(\"cuda\")\nfor i in order:\n    model(data[i:i + 32])\n";
const WHOLE_SET: &str = "device = \"cuda\"\ndataset = load()\ndataset = dataset.to(device)\nfor i in order:\n    model(dataset[i])\n";

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn each_taught_strategy_tells_what_it_means_here() {
    let notebook = told(format!(
        "OutOfMemoryError  Traceback (most recent call last)\nCell In[4], line 3\n----> 3 out = model(x)\n{}",
        FULL.second_generation("")
    ));
    let crowded = Card { live: 9000, ..FULL };
    let in_pieces = Card {
        live: 12_000,
        idle: 11_000,
        ..FULL
    };
    let by_others = told(crowded.second_generation("Process 4711 has 13.00 GiB memory in use. Including non-PyTorch memory, this process has 9.50 GiB memory in use. "));
    let backward = || at("main", "loss.backward()");
    for (given, id, saves, words) in [
        (
            backward(),
            "smaller_batch",
            Some("392.00 MiB"),
            &["392.00 MiB", "by 2 %"] as &[&str],
        ),
        (
            recorded(),
            "smaller_batch",
            Some("392.00 MiB"),
            &["by 4 %", "* 96 // 100"],
        ),
        (
            with_script("out = model(x)", WHOLE),
            "batches_one_by_one",
            None,
            &["line 1", "torch.randn(90000", "x.to(\"cuda\""],
        ),
        (
            with_script("out = model(x)", WHOLE_SET),
            "batches_one_by_one",
            None,
            &["line 3", "dataset.to(device)"],
        ),
        (
            with_script("dataset = dataset.to(device)", WHOLE_SET),
            "batches_one_by_one",
            None,
            &["line 3"],
        ),
        (
            told(in_pieces.second_generation("")),
            "empty_cache_between_phases",
            Some("10.74 GiB"),
            &["empty_cache()", "at the end of a phase"],
        ),
        (
            recorded(),
            "smaller_model",
            Some("392.00 MiB"),
            &["decoder.head holds 2.00 GiB", "my.py"],
        ),
        (
            backward(),
            "half_precision",
            Some("11.18 GiB"),
            &["autocast"],
        ),
        (
            recorded(),
            "half_precision",
            Some("5.32 GiB"),
            &["autocast"],
        ),
        (
            recorded(),
            "gradient_checkpointing",
            Some("10.64 GiB"),
            &["use_reentrant=False"],
        ),
        (
            backward(),
            "gradient_accumulation",
            Some("392.00 MiB"),
            &["in 2 parts", ".chunk(2)"],
        ),
        (
            recorded(),
            "delete_variables",
            None,
            &["my.py:21 forward holds 5.00 GiB", "del "],
        ),
        (
            with_script("loss.backward()", SUMS),
            "delete_variables",
            None,
            &["line 4", "total += loss", "del "],
        ),
        (
            with_script("out = model(x)", OUTPUTS),
            "delete_variables",
            None,
            &["line 4", "outs.append(out)"],
        ),
        (
            with_script("loss.backward()", SUMS),
            "detach_what_is_kept",
            None,
            &["line 4", "total += loss"],
        ),
        (
            with_script("loss.backward()", SUMS),
            "resume_from_checkpoint",
            None,
            &["torch.save", "load_state_dict"],
        ),
        (
            with_script("loss.backward()", SUMS),
            "memory_history",
            Some("0 bytes"),
            &["memory_summary()", "allocated 22.36 GiB"],
        ),
        (
            notebook,
            "restart_notebook",
            Some("22.36 GiB"),
            &["Kernel > Restart"],
        ),
        (
            backward(),
            "larger_gpu",
            None,
            &["rtx-5090 leaves", "GiB free", "oomproof run --gpu", "my.py"],
        ),
        (
            by_others,
            "end_other_processes",
            Some("13.00 GiB"),
            &["13.00 GiB", "kill 4711"],
        ),
    ] {
        check_taught(&given, id, saves, words);
    }
}
