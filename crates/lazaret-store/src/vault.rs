//! Secrets, sealed: a data key for each, wrapped by a master key that a person's passphrase, a key file or the operating
//! system's keyring gives. One file holds all of it and is replaced whole, so there is always the old vault or the new one.
//!
//! Any number of processes may have a vault unlocked. One at a time writes, from what is on disk then, and whoever reads
//! looks first whether that has changed: a secret that was removed is gone everywhere at once.

mod audit;
mod binding;
mod disk;
mod dumps;
mod error;
mod format;
mod keychain;
mod name;
mod seal;
mod secret;
mod source;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lazaret_gate::Digest;

use crate::root::Root;

pub use audit::{Audit, Remark};
pub use binding::{BadBinding, Binding, Form, Host, Method, Mismatch, PathPrefix};
pub use dumps::disable_core_dumps;
pub use error::VaultError;
pub use keychain::{Keychain, SystemKeyring};
pub use name::{BadHolder, BadName, BadScope, Holder, Name, Scope};
pub use secret::Secret;
pub use source::{Cost, Kind, Source, Unlock};

use disk::{Home, Lock, Seen};
use format::{Entry, Header, Index, Sealed, Subject};
use source::{Keys, Place, account};

/// Which of all the states that a vault went through this is. Kept elsewhere, in the journal, it shows that nobody put an
/// older copy in the vault's place: the vault alone can't.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// One more with every write.
    pub generation: u64,
    /// Of the whole file.
    pub digest: Digest,
}

impl Mark {
    /// Whether a vault with this mark can follow one with the mark on record. It may be later than that: a crash can come
    /// between a write and its record.
    pub fn follows(&self, known: &Self) -> Result<(), VaultError> {
        let (generation, found) = (self.generation, self.generation);
        match generation.cmp(&known.generation) {
            std::cmp::Ordering::Less => Err(VaultError::RolledBack { found, known: known.generation }),
            std::cmp::Ordering::Equal if self.digest != known.digest => {
                Err(VaultError::Forked { generation, known: known.digest })
            }
            _ => Ok(()),
        }
    }
}

/// What anybody who may read the file can tell without a key. Unlocking proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Of this vault, for ever.
    pub id: String,
    /// How it is unlocked.
    pub kind: Kind,
    /// How many master keys it has had.
    pub epoch: u64,
    /// Which state it is in.
    pub mark: Mark,
    /// How many secrets it holds.
    pub secrets: u64,
    /// How many slots they fill.
    pub bindings: u64,
}

impl Status {
    fn of(header: &Header, digest: Digest) -> Self {
        let Header { id, generation, epoch, origin, secrets, bindings, .. } = header.clone();
        Self { id, kind: origin.kind(), epoch, mark: Mark { generation, digest }, secrets, bindings }
    }
}

/// What there is to know of a secret but its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Its name.
    pub name: Name,
    /// How far it reaches.
    pub scope: Scope,
    /// 1, and one more with every new value.
    pub version: u64,
    /// When it was first set, in milliseconds since 1970.
    pub created: u64,
    /// When its value was last set.
    pub rotated: u64,
    /// It has at most so many bytes. How many exactly isn't said.
    pub at_most: usize,
    /// The slots that it fills.
    pub bindings: Vec<Binding>,
}

/// An unlocked vault. Threads may share it.
pub struct Vault {
    home: Home,
    now: fn() -> u64,
    open: Mutex<Open>,
}

/// The state on disk, as far as this process has seen it.
struct Open {
    seen: Seen,
    header: Header,
    digest: Digest,
    index: Index,
    keys: Keys,
    /// Where the master key is kept, if the vault takes it from a keyring.
    chain: Option<Arc<dyn Keychain>>,
}

impl Vault {
    /// Makes a vault in a data root. `now` gives milliseconds since 1970.
    pub fn init(root: &Path, source: &Source, now: fn() -> u64) -> Result<Self, VaultError> {
        Root::prepare(root)?;
        let home = Home::of(root);
        home.prepare()?;
        let lock = home.lock()?;
        if home.read()?.is_some() {
            return Err(VaultError::Exists { path: home.file() });
        }
        let (id, epoch, salt) = (hex(&random::<16>()?), 1, random()?);
        let place = Place { id: &id, epoch, salt: &salt };
        let (master, origin) = source.make(place)?;
        let keys = Keys::new(&master, place);
        let (salt, check) = (Digest(salt), keys.check);
        let header = Header { id, generation: 1, epoch, origin, salt, check, secrets: 0, bindings: 0 };
        let index = Index::default();
        let (seen, digest) = put(&home, &lock, &header, &index, &keys)?;
        let open = Open { seen, header, digest, index, keys, chain: source.keychain() };
        Ok(Self { home, now, open: Mutex::new(open) })
    }

