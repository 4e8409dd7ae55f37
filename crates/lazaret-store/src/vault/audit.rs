//! What an operator should look at.

use std::collections::BTreeMap;

use super::error::VaultError;
use super::name::Name;
use super::source::{Cost, Origin};
use super::{Open, Status, Vault};

/// A value that has stood for longer than this is remarked on: 180 days.
const OLD: u64 = 180 * 24 * 60 * 60 * 1_000;

/// The result of opening everything once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Kind, counts and state.
    pub status: Status,
    /// Values that were opened: all of them, or there is an error instead of an audit.
    pub opened: usize,
    /// What isn't wrong, and could be better. In the order of names.
    pub remarks: Vec<Remark>,
}

/// Something that isn't wrong, and could be better.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Remark {
    /// Nobody can use it.
    #[error("`{secret}` fills no slot; bind it, or remove it")]
    Unbound {
        /// Which.
        secret: Name,
    },
    /// It has had its value for long.
    #[error("`{secret}` has had the same value for {days} days; rotate it")]
    Old {
        /// Which.
        secret: Name,
        /// How long.
        days: u64,
    },
    /// One leak is two.
    #[error("`{secret}` has the same value as `{other}`; give each its own")]
    Repeated {
        /// Which.
        secret: Name,
        /// The one that has it too.
        other: Name,
    },
    /// Whatever is asked of these hosts carries it.
    #[error("`{secret}` goes with any method and path to the hosts of {place}; say which it is for")]
    Broad {
        /// Which.
        secret: Name,
        /// Where it is bound.
        place: String,
    },
    /// For tests only.
    #[error("`{secret}` goes to `{host}` in the clear; that is for tests only")]
    Plain {
        /// Which.
        secret: Name,
        /// Where to.
        host: String,
    },
    /// Trying passphrases is cheaper than it would be in a vault that is made today.
    #[error("the passphrase costs less to try than it would in a new vault; rotate the master key")]
    Cheap,
}

pub(super) fn audit(vault: &Vault, open: &Open) -> Result<Audit, VaultError> {
    let now = (vault.now)();
    let mut remarks = Vec::new();
    if matches!(open.header.origin, Origin::Passphrase(cost) if cost.is_less_than(Cost::default())) {
        remarks.push(Remark::Cheap);
    }
    // Under the vault's key, so that what lies in memory meanwhile says nothing about values that are easy to guess.
    let mut seen: BTreeMap<[u8; 32], &Name> = BTreeMap::new();
    for entry in &open.index.entries {
        let secret = || entry.name.clone();
        let value = vault.value(open, &entry.name)?;
        let print = *open.keys.index.derive("lazaret 2026-11 vault: compare values", value.expose()).bytes();
        if let Some(other) = seen.insert(print, &entry.name) {
            remarks.push(Remark::Repeated { secret: secret(), other: other.clone() });
        }
        let age = now.saturating_sub(entry.rotated);
        if age > OLD {
            remarks.push(Remark::Old { secret: secret(), days: age / (24 * 60 * 60 * 1_000) });
        }
        if open.index.bound(&entry.name).next().is_none() {
            remarks.push(Remark::Unbound { secret: secret() });
        }
        for binding in open.index.bound(&entry.name) {
            if binding.methods.is_empty() && binding.paths.is_empty() {
                remarks.push(Remark::Broad { secret: secret(), place: binding.place() });
            }
            let plain = binding.hosts.iter().filter(|host| host.is_plain());
            remarks.extend(plain.map(|host| Remark::Plain { secret: secret(), host: host.to_string() }));
        }
    }
    Ok(Audit { status: open.status(), opened: open.index.entries.len(), remarks })
}
