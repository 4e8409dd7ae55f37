//! What is asked of the vault. No answer has a value in it.

use std::path::PathBuf;
use std::sync::Arc;

use lazaret_gate::custody::VaultChange;
use lazaret_gate::leak::Guard;
use lazaret_gate::slots::DeclaredSlot;
use lazaret_link::{
    Bound, BoundForm, Hidden, KeySource, Reply, SecretAudit, SecretRequest, SecretView, SlotUses, VaultRequest,
};
use lazaret_store::AgentState;
use lazaret_store::vault::{
    BadHolder, Binding, Cost, Form, Holder, Meta, Name, Scope, Secret, Source, SystemKeyring, Vault, VaultError,
};

use super::Keeper;
use super::operator::short;
use crate::error::HostError;
use crate::keys::{Told, view};
use crate::secrets::SecretUses;
use crate::slots::declared_hosts;

impl Keeper {
    pub(super) fn vault(&self, request: VaultRequest) -> Result<Reply, HostError> {
        let keys = &self.host.keys;
        let status = match request {
            VaultRequest::Status => keys.status()?,
            VaultRequest::Init { source, by } => {
                short("a name", &by)?;
                keys.init(&source_of(source), &by)?
            }
            VaultRequest::Lock => return Ok(Reply::Locked(keys.lock())),
            VaultRequest::Unlock { passphrase } => {
                let status = keys.unlock(passphrase.map(secret))?.facts()?;
                self.nudge_wanting()?;
                status
            }
            VaultRequest::RotateMaster { source, by } => {
                short("a name", &by)?;
                keys.rotate_master(&source_of(source), &by)?
            }
        };
        Ok(Reply::Vault(Box::new(view(status, keys.is_unlocked()))))
    }

    pub(super) fn secret(&self, request: SecretRequest) -> Result<Reply, HostError> {
        let keys = &self.host.keys;
        match request {
            SecretRequest::Set { name, scope, value, by } => self.set(&name, scope.as_deref(), value, &by),
            SecretRequest::Rotate { name, value, by } => {
                short("a name", &by)?;
                let (name, value) = (name_of(&name)?, secret(value));
                let meta = keys.change(&by, |vault| {
                    vault.meta(&name)?;
                    guarded(vault, Some((&name, &value)), None)?;
                    Ok(told(VaultChange::Rotate, vault.rotate(&name, &value)?))
                })?;
                Ok(Reply::Secret(Box::new(shown(meta))))
            }
            SecretRequest::List => Ok(Reply::Secrets(keys.vault()?.list()?.into_iter().map(shown).collect())),
            SecretRequest::Show { name } => Ok(Reply::Secret(Box::new(shown(keys.vault()?.meta(&name_of(&name)?)?)))),
            SecretRequest::Bind { binding, by } => self.bind(*binding, &by),
            SecretRequest::Unbind { holder, slot, by } => self.unbind(&holder, &slot, &by),
            SecretRequest::Remove { name, by } => {
                short("a name", &by)?;
                let name = name_of(&name)?;
                keys.change(&by, |vault| {
                    vault.remove(&name)?;
                    Ok(((), Told { name: Some(name.to_string()), ..Told::new(VaultChange::Remove) }))
                })?;
                Ok(Reply::Done)
            }
            SecretRequest::Audit => {
                let opened = keys.vault()?;
                let (audit, unbound) = (opened.audit()?, self.host.unbound_slots(&opened)?);
                let (opened, vault) = (audit.opened as u64, view(audit.status, true));
                let remarks = audit.remarks.iter().map(ToString::to_string).collect();
                let uses = self.host.secret_uses()?.into_iter().map(|used| {
                    let SecretUses { agent, slot, uses, refused, last } = used;
                    SlotUses { agent: agent.to_string(), slot, uses, refused, last }
                });
                Ok(Reply::Audit(Box::new(SecretAudit { vault, opened, remarks, uses: uses.collect(), unbound })))
            }
            SecretRequest::Slots { agent } => {
                let row = self.host.store.agent(&agent)?.ok_or_else(|| HostError::NoAgent(agent.to_string()))?;
                Ok(Reply::Slots(self.host.declared_slots(&row)))
            }
        }
    }

