//! Who holds the memory at one moment. The sum over roles is PyTorch's own figure to the byte, so what the blocks seen
//! do not explain is a role of its own (unknown) and is named.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use oomproof_profile::Role;
use oomproof_units::Bytes;

use crate::legend::SourceLine;
use crate::roles::Roles;
use crate::timeline::{Block, Timeline};
use crate::verdict::{ModuleShare, SiteShare};

/// The live blocks of one device at one moment.
pub(crate) struct Holding<'a> {
    timeline: &'a Timeline,
    blocks: Vec<(&'a Block, Role)>,
    parameters: HashSet<&'a str>,
    allocated: u64,
}

/// When, where and how much there was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    pub(crate) device: u8,
    pub(crate) at: usize,
    pub(crate) allocated: u64,
}

impl<'a> Holding<'a> {
    pub(crate) fn at(timeline: &'a Timeline, roles: &Roles<'_>, when: Moments) -> Self {
        let blocks = timeline
            .blocks
            .iter()
            .filter(|block| block.device == when.device && block.lives_at(when.at))
            .map(|block| (block, roles.role(block)))
            .collect();
        let parameters = timeline
            .blocks
            .iter()
            .filter_map(|block| match block.label {
                Some((Role::Parameter, name)) => timeline.legend.text(name),
                _ => None,
            })
            .collect();
        Self {
            timeline,
            blocks,
            parameters,
            allocated: when.allocated,
        }
    }

    fn seen(&self) -> u64 {
        self.blocks
            .iter()
            .fold(0, |sum, (block, _)| sum.saturating_add(block.size))
    }

    /// Allocated bytes that no recorded block explains.
    pub(crate) fn unseen(&self) -> Bytes {
        Bytes::new(self.allocated.saturating_sub(self.seen()))
    }

    /// Bytes of recorded blocks beyond what was allocated: their release was not recorded.
    pub(crate) fn excess(&self) -> Bytes {
        Bytes::new(self.seen().saturating_sub(self.allocated))
    }

    /// Bytes by role, adding up to what was allocated.
    pub(crate) fn by_role(&self) -> BTreeMap<Role, Bytes> {
        let mut shares = BTreeMap::new();
        let mut left = self.allocated;
        for trusted in LEAST_DOUBTFUL_FIRST {
            let held = self
                .blocks
                .iter()
                .filter(|(_, role)| *role == trusted)
                .fold(0, |sum: u64, (block, _)| sum.saturating_add(block.size))
                .min(left);
            left -= held;
            if held > 0 {
                shares.insert(trusted, Bytes::new(held));
            }
        }
        if left > 0 {
            *shares.entry(Role::Unknown).or_default() += Bytes::new(left);
        }
        shares
    }

    /// Bytes by module, largest first.
    pub(crate) fn by_module(&self) -> Vec<ModuleShare> {
        let shares = self.shares(|block, role| self.module(block, role));
        let mut shares: Vec<_> = shares
            .into_iter()
            .map(|(path, bytes)| ModuleShare {
                path: path.to_owned(),
                bytes,
            })
            .collect();
        shares.sort_by_key(|share| Reverse(share.bytes));
        shares
    }

    /// Bytes by source line, largest first.
    pub(crate) fn by_site(&self) -> Vec<SiteShare> {
        let shares = self.shares(|block, _| self.timeline.legend.source_line(block.site));
        let mut shares: Vec<_> = shares
            .into_iter()
            .map(
                |(
                    SourceLine {
                        file,
                        line,
                        function,
                    },
                    bytes,
                )| SiteShare {
                    file: file.to_owned(),
                    line,
                    function: function.to_owned(),
                    bytes,
                },
            )
            .collect();
        shares.sort_by_key(|share| Reverse(share.bytes));
        shares
    }

    fn shares<K: Ord>(&self, key: impl Fn(&'a Block, Role) -> Option<K>) -> BTreeMap<K, Bytes> {
        let mut shares = BTreeMap::new();
        for &(block, role) in &self.blocks {
            if let Some(key) = key(block, role) {
                *shares.entry(key).or_default() += Bytes::new(block.size);
            }
        }
        shares
    }

    /// A parameter, its gradient and its optimizer state belong to the module of the parameter, whoever made them.
    fn module(&self, block: &Block, role: Role) -> Option<&'a str> {
        let named = block
            .label
            .and_then(|(_, name)| self.timeline.legend.text(name));
        match (role, named) {
            (Role::Parameter | Role::Buffer | Role::Gradient, Some(tensor)) => Some(parent(tensor)),
            (Role::OptimizerState, Some(state)) => {
                let of = prefixes(state).find(|prefix| self.parameters.contains(prefix));
                Some(parent(of.unwrap_or(parent(state))))
            }
            _ => self.timeline.legend.module(block.module),
        }
    }
}

/// The module of a tensor's dotted name.
fn parent(tensor: &str) -> &str {
    tensor.rsplit_once('.').map_or("", |(module, _)| module)
}

/// `a.b`, then `a`, of `a.b.c`: a state's name begins with that of its parameter.
fn prefixes(state: &str) -> impl Iterator<Item = &str> {
    state.rmatch_indices('.').map(|(at, _)| &state[..at])
}

const LEAST_DOUBTFUL_FIRST: [Role; 9] = [
    Role::Parameter,
    Role::Buffer,
    Role::OptimizerState,
    Role::Gradient,
    Role::Input,
    Role::Activation,
    Role::Workspace,
    Role::Temporary,
    Role::Unknown,
];
