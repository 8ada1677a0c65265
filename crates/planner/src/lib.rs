//! The cheapest changes that make a training script fit: levers, what they cost by a model, a search that has the
//! model's candidates run and believes only what was measured, and plans as files.
//!
//! ```
//! use oomproof_planner::{Facts, Goal, Measured, Outcome, Search};
//! use oomproof_units::{Bytes, Nanos};
//!
//! let facts = Facts::from_json(r#"{"batch":8,"batch_source":"loader","parameter_bytes":1000000000}"#)?;
//! let base = Measured {
//!     allocated: Bytes::from_gib(9),
//!     reserved: Bytes::from_gib(10),
//!     process_high: Bytes::from_gib(11),
//!     step_ns: Nanos::since_start(100_000_000),
//!     fits: false,
//! };
//! let mut search = Search::new(facts, base, Goal::fit_into(Bytes::from_gib(8)));
//! while let Some(candidate) = search.next() {
//!     // Here a driver runs the candidate's levers on the virtual GPU.
//!     search.tell(candidate.id, Outcome::Failed("nothing runs in this example".to_owned()));
//! }
//! assert!(search.report().chosen.is_none());
//! # Ok::<(), oomproof_planner::FactsError>(())
//! ```
//!
//! Reading order: [`Facts`] what a run told, [`LeverName`] and [`LeverUse`] what can be done, [`Goal`] what is wanted,
//! [`Search`] which plan to run next, [`Report`] what was found, [`Plan`] the file.
//!
//! **Invariant:** does no IO, reads no clock and starts nothing; a plan that does not fit is an outcome and not an
//! error. Knows no script and no model by name: what it knows of one is in its facts.

mod numerics;
mod torch_version;

mod facts;
mod measured;

mod lever_name;
mod lever_use;

mod lever;
mod levers;

mod plan;

mod any_order;
mod recompute;
mod simulation;
mod workload;

mod calibration;
mod estimate;

mod goal;
mod lattice;
mod report;
mod search;
mod size_search;

pub use any_order::choices_in_any_order;
pub use facts::{
    Attention, BatchSource, Block, Evaluation, Facts, FactsError, Loss, Optimizer, Point, Points,
};
pub use goal::{Aim, Goal};
pub use lever::{Framework, FrameworkError, Writing};
pub use lever_name::{LeverName, LeverNameError};
pub use lever_use::{LeverUse, Parameters};
pub use levers::{code, describe, numerics, numerics_of, numerics_reason};
pub use measured::Measured;
pub use numerics::Numerics;
pub use plan::{Expects, MadeFor, Plan, PlanError, Verified};
pub use recompute::{Choice, Way, choices_of_chain};
pub use report::{Potential, Report, VerifiedPlan};
pub use search::{Candidate, CandidateId, Outcome, Prediction, Search};
pub use simulation::{BlockMode, Simulated, SimulatedBlock, SimulatedStep, simulate};
pub use size_search::{SizeOutcome, SizeSearch};
pub use torch_version::{TorchVersion, TorchVersionError};
