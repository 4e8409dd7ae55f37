//! Who holds the unlocked vault: one place per process, shared by all that needs a value.
//!
//! A vault whose key lies in a file or a keyring unlocks by itself at the first need, one with a passphrase when somebody says
//! it. Whatever is changed is told to the journal, without the value, and the journal's last word is what a vault is held
//! against before it is believed: a copy of an earlier day has the right key too.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lazaret_gate::custody::{VaultChange, VaultChanged};
use lazaret_gate::record::Body;
use lazaret_link::VaultView;
use lazaret_store::vault::{
    Keychain, Kind, Mark, Secret, Source, Status, SystemKeyring, Unlock, Vault, VaultError, disable_core_dumps,
};
use lazaret_store::{Batch, Reader, Store, StoreError};

use crate::error::HostError;
use crate::host::{lock, now_ms};

/// The vault of a data root, locked or not.
pub struct Keys {
    root: PathBuf,
    store: Arc<Store>,
    /// The passphrase is in this file, if somebody said so.
    passphrase: Option<PathBuf>,
    keychain: Arc<dyn Keychain>,
    held: Mutex<Held>,
    /// Held from a change until it is on record, so that records come in the order of changes.
    writing: Mutex<()>,
}

#[derive(Default)]
struct Held {
    vault: Option<Arc<Vault>>,
    /// Why it doesn't unlock by itself any more, until somebody unlocks it: somebody locked it, or what it would do costs
    /// time and has failed.
    shut: Option<Locked>,
    /// The last that is on record.
    known: Option<Known>,
}

/// A vault in one of its states.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    vault: String,
    mark: Mark,
}

/// Why there is no unlocked vault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Locked {
    /// There is none at all.
    #[error("there is no vault in this data root; `lazaret vault init` makes one")]
    Missing,
    /// There was one.
    #[error(
        "the vault that is on record is gone; put it back from a backup, or make another one with `lazaret vault init`"
    )]
    Gone,
    /// Somebody has to unlock it.
    #[error("the vault is locked; `lazaret vault unlock` lets the keeper use it")]
    Shut,
    /// Not the vault that is on record.
    #[error(
        "the vault `{found}` lies where vault `{known}` is on record; put that one back from a backup, or move this one \
         away and make another with `lazaret vault init`"
    )]
    Other {
        /// What lies there.
        found: String,
        /// What should.
        known: String,
    },
    /// It can't be opened.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// What was found in it can't be put on record, and what isn't on record isn't used.
    #[error("the vault can't be used while the journal can't be written: {0}")]
    Unrecorded(StoreError),
}

/// What was changed.
pub(crate) struct Told {
    pub(crate) what: VaultChange,
    pub(crate) name: Option<String>,
    pub(crate) holder: Option<String>,
    pub(crate) slot: Option<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) version: Option<u64>,
}

impl Told {
    pub(crate) fn new(what: VaultChange) -> Self {
        Self { what, name: None, holder: None, slot: None, hosts: Vec::new(), version: None }
    }
}

/// The last that the journal says of a vault.
fn known(reader: &Reader) -> Result<Option<Known>, StoreError> {
    let Some(seq) = reader.entries_of_kind("vault-changed")?.pop() else { return Ok(None) };
    let Body::VaultChanged(body) = reader.entry(seq)?.body else { return Ok(None) };
    let VaultChanged { vault, generation, digest, .. } = *body;
    Ok(Some(Known { vault, mark: Mark { generation, digest } }))
}

/// What can be said of a vault without its key, if it is the one on record.
fn found(root: &Path, known: Option<&Known>) -> Result<Status, Locked> {
    match (Vault::status(root)?, known) {
        (None, None) => Err(Locked::Missing),
        (None, Some(_)) => Err(Locked::Gone),
        (Some(status), known) => compared(status, known),
    }
}

fn compared(status: Status, known: Option<&Known>) -> Result<Status, Locked> {
    let Some(known) = known else { return Ok(status) };
    if status.id != known.vault {
        return Err(Locked::Other { found: status.id, known: known.vault.clone() });
    }
    status.mark.follows(&known.mark)?;
    Ok(status)
}