    /// What can be said without unlocking it; none if there is no vault.
    pub fn status(root: &Path) -> Result<Option<Status>, VaultError> {
        let home = Home::of(root);
        let Some((_, bytes)) = home.read()? else { return Ok(None) };
        let sealed = Sealed::parse(&bytes, &home.file())?;
        Ok(Some(Status::of(&sealed.header, sealed.digest)))
    }

    /// Opens a vault. `now` gives milliseconds since 1970.
    pub fn unlock(root: &Path, unlock: &Unlock, now: fn() -> u64) -> Result<Self, VaultError> {
        let home = Home::of(root);
        let (seen, bytes) = home.read()?.ok_or_else(|| VaultError::Missing { path: root.to_owned() })?;
        let sealed = Sealed::parse(&bytes, &home.file())?;
        let place = sealed.header.place();
        let keys = Keys::new(&unlock.key(&sealed.header.origin, place)?, place);
        if keys.check != sealed.header.check {
            return Err(VaultError::WrongKey { kind: sealed.header.origin.kind() });
        }
        let index = sealed.open(&keys, &home.file())?;
        let (digest, header) = (sealed.digest, sealed.header);
        let open = Open { seen, header, digest, index, keys, chain: unlock.keychain() };
        Ok(Self { home, now, open: Mutex::new(open) })
    }

    /// Which state the vault is in now.
    pub fn mark(&self) -> Result<Mark, VaultError> {
        self.look(|open| Ok(open.mark()))
    }

    /// Kind, counts and state, proved.
    pub fn facts(&self) -> Result<Status, VaultError> {
        self.look(|open| Ok(open.status()))
    }

    /// A value, for whoever puts it into a request.
    pub fn get(&self, name: &Name) -> Result<Secret, VaultError> {
        self.look(|open| self.value(open, name))
    }

    /// All that there is to know of every secret but its value, by name.
    pub fn list(&self) -> Result<Vec<Meta>, VaultError> {
        self.look(|open| Ok(open.index.entries.iter().map(|entry| Meta::of(entry, &open.index)).collect()))
    }

    /// The same of one.
    pub fn meta(&self, name: &Name) -> Result<Meta, VaultError> {
        self.look(|open| Ok(Meta::of(open.index.entry(name).ok_or_else(|| missing(name))?, &open.index)))
    }

    /// What fills a slot.
    pub fn bound(&self, holder: &Holder, slot: &Name) -> Result<Option<Binding>, VaultError> {
        self.look(|open| Ok(slot_of(&open.index, holder, slot).ok().map(|at| open.index.bindings[at].clone())))
    }

    /// Keeps a value under a name. If there is one already it is replaced, and its version is one more; it keeps its scope.
    pub fn set(&self, name: &Name, scope: &Scope, value: &Secret) -> Result<Meta, VaultError> {
        self.change(|open, next| self.place(open, next, (name, scope, value)))
    }

    /// As [`Self::set`], for many: all of them or none, in one write.
    pub fn set_many(&self, values: &[(&Name, &Scope, &Secret)]) -> Result<(), VaultError> {
        self.change(|open, next| values.iter().try_for_each(|value| self.place(open, next, *value).map(drop)))
    }

    /// Replaces the value of a secret that there is.
    pub fn rotate(&self, name: &Name, value: &Secret) -> Result<Meta, VaultError> {
        self.change(|open, next| {
            let scope = next.index.entry(name).ok_or_else(|| missing(name))?.scope.clone();
            self.place(open, next, (name, &scope, value))
        })
    }

    /// Forgets a secret. It must not be bound any more.
    pub fn remove(&self, name: &Name) -> Result<(), VaultError> {
        self.change(|_, next| {
            let at = next.index.find(name).map_err(|_| missing(name))?;
            let holders: Vec<String> = next.index.bound(name).map(Binding::place).collect();
            if !holders.is_empty() {
                return Err(VaultError::StillBound { secret: name.clone(), holders });
            }
            next.index.entries.remove(at);
            Ok(())
        })
    }

