//! `cargo xtask allocator`: random programs on PyTorch's own allocator and on the crate `oomproof-allocator`.
//!
//! PyTorch runs them on the virtual GPU and writes down every address, statistic, segment and entry of the trace, and
//! the crate has to say the same. What differs is cut down to a small program and printed, to be kept as a file below
//! `tests/python/allocator/kept`, which every run tries again.

mod compare;
mod generate;
mod program;
mod shrink;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use oomproof_allocator::{AddressStructure, FreeStructure, Release, Structures};

use self::compare::{Record, difference};
use self::program::Program;
use crate::repository::Repository;
use crate::{build, environments, spawn};

/// How many programs a process of PyTorch runs.
const BATCH: usize = 400;

/// Arguments of `cargo xtask allocator`.
#[derive(Args)]
pub(crate) struct AllocatorArguments {
    /// The releases to try: names of environments in the folder given by --environments.
    releases: Vec<String>,
    /// A folder with an environment for each release, named by it; without it the light one below target/ is used.
    #[arg(long, value_name = "FOLDER")]
    environments: Option<PathBuf>,
    /// How many programs, for each release.
    #[arg(long, default_value_t = 1000)]
    programs: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The `oomproof` to run, in place of a fresh build.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Print differences as they are, without looking for a smaller program.
    #[arg(long)]
    no_shrink: bool,
}

/// Tries them; an error at the end when a program differed.
pub(crate) fn run(repository: &Repository, arguments: &AllocatorArguments) -> Result<()> {
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => build::release(repository)?,
    };
    let pythons: Vec<PathBuf> = match &arguments.environments {
        Some(folder) => arguments
            .releases
            .iter()
            .map(|release| folder.join(release).join("bin/python"))
            .collect(),
        None => vec![environments::torch(repository)?],
    };
    ensure!(!pythons.is_empty(), "no release was named");
    let mut n_different = 0;
    for python in pythons {
        let bench = Bench::new(repository, &program, &python)?;
        let result = bench.try_all(arguments.seed, arguments.programs)?;
        for line in result.lines() {
            println!("{line}");
        }
        n_different += result.different.len();
        for (program, text) in &result.different {
            let small = if arguments.no_shrink {
                program.clone()
            } else {
                bench.shrink(program)?
            };
            println!("{text}\n{}", serde_json::to_string(&small)?);
        }
    }
    if n_different > 0 {
        bail!("{n_different} programs differ");
    }
    Ok(())
}

/// The kept programs and those of `n_programs` seeds, in one environment; an error when one differs.
pub(crate) fn check(
    repository: &Repository,
    program: &Path,
    python: &Path,
    n_programs: u64,
) -> Result<Vec<String>> {
    let result = Bench::new(repository, program, python)?.try_all(0, n_programs)?;
    if let Some((program, text)) = result.different.first() {
        bail!("{text}\n{}", serde_json::to_string(program)?);
    }
    Ok(result.lines())
}

/// PyTorch in one environment.
struct Bench<'a> {
    repository: &'a Repository,
    program: &'a Path,
    python: &'a Path,
    release: Release,
    folder: PathBuf,
}

/// What came of many programs.
#[derive(Default)]
struct Outcome {
    torch: String,
    /// Equal ones and all, by kind.
    by_kind: BTreeMap<String, (usize, usize)>,
    different: Vec<(Program, String)>,
}

impl Outcome {
    fn lines(&self) -> Vec<String> {
        let (equal, all) = self
            .by_kind
            .values()
            .fold((0, 0), |sum, kind| (sum.0 + kind.0, sum.1 + kind.1));
        let kinds: Vec<String> = self
            .by_kind
            .iter()
            .map(|(kind, (equal, all))| format!("{kind} {equal}/{all}"))
            .collect();
        vec![format!(
            "torch {}: {equal} of {all} programs equal ({})",
            self.torch,
            kinds.join(", ")
        )]
    }
}

impl<'a> Bench<'a> {
    fn new(repository: &'a Repository, program: &'a Path, python: &'a Path) -> Result<Self> {
        let print = "import importlib.metadata as m; print(m.version('torch'))";
        let version = spawn::capture(repository.command(python).args(["-c", print]))?;
        let folder = repository.target.join("allocator-programs");
        fs::create_dir_all(&folder)?;
        let bench = Self {
            repository,
            program,
            python,
            release: version.parse()?,
            folder,
        };
        bench.build_lag()?;
        Ok(bench)
    }

