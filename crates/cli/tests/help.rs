use crate::setting::Setting;

fn check(name: &str, line: &str) {
    insta::assert_snapshot!(name, Setting::new().shown(line));
}

#[test]
fn of_the_program_and_of_every_verb() {
    check("help", "--help");
    check("help_run", "run --help");
    check("help_run_short", "run -h");
    check("help_fit", "fit --help");
    check("help_check", "check -h");
    check("help_gpus", "gpus -h");
    check("help_explain", "explain -h");
    check("help_replay", "replay -h");
    check("help_diff", "diff -h");
    check("help_venv", "venv -h");
}