    fn set(&self, name: &str, scope: Option<&str>, value: Hidden, by: &str) -> Result<Reply, HostError> {
        short("a name", by)?;
        let (name, value) = (name_of(name)?, secret(value));
        let scope = scope.map(str::parse::<Scope>).transpose();
        let scope = scope.map_err(|why| HostError::BadSecret(why.to_string()))?;
        let meta = self.host.keys.change(by, |vault| {
            // Nobody has to repeat the scope of what is there; it can't be changed anyway.
            let scope = match scope {
                Some(scope) => scope,
                None => match vault.meta(&name) {
                    Ok(before) => before.scope,
                    Err(VaultError::NoSuchSecret { .. }) => Scope::Global,
                    Err(why) => return Err(why.into()),
                },
            };
            guarded(vault, Some((&name, &value)), None)?;
            Ok(told(VaultChange::Set, vault.set(&name, &scope, &value)?))
        })?;
        Ok(Reply::Secret(Box::new(shown(meta))))
    }

    fn bind(&self, bound: Bound, by: &str) -> Result<Reply, HostError> {
        short("a name", by)?;
        let binding = binding_of(bound)?;
        let secret = binding.secret.clone();
        let holder = match &binding.holder {
            Holder::Agent(agent) => self.host.store.agent(agent)?.filter(|row| row.state != AgentState::Removed),
            Holder::App(_) => None,
        };
        if let Some(row) = &holder {
            declared_hosts(row, &binding)?;
        }
        let meta = self.host.keys.change(by, |vault| {
            guarded(vault, None, Some(&binding.slot))?;
            vault.bind(&binding)?;
            let hosts = binding.hosts.iter().map(ToString::to_string).collect();
            Ok((vault.meta(&secret)?, Told { hosts, ..placed(VaultChange::Bind, &binding) }))
        })?;
        // It may be what the agent's mail waits for.
        if let Some(row) = holder {
            self.nudge(&row.agent);
        }
        Ok(Reply::Secret(Box::new(shown(meta))))
    }

    /// Has the supervisor look at agents that may have waited for the keys.
    fn nudge_wanting(&self) -> Result<(), HostError> {
        if self.supervisor.is_none() {
            return Ok(());
        }
        for row in self.host.store.agents()? {
            if row.slots.iter().any(DeclaredSlot::is_required) {
                self.nudge(&row.agent);
            }
        }
        Ok(())
    }

    fn unbind(&self, holder: &str, slot: &str, by: &str) -> Result<Reply, HostError> {
        short("a name", by)?;
        let (holder, slot) = (holder_of(holder)?, name_of(slot)?);
        self.host.keys.change(by, |vault| {
            let was = vault.unbind(&holder, &slot)?;
            Ok(((), placed(VaultChange::Unbind, &was)))
        })?;
        Ok(Reply::Done)
    }
}

fn secret(hidden: Hidden) -> Secret {
    Secret::new(hidden.into_bytes())
}

fn name_of(text: &str) -> Result<Name, VaultError> {
    Ok(text.parse::<Name>()?)
}

fn holder_of(text: &str) -> Result<Holder, HostError> {
    text.parse().map_err(|why: BadHolder| HostError::BadSecret(why.to_string()))
}

fn source_of(source: KeySource) -> Source {
    match source {
        KeySource::Passphrase(passphrase) => {
            Source::Passphrase { passphrase: secret(passphrase), cost: Cost::default() }
        }
        KeySource::KeyFile(path) => Source::KeyFile { path: PathBuf::from(path) },
        KeySource::Keyring => Source::Keyring(Arc::new(SystemKeyring)),
    }
}

