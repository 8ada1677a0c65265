use serde_json::Value;

use crate::setting::{Setting, TORCH};

#[test]
fn as_a_table() {
    insta::assert_snapshot!(Setting::new().shown("gpus"));
}

#[test]
fn as_json() {
    let output = Setting::new().output("gpus --json");
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["schema"], 1);
    assert_eq!(list["for"], Value::Null);
    let cards = list["gpus"].as_array().unwrap();
    assert!(cards.len() >= 20);
    for card in cards {
        assert!(card["total_bytes"].as_u64().unwrap() > 1 << 30, "{card}");
        assert!(
            card["context_bytes"]["low"].as_u64() < card["context_bytes"]["high"].as_u64(),
            "{card}"
        );
        assert_eq!(card["fit"], Value::Null);
    }
}

#[test]
fn for_a_profile_of_a_run_that_used_nothing_no_card_is_promised() {
    let setting = Setting::new().python("3,11,7", TORCH, "");
    let made = setting.output("run --gpu t4 --profile p.oomprofile train.py");
    assert_eq!(made.status.code(), Some(11));
    let output = setting.output("gpus --json --for p.oomprofile");
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    for card in list["gpus"].as_array().unwrap() {
        let capability: f64 = card["compute_capability"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        // PyTorch for CUDA 13 has no kernels for older cards.
        let expected = if capability < 7.5 { "no" } else { "unknown" };
        assert_eq!(card["fit"]["answer"], expected, "{card}");
    }
}
