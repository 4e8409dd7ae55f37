//! What a vault is on disk: a first line that names the format, a line that anybody may read, the sealed index, and a
//! digest over all of it. `docs/vault.md` has it in words.

use std::path::Path;

use lazaret_gate::canonical::{decode, encode};
use lazaret_gate::{Bytes, Digest};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::limits::{MAX_BINDINGS, MAX_SECRET, MAX_SECRETS, MAX_VAULT, MAX_VAULT_HEADER, MIN_PADDED};

use super::binding::Binding;
use super::error::VaultError;
use super::name::{Name, Scope};
use super::seal::{About, Key, OVERHEAD};
use super::secret::Secret;
use super::source::{Keys, Origin, Place};

/// The first line.
const FORMAT: &str = "lazaret-vault/1";
const FAMILY: &str = "lazaret-vault/";
const DIGEST: usize = 32;
/// In front of a value, its length.
const LENGTH: usize = 4;

/// The line that anybody may read. It is sealed with the index, so nobody may change it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    /// Of this vault, for ever: 32 hex digits.
    pub(super) id: String,
    /// One more with every write.
    pub(super) generation: u64,
    /// One more with every new master key.
    pub(super) epoch: u64,
    pub(super) origin: Origin,
    /// 32 random bytes, new with every master key.
    pub(super) salt: Digest,
    pub(super) check: Digest,
    pub(super) secrets: u64,
    pub(super) bindings: u64,
}

impl Header {
    pub(super) fn place(&self) -> Place<'_> {
        Place { id: &self.id, epoch: self.epoch, salt: &self.salt.0 }
    }
}

/// Everything that isn't for anybody to read. Values in it are sealed once more, each with its own key.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Index {
    /// By name.
    pub(super) entries: Vec<Entry>,
    /// By holder and slot.
    pub(super) bindings: Vec<Binding>,
}

/// One secret.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) name: Name,
    pub(super) scope: Scope,
    /// 1, and one more with every new value.
    pub(super) version: u64,
    /// The generation in which this value was sealed: a name that was removed and set again isn't what it was.
    pub(super) sealed: u64,
    /// Milliseconds since 1970.
    pub(super) created: u64,
    pub(super) rotated: u64,
    /// The data key, wrapped.
    key: Bytes,
    /// The value, sealed with the data key.
    value: Bytes,
}

impl Index {
    pub(super) fn entry(&self, name: &Name) -> Option<&Entry> {
        self.find(name).ok().and_then(|at| self.entries.get(at))
    }

    pub(super) fn find(&self, name: &Name) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.name.cmp(name))
    }

    pub(super) fn bound<'a>(&'a self, secret: &'a Name) -> impl Iterator<Item = &'a Binding> {
        self.bindings.iter().filter(move |binding| binding.secret == *secret)
    }

    /// What our own writes never break.
    fn flaw(&self, header: &Header) -> Option<&'static str> {
        let counted = header.secrets == self.entries.len() as u64 && header.bindings == self.bindings.len() as u64;
        let sorted = self.entries.is_sorted_by(|a, b| a.name < b.name)
            && self.bindings.is_sorted_by(|a, b| (&a.holder, &a.slot) < (&b.holder, &b.slot));
        let whole = |binding: &Binding| {
            binding.check().is_ok()
                && self.entry(&binding.secret).is_some_and(|entry| entry.scope.admits(&binding.holder))
        };
        match () {
            () if !counted => Some("its counts are wrong"),
            () if !sorted => Some("it is out of order"),
            () if !self.bindings.iter().all(whole) => Some("a binding in it has no secret"),
            () => None,
        }
    }

    pub(super) fn check_room(&self) -> Result<(), VaultError> {
        let fits = self.entries.len() <= MAX_SECRETS && self.bindings.len() <= MAX_BINDINGS;
        if fits { Ok(()) } else { Err(VaultError::Full) }
    }
}

/// What an entry is about, but for its value.
pub(super) struct Subject<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a Name,
    pub(super) scope: &'a Scope,
    pub(super) version: u64,
    pub(super) sealed: u64,
}

impl Subject<'_> {
    fn about(&self, what: &str) -> About {
        let (kind, of) = self.scope.parts();
        About::new(what)
            .with(self.id.as_bytes())
            .with(self.name.as_str().as_bytes())
            .with(kind.as_bytes())
            .with(of.as_bytes())
            .with_number(self.version)
            .with_number(self.sealed)
    }
}

impl Entry {
    /// Seals a value with a key of its own, and wraps that.
    pub(super) fn seal(about: Subject<'_>, wrap: &Key, times: (u64, u64), value: &Secret) -> Result<Self, VaultError> {
        let key = Key::random()?;
        let padded = pad(value.expose());
        Ok(Self {
            name: about.name.clone(),
            scope: about.scope.clone(),
            version: about.version,
            sealed: about.sealed,
            created: times.0,
            rotated: times.1,
            value: Bytes(key.seal(&about.about("value"), &padded)?),
            key: Bytes(wrap.seal(&about.about("data key"), key.bytes())?),
        })
    }

    fn about<'a>(&'a self, id: &'a str) -> Subject<'a> {
        Subject { id, name: &self.name, scope: &self.scope, version: self.version, sealed: self.sealed }
    }

    fn data_key(&self, id: &str, wrap: &Key) -> Option<Key> {
        let key = wrap.open(&self.about(id).about("data key"), &self.key.0)?;
        Key::from_slice(&key)
    }