    /// Fills a slot with a secret, in place of what filled it, which is returned.
    pub fn bind(&self, binding: &Binding) -> Result<Option<Binding>, VaultError> {
        binding.check()?;
        self.change(|open, next| {
            let Binding { holder, slot, secret, form, .. } = binding;
            let entry = next.index.entry(secret).ok_or_else(|| missing(secret))?;
            if !entry.scope.admits(holder) {
                let (scope, holder) = (entry.scope.to_string(), holder.to_string());
                return Err(VaultError::OutOfScope { secret: secret.clone(), scope, holder });
            }
            fits(secret, form, &self.value(open, secret)?)?;
            Ok(match slot_of(&next.index, holder, slot) {
                Ok(at) => Some(std::mem::replace(&mut next.index.bindings[at], binding.clone())),
                Err(at) => {
                    next.index.bindings.insert(at, binding.clone());
                    None
                }
            })
        })
    }

    /// Empties a slot, and returns what filled it.
    pub fn unbind(&self, holder: &Holder, slot: &Name) -> Result<Binding, VaultError> {
        self.change(|_, next| match slot_of(&next.index, holder, slot) {
            Ok(at) => Ok(next.index.bindings.remove(at)),
            Err(_) => Err(VaultError::NotBound { holder: holder.to_string(), slot: slot.clone() }),
        })
    }

    /// Gives the vault another master key: all data keys are wrapped anew, the values stay as they are sealed. A crash leaves
    /// a vault that opens with the old key or with the new one.
    pub fn rotate_master(&self, source: &Source) -> Result<(), VaultError> {
        let mut open = self.hold();
        let lock = self.home.lock()?;
        self.refresh(&mut open)?;
        let old = open.header.clone();
        let old_place = old.place();
        let present = source.present(&old.origin, old_place)?;
        if present.is_some_and(|master| Keys::new(&master, old_place).check == old.check) {
            return Err(VaultError::SameKey(source.kind()));
        }
        let (salt, epoch) = (random()?, old.epoch + 1);
        let place = Place { id: &old.id, epoch, salt: &salt };
        let (master, origin) = source.make(place)?;
        let keys = Keys::new(&master, place);
        let mut index = open.index.clone();
        for entry in &mut index.entries {
            let anew = entry.rewrap(&old.id, &open.keys.wrap, &keys.wrap);
            *entry = anew.ok_or_else(|| self.unsealed(&entry.name))??;
        }
        let (generation, salt, check) = (old.generation + 1, Digest(salt), keys.check);
        let header = Header { generation, epoch, origin, salt, check, ..old.clone() };
        let (seen, digest) = put(&self.home, &lock, &header, &index, &keys)?;
        let left = std::mem::replace(&mut *open, Open { seen, header, digest, index, keys, chain: source.keychain() });
        // The old key opens old copies of the file only. A rotation that a crash cut off may have left the one before it, or
        // one that was never used.
        let unused = open.chain.is_none().then_some(epoch);
        for epoch in [old.epoch.checked_sub(1), Some(old.epoch), unused].into_iter().flatten() {
            let _ = left.chain.as_ref().map(|chain| chain.delete(&account(&old.id, epoch)));
        }
        Ok(())
    }

    /// Everything opened once, and what an operator should look at.
    pub fn audit(&self) -> Result<Audit, VaultError> {
        self.look(|open| audit::audit(self, open))
    }

    fn value(&self, open: &Open, name: &Name) -> Result<Secret, VaultError> {
        let entry = open.index.entry(name).ok_or_else(|| missing(name))?;
        entry.open(&open.header.id, &open.keys.wrap).ok_or_else(|| self.unsealed(name))
    }

    fn unsealed(&self, name: &Name) -> VaultError {
        VaultError::Tampered { path: self.home.file(), why: format!("what lies under `{name}` was not sealed there") }
    }

    /// Seals a value and puts it under its name.
    fn place(&self, open: &Open, next: &mut Next, set: (&Name, &Scope, &Secret)) -> Result<Meta, VaultError> {
        let (name, scope, value) = set;
        value.check()?;
        next.index.bound(name).try_for_each(|binding| fits(name, &binding.form, value))?;
        let now = (self.now)();
        let found = next.index.find(name);
        let (version, created) = match found.map(|at| &next.index.entries[at]) {
            Ok(before) if before.scope != *scope => {
                return Err(VaultError::OtherScope { secret: name.clone(), scope: before.scope.to_string() });
            }
            Ok(before) => (before.version + 1, before.created),
            Err(_) => (1, now),
        };
        let subject = Subject { id: &open.header.id, name, scope, version, sealed: next.generation };
        let entry = Entry::seal(subject, &open.keys.wrap, (created, now), value)?;
        let meta = Meta::of(&entry, &next.index);
        match found {
            Ok(at) => next.index.entries[at] = entry,
            Err(at) => next.index.entries.insert(at, entry),
        }
        Ok(meta)
    }

