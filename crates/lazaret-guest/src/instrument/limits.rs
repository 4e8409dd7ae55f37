//! How much a component may make this host write.

use super::refusal::Reason;

/// Groups over the whole file, each counted at every level that passes it on. A component of n levels that each
/// instantiate the next one twice has 2^n groups: without a limit, a kilobyte asks for any amount of memory. Rust, C and
/// Python guests have 1, JavaScript guests 3.
const MAX_GROUPS: usize = 4096;

/// Slots over all those groups, for the same reason. A Python application has about 500.
const MAX_SLOTS: usize = 65_536;

/// Components within components. Each level is copied into the one around it, so the cost of depth is quadratic. Known
/// toolchains use 4 levels.
pub(super) const MAX_DEPTH: usize = 32;

/// What may still be written.
#[derive(Debug)]
pub(super) struct Budget {
    groups: usize,
    slots: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Budget { groups: MAX_GROUPS, slots: MAX_SLOTS }
    }

    /// Takes one group with that many slots.
    pub(super) fn spend(&mut self, slots: usize) -> Result<(), Reason> {
        let too_many = |what, limit| Reason::TooMany { what, limit };
        self.groups = self
            .groups
            .checked_sub(1)
            .ok_or(too_many("groups of core instances, counted over all levels", MAX_GROUPS))?;
        self.slots =
            self.slots.checked_sub(slots).ok_or(too_many("mutable globals, counted over all instances", MAX_SLOTS))?;
        Ok(())
    }
}