    /// The value; none if it isn't what was sealed under this name.
    pub(super) fn open(&self, id: &str, wrap: &Key) -> Option<Secret> {
        let key = self.data_key(id, wrap)?;
        unpad(&key.open(&self.about(id).about("value"), &self.value.0)?)
    }

    /// The same entry under another master key.
    pub(super) fn rewrap(&self, id: &str, old: &Key, new: &Key) -> Option<Result<Self, VaultError>> {
        let key = self.data_key(id, old)?;
        let wrapped = new.seal(&self.about(id).about("data key"), key.bytes());
        Some(wrapped.map(|key| Self { key: Bytes(key), ..self.clone() }))
    }

    #[cfg(test)]
    pub(super) fn lend_key(&mut self, other: &Self) {
        self.key = other.key.clone();
    }

    #[cfg(test)]
    pub(super) fn lend_value(&mut self, other: &Self) {
        self.value = other.value.clone();
    }

    /// The longest value that is sealed in as many bytes.
    pub(super) fn at_most(&self) -> usize {
        self.value.0.len().saturating_sub(OVERHEAD + LENGTH)
    }
}

/// Length, value, and zeros up to a power of two.
fn pad(value: &[u8]) -> Zeroizing<Vec<u8>> {
    let room = (LENGTH + value.len()).next_power_of_two().max(MIN_PADDED);
    let mut padded = Zeroizing::new(vec![0; room]);
    let (length, rest) = padded.split_at_mut(LENGTH);
    length.copy_from_slice(&(value.len() as u32).to_le_bytes());
    rest[..value.len()].copy_from_slice(value);
    padded
}

fn unpad(padded: &[u8]) -> Option<Secret> {
    let (length, rest) = padded.split_first_chunk::<LENGTH>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok().filter(|length| *length <= MAX_SECRET)?;
    let (value, zeros) = rest.split_at_checked(length)?;
    zeros.iter().all(|byte| *byte == 0).then(|| Secret::new(value.to_vec()))
}

/// A vault as it was read: whole, but not proved yet.
pub(super) struct Sealed<'a> {
    pub(super) header: Header,
    /// Of the whole file.
    pub(super) digest: Digest,
    head: &'a [u8],
    body: &'a [u8],
}

impl<'a> Sealed<'a> {
    /// Reads what anybody may read.
    pub(super) fn parse(bytes: &'a [u8], path: &Path) -> Result<Self, VaultError> {
        let damaged = |why: &str| VaultError::Damaged { path: path.to_owned(), why: why.to_owned() };
        let (rest, digest) = bytes.split_last_chunk::<DIGEST>().ok_or_else(|| damaged("it is cut short"))?;
        if Digest::of(rest).0 != *digest {
            return Err(damaged("its bytes are not those that were written"));
        }
        let mut ends = rest.iter().take(MAX_VAULT_HEADER).enumerate().filter(|(_, byte)| **byte == b'\n');
        let (Some((first, _)), second) = (ends.next(), ends.next()) else { return Err(damaged("it is not a vault")) };
        match str::from_utf8(&rest[..first]) {
            Ok(FORMAT) => {}
            Ok(other) if other.starts_with(FAMILY) => {
                return Err(VaultError::Newer { found: other.chars().take(40).collect(), known: FORMAT });
            }
            _ => return Err(damaged("it is not a vault")),
        }
        let (second, _) = second.ok_or_else(|| damaged("its second line is too long"))?;
        let header: Header =
            decode(&rest[first + 1..second]).map_err(|why| damaged(&format!("its second line is {why}")))?;
        let named = header.id.len() == 32 && header.id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !named {
            return Err(damaged("its second line has no id"));
        }
        let (head, body) = rest.split_at(second + 1);
        Ok(Self { header, digest: Digest::of(bytes), head, body })
    }

    /// Opens the index, which proves the header too.
    pub(super) fn open(&self, keys: &Keys, path: &Path) -> Result<Index, VaultError> {
        let tampered = |why: &str| VaultError::Tampered { path: path.to_owned(), why: why.to_owned() };
        let plain = keys.index.open(&about_index(self.head), self.body);
        let plain = plain.ok_or_else(|| tampered("what is sealed in it doesn't belong to its second line"))?;
        let index: Index = decode(&plain).map_err(|why| tampered(&format!("its index is {why}")))?;
        match index.flaw(&self.header) {
            Some(flaw) => Err(tampered(&format!("of its index, {flaw}"))),
            None => Ok(index),
        }
    }
}

fn about_index(head: &[u8]) -> About {
    About::new("index").with(head)
}

/// The bytes of a vault.
pub(super) fn write(header: &Header, index: &Index, keys: &Keys) -> Result<Vec<u8>, VaultError> {
    let unwritable = |_| VaultError::Full;
    let mut bytes = format!("{FORMAT}\n").into_bytes();
    bytes.extend_from_slice(&encode(header).map_err(unwritable)?);
    bytes.push(b'\n');
    let body = keys.index.seal(&about_index(&bytes), &encode(index).map_err(unwritable)?)?;
    bytes.extend_from_slice(&body);
    let digest = Digest::of(&bytes);
    bytes.extend_from_slice(&digest.0);
    if bytes.len() > MAX_VAULT { Err(VaultError::Full) } else { Ok(bytes) }
}
