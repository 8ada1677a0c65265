use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::setting::{Setting, TORCH};

/// Both streams and the code of a call that is refused; nothing may be left behind.
fn check(name: &str, setting: &Setting, line: &str) {
    insta::assert_snapshot!(name, setting.shown(line));
    let left = fs::read_dir(setting.path("tmp")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "{name} leaves files");
}

#[test]
fn wrong_command_lines() {
    let setting = Setting::new().python("3,11,7", TORCH, "");
    check("no_command", &setting, "");
    check("unknown_command", &setting, "runn train.py");
    check("unknown_option", &setting, "run --gpux t4 train.py");
    check("no_script", &setting, "run --gpu t4");
    check("no_module", &setting, "run --gpu t4 -m");
    check("script_missing", &setting, "run --gpu t4 trian.py");
    check(
        "script_missing_json",
        &setting,
        "run --gpu t4 --json trian.py",
    );
    check("no_gpu", &setting, "run train.py");
    check("unknown_gpu", &setting, "run --gpu rtx-4900 train.py");
    check(
        "unknown_gpu_json",
        &setting,
        "run --json --gpu nothing-like-it train.py",
    );
    check("memory_zero", &setting, "run --memory 0 train.py");
    check("memory_nonsense", &setting, "run --memory lots train.py");
    check(
        "memory_held",
        &setting,
        "run --memory 8g --reserved-by-others 8g train.py",
    );
    check("steps_zero", &setting, "run --gpu t4 --steps 0 train.py");
    check(
        "steps_and_full",
        &setting,
        "run --gpu t4 --steps 3 --full train.py",
    );
    check(
        "timeout_zero",
        &setting,
        "run --gpu t4 --timeout 0 train.py",
    );
    check("check_against_nothing", &setting, "check train.py");
    check("check_max_zero", &setting, "check --max 0 train.py");
    check("verify_without_profile", &setting, "gpus --verify");
}

#[test]
fn wrong_files() {
    let setting = Setting::new().python("3,11,7", TORCH, "");
    fs::write(setting.path("bad"), "not ours").unwrap();
    check(
        "baseline_missing",
        &setting,
        "check --baseline none.json train.py",
    );
    check(
        "baseline_corrupt",
        &setting,
        "check --baseline bad train.py",
    );
    check("profile_missing", &setting, "gpus --for none.oomprofile");
    check("profile_corrupt", &setting, "gpus --for bad");
    check(
        "profile_is_folder",
        &setting,
        "run --gpu t4 --profile home train.py",
    );
}

#[test]
fn wrong_environments() {
    let line = "run --gpu t4 train.py";
    let with = |version: &str, torch: &str| Setting::new().python(version, torch, "");
    let cpu = r#"{"version":"2.15.0+cpu","cuda":null}"#;
    let rocm = r#"{"version":"2.15.0+rocm7.2","cuda":null,"hip":"7.2.1"}"#;
    let old = r#"{"version":"2.3.1+cu121","cuda":"12.1"}"#;
    check("no_torch", &with("3,11,7", "null"), line);
    check(
        "no_torch_json",
        &with("3,11,7", "null"),
        "run --json --gpu t4 train.py",
    );
    check("cpu_torch", &with("3,11,7", cpu), line);
    check("rocm_torch", &with("3,11,7", rocm), line);
    check("unsupported_torch", &with("3,11,7", old), line);
    check("python_too_old", &with("3,8,20", "null"), line);
    check(
        "python_missing",
        &Setting::new(),
        "run --python nowhere/python --gpu t4 train.py",
    );
    check(
        "python_is_none",
        &Setting::new().program("python3", "echo what? >&2; exit 2"),
        line,
    );
}

#[test]
fn an_incomplete_installation() {
    let setting = Setting::new().python("3,11,7", TORCH, "");
    fs::remove_file(setting.path("resources/liboomproof_vgpu.so")).unwrap();
    check("no_device_library", &setting, "run --gpu t4 train.py");
}

#[test]
fn a_temporary_folder_that_is_none() {
    let setting = Setting::new().python("3,11,7", TORCH, "");
    fs::remove_dir(setting.path("tmp")).unwrap();
    check("no_temporary_folder", &setting, "run --gpu t4 train.py");
}

#[test]
fn a_full_disk() {
    if !fs::exists("/dev/full").unwrap() {
        return;
    }
    let setting = Setting::new();
    let mut command = setting.command("gpus");
    command.stdout(fs::File::create("/dev/full").unwrap());
    insta::assert_snapshot!("disk_full", setting.shown_of(&command.output().unwrap()));
}

#[test]
fn a_profile_that_cannot_be_moved_stays() {
    let setting = Setting::new().python("3,11,7", TORCH, "");
    fs::write(setting.path("home/.local"), "a file in the way").unwrap();
    let output = setting.output("run --gpu t4 --json train.py");
    let verdict: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let profile = verdict["profile"].as_str().unwrap();
    assert!(fs::exists(profile).unwrap(), "{profile}");
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("cannot be moved")
    );
}

#[test]
fn a_cache_that_cannot_be_written_is_done_without() {
    let setting = Setting::new().python("3,11,7", TORCH, "");
    fs::write(setting.path("home/.cache"), "a file in the way").unwrap();
    assert_eq!(
        setting.output("run --gpu t4 train.py").status.code(),
        Some(11)
    );
}

#[test]
fn a_reader_that_goes_away_has_got_what_it_wanted() {
    let setting = Setting::new();
    let script = setting.path("reader.sh");
    let program = env!("CARGO_BIN_EXE_oomproof");
    fs::write(
        &script,
        format!("#!/bin/sh\n{{ {program} gpus; echo $? >code; }} | true\n"),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let status = std::process::Command::new(&script)
        .current_dir(setting.path(""))
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(
        fs::read_to_string(setting.path("code")).unwrap().trim(),
        "0"
    );
}
