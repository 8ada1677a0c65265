//! A plan as the file that `oomproof fit` leaves: what it was made for, what it relies on, and what was seen.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use oomproof_planner::{Expects, Facts, LeverName, LeverUse, MadeFor, Plan};

use crate::failure::Failure;
use crate::launch::Launch;

/// Levers that cut the batch, which must then be the one that was seen.
const OF_THE_BATCH: [LeverName; 1] = [LeverName::MicroBatch];

/// A plan of these levers for the script of `launch`, without what was measured.
pub(crate) fn plan(levers: &[LeverUse], launch: &Launch, facts: &Facts) -> Plan {
    let words = |words: &[std::ffi::OsString]| {
        words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    };
    let mut plan = Plan::new(levers.to_vec());
    plan.made_for = MadeFor {
        device: Some(launch.card.name().to_owned()),
        memory_bytes: Some(launch.card.total()),
        torch: Some(launch.torch.version.clone()),
        script: Some(launch.name.clone()),
        arguments: words(launch.arguments.get(1..).unwrap_or_default()),
    };
    plan.expects = Expects {
        torch: launch.torch.version.parse().ok(),
        parameters: facts.parameters,
        batch: facts.batch.filter(|_| {
            levers
                .iter()
                .any(|lever| OF_THE_BATCH.contains(&lever.name))
        }),
        modules: named_modules(levers, facts),
    };
    plan
}

/// The modules that the levers name, with their classes.
fn named_modules(levers: &[LeverUse], facts: &Facts) -> BTreeMap<String, String> {
    let named: Vec<&str> = levers
        .iter()
        .flat_map(|lever| lever.words("modules"))
        .collect();
    facts
        .blocks
        .iter()
        .filter(|block| named.contains(&block.path.as_str()))
        .filter_map(|block| Some((block.path.clone(), block.class.clone()?)))
        .collect()
}

/// Writes the file whole or not at all.
pub(crate) fn write(plan: &Plan, path: &Path) -> Result<(), Failure> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let failed = |error: &std::io::Error| Failure::io("write", path, error);
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
    file.write_all(plan.to_toml().as_bytes())
        .map_err(|error| failed(&error))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::Permissions::from_mode(0o644);
        file.as_file()
            .set_permissions(mode)
            .map_err(|error| failed(&error))?;
    }
    file.persist(path)
        .map(|_| ())
        .map_err(|error| failed(&error.error))
}

/// Refuses to write over a file that is no plan.
pub(crate) fn check_target(path: &Path) -> Result<(), Failure> {
    let is_other = match std::fs::read_to_string(path) {
        Ok(text) => !text.trim().is_empty() && Plan::parse(&text).is_err(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    if is_other {
        return Err(Failure::usage(
            "plan_target",
            format!("{} exists and is no plan", path.display()),
        )
        .hint("name another file with `-o FILE`"));
    }
    Ok(())
}