/// What anybody who may read a data root can tell of its vault.
pub fn vault_status(root: &Path, reader: &Reader) -> Result<VaultView, HostError> {
    Ok(view(found(root, known(reader)?.as_ref())?, false))
}

/// The unlocked vault of a data root, for whoever only reads there: if that takes nobody's word, and it is the one on record.
pub(crate) fn look_into(root: &Path, reader: &Reader, passphrase: Option<&Path>) -> Result<Vault, Locked> {
    let known = known(reader).map_err(VaultError::from)?;
    let status = found(root, known.as_ref())?;
    let keychain: Arc<dyn Keychain> = Arc::new(SystemKeyring);
    let unlock = unlock_for(&status.kind, None, passphrase, &keychain)?;
    disable_core_dumps().map_err(VaultError::from)?;
    let vault = Vault::unlock(root, &unlock, now_ms)?;
    compared(vault.facts()?, known.as_ref())?;
    Ok(vault)
}

/// What unlocks a vault of this kind: what somebody said, or what lies where it should.
fn unlock_for(
    kind: &Kind,
    passphrase: Option<Secret>,
    file: Option<&Path>,
    keychain: &Arc<dyn Keychain>,
) -> Result<Unlock, Locked> {
    Ok(match (kind, passphrase, file) {
        (Kind::Passphrase, Some(passphrase), _) => Unlock::Passphrase(passphrase),
        (Kind::Passphrase, None, Some(path)) => Unlock::Passphrase(Secret::read_file(path)?),
        (Kind::Passphrase, None, None) => return Err(Locked::Shut),
        (kind, Some(_), _) => {
            let (vault, given) = (kind.clone(), Kind::Passphrase);
            return Err(VaultError::OtherKind { vault, given }.into());
        }
        (Kind::KeyFile { path }, None, _) => Unlock::KeyFile { path: path.clone() },
        (Kind::Keyring, None, _) => Unlock::Keyring(Arc::clone(keychain)),
    })
}

/// A vault as it is told.
pub(crate) fn view(status: Status, unlocked: bool) -> VaultView {
    let Status { id, kind, epoch, mark, secrets, bindings } = status;
    let (kind, key_file) = match kind {
        Kind::Passphrase => ("passphrase", None),
        Kind::KeyFile { path } => ("key-file", Some(path.display().to_string())),
        Kind::Keyring => ("keyring", None),
    };
    let (kind, Mark { generation, digest }) = (kind.to_owned(), mark);
    VaultView { id, kind, key_file, unlocked, epoch, generation, digest, secrets, bindings }
}

impl Keys {
    /// The vault of a data root, locked. `passphrase` names a file with the passphrase, for a vault that has one.
    pub(crate) fn new(root: &Path, store: Arc<Store>, passphrase: Option<PathBuf>) -> Result<Self, StoreError> {
        let held = Held { known: known(&store)?, ..Held::default() };
        Ok(Self {
            root: root.to_owned(),
            store,
            passphrase,
            keychain: Arc::new(SystemKeyring),
            held: Mutex::new(held),
            writing: Mutex::default(),
        })
    }

    /// The unlocked vault: as it was unlocked before, or by itself if that takes nobody's word.
    pub fn vault(&self) -> Result<Arc<Vault>, Locked> {
        let mut held = lock(&self.held);
        if let Some(vault) = &held.vault {
            match vault.mark() {
                Ok(_) => return Ok(Arc::clone(vault)),
                // Another process gave it another key, or took it away: what is here opens nothing any more.
                Err(VaultError::Rotated | VaultError::Missing { .. }) => held.vault = None,
                Err(why) => return Err(why.into()),
            }
        }
        let status = found(&self.root, held.known.as_ref())?;
        if let Some(why) = &held.shut {
            return Err(why.clone());
        }
        let opened = self.unlock_for(&status.kind, None).and_then(|unlock| self.open(&mut held, &unlock));
        if let Err(why @ Locked::Vault(VaultError::WrongKey { .. })) = &opened {
            held.shut = Some(why.clone());
        }
        opened
    }

    fn unlock_for(&self, kind: &Kind, passphrase: Option<Secret>) -> Result<Unlock, Locked> {
        unlock_for(kind, passphrase, self.passphrase.as_deref(), &self.keychain)
    }