    fn hold(&self) -> MutexGuard<'_, Open> {
        // Nothing in it is ever half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads from the state on disk.
    fn look<T>(&self, read: impl FnOnce(&Open) -> Result<T, VaultError>) -> Result<T, VaultError> {
        let mut open = self.hold();
        self.refresh(&mut open)?;
        read(&open)
    }

    /// Writes the state that follows the one on disk.
    fn change<T>(&self, make: impl FnOnce(&Open, &mut Next) -> Result<T, VaultError>) -> Result<T, VaultError> {
        let mut open = self.hold();
        let lock = self.home.lock()?;
        self.refresh(&mut open)?;
        let mut next = Next { index: open.index.clone(), generation: open.header.generation + 1 };
        let made = make(&open, &mut next)?;
        let Next { index, generation } = next;
        index.check_room()?;
        let (secrets, bindings) = (index.entries.len() as u64, index.bindings.len() as u64);
        let header = Header { generation, secrets, bindings, ..open.header.clone() };
        let (seen, digest) = put(&self.home, &lock, &header, &index, &open.keys)?;
        open.seen = seen;
        (open.header, open.index, open.digest) = (header, index, digest);
        Ok(made)
    }

    /// Takes up what another process has written.
    fn refresh(&self, open: &mut Open) -> Result<(), VaultError> {
        if self.home.is(&open.seen)? {
            return Ok(());
        }
        let missing = || VaultError::Missing { path: self.home.root().to_owned() };
        let (seen, bytes) = self.home.read()?.ok_or_else(missing)?;
        let sealed = Sealed::parse(&bytes, &self.home.file())?;
        if sealed.header.id != open.header.id || sealed.header.check != open.header.check {
            return Err(VaultError::Rotated);
        }
        let index = sealed.open(&open.keys, &self.home.file())?;
        Mark { generation: sealed.header.generation, digest: sealed.digest }.follows(&open.mark())?;
        (open.digest, open.header) = (sealed.digest, sealed.header);
        (open.seen, open.index) = (seen, index);
        Ok(())
    }
}

/// The state that is being made.
struct Next {
    index: Index,
    generation: u64,
}

impl Open {
    fn status(&self) -> Status {
        Status::of(&self.header, self.digest)
    }

    fn mark(&self) -> Mark {
        Mark { generation: self.header.generation, digest: self.digest }
    }
}

impl Meta {
    fn of(entry: &Entry, index: &Index) -> Self {
        Self {
            name: entry.name.clone(),
            scope: entry.scope.clone(),
            version: entry.version,
            created: entry.created,
            rotated: entry.rotated,
            at_most: entry.at_most(),
            bindings: index.bound(&entry.name).cloned().collect(),
        }
    }
}

/// Seals and writes; gives the state that this is and its digest.
fn put(home: &Home, lock: &Lock, header: &Header, index: &Index, keys: &Keys) -> Result<(Seen, Digest), VaultError> {
    let bytes = format::write(header, index, keys)?;
    Ok((home.replace(lock, &bytes)?, Digest::of(&bytes)))
}

fn missing(name: &Name) -> VaultError {
    VaultError::NoSuchSecret { secret: name.clone() }
}

/// Where a slot's binding is, or would be.
fn slot_of(index: &Index, holder: &Holder, slot: &Name) -> Result<usize, usize> {
    index.bindings.binary_search_by(|binding| (&binding.holder, &binding.slot).cmp(&(holder, slot)))
}

/// Said when it is set or bound, and not when a request waits for it.
fn fits(secret: &Name, form: &Form, value: &Secret) -> Result<(), VaultError> {
    match form {
        Form::Header { .. } if !value.fits_header() => Err(VaultError::NotForHeader { secret: secret.clone() }),
        _ => Ok(()),
    }
}

fn random<const N: usize>() -> Result<[u8; N], VaultError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(VaultError::random)?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
