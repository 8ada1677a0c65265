use crate::setting::{Setting, TORCH};

/// The script sees `arguments` after its own name, whatever they look like, and our output goes on as usual.
fn check(line: &str, arguments: &str) {
    let setting = Setting::new().python("3,11,7", TORCH, r#"printf '<%s>' "$@""#);
    let output = setting.output(line);
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(talk.contains(arguments), "{line}\n{talk}");
    assert!(
        !String::from_utf8(output.stdout).unwrap().contains('<'),
        "{line}"
    );
}

#[test]
fn everything_after_the_script_is_the_scripts() {
    check("run --gpu t4 train.py", "<train.py>");
    check(
        "run --gpu t4 train.py --gpu 3 --json -h -- --x=1 -m y",
        "<train.py><--gpu><3><--json><-h><--><--x=1><-m><y>",
    );
    check(
        "run --gpu t4 -m pkg.train --json --help",
        "<-m><pkg.train><--json><--help>",
    );
    check(
        "run --gpu=t4 -- train.py --version",
        "<train.py><--version>",
    );
    check("check --max 1GiB train.py --max 3", "<train.py><--max><3>");
}

#[test]
fn json_after_the_script_is_not_ours() {
    let setting = Setting::new().python("3,11,7", TORCH, "");
    let text = setting.output("run --gpu t4 train.py --json").stdout;
    assert!(!text.starts_with(b"{"));
    let json = setting.output("run --json --gpu t4 train.py").stdout;
    assert!(json.starts_with(b"{"));
}
