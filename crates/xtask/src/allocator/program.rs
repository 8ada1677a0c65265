//! A program of requests: what PyTorch's allocator and the crate `oomproof-allocator` both run.
//!
//! It travels as one line of JSON to `tests/python/allocator/run_programs.py`, and a kept one lies as a file in
//! `tests/python/allocator/kept`.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What one process does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// What it is about, for the table of results.
    pub(crate) kind: String,
    /// `PYTORCH_CUDA_ALLOC_CONF` at the start.
    pub(crate) settings: String,
    /// How many streams there are; the first is the default one.
    pub(crate) streams: usize,
    /// Bytes of the device that are free at the start.
    pub(crate) free: u64,
    pub(crate) steps: Vec<Step>,
}

/// One thing that is asked; in JSON a list of a word and its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "serde_json::Value", into = "serde_json::Value")]
pub(crate) enum Step {
    Alloc {
        slot: u64,
        size: u64,
        stream: usize,
    },
    Free {
        slot: u64,
    },
    Record {
        slot: u64,
        stream: usize,
    },
    Empty,
    Settings(String),
    Fraction(f64),
    /// Whether streams have done all they were given.
    Finished(bool),
    Reset(Figures),
    Mempool {
        pool: u64,
        use_on_oom: bool,
        no_split: bool,
    },
    Begin {
        pool: u64,
    },
    End {
        pool: u64,
    },
    Release {
        pool: u64,
    },
    Statistics,
    Keys,
    Snapshot,
}

/// Which figures start anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figures {
    Peaks,
    Sums,
}

impl Step {
    /// Whether it only looks.
    pub(crate) fn looks(&self) -> bool {
        matches!(self, Self::Statistics | Self::Keys | Self::Snapshot)
    }
}

impl From<Step> for serde_json::Value {
    fn from(step: Step) -> Self {
        use serde_json::json;
        match step {
            Step::Alloc { slot, size, stream } => json!(["alloc", slot, size, stream]),
            Step::Free { slot } => json!(["free", slot]),
            Step::Record { slot, stream } => json!(["record", slot, stream]),
            Step::Empty => json!(["empty"]),
            Step::Settings(text) => json!(["settings", text]),
            Step::Fraction(fraction) => json!(["fraction", fraction]),
            Step::Finished(is_finished) => json!(["finished", is_finished]),
            Step::Reset(Figures::Peaks) => json!(["reset", "peak"]),
            Step::Reset(Figures::Sums) => json!(["reset", "accumulated"]),
            Step::Mempool {
                pool,
                use_on_oom,
                no_split,
            } => {
                json!(["mempool", pool, use_on_oom, no_split])
            }
            Step::Begin { pool } => json!(["begin", pool]),
            Step::End { pool } => json!(["end", pool]),
            Step::Release { pool } => json!(["release", pool]),
            Step::Statistics => json!(["statistics"]),
            Step::Keys => json!(["keys"]),
            Step::Snapshot => json!(["snapshot"]),
        }
    }
}

impl TryFrom<serde_json::Value> for Step {
    type Error = anyhow::Error;

    fn try_from(value: serde_json::Value) -> Result<Self> {
        let list = value.as_array().context("a step is not a list")?;
        let number = |at: usize| {
            let number = list.get(at).and_then(serde_json::Value::as_u64);
            number.with_context(|| format!("`{value}` lacks a number"))
        };
        let switch = |at: usize| {
            let switch = list.get(at).and_then(serde_json::Value::as_bool);
            switch.with_context(|| format!("`{value}` lacks true or false"))
        };
        let word = |at: usize| {
            let word = list.get(at).and_then(serde_json::Value::as_str);
            word.with_context(|| format!("`{value}` lacks a word"))
        };
        Ok(match word(0)? {
            "alloc" => Self::Alloc {
                slot: number(1)?,
                size: number(2)?,
                stream: number(3)? as usize,
            },
            "free" => Self::Free { slot: number(1)? },
            "record" => Self::Record {
                slot: number(1)?,
                stream: number(2)? as usize,
            },
            "empty" => Self::Empty,
            "settings" => Self::Settings(word(1)?.to_owned()),
            "fraction" => {
                let fraction = list.get(1).and_then(serde_json::Value::as_f64);
                Self::Fraction(fraction.context("a fraction is missing")?)
            }
            "finished" => Self::Finished(switch(1)?),
            "reset" if word(1)? == "peak" => Self::Reset(Figures::Peaks),
            "reset" => Self::Reset(Figures::Sums),
            "mempool" => Self::Mempool {
                pool: number(1)?,
                use_on_oom: switch(2)?,
                no_split: switch(3)?,
            },
            "begin" => Self::Begin { pool: number(1)? },
            "end" => Self::End { pool: number(1)? },
            "release" => Self::Release { pool: number(1)? },
            "statistics" => Self::Statistics,
            "keys" => Self::Keys,
            "snapshot" => Self::Snapshot,
            other => anyhow::bail!("there is no step `{other}`"),
        })
    }
}
