//! One profile in, one verdict out: roles, phases, the peak, who holds it, growth, and whether it fits.
//!
//! ```
//! use oomproof_analysis::{Answer, Circumstances, Verdict};
//! use oomproof_profile::{Profile, Record};
//!
//! # let settings = r#"{"schema":1,"device":{"name":"NVIDIA GeForce RTX 4090","total_bytes":25386352640,
//! #     "compute_capability":[8,9],"multiprocessors":128,"max_threads_per_multiprocessor":1536,
//! #     "max_blocks_per_multiprocessor":24,"registers_per_multiprocessor":65536,
//! #     "shared_memory_per_multiprocessor":102400,"shared_memory_per_block_optin":101376,
//! #     "l2_cache_bytes":75497472,"clock_khz":2520000,"memory_clock_khz":10501000,"memory_bus_bits":384},
//! #     "device_count":1,"reserved_by_others_bytes":0,"context_bytes":{"low":1,"likely":2,"high":3},
//! #     "cuda_version":13020,"cudnn_version":92600,"nccl_version":23007,"torch_version":"2.15.0",
//! #     "standins":"s","vgpu":"v","run_dir":"r","scratch":"t","steps":null,"full":false,"timeout_secs":600,
//! #     "real_init":false,"allow_writes":false,"labels":true}"#;
//! # let json = format!(r#"{{"kind":"settings","settings":{settings}}}"#);
//! # let records = vec![Record::Note { nanos: 0, json }];
//! # let profile = Profile { pid: 1, records_lost: false, counters: Default::default(), records };
//! // `profile` comes from `Profile::read`; this one is of a script that never used its device.
//! let ended = Circumstances { exit_code: Some(0), ..Circumstances::default() };
//! let verdict = Verdict::from_profile(&profile, &ended)?;
//! assert_eq!(verdict.verdict, Answer::Unknown);
//! assert_eq!(verdict.reasons[0].text, "the script allocated no device memory");
//! assert_eq!(verdict.exit_code(&ended), 11);
//! # Ok::<(), oomproof_analysis::AnalysisError>(())
//! ```
//!
//! **Invariant:** this crate does no IO, starts nothing and prints nothing; what it is given it does not trust.

mod answer;
mod assumptions;
mod circumstances;
mod conclude;
mod exit_code;
mod growth;
mod holding;
mod law;
mod legend;
mod levels;
mod notes;
mod oom;
mod processes;
mod ranks;
mod roles;
mod scratch;
mod step_time;
mod survival;
mod timeline;
mod unanswered;
mod unsupported;
mod verdict;

pub use circumstances::{Circumstances, EndedBy, Strictness};
pub use conclude::AnalysisError;
pub use law::Law;
pub use processes::{Beside, Holder, OtherProcess, Shown};
pub use ranks::{Rank, RankOf, rank_of};
pub use verdict::{
    Answer, AskedBy, Assumption, Device, Estimate, ModuleShare, Oom, Peak, PhasePeak, Reason,
    ReasonKind, SCHEMA, Script, SiteShare, TimeEstimate, Unsupported, Verdict,
};
