//! `cargo xtask test`: everything that must hold before a change is taken, cheapest first.

use anyhow::{Result, ensure};

use crate::repository::Repository;
use crate::steps::Step;
use crate::{allocator, architecture, build, environments, generate, readme, spawn};

/// The steps of the suite.
pub(crate) const STEPS: &[Step] = &[
    Step {
        name: "format",
        says: "Rust is formatted as rustfmt does",
        action: format,
    },
    Step {
        name: "architecture",
        says: "crates depend on each other and on others only as ARCHITECTURE.md says",
        action: |repository| architecture::check(repository).map(|line| vec![line]),
    },
    Step {
        name: "lints",
        says: "clippy has nothing to say",
        action: lints,
    },
    Step {
        name: "rust",
        says: "unit, property and command-line tests",
        action: rust_tests,
    },
    Step {
        name: "doctests",
        says: "the examples in the Rust documentation run",
        action: doctests,
    },
    Step {
        name: "python-lints",
        says: "ruff and mypy on python/, tests/python and examples/",
        action: python_lints,
    },
    Step {
        name: "release",
        says: "the program and the virtual device, built as users get them",
        action: |repository| build::release(repository).map(|_| Vec::new()),
    },
    Step {
        name: "environment",
        says: "a light environment with torch, below target/",
        action: |repository| environments::torch(repository).map(|_| Vec::new()),
    },
    Step {
        name: "generated",
        says: "the stand-ins' tables have every name that the installed torch needs",
        action: generated,
    },
    Step {
        name: "python",
        says: "the agent and whole runs, in the light environment",
        action: python_tests,
    },
    Step {
        name: "allocator",
        says: "random programs get the same from PyTorch's allocator and from the crate that models it",
        action: allocator_programs,
    },
    Step {
        name: "wheel",
        says: "the package installs into an environment of its own and works there",
        action: wheel,
    },
    Step {
        name: "readme",
        says: "the README's commands print what it shows",
        action: |repository| readme::check(repository).map(|line| vec![line]),
    },
];

fn format(repository: &Repository) -> Result<Vec<String>> {
    spawn::run(repository.cargo().args(["fmt", "--all", "--check"]))?;
    Ok(Vec::new())
}

fn lints(repository: &Repository) -> Result<Vec<String>> {
    let arguments = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    spawn::run(repository.cargo().args(arguments))?;
    Ok(Vec::new())
}

fn rust_tests(repository: &Repository) -> Result<Vec<String>> {
    let runner: &[&str] = if spawn::exists("cargo-nextest") {
        &["nextest", "run", "--workspace"]
    } else {
        &["test", "--workspace", "--lib", "--bins", "--tests"]
    };
    let mut command = repository.cargo();
    // A snapshot that differs is a failure here, never a file to look at later.
    command.args(runner).env("INSTA_UPDATE", "no");
    spawn::run_keeping(&mut command, is_rust_summary)
}

fn doctests(repository: &Repository) -> Result<Vec<String>> {
    let arguments = ["test", "--workspace", "--doc"];
    spawn::run_keeping(repository.cargo().args(arguments), is_rust_summary)
}

fn python_lints(repository: &Repository) -> Result<Vec<String>> {
    let programs = environments::tools(repository)?;
    let ruff = programs.join("ruff");
    spawn::run(repository.command(&ruff).args(["check", "."]))?;
    spawn::run(repository.command(&ruff).args(["format", "--check", "."]))?;
    let mypy = programs.join("mypy");
    spawn::run_keeping(&mut repository.command(mypy), |line| {
        line.starts_with("Success")
    })
}

fn generated(repository: &Repository) -> Result<Vec<String>> {
    let python = environments::torch(repository)?;
    let site_packages = environments::site_packages(repository, &python)?;
    generate::run(generate::Mode::Check { site_packages })?;
    Ok(Vec::new())
}

fn python_tests(repository: &Repository) -> Result<Vec<String>> {
    let python = environments::torch(repository)?;
    let program = build::release(repository)?;
    let mut command = repository.command(&python);
    command
        // Two at once; a file stays together, because its tests share what one run of a script found.
        .args(["-m", "pytest", "-n", "2", "--dist", "loadfile"])
        .env("OOMPROOF_BIN", program)
        .env("OOMPROOF_TEST_PYTHON", &python);
    spawn::run_keeping(&mut command, is_pytest_summary)
}

fn allocator_programs(repository: &Repository) -> Result<Vec<String>> {
    let python = environments::torch(repository)?;
    let program = build::release(repository)?;
    // Four of each kind; `cargo xtask allocator` runs thousands.
    allocator::check(repository, &program, &python, 44)
}

fn wheel(repository: &Repository) -> Result<Vec<String>> {
    let programs = environments::empty(repository)?;
    let python = programs.join("python");
    let install = [
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--force-reinstall",
        ".",
    ];
    let mut command = repository.command(&python);
    command
        .args(install)
        .env("CARGO_TARGET_DIR", &repository.target);
    spawn::run(&mut command)?;
    // Away from the checkout, where `import oomproof` can only find what was installed.
    let arguments = ["gpus", "--json"];
    let program = spawn::capture(
        repository
            .command(programs.join("oomproof"))
            .args(arguments)
            .current_dir("/"),
    )?;
    let module = spawn::capture(
        repository
            .command(&python)
            .args(["-m", "oomproof"])
            .args(arguments)
            .current_dir("/"),
    )?;
    ensure!(
        program == module && serde_json::from_str::<serde_json::Value>(&program).is_ok(),
        "the installed program and module print different things, or no JSON"
    );
    let parts = "import pathlib, oomproof; p = pathlib.Path(oomproof.__file__).parent; \
                 print(*sorted(x.name for x in p.iterdir() if x.suffix == '.so' or x.name == 'agent'))";
    let parts = spawn::capture(
        repository
            .command(&python)
            .args(["-c", parts])
            .current_dir("/"),
    )?;
    let expected = "_native.abi3.so agent liboomproof_vgpu.so";
    ensure!(
        parts.trim_end() == expected,
        "the package holds {parts} and not {expected}"
    );
    Ok(Vec::new())
}

fn is_rust_summary(line: &str) -> bool {
    // A crate without tests of a kind says nothing worth repeating.
    let is_cargo_test = line.starts_with("test result:") && !line.contains(" 0 passed; 0 failed");
    let is_nextest = line.trim_start().starts_with("Summary [");
    is_cargo_test || is_nextest
}

fn is_pytest_summary(line: &str) -> bool {
    let words = ["passed", "failed", "error"];
    line.trim_end_matches('=').trim_end().ends_with('s')
        && line.contains(" in ")
        && words.iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: [bool; 2]) {
        assert_eq!(
            [is_rust_summary(line), is_pytest_summary(line)],
            expected,
            "{line}"
        );
    }

    #[test]
    fn the_runners_closing_lines_are_kept() {
        check(
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured",
            [true, false],
        );
        check(
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured",
            [false, false],
        );
        check(
            "     Summary [   0.412s] 27 tests run: 27 passed, 0 skipped",
            [true, false],
        );
        check(
            "======== 45 passed, 1 skipped in 12.31s ========",
            [false, true],
        );
        check("45 passed in 12.31s", [false, true]);
        check("1 failed, 44 passed in 12.31s", [false, true]);
        check("tests/python/test_agent.py ....", [false, false]);
    }
}
