//! The causes, one file each. A row here is all that a new one needs.

use crate::cause::Cause;

mod autograd_retention;
mod compile_graphs;
mod cudnn;
mod data_dependent;
mod device0;
mod eval_phase;
mod fragmentation;
mod framework_retention;
mod free_but_fails;
mod host_memory;
mod limit;
mod load_save_resume;
mod mig;
mod not_memory;
mod optimizer_first_step;
mod other_process;
mod outside_allocator;
mod savers_dont_save;
mod sharded;
mod single_huge;
mod too_big;
mod windows_wsl;

/// All causes; of two that are equally likely the earlier is named first.
pub(crate) const CAUSES: &[Cause] = &[
    not_memory::CAUSE,
    host_memory::CAUSE,
    limit::CAUSE,
    single_huge::CAUSE,
    optimizer_first_step::CAUSE,
    eval_phase::CAUSE,
    load_save_resume::CAUSE,
    device0::CAUSE,
    other_process::CAUSE,
    fragmentation::CAUSE,
    compile_graphs::CAUSE,
    cudnn::CAUSE,
    outside_allocator::CAUSE,
    too_big::CAUSE,
    autograd_retention::CAUSE,
    data_dependent::CAUSE,
    framework_retention::CAUSE,
    sharded::CAUSE,
    savers_dont_save::CAUSE,
    free_but_fails::CAUSE,
    mig::CAUSE,
    windows_wsl::CAUSE,
];
