use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::setting::{Setting, TORCH};

fn verdict(body: &str, line: &str, code: i32) -> Value {
    let setting = Setting::new().python("3,11,7", TORCH, body);
    let output = setting.output(line);
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{talk}");
    assert_eq!(fs::read_dir(setting.path("tmp")).unwrap().count(), 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn check(body: &str, code: i32, script: [Option<i64>; 2], reason: &str) {
    let verdict = verdict(body, "run --json --gpu t4 --timeout 1s train.py", code);
    assert_eq!(verdict["verdict"], "unknown", "{body}");
    let found = ["exit_code", "signal"].map(|field| verdict["script"][field].as_i64());
    assert_eq!(found, script, "{body}");
    let reasons = verdict["reasons"].to_string();
    assert!(reasons.contains(reason), "{body}: {reasons}");
}

#[test]
fn the_script_ends_by_itself() {
    check("exit 0", 11, [Some(0), None], "device_unused");
    check("exit 7", 3, [Some(7), None], "exit code 7");
    check("kill -SEGV $$", 3, [None, Some(11)], "signal 11");
    check("kill -KILL $$", 3, [None, Some(9)], "signal 9");
}

#[test]
fn the_clock_ends_the_script() {
    check(
        "exec sleep 60",
        11,
        [None, Some(15)],
        "waiting for the first training step",
    );
}

#[test]
fn a_script_that_ignores_the_clock_is_killed() {
    let begun = Instant::now();
    check(
        "trap '' TERM; while :; do sleep 0.1; done",
        11,
        [None, Some(9)],
        "time ran out",
    );
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn both_streams_of_the_script_are_talk() {
    let setting = Setting::new().python("3,11,7", TORCH, "echo one; echo two >&2; echo three");
    let output = setting.output("run --gpu t4 train.py");
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(talk.contains("one\ntwo\nthree\n"), "{talk}");
    assert!(output.stdout.starts_with(b"unknown"));
}

#[test]
fn the_script_reads_our_standard_input() {
    let setting = Setting::new().python("3,11,7", TORCH, "read line; echo got $line");
    fs::write(setting.path("input"), "something\n").unwrap();
    let mut command = setting.command("run --gpu t4 train.py");
    command.stdin(fs::File::open(setting.path("input")).unwrap());
    let talk = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(talk.contains("got something"), "{talk}");
}

#[test]
fn no_orphan_outlives_the_run() {
    let body = "sh -c 'trap \"\" TERM HUP; echo $$ >orphan; while :; do sleep 0.1; done' &\n\
                while [ ! -s orphan ]; do sleep 0.05; done";
    let setting = Setting::new().python("3,11,7", TORCH, body);
    assert_eq!(
        setting.output("run --gpu t4 train.py").status.code(),
        Some(11)
    );
    let orphan = fs::read_to_string(setting.path("orphan")).unwrap();
    let orphan = Pid::from_raw(orphan.trim().parse().unwrap()).unwrap();
    assert!(test_kill_process(orphan).is_err(), "the worker still runs");
}

#[test]
fn an_interrupt_leaves_a_verdict() {
    let setting = Setting::new().python(
        "3,11,7",
        TORCH,
        "trap 'exit 1' INT; echo >ready; while :; do sleep 0.05; done",
    );
    let mut command = setting.command("run --json --gpu t4 train.py");
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !fs::exists(setting.path("ready")).unwrap() {
        sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(verdict["reasons"].to_string().contains("interrupted"));
}

#[test]
fn the_script_gets_the_environment_of_the_contract() {
    let body = "echo \"$PYTHONPATH\"; cat \"$OOMPROOF_RUN\"";
    let setting = Setting::new().python("3,11,7", TORCH, body);
    let mut command = setting
        .command("run --memory 16g --steps 3 --real-init --no-labels --timeout 2m train.py a");
    command.env("PYTHONPATH", "/theirs");
    let talk = String::from_utf8(command.output().unwrap().stderr).unwrap();
    let agent = setting.path("resources/agent");
    assert!(
        talk.contains(&format!("{}:/theirs\n", agent.display())),
        "{talk}"
    );
    let settings: Value = serde_json::from_str(&talk[talk.find('{').unwrap()..]).unwrap();
    assert_eq!(settings["device"]["total_bytes"], 16_u64 << 30);
    assert_eq!(settings["steps"], 3);
    assert_eq!(settings["timeout_secs"], 120);
    assert_eq!(settings["real_init"], true);
    assert_eq!(settings["labels"], false);
    assert_eq!(settings["allow_writes"], false);
    assert_eq!(settings["cuda_version"], 13_020);
    let command = settings["command"].as_array().unwrap();
    assert_eq!(command[1..], ["train.py", "a"]);
    for folder in ["run_dir", "scratch"] {
        assert!(
            settings[folder].as_str().unwrap().starts_with('/'),
            "{folder}"
        );
    }
}

#[test]
fn what_the_agent_could_not_do_is_said_once() {
    let body = "folder=$(sed -n 's/.*\"run_dir\": \"\\(.*\\)\".*/\\1/p' \"$OOMPROOF_RUN\")\n\
                printf 'no device\\nhint: reinstall\\n' | tee \"$folder/$$.failure\" >&2\n\
                exit 5";
    let setting = Setting::new().python("3,11,7", TORCH, body);
    insta::assert_snapshot!(setting.shown("run --json --gpu t4 train.py"));
}

#[test]
fn the_clock_repeats_what_the_agent_was_waiting_for() {
    let setting = Setting::new().python("3,11,7", TORCH, "exit 0");
    let made = setting.output("run --gpu t4 --profile made.oomprofile train.py");
    assert_eq!(made.status.code(), Some(11));
    let mut profile = fs::read(setting.path("made.oomprofile")).unwrap();
    let json = r#"{"kind":"exit","signal":15,"waiting_for":"the 3rd epoch"}"#.to_owned();
    oomproof_profile::encode(
        &oomproof_profile::Record::Note { nanos: 1, json },
        &mut profile,
    );
    oomproof_profile::layout::set_committed(&mut profile);
    fs::write(setting.path("made.oomprofile"), profile).unwrap();
    let body = "folder=$(sed -n 's/.*\"run_dir\": \"\\(.*\\)\".*/\\1/p' \"$OOMPROOF_RUN\")\n\
                cp made.oomprofile \"$folder/$$.oomprofile\"; exec sleep 60";
    let setting = setting.python("3,11,7", TORCH, body);
    let output = setting.output("run --json --gpu t4 --timeout 1s train.py");
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        verdict["reasons"]
            .to_string()
            .contains("waiting for the 3rd epoch"),
        "{verdict}"
    );
}
