//! What executors see of the vault: what fills a slot, and who knows all values.

use std::sync::{Arc, Mutex};

use lazaret_exec::broker::{Errand, Filling, Form, Secrets, Unfilled};
use lazaret_gate::leak::{Guard, fit};
use lazaret_gate::record::Body;
use lazaret_gate::secret::Slot;
use lazaret_gate::{AgentId, Effect, Outcome};
use lazaret_store::vault::{self, Binding, Holder, Mark, Name, Scope, Vault, VaultError};
use lazaret_store::{Reader, Store};
use zeroize::Zeroizing;

use crate::error::HostError;
use crate::host::lock;
use crate::keys::{Keys, Locked};
use crate::slots::is_of_use;

/// The vault of a host, for its executors.
pub(crate) struct Lockbox {
    keys: Arc<Keys>,
    /// What agents declare is in their rows.
    store: Arc<Store>,
    /// Whoever knows the values, as long as they stay the same.
    guard: Mutex<Option<(Mark, Arc<Guard>)>>,
}

impl Lockbox {
    pub(crate) fn new(keys: Arc<Keys>, store: Arc<Store>) -> Self {
        Self { keys, store, guard: Mutex::default() }
    }

    fn vault(&self) -> Result<Arc<Vault>, Unfilled> {
        self.keys.vault().map_err(|why| match why {
            Locked::Missing => Unfilled::Unbound,
            Locked::Shut | Locked::Vault(VaultError::WrongKey { .. }) => Unfilled::Locked(why.to_string()),
            other => Unfilled::Broken(other.to_string()),
        })
    }

    /// What is bound to a slot, if it goes on this errand.
    fn binding(
        &self,
        vault: &Vault,
        agent: &AgentId,
        slot: &Slot,
        errand: Option<&Errand>,
    ) -> Result<Binding, Unfilled> {
        let name: Name = slot.as_str().parse().map_err(|_| Unfilled::Unbound)?;
        let binding = vault.bound(&Holder::Agent(agent.clone()), &name).map_err(broken)?.ok_or(Unfilled::Unbound)?;
        let hosts = || binding.hosts.iter().map(ToString::to_string).collect();
        if let Scope::Device(device) = vault.meta(&binding.secret).map_err(broken)?.scope {
            let why = format!("it is only for what device `{device}` asks");
            return Err(Unfilled::Elsewhere { why, hosts: hosts() });
        }
        // The binding may be older than the agent, so what its author declares is looked at here too.
        let row = self.store.agent(agent).map_err(|why| Unfilled::Broken(why.to_string()))?;
        if let Some(declared) = row.as_ref().and_then(|row| row.slots.get(slot.as_str())) {
            let meant = errand.map_or_else(|| is_of_use(&binding, declared), |errand| declared.admits(&errand.place));
            if !meant {
                return Err(Unfilled::Undeclared { hosts: declared.host_texts() });
            }
        }
        if let Some(Errand { place, method, path }) = errand {
            let admitted = binding.admits(place, method, path);
            admitted.map_err(|why| Unfilled::Elsewhere { why: why.to_string(), hosts: hosts() })?;
        }
        Ok(binding)
    }

    fn build(vault: &Vault) -> Result<Arc<Guard>, String> {
        let text = |why: VaultError| why.to_string();
        let mut values = Vec::new();
        for meta in vault.list().map_err(text)? {
            let value = vault.get(&meta.name).map_err(text)?;
            // What can't be looked for is never sent either.
            if fit(value.expose()).is_ok() {
                values.push((meta.name, value));
            }
        }
        let pairs = values.iter().map(|(name, value)| (name.as_str(), value.expose()));
        Ok(Arc::new(Guard::new(pairs).map_err(|why| why.to_string())?))
    }
}

fn broken(why: VaultError) -> Unfilled {
    Unfilled::Broken(why.to_string())
}

impl Secrets for Lockbox {
    fn admits(&self, agent: &AgentId, slot: &Slot, errand: Option<&Errand>) -> Result<(), Unfilled> {
        self.binding(&*self.vault()?, agent, slot, errand).map(drop)
    }

