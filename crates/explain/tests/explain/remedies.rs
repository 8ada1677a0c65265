//! Every strategy that people are taught is offered where it applies, with its bytes and its code, and named as useless
//! where it cannot help.

use oomproof_explain::{Explanation, Held, HeldBy, Input, Moment, Numerics, explain};
use oomproof_units::Bytes;

use crate::texts::{Card, FULL, raised};

fn found(text: &str) -> Explanation {
    explain(&Input {
        text,
        ..Input::default()
    })
}

fn check_offered(text: &str, id: &str) {
    let found = found(text);
    let offered: Vec<&str> = found.remedies.iter().map(|remedy| remedy.id).collect();
    assert!(
        offered.contains(&id),
        "{id} is not among {offered:?} of {text}"
    );
    let ruled_out: Vec<&str> = found.useless.iter().map(|each| each.id).collect();
    assert!(!ruled_out.contains(&id), "{id} is offered and ruled out");
}

fn check_useless(text: &str, id: &str) {
    let found = found(text);
    let ruled_out: Vec<&str> = found.useless.iter().map(|each| each.id).collect();
    assert!(
        ruled_out.contains(&id),
        "{id} is not among {ruled_out:?} of {text}"
    );
    let offered: Vec<&str> = found.remedies.iter().map(|remedy| remedy.id).collect();
    assert!(!offered.contains(&id), "{id} is offered and ruled out");
}

fn backward() -> String {
    raised(
        &[("train.py", "main", "loss.backward()")],
        &FULL.second_generation(""),
    )
}

fn in_evaluation() -> String {
    raised(
        &[("train.py", "validate", "out = model(x)")],
        &FULL.second_generation(""),
    )
}

fn loading() -> String {
    raised(
        &[("train.py", "main", "model.to(device)")],
        &FULL.second_generation(""),
    )
}

fn in_notebook() -> String {
    format!(
        "OutOfMemoryError  Traceback (most recent call last)\nCell In[4], line 3\n----> 3 out = model(x)\n{}",
        FULL.second_generation("")
    )
}

/// What people are commonly taught, and a text to which it applies.
#[test]
fn every_taught_strategy_is_covered() {
    let crowded = Card { live: 9000, ..FULL };
    let by_others = crowded.second_generation("Process 4711 has 13.90 GiB memory in use. Including non-PyTorch memory, this process has 9.50 GiB memory in use. ");
    let in_pieces = Card {
        live: 12_000,
        idle: 11_000,
        ..FULL
    }
    .second_generation("");
    let climbing = raised(
        &[("train.py", "main", "loss.backward(retain_graph=True)")],
        &FULL.second_generation(""),
    );
    for (text, id) in [
        (backward(), "smaller_batch"),
        (loading(), "batches_one_by_one"),
        (in_pieces.clone(), "empty_cache_between_phases"),
        (backward(), "smaller_model"),
        (backward(), "half_precision"),
        (backward(), "gradient_checkpointing"),
        (backward(), "gradient_accumulation"),
        (backward(), "delete_variables"),
        (backward(), "memory_history"),
        (climbing.clone(), "detach_what_is_kept"),
        (in_notebook(), "restart_notebook"),
        (climbing, "resume_from_checkpoint"),
        (backward(), "larger_gpu"),
        (by_others, "end_other_processes"),
        (in_pieces, "expandable_segments"),
        (in_evaluation(), "no_grad"),
        (in_evaluation(), "outputs_to_cpu"),
        (loading(), "load_to_cpu"),
    ] {
        check_offered(&text, id);
    }
}

#[test]
fn what_cannot_help_is_named() {
    check_useless(&backward(), "empty_cache");
    check_useless(&backward(), "allocator_hint");
    check_useless(&loading(), "smaller_batch");
    check_useless(&in_evaluation(), "gradient_accumulation");
    check_useless(
        "out of resource: shared memory, Required: 140000, Hardware limit: 101376.",
        "smaller_batch",
    );
    check_useless(
        "out of resource: shared memory, Required: 140000, Hardware limit: 101376.",
        "larger_gpu",
    );
    check_useless(
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes.",
        "larger_gpu",
    );
    check_useless(
        "RuntimeError: CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA` to enable",
        "device_assertions",
    );
    check_useless(
        &Card {
            tried: 90_000,
            ..FULL
        }
        .second_generation(""),
        "allocator_hint",
    );
}

#[test]
fn the_hint_of_the_message_is_not_ruled_out_where_it_may_help() {
    let found = found(
        &Card {
            live: 12_000,
            idle: 11_000,
            ..FULL
        }
        .second_generation(""),
    );
    assert!(found.useless.iter().all(|each| each.id != "allocator_hint"));
    let remedy = &found.remedies[0];
    assert_eq!(remedy.id, "expandable_segments");
    assert_eq!(remedy.saves_bytes, Some("10.74GiB".parse().unwrap()));
}

