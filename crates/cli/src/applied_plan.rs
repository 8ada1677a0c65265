//! The plan of a run: what is changed in the script while it runs.
//!
//! The agent applies it inside the script's process; only the allocator's settings must be in the environment before
//! PyTorch is imported. Whether it was applied stands in the profile's notes, because the script may end before it
//! comes to the moment, and a plan that does not match refuses there.

use std::env;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use oomproof_planner::{LeverName, Plan};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::profile_file;

/// The names of the variable with the allocator's settings, in the order in which they count.
const VARIABLES: [&str; 2] = ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"];

/// Bytes of the largest file that is read as a plan.
const LARGEST: u64 = 1 << 20;

/// Why a plan was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The lever that could not be applied; `None` when it is none's.
    pub lever: Option<LeverName>,
    /// One sentence.
    pub reason: String,
}

impl Refusal {
    /// As the end of a verb.
    pub(crate) fn failure(&self, script: &str) -> Failure {
        let Self { lever, reason } = self;
        let lever = lever.map_or_else(String::new, |lever| format!("`{lever}`: "));
        Failure::new(
            Exit::InputRefused,
            "plan_refused",
            format!("the plan does not match {script}: {lever}{reason}"),
        )
        .hint("`oomproof fit` makes a plan for the script as it is now")
    }
}

/// A plan as the agent gets it: what it expects, and its levers with their parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AppliedPlan(Value);

impl AppliedPlan {
    /// The plan in a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let mut bytes = Vec::new();
        fs::File::open(path)
            .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
            .map_err(|error| {
                let failure = Failure::io("read the plan", path, &error);
                Failure {
                    exit: Exit::InputRefused,
                    id: "plan",
                    ..failure
                }
            })?;
        if bytes.len() as u64 > LARGEST {
            return Err(not_understood(path, "it is larger than 1 MiB"));
        }
        let text = str::from_utf8(&bytes).map_err(|_| not_understood(path, "it is no text"))?;
        let plan = Plan::parse(text).map_err(|error| not_understood(path, &error.to_string()))?;
        Ok(Self::of(&plan))
    }

    /// What of a plan is applied.
    pub(crate) fn of(plan: &Plan) -> Self {
        Self(json!({"expects": plan.expects, "levers": plan.levers}))
    }

    /// The plan in the settings of a run.
    pub(crate) const fn from_json(plan: Value) -> Self {
        Self(plan)
    }

    /// As it stands in the settings of a run.
    pub(crate) fn to_json(&self) -> Value {
        self.0.clone()
    }

    /// What the script's environment has besides what it has anyway.
    pub(crate) fn environment(&self) -> Option<(&'static str, String)> {
        let conf = self.conf()?;
        let (name, own) = own_settings();
        let own = own.map_or_else(String::new, |own| format!("{own},"));
        Some((name, own + conf))
    }

    fn conf(&self) -> Option<&str> {
        self.0["levers"]
            .as_array()?
            .iter()
            .find(|lever| lever["name"] == LeverName::AllocatorSettings.as_str())?["conf"]
            .as_str()
    }
}

fn not_understood(path: &Path, why: &str) -> Failure {
    Failure::new(
        Exit::InputRefused,
        "plan",
        format!("{} is no plan: {why}", path.display()),
    )
    .hint("`oomproof fit` writes plans")
}

/// The user's settings of the allocator, and the variable they stand in or would stand in.
fn own_settings() -> (&'static str, Option<String>) {
    VARIABLES
        .into_iter()
        .find_map(|name| Some((name, Some(env::var(name).ok()?))))
        .unwrap_or((VARIABLES[1], None))
}

/// The allocator's settings of a run with this plan.
pub(crate) fn allocator_settings(plan: Option<&AppliedPlan>) -> Option<String> {
    plan.and_then(AppliedPlan::environment)
        .map(|(_, conf)| conf)
        .or_else(|| own_settings().1)
}

/// What became of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// It acted.
    Whole,
    /// It does not match the script.
    Refused(Refusal),
    /// The script never came to the moment at which it acts.
    NotReached,
}

/// What became of the plan in the run whose profiles are in `folder`.
pub(crate) fn outcome(folder: &Path) -> Result<Applied, Failure> {
    if let Some(refused) = profile_file::notes_in(folder, "plan_refused")?.first() {
        let reason = refused["reason"].as_str().unwrap_or("no reason was given");
        return Ok(Applied::Refused(Refusal {
            lever: refused["lever"].as_str().and_then(|name| name.parse().ok()),
            reason: reason.to_owned(),
        }));
    }
    let notes = profile_file::notes_in(folder, "plan_applied")?;
    Ok(if notes.is_empty() {
        Applied::NotReached
    } else {
        Applied::Whole
    })
}

/// The note for the profile of a run whose plan never acted.
pub(crate) fn not_reached() -> Value {
    json!({
        "kind": "assumption", "assumption": "plan_not_applied", "where": null,
        "text": "the script did not come to the moment at which the plan acts, so this is the script without it",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(levers: &Value, conf: Option<&str>) {
        let plan = AppliedPlan::from_json(json!({ "levers": levers }));
        assert_eq!(plan.conf(), conf);
    }

    #[test]
    fn the_allocators_settings_are_found_among_the_levers() {
        check(&json!([]), None);
        check(
            &json!([{"name": "micro-batch", "chunks": 2},
                {"name": "allocator-settings", "conf": "expandable_segments:True"}]),
            Some("expandable_segments:True"),
        );
        check(&json!([{"name": "allocator-settings"}]), None);
        check(&json!("none"), None);
    }

    #[test]
    fn files_that_are_no_plan_are_refused_in_bounded_memory() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |bytes: &[u8], reason: &str| {
            let path = folder.path().join("plan.toml");
            fs::write(&path, bytes).unwrap();
            let failure = AppliedPlan::read(&path).unwrap_err();
            assert!(failure.text.ends_with(reason), "{}", failure.text);
        };
        refused(b"\xff\xfe", "it is no text");
        refused(&vec![b'#'; LARGEST as usize + 1], "it is larger than 1 MiB");
    }
}
