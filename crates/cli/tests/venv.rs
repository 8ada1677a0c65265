use std::fs;

use crate::setting::{Setting, TORCH};

/// A Python whose `-m venv` makes a folder with a Python in it, and whose pip writes down what it is asked for.
fn setting(pip: &str) -> Setting {
    let inner = format!(
        "case \"$1 $2\" in\n\
         '-m pip') shift 2; echo \"$@\" >>\"$HOME/pip\"; {pip};;\n\
         -c*) case \"$2\" in *'importlib.metadata.requires(\"torch\") or []:'*) echo filelock; echo numpy;;\n\
         *) echo '{{\"version\":[3,11,7],\"torch\":{TORCH}}}';; esac;;\n\
         esac"
    );
    let setting = Setting::new();
    fs::write(setting.path("inner"), format!("#!/bin/sh\n{inner}\n")).unwrap();
    let inner = setting.path("inner").display().to_string();
    setting.program(
        "python3",
        &format!(
            "[ \"$2\" = venv ] || exit 9\n\
             mkdir -p \"$4/bin\"; : >\"$4/pyvenv.cfg\"; cp {inner} \"$4/bin/python\"; chmod +x \"$4/bin/python\""
        ),
    )
}

#[test]
fn is_made_once() {
    let setting = setting("true");
    insta::assert_snapshot!("venv_made", setting.shown("venv env"));
    insta::assert_snapshot!("venv_again", setting.shown("venv env"));
    insta::assert_snapshot!(
        "venv_pip",
        fs::read_to_string(setting.path("home/pip")).unwrap()
    );
}

#[test]
fn goes_on_where_it_stopped() {
    let setting = setting("[ -e \"$HOME/network\" ]");
    insta::assert_snapshot!("venv_no_network", setting.shown("venv env"));
    fs::write(setting.path("home/network"), "").unwrap();
    assert_eq!(setting.output("venv env").status.code(), Some(0));
    assert!(setting.path("env/oomproof-venv.txt").is_file());
}

#[test]
fn refuses_a_torch_that_could_not_be_used() {
    let setting = setting("true");
    insta::assert_snapshot!("venv_old_torch", setting.shown("venv env --torch 2.3.1"));
    assert!(!setting.path("env").exists());
}

#[test]
fn refuses_a_folder_that_is_something_else() {
    let setting = setting("true");
    fs::create_dir(setting.path("docs")).unwrap();
    fs::write(setting.path("docs/a.txt"), "precious").unwrap();
    insta::assert_snapshot!("venv_other_folder", setting.shown("venv docs"));
    assert_eq!(
        fs::read_to_string(setting.path("docs/a.txt")).unwrap(),
        "precious"
    );
}

#[test]
fn leaves_the_users_own_torch_alone() {
    let setting = setting("true");
    assert_eq!(setting.output("venv env").status.code(), Some(0));
    fs::remove_file(setting.path("env/oomproof-venv.txt")).unwrap();
    insta::assert_snapshot!("venv_of_the_user", setting.shown("venv env --torch 2.11.0"));
}
