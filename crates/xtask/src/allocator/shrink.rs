//! From a program on which the two differ to a small one on which they still do.
//!
//! Starting PyTorch takes seconds and a program milliseconds, so all shorter programs of a round run in one process.

use anyhow::Result;

use super::program::Program;

const MAX_ROUNDS: usize = 12;

/// `differ` says of each program whether the two differ on it.
pub(crate) fn shrink(
    program: &Program,
    differ: impl Fn(&[Program]) -> Result<Vec<bool>>,
) -> Result<Program> {
    let mut smallest = program.clone();
    for _ in 0..MAX_ROUNDS {
        let shorter = shorter(&smallest);
        if shorter.is_empty() {
            break;
        }
        let found = differ(&shorter)?;
        let best = shorter
            .into_iter()
            .zip(found)
            .filter(|(_, differs)| *differs)
            .map(|(program, _)| program)
            .min_by_key(|program| program.steps.len());
        match best {
            Some(best) => smallest = best,
            None => break,
        }
    }
    Ok(smallest)
}

/// The program without a run of its steps, for runs of every length that is a power of two.
fn shorter(program: &Program) -> Vec<Program> {
    let n_steps = program.steps.len();
    let mut found = Vec::new();
    let mut len = (n_steps / 2).next_power_of_two();
    while len >= 1 {
        for start in (0..n_steps).step_by(len) {
            let end = (start + len).min(n_steps);
            let mut steps = program.steps.clone();
            steps.drain(start..end);
            if steps.iter().any(|step| !step.looks()) {
                found.push(Program {
                    steps,
                    ..program.clone()
                });
            }
        }
        len /= 2;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocator::program::Step;

    #[test]
    fn what_is_not_needed_goes() {
        let steps = (0..40).map(|slot| Step::Free { slot }).collect();
        let program = Program {
            kind: "plain".to_owned(),
            settings: String::new(),
            streams: 1,
            free: 1,
            steps,
        };
        let needed = [Step::Free { slot: 3 }, Step::Free { slot: 31 }];
        let shrunk = shrink(&program, |programs| {
            let has_all =
                |program: &Program| needed.iter().all(|step| program.steps.contains(step));
            Ok(programs.iter().map(has_all).collect())
        });
        assert!(shrunk.unwrap().steps.len() <= 4);
    }
}
