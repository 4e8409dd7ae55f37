//! Header fields. Names are kept in lower case, as HTTP/2 and the gate have them.

use lazaret_gate::effect::Header;
use lazaret_gate::limits::{MAX_ITEMS, MAX_KEY, MAX_TEXT};
use wasmtime::component::{ComponentType, Lower, Resource};

use super::super::table::Kept;
use super::super::{Host, Interface};

/// The connection's own business, not the guest's.
const FORBIDDEN: [&str; 9] = [
    "connection",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

#[derive(ComponentType, Lower, Clone, Copy, Debug, PartialEq, Eq)]
#[component(variant)]
enum HeaderError {
    #[component(name = "invalid-syntax")]
    InvalidSyntax,
    #[component(name = "forbidden")]
    Forbidden,
    #[component(name = "immutable")]
    Immutable,
}

/// A guest has more fields, or longer ones, than any request carries.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("header fields of {0}; the most is {MAX_ITEMS} fields and {MAX_TEXT} bytes")]
struct TooLarge(String);

type Value = Vec<u8>;

#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    items: Vec<(String, Value)>,
    bytes: usize,
    immutable: bool,
}

impl Kept for Fields {
    fn weight(&self) -> usize {
        self.bytes + self.items.len() * size_of::<(String, Value)>()
    }
}

fn check_name(name: &str) -> Result<String, HeaderError> {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || name.len() > MAX_KEY || !name.bytes().all(is_token) {
        return Err(HeaderError::InvalidSyntax);
    }
    let name = name.to_ascii_lowercase();
    if FORBIDDEN.contains(&name.as_str()) { Err(HeaderError::Forbidden) } else { Ok(name) }
}

/// Printable ASCII: what a record can hold and the gate lets through.
fn check_value(value: &[u8]) -> Result<(), HeaderError> {
    let is_plain = |&b: &u8| b == b'\t' || (0x20..0x7f).contains(&b);
    if value.iter().all(is_plain) { Ok(()) } else { Err(HeaderError::InvalidSyntax) }
}

impl Fields {
    /// What came with a response.
    pub(super) fn received(items: Vec<(String, Value)>) -> Self {
        let bytes = items.iter().map(|(name, value)| name.len() + value.len()).sum();
        Self { items, bytes, immutable: true }
    }

    /// The same, for looking at only.
    pub(super) fn fixed(&self) -> Self {
        Self { immutable: true, ..self.clone() }
    }

