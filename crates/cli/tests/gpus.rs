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

/// Where the rates of an H100 are kept.
const KEPT: &str = "home/.cache/oomproof/calibration/nvidia-h100-80gb-hbm3.json";

#[test]
fn measured_rates_that_no_card_can_have_are_refused() {
    let setting = Setting::new().python("3,11,7", TORCH, "");
    let path = setting.path(KEPT);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    for text in ["{", "{}", &" ".repeat(1 << 15)] {
        std::fs::write(&path, text).unwrap();
        let output = setting.output("run --json --gpu h100 train.py");
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let refused: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(refused["error"]["code"], "calibration");
        let hint = refused["error"]["hint"].as_str().unwrap();
        assert!(hint.starts_with("remove the file"), "{hint}");
    }
    // It is of one card, and says nothing of others.
    let other = setting.output("run --json --gpu t4 train.py");
    assert_eq!(other.status.code(), Some(11), "{other:?}");
}

#[test]
fn where_there_is_no_gpu_nothing_is_measured() {
    let setting = Setting::new().program(
        "python3",
        &format!(
            r#"case "$2" in *launch_nanos*) echo 'torch sees no GPU' >&2; exit 1;; esac
echo '{{"version":[3,11,7],"torch":{TORCH}}}'"#
        ),
    );
    let output = setting.output("gpus --calibrate");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("no GPU of this machine could be measured: torch sees no GPU\n"),
        "{said}"
    );
    assert!(said.contains("hint: run it where `nvidia-smi`"), "{said}");
    assert!(!setting.path(KEPT).parent().unwrap().exists());
}
