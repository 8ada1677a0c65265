//! Set-up, demo, tests and benches of this repository, as `cargo xtask VERB`.
//!
//! A fresh checkout must be ready after two commands on a machine that has only Rust, gcc and python3, so
//! everything else that a verb needs is made by the verb itself, below the target folder, and once.
//!
//! **Invariant:** no other crate depends on this one, and nothing here ends up in what users install.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task runner talks to the person who started it"
)]

mod allocator;
mod architecture;
mod bench;
mod build;
mod demo;
mod environments;
mod generate;
mod readme;
mod repository;
mod spawn;
mod steps;
mod suite;
mod versions;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::repository::Repository;

/// Set-up, demo, tests and benches of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a light environment, build, and run the example on a virtual RTX 4090.
    Demo(DemoArguments),
    /// Check everything: format, lints, Rust, Python, generated files, README.
    Test(TestArguments),
    /// Run random programs on PyTorch's allocator and on the crate that models it.
    Allocator(allocator::AllocatorArguments),
    /// List the benches in bench/, or run one.
    Bench(bench::BenchArguments),
    /// Add to the stand-ins' tables what NVIDIA's packages in an environment declare.
    Generate(GenerateArguments),
    /// Try every supported release of torch: tables, small programs, the example.
    Versions(versions::VersionsArguments),
    /// Run the README's commands and compare what they print.
    Readme(readme::ReadmeArguments),
}

#[derive(Args)]
struct DemoArguments {
    /// Arguments for `oomproof run` in place of `--gpu rtx-4090`.
    #[arg(last = true)]
    run_arguments: Vec<String>,
}

#[derive(Args)]
struct TestArguments {
    /// Run this step alone; may be repeated.
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
    /// Go on after a step that failed, and fail at the end.
    #[arg(long)]
    keep_going: bool,
}

#[derive(Args)]
struct GenerateArguments {
    /// Say what the environment's torch needs and the tables lack, and change nothing.
    #[arg(long)]
    check: bool,
    /// The Python of the environment; the light one below target/ when none is given.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
}

fn main() -> ExitCode {
    match dispatch(Arguments::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(verb: Verb) -> Result<()> {
    let repository = Repository::find()?;
    match verb {
        Verb::Demo(arguments) => demo::run(&repository, &arguments.run_arguments),
        Verb::Test(arguments) => {
            let on_failure = if arguments.keep_going {
                steps::OnFailure::GoOn
            } else {
                steps::OnFailure::Stop
            };
            steps::run(&repository, suite::STEPS, &arguments.only, on_failure)
        }
        Verb::Allocator(arguments) => allocator::run(&repository, &arguments),
        Verb::Bench(arguments) => bench::run(&repository, &arguments),
        Verb::Generate(arguments) => {
            let python = match arguments.python {
                Some(python) => python,
                None => environments::torch(&repository)?,
            };
            let site_packages = environments::site_packages(&repository, &python)?;
            generate::run(if arguments.check {
                generate::Mode::Check { site_packages }
            } else {
                generate::Mode::Write { site_packages }
            })
        }
        Verb::Versions(arguments) => versions::run(&repository, &arguments),
        Verb::Readme(arguments) => readme::run(&repository, &arguments),
    }
}