/// What can't be looked for in what goes out isn't protected there, so it isn't kept; and a name that would put a value into
/// every placeholder isn't given.
fn guarded(vault: &Vault, new: Option<(&Name, &Secret)>, slot: Option<&Name>) -> Result<(), HostError> {
    let mut kept: Vec<(Vec<String>, Secret)> = Vec::new();
    let mut names: Vec<String> = slot.iter().map(ToString::to_string).collect();
    for meta in vault.list()? {
        let mut labels = vec![meta.name.to_string()];
        labels.extend(meta.bindings.iter().map(|binding| binding.slot.to_string()));
        if new.is_some_and(|(name, _)| *name == meta.name) {
            names.extend(labels);
        } else {
            kept.push((labels, vault.get(&meta.name)?));
        }
    }
    let old = kept.iter().flat_map(|(labels, value)| labels.iter().map(move |label| (label.as_str(), value)));
    let name = new.map(|(name, value)| (name.as_str(), value));
    // Whatever it is a name of, what counts is what it spells.
    let any = new.map(|(_, value)| value).or(kept.first().map(|(_, value)| value));
    let more = names.iter().filter_map(|label| any.map(|value| (label.as_str(), value)));
    let all = old.chain(name).chain(more).map(|(label, value)| (label, value.expose()));
    Guard::new(all).map(drop).map_err(|why| HostError::BadSecret(why.to_string()))
}

/// A secret's new value, for the record and for the answer.
fn told(what: VaultChange, meta: Meta) -> (Meta, Told) {
    let told = Told { name: Some(meta.name.to_string()), version: Some(meta.version), ..Told::new(what) };
    (meta, told)
}

/// A slot's change, for the record.
fn placed(what: VaultChange, binding: &Binding) -> Told {
    let Binding { holder, slot, secret, .. } = binding;
    let (name, holder, slot) = (Some(secret.to_string()), Some(holder.to_string()), Some(slot.to_string()));
    Told { name, holder, slot, ..Told::new(what) }
}

fn binding_of(bound: Bound) -> Result<Binding, HostError> {
    let Bound { holder, slot, secret, hosts, form, methods, paths } = bound;
    Ok(Binding {
        holder: holder_of(&holder)?,
        slot: name_of(&slot)?,
        secret: name_of(&secret)?,
        hosts: hosts.iter().map(|text| text.parse()).collect::<Result<_, _>>().map_err(VaultError::from)?,
        form: match form {
            BoundForm::Header { name, prefix } => Form::Header { name, prefix },
            BoundForm::Query { name } => Form::Query { name },
            BoundForm::Basic { user } => Form::Basic { user },
        },
        methods: methods.iter().map(|text| text.parse()).collect::<Result<_, _>>().map_err(VaultError::from)?,
        paths: paths.iter().map(|text| text.parse()).collect::<Result<_, _>>().map_err(VaultError::from)?,
    })
}

fn shown(meta: Meta) -> SecretView {
    let Meta { name, scope, version, created, rotated, at_most, bindings } = meta;
    SecretView {
        name: name.to_string(),
        scope: scope.to_string(),
        version,
        created,
        rotated,
        at_most: at_most as u64,
        bindings: bindings.into_iter().map(bound).collect(),
    }
}

fn bound(binding: Binding) -> Bound {
    let Binding { holder, slot, secret, hosts, form, methods, paths } = binding;
    Bound {
        holder: holder.to_string(),
        slot: slot.to_string(),
        secret: secret.to_string(),
        hosts: hosts.iter().map(ToString::to_string).collect(),
        form: match form {
            Form::Header { name, prefix } => BoundForm::Header { name, prefix },
            Form::Query { name } => BoundForm::Query { name },
            Form::Basic { user } => BoundForm::Basic { user },
        },
        methods: methods.iter().map(ToString::to_string).collect(),
        paths: paths.iter().map(ToString::to_string).collect(),
    }
}
