//! Texts of our own making, explained as users see it.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use oomproof_snapshot::{SnapshotBuilder, write_snapshot};
use serde_json::Value;

use crate::setting::Setting;

const FULL_CARD: &str = r#"Traceback (most recent call last):
  File "/home/u/train.py", line 88, in <module>
    main()
  File "/home/u/train.py", line 61, in main
    loss.backward()
  File "/home/u/env/lib/python3.11/site-packages/torch/_tensor.py", line 626, in backward
    torch.autograd.backward(
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.54 GiB. GPU 0 has a total capacity of 23.53 GiB of which 700.00 MiB is free. Including non-PyTorch memory, this process has 22.83 GiB memory in use. Of the allocated memory 21.90 GiB is allocated by PyTorch, and 480.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.
"#;

const RANKS: &str = r#"[rank1]: Traceback (most recent call last):
[rank1]:   File "/w/train.py", line 9, in main
[rank1]:     optimizer.step()
[rank0]: Traceback (most recent call last):
[rank1]:   File "/e/site-packages/torch/optim/adamw.py", line 150, in _init_group
[rank1]:     state["exp_avg"] = torch.zeros_like(p)
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 1 has a total capacity of 79.11 GiB of which 5.00 MiB is free. Of the allocated memory 77.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved by PyTorch but unallocated.
[rank0]: torch.distributed.DistBackendError: NCCL error: ncclUnhandledCudaError: Call to CUDA function failed.
"#;

fn check(name: &str, text: &str, line: &str) {
    let setting = Setting::new();
    fs::write(setting.path("log.txt"), text).unwrap();
    insta::assert_snapshot!(name, setting.shown(line));
}

#[test]
fn messages_and_logs() {
    check("full_card", FULL_CARD, "explain log.txt");
    check("ranks", RANKS, "explain log.txt");
    check(
        "shared_memory",
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
        "explain log.txt",
    );
    check(
        "other_process",
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 15.89 GiB of which 12.00 MiB is free. Process 812 has 11.00 GiB memory in use. Process 901 has 1.50 GiB memory in use. Including non-PyTorch memory, this process has 3.30 GiB memory in use. Of the allocated memory 2.80 GiB is allocated by PyTorch, and 30.00 MiB is reserved by PyTorch but unallocated.",
        "explain log.txt",
    );
    check("nothing_known", "loss 0.31\n", "explain log.txt");
}

#[test]
fn refusals() {
    check("explain_missing", "", "explain nothing.txt");
    check("explain_nothing", "", "explain");
    let setting = Setting::new();
    fs::write(setting.path("s.zip"), b"PK\x03\x04rest").unwrap();
    insta::assert_snapshot!("explain_zip_json", setting.shown("explain s.zip --json"));
    check("explain_torch", "x", "explain log.txt --torch newest");
    check(
        "explain_no_script",
        "x",
        "explain log.txt --script nothing.py",
    );
}

#[test]
fn the_list_names_every_cause() {
    let output = Setting::new().output("explain --list --json");
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["schema"], 1);
    let causes = list["causes"].as_array().unwrap();
    let text = String::from_utf8(Setting::new().output("explain --list").stdout).unwrap();
    let page = include_str!("../../../docs/explain.md");
    for cause in causes {
        let id = cause["id"].as_str().unwrap();
        assert!(text.contains(id), "{id}");
        assert!(
            page.contains(&format!("`{id}`")),
            "docs/explain.md lacks {id}"
        );
    }
}

#[test]
fn json_from_the_standard_input() {
    let setting = Setting::new();
    let mut child = setting
        .command("explain - --json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(FULL_CARD.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["schema"], 1);
    assert_eq!(found["explained"], 0);
    assert_eq!(found["phase"], "backward");
    assert_eq!(found["figures"]["allocated_bytes"], 23_514_945_946_u64);
    assert_eq!(found["failures"][0]["where"]["line"], 61);
    assert_eq!(found["causes"][0]["id"], "too_big");
    assert_eq!(found["causes"][0]["sure"], false);
    assert!(
        found["decide_with"]
            .as_str()
            .unwrap()
            .contains("/home/u/train.py")
    );
    let page = include_str!("../../../docs/explain.md");
    for field in found.as_object().unwrap().keys() {
        assert!(
            page.contains(&format!("`{field}`")),
            "docs/explain.md lacks {field}"
        );
    }
    for remedy in found["remedies"].as_array().unwrap() {
        let id = remedy["id"].as_str().unwrap();
        assert!(
            page.contains(&format!("`{id}`")),
            "docs/explain.md lacks {id}"
        );
    }
}

#[test]
fn the_cards_of_this_machine_are_asked() {
    let overview = "echo '|   0  NVIDIA L4     Off |   00000000:01:00.0 Off |  0 |'
echo '| N/A   45C    P2   70W /  72W |   20480MiB /  23034MiB |     98%      Default |'
echo '|    0   N/A  N/A     12345      C   python serve.py       18000MiB |'";
    let setting = Setting::new().program("nvidia-smi", overview);
    let output = setting.output("explain --live --json");
    assert_eq!(output.status.code(), Some(0));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["nvidia_smi"]["processes"][0]["pid"], 12345);
    let story = found["story"].to_string();
    assert!(
        story.contains("the largest process is 12345 (python serve.py)"),
        "{story}"
    );
}

#[test]
fn without_a_card_there_is_nobody_to_ask() {
    let check = |setting: &Setting, expected: &str| {
        let output = setting.output("explain --live");
        assert_eq!(output.status.code(), Some(5));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(expected), "{said}");
    };
    let failing = Setting::new().program("nvidia-smi", "echo No devices were found; exit 6");
    check(&failing, "`nvidia-smi` failed: No devices were found");
}

#[test]
fn two_records_are_one_too_many() {
    let setting = Setting::new();
    let snapshot = write_snapshot(&SnapshotBuilder::new().finish());
    fs::write(setting.path("a.pickle"), &snapshot).unwrap();
    fs::write(setting.path("b.pickle"), &snapshot).unwrap();
    let output = setting.output("explain a.pickle --with b.pickle");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("one moment is explained at a time"), "{said}");
}

#[test]
fn a_text_is_held_against_a_snapshot() {
    let setting = Setting::new();
    fs::write(setting.path("log.txt"), FULL_CARD).unwrap();
    let snapshot = write_snapshot(&SnapshotBuilder::new().finish());
    fs::write(setting.path("a.pickle"), snapshot).unwrap();
    let output = setting.output("explain log.txt --with a.pickle --json");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["agreement"]["record"], "snapshot");
    assert_eq!(found["agreement"]["same_moment"], false);
    assert_eq!(found["figures"]["allocated_bytes"], 23_514_945_946_u64);
}

#[test]
fn a_script_is_pointed_at() {
    let setting = Setting::new();
    fs::write(setting.path("log.txt"), FULL_CARD).unwrap();
    fs::write(
        setting.path("train.py"),
        "for x in loader:\n    total_loss += loss\n",
    )
    .unwrap();
    let output = setting.output("explain log.txt --script train.py --json");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["suspects"][0]["line"], 2);
    assert_eq!(found["causes"][0]["id"], "autograd_retention");
}
