//! What a block was for. Somebody who knows says so for parameters and the like; everything else is told by when a
//! block was made and when it was released, and the rules for that are these, first match first:
//!
//! 1. the role it was labeled with, at any time of its life;
//! 2. scratch memory of a library: workspace; 3. written from the host: input;
//! 4. released in the same stay in a phase, by the script itself: temporary;
//! 5. by the phase it was made in: see [`Roles::outlived_its_phase`].

use std::collections::HashSet;

use oomproof_profile::{Phase, Role, RunSettings};

use crate::timeline::{Block, Moment, Timeline};

/// Tells roles of the blocks of one timeline.
pub(crate) struct Roles<'a> {
    timeline: &'a Timeline,
    parameter_sizes: HashSet<u64>,
    /// Without labels the phases that the rules go by are not known either.
    labels: bool,
}

impl<'a> Roles<'a> {
    pub(crate) fn of(timeline: &'a Timeline, settings: &RunSettings) -> Self {
        let parameter_sizes = timeline
            .blocks
            .iter()
            .filter(|block| matches!(block.label, Some((Role::Parameter, _))))
            .map(|block| block.size)
            .collect();
        Self {
            timeline,
            parameter_sizes,
            labels: settings.labels,
        }
    }

    pub(crate) fn role(&self, block: &Block) -> Role {
        if !self.labels {
            Role::Unknown
        } else if let Some((role, _)) = block.label {
            role
        } else if block.workspace {
            Role::Workspace
        } else if block.from_host {
            Role::Input
        } else {
            let cut = self.cut_after(block.born);
            let in_time = |freed: &Moment| cut.is_none_or(|cut| freed.at < cut.at);
            match block.freed.filter(in_time) {
                Some(freed) if freed.span == block.born.span => Role::Temporary,
                freed => self.outlived_its_phase(block, freed, cut),
            }
        }
    }

    fn cut_after(&self, born: Moment) -> Option<Moment> {
        let cuts = &self.timeline.cuts;
        let next = cuts.partition_point(|cut| cut.at <= born.at);
        cuts.get(next).copied()
    }

    fn outlived_its_phase(
        &self,
        block: &Block,
        freed: Option<Moment>,
        cut: Option<Moment>,
    ) -> Role {
        let born = block.born;
        let last = freed.or(cut).or(self.timeline.end).unwrap_or(born);
        let this_step = last.step <= born.step;
        let saw_backward = last.backwards > born.backwards;
        match born.phase {
            // A result may be kept until the next step replaces it.
            Phase::Forward if saw_backward && last.step <= born.step.saturating_add(1) => {
                Role::Activation
            }
            Phase::Forward if this_step && !saw_backward => match freed {
                Some(_) => Role::Temporary,
                None => Role::Activation,
            },
            // A loss computed after the forward pass is kept for the backward pass like an activation.
            Phase::Idle => {
                let until_backward = last.phase == Phase::Backward
                    && last.backwards == born.backwards.saturating_add(1);
                let never_reached = freed.is_none() && !saw_backward && this_step;
                if self.follows_forward(born) && (until_backward || never_reached) {
                    Role::Activation
                } else {
                    Role::Unknown
                }
            }
            Phase::Backward if last.span > born.span => Role::Gradient,
            // This backward pass was cut short, before an optimizer could say what it had made.
            Phase::Backward if self.parameter_sizes.contains(&block.size) => Role::Gradient,
            Phase::Backward => Role::Temporary,
            // Cut short or still going on: what it made is in use by it.
            Phase::Optimizer | Phase::Evaluation | Phase::Save if last.span == born.span => {
                Role::Temporary
            }
            Phase::Load | Phase::Forward | Phase::Optimizer | Phase::Evaluation | Phase::Save => {
                Role::Unknown
            }
        }
    }

    fn follows_forward(&self, born: Moment) -> bool {
        let before = born.span.checked_sub(1);
        before
            .and_then(|span| self.timeline.spans.get(span))
            .is_some_and(|span| span.phase == Phase::Forward)
    }
}