    /// Unlocks the vault for this process, by a passphrase or, if it has none, by where its key is kept.
    pub fn unlock(&self, passphrase: Option<Secret>) -> Result<Arc<Vault>, Locked> {
        let mut held = lock(&self.held);
        let status = found(&self.root, held.known.as_ref())?;
        let unlock = self.unlock_for(&status.kind, passphrase)?;
        self.open(&mut held, &unlock)
    }

    fn open(&self, held: &mut Held, unlock: &Unlock) -> Result<Arc<Vault>, Locked> {
        disable_core_dumps().map_err(VaultError::from)?;
        let vault = Arc::new(Vault::unlock(&self.root, unlock, now_ms)?);
        // Once more, of what the key has proved.
        let status = compared(vault.facts()?, held.known.as_ref())?;
        if held.known.as_ref().is_none_or(|known| known.mark != status.mark) {
            self.tell(held, &status, Told::new(VaultChange::Found), "the host").map_err(Locked::Unrecorded)?;
        }
        (held.vault, held.shut) = (Some(Arc::clone(&vault)), None);
        Ok(vault)
    }

    /// Forgets the keys. The vault stays locked until somebody unlocks it, also if it could by itself. Says whether it was
    /// unlocked. Whoever is in the middle of a request with a value ends it.
    pub fn lock(&self) -> bool {
        let mut held = lock(&self.held);
        held.shut = Some(Locked::Shut);
        held.vault.take().is_some()
    }

    /// Whether this process has the keys.
    pub fn is_unlocked(&self) -> bool {
        lock(&self.held).vault.is_some()
    }

    /// What can be said without a key; an error if the vault isn't the one on record.
    pub fn status(&self) -> Result<Status, Locked> {
        found(&self.root, lock(&self.held).known.as_ref())
    }

    /// What is wrong with the vault as it lies there, if anything is. None is nothing wrong.
    pub fn problem(&self) -> Option<Locked> {
        self.status().err().filter(|why| *why != Locked::Missing)
    }

    /// Makes a vault. If another one is on record and gone, this one takes its place.
    pub(crate) fn init(&self, source: &Source, by: &str) -> Result<Status, HostError> {
        let _writing = lock(&self.writing);
        disable_core_dumps().map_err(VaultError::from)?;
        let vault = Arc::new(Vault::init(&self.root, source, now_ms)?);
        let mut held = lock(&self.held);
        let status = vault.facts()?;
        self.record(&mut held, &status, Told::new(VaultChange::Init), by)?;
        (held.vault, held.shut) = (Some(vault), None);
        Ok(status)
    }

    /// Gives the vault another master key.
    pub(crate) fn rotate_master(&self, source: &Source, by: &str) -> Result<Status, HostError> {
        self.change(by, |vault| {
            vault.rotate_master(source)?;
            Ok(((), Told::new(VaultChange::RotateMaster)))
        })?;
        Ok(self.status()?)
    }

    /// Changes the unlocked vault, and puts that on record.
    pub(crate) fn change<T>(
        &self,
        by: &str,
        make: impl FnOnce(&Vault) -> Result<(T, Told), HostError>,
    ) -> Result<T, HostError> {
        let _writing = lock(&self.writing);
        let vault = self.vault()?;
        let (made, told) = make(&vault)?;
        self.record(&mut lock(&self.held), &vault.facts()?, told, by)?;
        Ok(made)
    }

    fn record(&self, held: &mut Held, status: &Status, told: Told, by: &str) -> Result<(), HostError> {
        // It is done, and found when the vault is next opened: better that than to say that it was not.
        self.tell(held, status, told, by).map_err(HostError::VaultUnrecorded)
    }

    fn tell(&self, held: &mut Held, status: &Status, told: Told, by: &str) -> Result<(), StoreError> {
        let Told { what, name, holder, slot, hosts, version } = told;
        let (vault, Mark { generation, digest }, by) = (status.id.clone(), status.mark, by.to_owned());
        let body = VaultChanged { what, vault, name, holder, slot, hosts, version, generation, digest, by };
        self.store.commit(Batch { entries: vec![Body::VaultChanged(Box::new(body))], changes: Vec::new() })?;
        held.known = Some(Known { vault: status.id.clone(), mark: status.mark });
        Ok(())
    }
}
