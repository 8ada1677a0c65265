use serde_json::{Value, json};

use super::*;
use crate::facts::Facts;
use crate::lever::{Framework, Script};
use crate::torch_version::TorchVersion;

const V2_15: TorchVersion = TorchVersion::new(2, 15);

#[test]
fn each_row_is_where_its_name_is() {
    for name in LeverName::ALL {
        assert_eq!(find(name).name, name);
    }
}

#[test]
fn conflicts_hold_both_ways_and_have_a_reason() {
    for lever in LEVERS {
        for (other, reason) in lever.conflicts {
            assert_ne!(*other, lever.name);
            assert!(excludes(*other, lever.name).is_some());
            assert!(excludes(lever.name, *other).is_some() && !reason.is_empty());
        }
    }
}

/// What a lever offers for a script with these facts, or why nothing.
fn check(name: LeverName, facts: &Value, torch: TorchVersion, expected: Result<Value, &str>) {
    let facts = Facts::from_json(&facts.to_string()).expect("facts");
    let script = Script {
        facts: &facts,
        torch: Some(torch),
    };
    let lever = find(name);
    let found = (lever.check)(&script).map(|()| json!((lever.options)(&script)));
    assert_eq!(found, expected.map_err(str::to_owned), "{name} {facts:?}");
    for parameters in found.iter().flat_map(|_| (lever.options)(&script)) {
        let used = LeverUse { name, parameters };
        assert_eq!(validate(&used), Ok(()), "{used:?}");
        assert!(!describe(&used).is_empty());
    }
}

fn adamw(implementation: &str) -> Value {
    json!({"optimizer": [{"class": "torch.optim.adamw.AdamW", "implementation": implementation,
        "state_bytes": 8, "parameter_bytes": 4}], "clips": false, "scaler": false})
}

#[test]
fn optimizers() {
    use LeverName::OptimizerImplementation as Lever;
    let offered = |words: &[&str]| {
        let each = words.iter().map(|word| json!({"implementation": word}));
        Ok(each.collect())
    };
    check(
        Lever,
        &adamw("foreach"),
        V2_15,
        offered(&["fused", "forloop"]),
    );
    check(Lever, &adamw("forloop"), V2_15, offered(&["fused"]));
    check(
        Lever,
        &adamw("fused"),
        V2_15,
        Err("the optimizer's step has no other implementation"),
    );
    check(Lever, &json!({}), V2_15, Err("no optimizer was seen"));
    let other = json!({"optimizer": [{"class": "bitsandbytes.optim.Adam8bit"}]});
    check(
        Lever,
        &other,
        V2_15,
        Err("the optimizer is not one of torch's"),
    );
    let sgd = json!({"optimizer": [{"class": "torch.optim.sgd.SGD", "implementation": "foreach"}]});
    check(Lever, &sgd, TorchVersion::new(2, 2), offered(&["forloop"]));
    check(Lever, &sgd, V2_15, offered(&["fused", "forloop"]));
}

#[test]
fn pieces_of_batches() {
    use LeverName::MicroBatch as Lever;
    let offered = |counts: &[u64]| {
        Ok(counts
            .iter()
            .map(|count| json!({"chunks": count}))
            .collect())
    };
    let of = |batch: u64, source: &str| json!({"batch": batch, "batch_source": source});
    check(Lever, &of(8, "loader"), V2_15, offered(&[2, 3, 4, 8]));
    check(Lever, &of(6, "trainer"), V2_15, offered(&[2, 3, 6]));
    check(
        Lever,
        &of(1, "loader"),
        V2_15,
        Err("the batch is one sample"),
    );
    check(
        Lever,
        &json!({}),
        V2_15,
        Err("the size of the batch was not seen"),
    );
    check(
        Lever,
        &of(8, "forward"),
        V2_15,
        Err("no loader was seen that cuts the data into batches"),
    );
    check(Lever, &of(6, "lightning"), V2_15, offered(&[2, 3, 6]));
    let mut facts = of(8, "loader");
    facts["batchnorm"] = json!(true);
    check(
        Lever,
        &facts,
        V2_15,
        Err("batch normalization would see smaller batches"),
    );
    let mut facts = of(8, "loader");
    facts["loss"] = json!({"kind": "cross_entropy", "rows": 8, "classes": 8});
    check(
        Lever,
        &facts,
        V2_15,
        Err("the loss compares the samples of a batch with each other"),
    );
}

