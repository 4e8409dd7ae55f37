//! The operating system's keyring: Secret Service, macOS Keychain, Windows Credential Manager.

use zeroize::Zeroizing;

use super::error::VaultError;

/// Where a master key can be kept by name.
pub trait Keychain: Send + Sync {
    /// The key under this name; none if there is none.
    fn get(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, VaultError>;

    /// Keeps a key under this name, in place of what was there.
    fn set(&self, name: &str, key: &[u8]) -> Result<(), VaultError>;

    /// Forgets it. It is no error if there is none.
    fn delete(&self, name: &str) -> Result<(), VaultError>;
}

/// The keyring of whoever is logged in.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemKeyring;

/// What the keyring's own programs show the entries under.
const SERVICE: &str = "lazaret vault";

impl SystemKeyring {
    fn entry(name: &str) -> Result<keyring::Entry, VaultError> {
        // Why there is no keyring is said once, where it was looked for, and not by each entry.
        match keyring::Entry::store_status() {
            Ok(()) => keyring::Entry::new(SERVICE, name).map_err(|why| unreachable(&why)),
            Err(why) => Err(unreachable(why)),
        }
    }
}

impl Keychain for SystemKeyring {
    fn get(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, VaultError> {
        match Self::entry(name)?.get_secret() {
            Ok(key) => Ok(Some(Zeroizing::new(key))),
            Err(keyring::Error::NoEntry) => Ok(None),
            Err(why) => Err(unreachable(&why)),
        }
    }

    fn set(&self, name: &str, key: &[u8]) -> Result<(), VaultError> {
        Self::entry(name)?.set_secret(key).map_err(|why| unreachable(&why))
    }

    fn delete(&self, name: &str) -> Result<(), VaultError> {
        match Self::entry(name)?.delete_credential() {
            Ok(()) | Err(keyring::Error::NoEntry) => Ok(()),
            Err(why) => Err(unreachable(&why)),
        }
    }
}

/// Errors of the keyring may carry what was in it, so only those that can't are quoted.
fn unreachable(why: &keyring::Error) -> VaultError {
    let why = match why {
        keyring::Error::PlatformFailure(why) | keyring::Error::NoStorageAccess(why) => why.to_string(),
        keyring::Error::NoDefaultStore => "there is none in this session".to_owned(),
        keyring::Error::Ambiguous(_) => "it has several entries of the same name".to_owned(),
        _ => "it answered in a way that can't be used".to_owned(),
    };
    VaultError::NoKeyring { why }
}