    /// As an effect has them.
    pub(super) fn into_headers(self) -> Vec<Header> {
        // INVARIANT: every value that a guest can put in is ASCII.
        let text = |value: Value| String::from_utf8_lossy(&value).into_owned();
        self.items.into_iter().map(|(name, value)| Header { name, value: text(value) }).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The `content-length` that the guest promises.
    pub(super) fn length(&self) -> Option<u64> {
        let (_, value) = self.items.iter().find(|(name, _)| name == "content-length")?;
        std::str::from_utf8(value).ok()?.parse().ok()
    }

    fn get(&self, name: &str) -> Vec<Value> {
        let name = name.to_ascii_lowercase();
        self.items.iter().filter(|(key, _)| *key == name).map(|(_, value)| value.clone()).collect()
    }

    fn change(&mut self, name: &str) -> Result<String, HeaderError> {
        if self.immutable { Err(HeaderError::Immutable) } else { check_name(name) }
    }

    fn delete(&mut self, name: &str) -> Result<(), HeaderError> {
        let name = self.change(name)?;
        self.items.retain(|(key, _)| *key != name);
        self.bytes = self.items.iter().map(|(name, value)| name.len() + value.len()).sum();
        Ok(())
    }

    fn append(&mut self, name: &str, value: Value) -> Result<Result<(), HeaderError>, TooLarge> {
        let name = match self.change(name).and_then(|name| check_value(&value).map(|()| name)) {
            Ok(name) => name,
            Err(why) => return Ok(Err(why)),
        };
        self.bytes += name.len() + value.len();
        self.items.push((name, value));
        if self.items.len() > MAX_ITEMS || self.bytes > MAX_TEXT {
            return Err(TooLarge(format!("{} fields and {} bytes", self.items.len(), self.bytes)));
        }
        Ok(Ok(()))
    }

    fn set(&mut self, name: &str, values: Vec<Value>) -> Result<Result<(), HeaderError>, TooLarge> {
        let checked = values.iter().try_for_each(|value| check_value(value)).and_then(|()| self.delete(name));
        if checked.is_err() {
            return Ok(checked);
        }
        for value in values {
            let appended = self.append(name, value)?;
            if appended.is_err() {
                return Ok(appended);
            }
        }
        Ok(Ok(()))
    }

    fn from_list(items: Vec<(String, Value)>) -> Result<Result<Self, HeaderError>, TooLarge> {
        let mut fields = Self::default();
        for (name, value) in items {
            if let Err(why) = fields.append(&name, value)? {
                return Ok(Err(why));
            }
        }
        Ok(Ok(fields))
    }
}

type Of = Resource<Fields>;

/// What looking through fields costs: all of them are passed over.
fn look<'a>(host: &'a mut Host<'_>, fields: &Of) -> wasmtime::Result<&'a Fields> {
    let bytes = host.table().get(fields)?.bytes;
    host.charge(bytes)?;
    Ok(host.table().get(fields)?)
}

pub(super) fn define(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.resource::<Fields>("fields")?;
    interface.local("[constructor]fields", |host, (): ()| Ok((host.table().push(Fields::default())?,)))?;
    interface.local("[static]fields.from-list", |host, (items,): (Vec<(String, Value)>,)| {
        host.charge(items.iter().map(|(name, value)| name.len() + value.len()).sum())?;
        Ok((match Fields::from_list(items)? {
            Ok(fields) => Ok(host.table().push(fields)?),
            Err(why) => Err(why),
        },))
    })?;
    interface
        .local("[method]fields.get", |host, (fields, name): (Of, String)| Ok((look(host, &fields)?.get(&name),)))?;
    interface.local("[method]fields.has", |host, (fields, name): (Of, String)| {
        Ok((!look(host, &fields)?.get(&name).is_empty(),))
    })?;
    interface.local("[method]fields.set", |host, (fields, name, values): (Of, String, Vec<Value>)| {
        look(host, &fields)?;
        host.charge(values.iter().map(Vec::len).sum())?;
        Ok((host.table().change(&fields, |fields| fields.set(&name, values))??,))
    })?;
    interface.local("[method]fields.delete", |host, (fields, name): (Of, String)| {
        look(host, &fields)?;
        Ok((host.table().change(&fields, |fields| fields.delete(&name))?,))
    })?;
    interface.local("[method]fields.append", |host, (fields, name, value): (Of, String, Value)| {
        host.charge(name.len() + value.len())?;
        Ok((host.table().change(&fields, |fields| fields.append(&name, value))??,))
    })?;
    interface.local("[method]fields.entries", |host, (fields,): (Of,)| Ok((look(host, &fields)?.items.clone(),)))?;
    interface.local("[method]fields.clone", |host, (fields,): (Of,)| {
        let copy = Fields { immutable: false, ..look(host, &fields)?.clone() };
        Ok((host.table().push(copy)?,))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_and_values_plain() {
        let mut fields = Fields::default();
        assert_eq!(fields.append("X-One", b"1".to_vec()), Ok(Ok(())));
        assert_eq!(fields.get("x-ONE"), [b"1".to_vec()]);
        assert_eq!(fields.append("x-one", b"2\r\nhost: evil".to_vec()), Ok(Err(HeaderError::InvalidSyntax)));
        assert_eq!(fields.append("Host", b"evil".to_vec()), Ok(Err(HeaderError::Forbidden)));
        assert_eq!(fields.append("a b", b"1".to_vec()), Ok(Err(HeaderError::InvalidSyntax)));
        assert_eq!(fields.set("x-one", vec![b"3".to_vec()]), Ok(Ok(())));
        assert_eq!(fields.get("x-one"), [b"3".to_vec()]);
        assert_eq!(fields.fixed().delete("x-one"), Err(HeaderError::Immutable));
    }

    #[test]
    fn sizes_are_capped() {
        let mut fields = Fields::default();
        for _ in 0..MAX_ITEMS {
            assert_eq!(fields.append("n", Vec::new()), Ok(Ok(())));
        }
        assert!(fields.append("n", Vec::new()).is_err());
        assert!(Fields::default().append("n", vec![b' '; MAX_TEXT]).is_err());
    }
}
