//! A request with values in it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazaret_gate::effect::Request;
use lazaret_gate::refusal::Code;
use lazaret_gate::secret::{HANDLE, Mention, Place, query, unescaped};
use lazaret_gate::target::BadTarget;
use lazaret_gate::{Target, Undone};
use zeroize::Zeroizing;

use super::{Filling, Form, refused};
use crate::egress::Ask;

/// A request as it leaves: with values in place of handles. It has no `Debug`, `Clone` or `Serialize`, and what was filled
/// in is wiped if it is dropped instead of sent.
pub struct Outgoing {
    /// In capitals.
    pub method: String,
    /// Where to, and what for, as the agent wrote it.
    target: Target,
    /// The whole URL, if values were put into it.
    filled: Option<Zeroizing<String>>,
    /// Names and values.
    pub headers: Vec<(String, Zeroizing<Vec<u8>>)>,
    /// May be empty.
    pub body: Vec<u8>,
}

const AUTHORIZATION: &str = "authorization";

impl Outgoing {
    /// A request with nothing to fill in. If values could come back, they must come in a form that can be searched.
    pub(super) fn plain(request: Request, target: Target, guarded: bool) -> Self {
        let Request { method, headers, body, .. } = request;
        let kept = headers.into_iter().filter(|header| !guarded || header.name != "accept-encoding");
        let headers = kept.map(|header| (header.name, Zeroizing::new(header.value.into_bytes()))).collect();
        Self { method, target, filled: None, headers, body: body.0 }
    }

    /// A request with these values in it.
    pub(super) fn filled(request: Request, target: Target, fillings: &[(Mention, Filling)]) -> Result<Self, Undone> {
        let mut values: Vec<Option<Zeroizing<Vec<u8>>>> = request.headers.iter().map(|_| None).collect();
        let mut parts: Vec<Zeroizing<String>> =
            query(&request.url).map(|part| Zeroizing::new(part.to_owned())).collect();
        let mut filled = false;
        for (mention, filling) in fillings {
            match (&filling.form, mention.place) {
                (Form::Header { name, prefix }, Place::Header(at)) if is_named(&request, at, name) => {
                    once(&mut values[at], mention, joined(&[prefix.as_bytes(), &filling.value]))?;
                }
                (Form::Basic { user }, Place::Header(at) | Place::Basic(at))
                    if is_named(&request, at, AUTHORIZATION) =>
                {
                    once(&mut values[at], mention, basic(user, &filling.value))?;
                }
                (Form::Query { name }, Place::Query(at)) if is_whole(parts.get(at), name, mention) => {
                    parts[at] = parameter(name, &filling.value);
                    filled = true;
                }
                (form, _) => return Err(misplaced(&mention.slot, form)),
            }
        }
        let filled = filled.then(|| url(&request.url, &parts));
        let named = request.headers.into_iter().zip(values);
        let kept = named.filter(|(header, _)| header.name != "accept-encoding");
        let headers = kept
            .map(|(header, value)| (header.name, value.unwrap_or_else(|| Zeroizing::new(header.value.into_bytes()))));
        Ok(Self { method: request.method, target, filled, headers: headers.collect(), body: request.body.0 })
    }

    /// The whole URL as it leaves.
    pub fn url(&self) -> &str {
        self.filled.as_ref().map_or(self.target.as_str(), |url| url.as_str())
    }

    /// Where it goes. A URL that values were put into is read anew: what is dialled is what is sent.
    pub(crate) fn into_ask(self, most: Option<usize>) -> Result<Ask, BadTarget> {
        let url = self.filled.as_ref().map_or_else(|| Ok(self.target), |url| Target::parse(url))?;
        let headers = self.headers.into_iter().map(|(name, mut value)| (name, std::mem::take(&mut *value)));
        Ok(Ask { method: self.method, url, headers: headers.collect(), body: self.body, most })
    }
}

fn is_named(request: &Request, at: usize, name: &str) -> bool {
    request.headers.get(at).is_some_and(|header| header.name == name)
}

/// Whether a part of the query is this parameter, and nothing but the handle is its value.
fn is_whole(part: Option<&Zeroizing<String>>, name: &str, mention: &Mention) -> bool {
    let part = part.and_then(|part| part.split_once('='));
    part.is_some_and(|(named, value)| named == name && unescaped(value) == format!("{HANDLE}{}", mention.slot))
}

/// One header carries one secret.
fn once(place: &mut Option<Zeroizing<Vec<u8>>>, mention: &Mention, value: Zeroizing<Vec<u8>>) -> Result<(), Undone> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => {
            let reason = format!("the header with the handle of slot `{}` has another handle in it", mention.slot);
            Err(refused(Code::SecretLeak, reason, "the agent has to ask differently: one handle a header".to_owned()))
        }
    }
}

fn misplaced(slot: &str, form: &Form) -> Undone {
    let belongs = match form {
        Form::Header { name, .. } => format!("in the header `{name}`"),
        Form::Query { name } => format!("as the whole value of the query parameter `{name}`"),
        Form::Basic { .. } => format!("in the header `{AUTHORIZATION}`"),
    };
    let reason = format!("the handle of slot `{slot}` stands elsewhere than {belongs}, where the slot is bound");
    let remedy = "the agent has to put it there; an operator can bind the slot in another form: `lazaret secret bind`";
    refused(Code::SecretLeak, reason, remedy.to_owned())
}

/// With room for all of it from the start: what a vector outgrows is not wiped.
fn joined(parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let mut all = Zeroizing::new(Vec::with_capacity(parts.iter().map(|part| part.len()).sum()));
    parts.iter().for_each(|part| all.extend_from_slice(part));
    all
}

fn basic(user: &str, value: &[u8]) -> Zeroizing<Vec<u8>> {
    let plain = joined(&[user.as_bytes(), b":", value]);
    let mut wrapped = Zeroizing::new(String::with_capacity(plain.len().div_ceil(3) * 4));
    STANDARD.encode_string(plain.as_slice(), &mut wrapped);
    joined(&[b"Basic ", wrapped.as_bytes()])
}

fn parameter(name: &str, value: &[u8]) -> Zeroizing<String> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = Zeroizing::new(String::with_capacity(name.len() + 1 + 3 * value.len()));
    text.push_str(name);
    text.push('=');
    for byte in value {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            text.push(char::from(*byte));
        } else {
            text.push('%');
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    text
}

/// The URL with these parts as its query.
fn url(url: &str, parts: &[Zeroizing<String>]) -> Zeroizing<String> {
    let Some((head, _)) = url.split_once('?') else { return Zeroizing::new(url.to_owned()) };
    let room = head.len() + parts.iter().map(|part| part.len() + 1).sum::<usize>();
    let mut whole = Zeroizing::new(String::with_capacity(room));
    whole.push_str(head);
    for (at, part) in parts.iter().enumerate() {
        whole.push(if at == 0 { '?' } else { '&' });
        whole.push_str(part);
    }
    whole
}