    fn lag(&self) -> PathBuf {
        self.folder.join("liblag.so")
    }

    fn build_lag(&self) -> Result<()> {
        let source = self.repository.root.join("tests/python/allocator/lag.c");
        let mut command = self.repository.command("cc");
        command
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(self.lag())
            .arg(source)
            .arg("-ldl");
        spawn::run(&mut command)
    }

    /// The kept programs that the release can run, and those of `n_programs` seeds.
    fn try_all(&self, first_seed: u64, n_programs: u64) -> Result<Outcome> {
        let mut programs = self.kept()?;
        let seeds = first_seed..first_seed + n_programs;
        programs.extend(seeds.map(|seed| generate::program(seed, self.release)));
        let mut outcome = Outcome::default();
        for batch in programs.chunks(BATCH) {
            let records = self.records(batch)?;
            for (program, record) in batch.iter().zip(&records) {
                outcome.torch.clone_from(&record.torch);
                let kind = outcome.by_kind.entry(program.kind.clone()).or_default();
                kind.1 += 1;
                match every_difference(program, record)? {
                    None => kind.0 += 1,
                    Some(text) => outcome.different.push((program.clone(), text)),
                }
            }
        }
        Ok(outcome)
    }

    fn kept(&self) -> Result<Vec<Program>> {
        let folder = self.repository.root.join("tests/python/allocator/kept");
        let mut files: Vec<PathBuf> = fs::read_dir(&folder)
            .with_context(|| format!("`{}` cannot be read", folder.display()))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
            .collect();
        files.sort();
        let mut kept = Vec::new();
        for file in files {
            let program: Program = serde_json::from_slice(&fs::read(&file)?)
                .with_context(|| format!("`{}` is no program", file.display()))?;
            if generate::is_possible(&program.kind, self.release) {
                kept.push(program);
            }
        }
        Ok(kept)
    }

    /// What PyTorch says of each program.
    fn records(&self, programs: &[Program]) -> Result<Vec<Record>> {
        let file = |name: &str| self.folder.join(format!("{}-{name}", self.release));
        let (written, read) = (file("programs.jsonl"), file("records.jsonl"));
        let lines: Vec<String> = programs
            .iter()
            .map(serde_json::to_string)
            .collect::<Result<_, _>>()?;
        fs::write(&written, lines.join("\n") + "\n")?;
        let mut command = self.repository.command(self.program);
        command
            .args([
                "run",
                "--gpu",
                "h100",
                "--memory",
                "3GiB",
                "--full",
                "--no-labels",
            ])
            .args(["--allow-writes", "--timeout", "60m", "--profile"])
            .arg(file("profile"))
            .arg("--python")
            .arg(self.python)
            .arg("tests/python/allocator/run_programs.py")
            .args([&written, &read])
            .env("LD_PRELOAD", self.lag())
            .env("OOMPROOF_LAG", self.lag())
            .stdout(Stdio::null())
            .stderr(fs::File::create(file("errors.txt"))?);
        // A script that allocates nothing itself has no verdict, and what it wrote says how far it came.
        spawn::exit_code(&mut command)?;
        let records: Vec<Record> = fs::read_to_string(&read)?
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        ensure!(
            records.len() == programs.len(),
            "PyTorch ran {} of {} programs\n\nhint: what it said is in {}",
            records.len(),
            programs.len(),
            file("errors.txt").display()
        );
        Ok(records)
    }

    fn shrink(&self, program: &Program) -> Result<Program> {
        shrink::shrink(program, |shorter| {
            let records = self.records(shorter)?;
            shorter
                .iter()
                .zip(&records)
                .map(|(program, record)| Ok(every_difference(program, record)?.is_some()))
                .collect()
        })
    }
}

/// The difference from PyTorch, with the books kept in every manner.
fn every_difference(program: &Program, record: &Record) -> Result<Option<String>> {
    let manners = [
        (FreeStructure::Binned, AddressStructure::Hashed),
        (FreeStructure::Sorted, AddressStructure::Sorted),
    ];
    for (free_blocks, addresses) in manners {
        let structures = Structures {
            free_blocks,
            addresses,
        };
        if let Some(text) = difference(program, record, structures)? {
            return Ok(Some(format!("{} {free_blocks:?}: {text}", program.kind)));
        }
    }
    Ok(None)
}