    fn fill(&self, agent: &AgentId, slot: &Slot, errand: &Errand) -> Result<Filling, Unfilled> {
        let vault = self.vault()?;
        let binding = self.binding(&vault, agent, slot, Some(errand))?;
        let value = vault.get(&binding.secret).map_err(broken)?;
        fit(value.expose()).map_err(|why| {
            Unfilled::Broken(format!("what comes back can't be searched for `{}`: {why}", binding.secret))
        })?;
        let form = match binding.form {
            vault::Form::Header { name, prefix } => Form::Header { name, prefix },
            vault::Form::Query { name } => Form::Query { name },
            vault::Form::Basic { user } => Form::Basic { user },
        };
        Ok(Filling { form, value: Zeroizing::new(value.expose().to_vec()) })
    }

    fn guard(&self) -> Result<Option<Arc<Guard>>, String> {
        let vault = match self.keys.vault() {
            Ok(vault) => vault,
            // Without keys nobody knows the values: nothing can be filled in, and what goes out is held against shapes only.
            Err(Locked::Missing | Locked::Shut | Locked::Vault(VaultError::WrongKey { .. })) => return Ok(None),
            // One that is damaged, gone or another than the one on record isn't one that is merely locked.
            Err(why) => return Err(format!("the request was not sent: {why}")),
        };
        let mut kept = lock(&self.guard);
        // A change in the middle shows in the mark, and then it is done again; the last word is the broker's, who asks
        // whether the guard knows what was filled in.
        for _ in 0..3 {
            let mark = vault.mark().map_err(|why| why.to_string())?;
            if let Some((_, guard)) = kept.as_ref().filter(|(known, _)| *known == mark) {
                return Ok(Some(Arc::clone(guard)));
            }
            *kept = Some((mark, Self::build(&vault)?));
        }
        Err("the vault changes all the time: the request was not sent; ask again".to_owned())
    }
}

/// How often an agent used a slot, as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretUses {
    /// Which agent.
    pub agent: AgentId,
    /// Which slot.
    pub slot: String,
    /// Uses that were let pass.
    pub uses: u64,
    /// Uses that were refused.
    pub refused: u64,
    /// When it last asked, in milliseconds since 1970.
    pub last: u64,
}

/// Every use of a secret in turns that are on record, by agent and slot.
pub fn secret_uses(reader: &Reader) -> Result<Vec<SecretUses>, HostError> {
    const KIND: &[u8] = b"\"secret.use\"";
    let mut found: Vec<SecretUses> = Vec::new();
    let mut broken = None;
    reader.entries(0..reader.journal_len()?, |_, bytes| {
        if !bytes.starts_with(b"{\"body\":{\"turn\":") || !bytes.windows(KIND.len()).any(|window| window == KIND) {
            return std::ops::ControlFlow::Continue(());
        }
        match lazaret_gate::entry::Entry::read(bytes) {
            Ok(entry) => count(&mut found, &entry),
            Err(why) => {
                broken = Some(why);
                return std::ops::ControlFlow::Break(());
            }
        }
        std::ops::ControlFlow::Continue(())
    })?;
    found.sort();
    broken.map_or(Ok(found), |why| Err(why.into()))
}

fn count(found: &mut Vec<SecretUses>, entry: &lazaret_gate::entry::Entry) {
    let Body::Turn(record) = &entry.body else { return };
    for ask in &record.tape {
        let Effect::SecretUse { slot, url, .. } = &ask.effect else { continue };
        if url.is_empty() {
            continue;
        }
        let at = found.iter().position(|known| known.agent == record.agent && known.slot == *slot);
        let at = at.unwrap_or_else(|| {
            let (agent, slot) = (record.agent.clone(), slot.clone());
            found.push(SecretUses { agent, slot, uses: 0, refused: 0, last: 0 });
            found.len() - 1
        });
        let known = &mut found[at];
        match ask.outcome {
            Outcome::Done(_) => known.uses += 1,
            Outcome::Failed(_) | Outcome::Refused(_) => known.refused += 1,
        }
        known.last = known.last.max(entry.time);
    }
}
