//! Steps: numbered, named, timed, and each able to run alone.
//!
//! A step makes what it needs by itself, quickly when it is already there, so that `--only` works on a fresh
//! checkout and a second run costs little.

use std::time::Instant;

use anyhow::{Result, bail};

use crate::repository::Repository;

/// One step of a task.
pub(crate) struct Step {
    /// The word for `--only`.
    pub(crate) name: &'static str,
    /// What it does, as the end of "step 3: ...".
    pub(crate) says: &'static str,
    /// Does it, and returns the lines that the closing summary repeats.
    pub(crate) action: fn(&Repository) -> Result<Vec<String>>,
}

/// What to do after a step that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// Leave the others out.
    Stop,
    /// Run the others, then fail.
    GoOn,
}

/// Runs the steps whose names are in `only`, or all when it is empty.
pub(crate) fn run(
    repository: &Repository,
    steps: &[Step],
    only: &[String],
    on_failure: OnFailure,
) -> Result<()> {
    let chosen = choose(steps, only)?;
    let n_chosen = chosen.len();
    let began = Instant::now();
    let mut summary = Vec::new();
    let mut failed = Vec::new();
    for (step_idx, step) in chosen.into_iter().enumerate() {
        eprintln!("[{}/{n_chosen}] {}: {}", step_idx + 1, step.name, step.says);
        let step_began = Instant::now();
        let outcome = (step.action)(repository);
        let secs = step_began.elapsed().as_secs_f64();
        match outcome {
            Ok(lines) => {
                eprintln!("      {} done in {secs:.1} s", step.name);
                summary.push(format!("ok      {:<13} {secs:>6.1} s", step.name));
                summary.extend(lines);
            }
            Err(error) => {
                eprintln!("error: {} failed: {error:#}", step.name);
                summary.push(format!("FAILED  {:<13} {secs:>6.1} s", step.name));
                failed.push(step.name);
                if on_failure == OnFailure::Stop {
                    break;
                }
            }
        }
    }
    println!();
    for line in &summary {
        println!("{line}");
    }
    println!("total {:.1} s", began.elapsed().as_secs_f64());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn choose<'a>(steps: &'a [Step], only: &[String]) -> Result<Vec<&'a Step>> {
    for name in only {
        if !steps.iter().any(|step| step.name == name) {
            let names: Vec<_> = steps.iter().map(|step| step.name).collect();
            bail!(
                "there is no step `{name}`\n\nhint: the steps are {}",
                names.join(", ")
            );
        }
    }
    Ok(steps
        .iter()
        .filter(|step| only.is_empty() || only.iter().any(|name| name == step.name))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: &[Step] = &[
        Step {
            name: "a",
            says: "",
            action: |_| Ok(Vec::new()),
        },
        Step {
            name: "b",
            says: "",
            action: |_| bail!("no"),
        },
        Step {
            name: "c",
            says: "",
            action: |_| Ok(Vec::new()),
        },
    ];

    fn check(only: &[&str], expected: Result<&[&str], &str>) {
        let only: Vec<_> = only.iter().map(|&name| name.to_owned()).collect();
        let found = choose(STEPS, &only);
        match expected {
            Ok(names) => {
                let found: Vec<_> = found.unwrap().iter().map(|step| step.name).collect();
                assert_eq!(found, names);
            }
            Err(text) => assert!(found.err().unwrap().to_string().contains(text)),
        }
    }

    #[test]
    fn steps_are_chosen_by_name_and_keep_their_order() {
        check(&[], Ok(&["a", "b", "c"]));
        check(&["c", "a"], Ok(&["a", "c"]));
        check(&["d"], Err("no step `d`"));
    }

    #[test]
    fn a_failed_step_fails_the_task() {
        let repository = Repository::find().unwrap();
        for on_failure in [OnFailure::Stop, OnFailure::GoOn] {
            let error = run(&repository, STEPS, &[], on_failure).unwrap_err();
            assert_eq!(error.to_string(), "failed: b");
        }
    }
}
