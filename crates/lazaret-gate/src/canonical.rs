//! One byte sequence per value: canonical JSON (RFC 8785), and the digests over it.

mod write;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A BLAKE3 digest, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of a value's canonical form.
    pub fn of_value<T: Serialize>(value: &T) -> Result<Self, NotCanonical> {
        Ok(Self::of(&encode(value)?))
    }

    /// The first twelve hex digits: enough to tell things apart on a screen.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }

    /// Reads 64 lower-case hex digits; anything else is `None`, so that a digest has one spelling.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 64 {
            return None;
        }
        let mut out = [0; 32];
        for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Some(Self(out))
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is not 64 lower-case hex digits")))
    }
}

/// Bytes, written as padded standard base64.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// Reads padded standard base64 in its one canonical spelling.
    pub fn parse(text: &str) -> Option<Self> {
        STANDARD.decode(text).ok().map(Self)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) if self.0.len() <= 80 => write!(f, "{text:?}"),
            _ => write!(f, "<{} bytes>", self.0.len()),
        }
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        STANDARD.decode(text.as_bytes()).map(Self).map_err(|why| D::Error::custom(format!("not base64: {why}")))
    }
}

/// A whole number written as a decimal string, because a JSON number can't hold all of them exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exact(pub u64);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_string())
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| D::Error::custom(format!("`{text}` is not a whole number")))
    }
}

/// A value that has no canonical form, or bytes that aren't in it.
#[derive(Debug, thiserror::Error)]
pub enum NotCanonical {
    /// The value can't be written.
    #[error("can't be written as canonical JSON: {0}")]
    Unwritable(String),
    /// The bytes aren't JSON of the expected shape.
    #[error("not the expected JSON: {0}")]
    Unreadable(String),
    /// The bytes say the right thing in another spelling (spaces, key order, escapes, unknown keys).
    #[error("JSON, but not in canonical form")]
    OtherSpelling,
}

/// The canonical bytes of a value. A number that canonical JSON would round is refused: two values must never share
/// their bytes.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, NotCanonical> {
    let mut bytes = Vec::new();
    write::write(&mut bytes, value).map_err(|why| NotCanonical::Unwritable(why.to_string()))?;
    Ok(bytes)
}

/// Reads a value and insists that these bytes are its canonical form, so that no byte can change unseen.
pub fn decode<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, NotCanonical> {
    let value: T = serde_json::from_slice(bytes).map_err(|why| NotCanonical::Unreadable(why.to_string()))?;
    if encode(&value)? == bytes { Ok(value) } else { Err(NotCanonical::OtherSpelling) }
}
