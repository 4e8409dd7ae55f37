//! The slots that agents' authors declare, and what the vault says of them.
//!
//! Author and operator both have a word: the one says where a secret is meant to go, the other where it may. What only one of
//! them names gets nothing. Whichever came first, the agent or the binding, is looked at when a secret is bound
//! ([`declared_hosts`]), before a turn ([`Host::equipped`]) and at every use (`host/secrets.rs`).

use std::path::Path;

use lazaret_gate::AgentId;
use lazaret_gate::shown;
use lazaret_gate::slots::DeclaredSlot;
use lazaret_link::{SlotView, SlotWanted};
use lazaret_store::vault::{Binding, Holder, Name, Vault, VaultError};
use lazaret_store::{AgentRow, AgentState, Reader};

use crate::error::HostError;
use crate::host::Host;
use crate::keys::{Locked, look_into};

/// Whether a binding can be of use to an agent that declares its slot so: it goes to at least one of the hosts.
pub(crate) fn is_of_use(binding: &Binding, declared: &DeclaredSlot) -> bool {
    binding.hosts.iter().any(|host| declared.admits(host.origin()))
}

fn is_filled(vault: &Vault, agent: &AgentId, declared: &DeclaredSlot) -> Result<bool, VaultError> {
    let name: Name = declared.slot().as_str().parse()?;
    let bound = vault.bound(&Holder::Agent(agent.clone()), &name)?;
    Ok(bound.is_some_and(|binding| is_of_use(&binding, declared)))
}

/// The same, whatever became of unlocking the vault. Where there is no vault, nothing is bound.
fn filled(vault: &Result<impl AsRef<Vault>, Locked>, row: &AgentRow, slot: &DeclaredSlot) -> Result<bool, Locked> {
    match vault {
        Ok(vault) => Ok(is_filled(vault.as_ref(), &row.agent, slot)?),
        Err(Locked::Missing) => Ok(false),
        Err(why) => Err(why.clone()),
    }
}

fn views(row: &AgentRow, vault: &Result<impl AsRef<Vault>, Locked>) -> Vec<SlotView> {
    let view = |declared: &DeclaredSlot| {
        let (bound, unknown) = match filled(vault, row, declared) {
            Ok(bound) => (Some(bound), None),
            // What would change it is for whoever wants to change it.
            Err(why) => (None, why.to_string().split("; ").next().map(str::to_owned)),
        };
        SlotView {
            slot: declared.slot().to_string(),
            purpose: declared.purpose().to_owned(),
            hosts: declared.host_texts(),
            required: declared.is_required(),
            bound,
            unknown,
        }
    };
    row.slots.iter().map(view).collect()
}

/// The slots that an agent's author declares, and whether they are bound, for whoever only reads a data root. `passphrase`
/// names a file with the vault's passphrase.
pub fn slots_of(root: &Path, reader: &Reader, row: &AgentRow, passphrase: Option<&Path>) -> Vec<SlotView> {
    if row.slots.is_empty() {
        return Vec::new();
    }
    views(row, &look_into(root, reader, passphrase).map(std::sync::Arc::new))
}

/// How an operator binds a secret to a declared slot. Purposes are the author's words and don't stand in it.
fn bind_command(agent: &AgentId, declared: &DeclaredSlot) -> String {
    let hosts = match declared.host_texts() {
        none if none.is_empty() => " --host HOST".to_owned(),
        hosts => hosts.iter().map(|host| format!(" --host {host}")).collect(),
    };
    format!("lazaret secret bind SECRET --agent {agent} --slot {}{hosts}", declared.slot())
}

/// A binding names no host that the agent's author has not declared, if the author names any.
pub(crate) fn declared_hosts(row: &AgentRow, binding: &Binding) -> Result<(), HostError> {
    let Some(declared) = row.slots.get(binding.slot.as_str()) else { return Ok(()) };
    match binding.hosts.iter().find(|host| !declared.admits(host.origin())) {
        None => Ok(()),
        Some(host) => Err(HostError::HostUndeclared {
            agent: row.agent.clone(),
            slot: declared.slot().clone(),
            host: host.to_string(),
            declared: declared.host_texts().join(", "),
        }),
    }
}

impl Host {
    /// The slots that an agent's author declares, and whether they are bound.
    pub fn declared_slots(&self, row: &AgentRow) -> Vec<SlotView> {
        if row.slots.is_empty() { Vec::new() } else { views(row, &self.keys.vault()) }
    }

    /// Whether every slot is bound that the agent's author says it can't do without.
    pub(crate) fn equipped(&self, row: &AgentRow) -> Result<(), HostError> {
        let mut required = row.slots.iter().filter(|declared| declared.is_required()).peekable();
        if required.peek().is_none() {
            return Ok(());
        }
        let vault = self.keys.vault();
        for declared in required {
            let (agent, slot) = (row.agent.clone(), declared.slot().clone());
            let purpose = shown::text(declared.purpose());
            match filled(&vault, row, declared) {
                Ok(true) => {}
                Ok(false) => {
                    let init = if vault.is_err() { "`lazaret vault init` makes a vault, then " } else { "" };
                    let help = format!("{init}`{}` fills it", bind_command(&agent, declared));
                    return Err(HostError::SlotEmpty { agent, slot, purpose, help });
                }
                Err(why) => return Err(HostError::SlotUnknown { agent, slot, purpose, why: Box::new(why) }),
            }
        }
        Ok(())
    }

    /// Required slots of agents that there are, which nothing is bound to.
    pub(crate) fn unbound_slots(&self, vault: &Vault) -> Result<Vec<SlotWanted>, HostError> {
        let mut wanted = Vec::new();
        for row in self.store.agents()? {
            if row.state == AgentState::Removed {
                continue;
            }
            for declared in row.slots.iter().filter(|declared| declared.is_required()) {
                if !is_filled(vault, &row.agent, declared)? {
                    let (slot, purpose) = (declared.slot().to_string(), declared.purpose().to_owned());
                    wanted.push(SlotWanted { agent: row.agent.to_string(), slot, purpose });
                }
            }
        }
        Ok(wanted)
    }
}