#[test]
fn pieces_of_a_batch() {
    let check = |batch: u64, expected: &[u64]| {
        let found: Vec<u64> = super::micro_batch::piece_counts(batch).collect();
        assert_eq!(found, expected, "{batch}");
    };
    check(1, &[]);
    check(6, &[2, 3, 6]);
    check(20, &[2, 3, 4, 5, 7, 10, 20]);
    check(40, &[2, 3, 4, 5, 6, 7, 8, 10, 14, 32, 40]);
    check(
        1000,
        &[
            2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32, 64, 128, 256,
        ],
    );
}

#[test]
fn loops_without_a_loader() {
    use LeverName::SplitForward as Lever;
    let of = |batch: u64, source: &str| json!({"batch": batch, "batch_source": source});
    let offered = Ok(json!([{"chunks": 2}, {"chunks": 4}]));
    check(Lever, &of(4, "forward"), V2_15, offered);
    check(
        Lever,
        &of(4, "loader"),
        V2_15,
        Err("`micro-batch` does the same without computing anything twice"),
    );
    // `micro-batch` may refuse the loops of frameworks.
    let mut facts = of(4, "loader");
    facts["frameworks"] = json!(["transformers.Trainer"]);
    let offered = Ok(json!([{"chunks": 2}, {"chunks": 4}]));
    check(Lever, &facts, V2_15, offered);
    let mut facts = of(4, "forward");
    facts["loss"] = json!({"kind": "cross_entropy", "rows": 4, "classes": 4});
    let compares = "the loss compares the samples of a batch with each other";
    check(Lever, &facts, V2_15, Err(compares));
}

/// How far results stay the same under this lever, and whether there is a reason of random numbers.
fn check_numerics(name: LeverName, facts: &Value, expected: (Numerics, bool)) {
    let facts = Facts::from_json(&facts.to_string()).expect("facts");
    let levers = [LeverUse::new(name, [])];
    let reason = numerics_reason(&levers, &facts);
    let found = (numerics(&levers, &facts), reason.is_some());
    assert_eq!(found, expected, "{name} {facts:?}: {reason:?}");
}

#[test]
fn other_random_numbers_are_more_than_rounding() {
    use LeverName::{ActivationCheckpointing, Autocast, MicroBatch, SplitForward};
    let draws = |forward: Value, body: Value| json!({"forward_draws": forward, "loop_draws": body});
    let dropout = draws(json!(true), json!(true));
    check_numerics(MicroBatch, &dropout, (Numerics::Redrawn, true));
    check_numerics(SplitForward, &dropout, (Numerics::Redrawn, true));
    check_numerics(ActivationCheckpointing, &dropout, (Numerics::None, false));
    check_numerics(Autocast, &dropout, (Numerics::Changes, false));
    let noise = draws(json!(false), json!(true));
    check_numerics(MicroBatch, &noise, (Numerics::Redrawn, true));
    check_numerics(SplitForward, &noise, (Numerics::Rounding, false));
    let nothing = draws(json!(false), json!(false));
    check_numerics(MicroBatch, &nothing, (Numerics::Rounding, false));
    let half_seen = draws(json!(false), json!(null));
    check_numerics(MicroBatch, &half_seen, (Numerics::Redrawn, true));
    check_numerics(SplitForward, &json!({}), (Numerics::Redrawn, true));
}

#[test]
fn a_goal_of_rounding_allows_no_other_random_numbers() {
    use crate::goal::Goal;
    use crate::lattice::is_allowed;
    let drawing = Facts {
        forward_draws: Some(true),
        loop_draws: Some(true),
        ..Facts::default()
    };
    let still = Facts {
        forward_draws: Some(false),
        loop_draws: Some(false),
        ..Facts::default()
    };
    let lever = find(LeverName::MicroBatch);
    let goal = Goal::fit_into(oomproof_units::Bytes::from_gib(1));
    assert!(is_allowed(lever, &drawing, &goal) && is_allowed(lever, &still, &goal));
    let goal = Goal {
        numerics: Numerics::Rounding,
        ..goal
    };
    assert!(!is_allowed(lever, &drawing, &goal) && is_allowed(lever, &still, &goal));
}

#[test]
fn losses() {
    use LeverName::ChunkedLoss as Lever;
    let facts =
        json!({"loss": {"kind": "cross_entropy", "rows": 200, "classes": 1000, "linear": "head"}});
    check(
        Lever,
        &facts,
        V2_15,
        Ok(
            json!([{"chunks": 4, "linear": "head"}, {"chunks": 8, "linear": "head"},
            {"chunks": 16, "linear": "head"}]),
        ),
    );
    check(
        Lever,
        &json!({}),
        V2_15,
        Err("no loss over classes was seen"),
    );
    let facts = json!({"loss": {"kind": "cross_entropy", "rows": 200}});
    check(
        Lever,
        &facts,
        V2_15,
        Err("the scores do not come straight from a linear layer"),
    );
}