fn check_code(text: &str, torch: &str, id: &str, code: &str) {
    let found = explain(&Input {
        text,
        torch: torch.parse().ok(),
        ..Input::default()
    });
    let remedy = found.remedies.iter().find(|remedy| remedy.id == id);
    let remedy = remedy.unwrap_or_else(|| panic!("{id} is not offered for {torch}"));
    assert!(remedy.code.contains(code), "{torch}: {}", remedy.code);
}

#[test]
fn code_is_of_the_users_release() {
    let in_pieces = Card {
        live: 12_000,
        idle: 11_000,
        ..FULL
    };
    check_code(
        &in_pieces.second_generation(""),
        "2.6",
        "expandable_segments",
        "expandable_segments:True",
    );
    check_code(
        &in_pieces.first_generation(),
        "1.13",
        "expandable_segments",
        "max_split_size_mb:128",
    );
    check_code(
        &in_pieces.first_generation(),
        "",
        "expandable_segments",
        "max_split_size_mb:128",
    );
    let hip = in_pieces
        .second_generation("")
        .replace("CUDA out of", "HIP out of");
    check_code(&hip, "2.6", "expandable_segments", "PYTORCH_HIP_ALLOC_CONF");
    check_code(
        &backward(),
        "2.6",
        "half_precision",
        "torch.autocast(\"cuda\", dtype=torch.bfloat16)",
    );
    check_code(
        &backward(),
        "1.7",
        "half_precision",
        "torch.cuda.amp.autocast()",
    );
    check_code(
        &backward(),
        "2.6",
        "gradient_checkpointing",
        "use_reentrant=False",
    );
    check_code(&in_evaluation(), "1.7", "no_grad", "torch.no_grad()");
    check_code(&in_evaluation(), "2.6", "no_grad", "torch.inference_mode()");
}

#[test]
fn a_batch_shrinks_by_what_is_missing() {
    let text = raised(
        &[("t.py", "main", "loss.backward()")],
        &Card {
            tried: 2048,
            free: 48,
            live: 20_000,
            ..FULL
        }
        .second_generation(""),
    );
    let remedy = |held: Option<&Held>| {
        let found = explain(&Input {
            text: &text,
            held,
            ..Input::default()
        });
        found
            .remedies
            .into_iter()
            .find(|remedy| remedy.id == "smaller_batch")
            .unwrap()
    };
    // 2000 of 22048 MiB are missing if all that is live shrinks, which is the least.
    let alone = remedy(None);
    assert_eq!(alone.saves_bytes, Some(Bytes::from_mib(2000)));
    assert!(alone.text.contains("by 10 % at least"), "{}", alone.text);
    assert_eq!(alone.numerics, Numerics::Changes);
    // With 5952 MiB that grow with the batch, it is 2000 of 8000.
    let held = Held {
        batch_bytes: Bytes::from_mib(5952),
        ..Held::default()
    };
    assert!(remedy(Some(&held)).code.contains("* 74 // 100"));
}

#[test]
fn a_recorded_run_names_modules_lines_and_the_moment() {
    let by = |name: &str, gib| HeldBy {
        name: name.to_owned(),
        bytes: Bytes::from_gib(gib),
    };
    let held = Held {
        model_bytes: Bytes::from_gib(4),
        gradient_bytes: Bytes::from_gib(4),
        optimizer_bytes: Bytes::from_gib(8),
        batch_bytes: Bytes::from_gib(6),
        modules: vec![by("layers.0.mlp", 2)],
        lines: vec![by("net.py:7 forward", 3)],
        phase: Some(Moment::Forward),
        ..Held::default()
    };
    let text = FULL.second_generation("");
    let found = explain(&Input {
        text: &text,
        held: Some(&held),
        ..Input::default()
    });
    assert_eq!(found.phase, Some(Moment::Forward));
    assert_eq!(found.decide_with, None);
    let remedy = |id: &str| {
        found
            .remedies
            .iter()
            .find(|remedy| remedy.id == id)
            .unwrap()
    };
    assert!(
        remedy("smaller_model")
            .text
            .contains("layers.0.mlp holds 2.00 GiB")
    );
    assert!(
        remedy("delete_variables")
            .text
            .contains("net.py:7 forward holds 3.00 GiB")
    );
    assert_eq!(
        remedy("gradient_checkpointing").saves_bytes,
        Some(Bytes::from_gib(6))
    );
    assert_eq!(
        remedy("smaller_state").saves_bytes,
        Some(Bytes::from_gib(6))
    );
    assert!(found.causes[0].evidence[1].contains("8.00 GiB state of the optimizer"));
}

#[test]
fn a_larger_gpu_has_room() {
    let found = found(&backward());
    let remedy = found
        .remedies
        .iter()
        .find(|remedy| remedy.id == "larger_gpu")
        .unwrap();
    let name = remedy.code.split_whitespace().nth(3).unwrap();
    let gpu = oomproof_gpus::find(name).unwrap();
    assert!(gpu.total > Bytes::from_mib(24_090));
    assert_eq!(
        remedy.saves_bytes,
        Some(gpu.total.saturating_sub("23.53GiB".parse().unwrap()))
    );
}
