//! One byte sequence per value: canonical JSON (RFC 8785), and the digests over it.

mod write;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeOwned, Visitor};
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
        deserializer.deserialize_str(Text("64 lower-case hex digits", Self::parse))
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
        deserializer.deserialize_str(Text("base64", Self::parse))
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
        deserializer.deserialize_str(Text("a whole number", |text| text.parse().ok().map(Self)))
    }
}

/// Reads a value from a text where it lies, without a copy of it; says what it should be, and how to read it.
struct Text<T>(&'static str, fn(&str) -> Option<T>);

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        const SHOWN: usize = 100;
        self.1(text).ok_or_else(|| {
            let (start, rest): (String, _) = (text.chars().take(SHOWN).collect(), text.chars().nth(SHOWN));
            E::custom(format_args!("`{start}{}` is not {}", rest.map_or("", |_| "…"), self.0))
        })
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
    encode_into(Vec::with_capacity(512), value)
}

fn encode_into<T: Serialize>(mut bytes: Vec<u8>, value: &T) -> Result<Vec<u8>, NotCanonical> {
    write::write(&mut bytes, value).map_err(|why| NotCanonical::Unwritable(why.to_string()))?;
    Ok(bytes)
}

/// Reads a value and insists that these bytes are its canonical form, so that no byte can change unseen.
pub fn decode<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, NotCanonical> {
    let value: T = serde_json::from_slice(bytes).map_err(|why| NotCanonical::Unreadable(why.to_string()))?;
    if encode_into(Vec::with_capacity(bytes.len()), &value)? == bytes {
        Ok(value)
    } else {
        Err(NotCanonical::OtherSpelling)
    }
}