#[test]
fn what_needs_all_gradients_excludes_updates_in_backward() {
    use LeverName::OptimizerInBackward as Lever;
    check(Lever, &adamw("foreach"), V2_15, Ok(json!([{}])));
    let mut facts = adamw("foreach");
    facts["clips"] = json!(true);
    let clipped = "gradients are clipped by the norm of all, or that was not seen";
    check(Lever, &facts, V2_15, Err(clipped));
    check(Lever, &json!({}), V2_15, Err(clipped));
}

#[test]
fn evaluation() {
    use LeverName::{EvaluationBatch, InferenceEvaluation};
    let facts = json!({"evaluation": {"grad_enabled": true, "batch": 8},
        "points": {"evaluation_peak": 9, "step_peak": 5}});
    check(InferenceEvaluation, &facts, V2_15, Ok(json!([{}])));
    check(
        EvaluationBatch,
        &facts,
        V2_15,
        Ok(json!([{"size": 4}, {"size": 2}, {"size": 1}])),
    );
    let facts = json!({"evaluation": {"grad_enabled": false, "batch": 8},
        "points": {"evaluation_peak": 4, "step_peak": 5}});
    check(
        InferenceEvaluation,
        &facts,
        V2_15,
        Err("evaluation keeps nothing for a backward pass"),
    );
    check(EvaluationBatch, &facts, V2_15, Ok(json!([])));
}

/// What a person would write for a lever has this in it; nothing where there is no code.
fn check_code(used: &LeverUse, framework: Framework, torch: (u16, u16), expected: &str) {
    let facts = Facts::default();
    let writing = Writing {
        framework,
        torch: Some(TorchVersion::new(torch.0, torch.1)),
        facts: &facts,
    };
    let found = code(used, &writing).unwrap_or_default();
    let has = found.contains(expected) && expected.is_empty() == found.is_empty();
    assert!(has, "{used:?}: {found} has no {expected}");
}

#[test]
fn code_is_right_for_the_release_and_the_framework() {
    use Framework::{Accelerate, Lightning, Plain, Trainer};
    let cast = LeverUse::new(LeverName::Autocast, [("dtype", json!("bfloat16"))]);
    check_code(
        &cast,
        Plain,
        (2, 15),
        "torch.amp.autocast(\"cuda\", dtype=torch.bfloat16)",
    );
    check_code(
        &cast,
        Plain,
        (2, 3),
        "torch.cuda.amp.autocast(dtype=torch.bfloat16)",
    );
    check_code(&cast, Trainer, (2, 15), "bf16=True");
    check_code(&cast, Lightning, (2, 15), "precision=\"bf16-mixed\"");
    let loss = LeverUse::new(LeverName::ChunkedLoss, [("chunks", json!(4))]);
    check_code(&loss, Plain, (2, 15), "linear_cross_entropy");
    check_code(&loss, Plain, (2, 14), "checkpoint(piece");
    let fused = LeverUse::new(
        LeverName::OptimizerImplementation,
        [("implementation", json!("fused"))],
    );
    check_code(
        &fused,
        Plain,
        (2, 15),
        "torch.optim.AdamW(model.parameters(), ..., fused=True)",
    );
    check_code(&fused, Trainer, (2, 15), "optim=\"adamw_torch_fused\"");
    let pieces = LeverUse::new(LeverName::MicroBatch, [("chunks", json!(4))]);
    check_code(
        &pieces,
        Accelerate,
        (2, 15),
        "gradient_accumulation_steps=4",
    );
    check_code(&pieces, Lightning, (2, 15), "accumulate_grad_batches=4");
    let conf = LeverUse::new(
        LeverName::AllocatorSettings,
        [("conf", json!("expandable_segments:True"))],
    );
    check_code(&conf, Plain, (2, 15), "\"PYTORCH_ALLOC_CONF\"");
    check_code(&conf, Plain, (2, 4), "\"PYTORCH_CUDA_ALLOC_CONF\"");
    let again = LeverUse::new(
        LeverName::ActivationCheckpointing,
        [
            ("modules", json!(["blocks.0"])),
            ("policy", json!("keep-matmul")),
        ],
    );
    check_code(
        &again,
        Plain,
        (2, 15),
        "create_selective_checkpoint_contexts",
    );
    check_code(
        &LeverUse::new(LeverName::LargerCard, []),
        Plain,
        (2, 15),
        "",
    );
}
