//! The answer, whose fields are exactly the JSON of `oomproof explain --json` in their order.

use serde::Serialize;

use crate::balance::Balance;
use crate::case::Case;
use crate::cause::CauseId;
use crate::cues::Cues;
use crate::failure::{Failure, Failures};
use crate::figures::Figures;
use crate::judge::{self, Candidate};
use crate::lines;
use crate::moment::Moment;
use crate::release::{Release, Releases};
use crate::script::{self, Suspect};
use crate::smi::{self, Smi};
use crate::squeezed::Squeezed;

/// Version of the form of [`Explanation`].
pub const SCHEMA: u32 = 1;

/// What is to be explained.
#[derive(Clone, Copy, Debug, Default)]
pub struct Input<'a> {
    /// A message, a log, the output of `nvidia-smi`, or all of them in one text.
    pub text: &'a str,
    /// The user's script.
    pub script: Option<&'a str>,
    /// The release of PyTorch, when the user says it.
    pub torch: Option<Release>,
}

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Version of this form: 1.
    pub schema: u32,
    /// What happened, in sentences.
    pub story: Vec<String>,
    /// All failures of the text, in its order.
    pub failures: Vec<Failure>,
    /// Index of the one that is explained; `None` when there is none.
    pub explained: Option<usize>,
    /// Its figures.
    pub figures: Figures,
    /// Who held which part of the device.
    pub card: Option<Balance>,
    /// What the program was doing.
    pub phase: Option<Moment>,
    /// The releases of PyTorch that may have written the text.
    pub torch: Option<Releases>,
    /// What `nvidia-smi` showed, when that is in the text.
    pub nvidia_smi: Option<Smi>,
    /// Lines of the script that may hold memory.
    pub suspects: Vec<Suspect>,
    /// The causes, the likeliest first.
    pub causes: Vec<Candidate>,
    /// The command whose output would decide; `None` when nothing is left to decide.
    pub decide_with: Option<String>,
}

/// Explains a text.
pub fn explain(input: &Input<'_>) -> Explanation {
    let lines = lines::of(input.text);
    let squeezed = Squeezed::of(lines.iter().map(|line| line.text.as_str()));
    let cues = Cues::of(squeezed.text());
    let Failures {
        mut found,
        explained,
    } = Failures::in_text(input.text);
    if let Some(release) = input.torch {
        for failure in &mut found {
            failure.torch = Releases::exactly(release);
        }
    }
    let smi = smi::read(input.text);
    let suspects = input.script.map(script::suspects).unwrap_or_default();
    let Some(failure) = found.get(explained) else {
        return Explanation {
            schema: SCHEMA,
            story: vec!["The text has no failure that is known.".to_owned()],
            failures: found,
            explained: None,
            figures: Figures::default(),
            card: None,
            phase: None,
            torch: None,
            nvidia_smi: smi,
            suspects,
            causes: Vec::new(),
            decide_with: None,
        };
    };
    let case = Case {
        failure,
        failures: &found,
        balance: Balance::of(&failure.figures),
        cues: &cues,
        suspects: &suspects,
    };
    let causes = judge::causes(&case);
    let decide_with = causes
        .first()
        .filter(|first| !first.sure)
        .map(|first| check(first.id, &case));
    Explanation {
        schema: SCHEMA,
        story: Vec::new(),
        figures: failure.figures.clone(),
        card: case.balance.clone(),
        phase: failure.phase,
        torch: Some(failure.torch),
        nvidia_smi: smi,
        causes,
        decide_with,
        explained: Some(explained),
        suspects: suspects.clone(),
        failures: found.clone(),
    }
}

/// The command of a cause, with what is known filled in.
fn check(id: CauseId, case: &Case<'_>) -> String {
    let command = judge::described(id).check;
    match &case.balance {
        Some(balance) => {
            command.replace("MEMORY", &format!("{}MiB", balance.total_bytes.get() >> 20))
        }
        None => command.to_owned(),
    }
}
