//! What must not get out, looked for in a request as the agent wrote it.

use std::borrow::Cow;
use std::fmt;

use lazaret_gate::Undone;
use lazaret_gate::effect::{Header, Request};
use lazaret_gate::leak::{Form, Guard, Shapes};
use lazaret_gate::refusal::Code;
use lazaret_gate::secret::{HANDLE, handles, has_handle, query, unescaped};
use memchr::memmem;

use super::refused;

/// A part of a request, as a message calls it.
#[derive(Clone, Copy)]
enum Part<'r> {
    Url,
    ParameterName,
    HeaderName,
    Header(&'r str),
    Body,
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url => f.write_str("the URL"),
            Self::ParameterName => f.write_str("the name of a query parameter"),
            Self::HeaderName => f.write_str("a header's name"),
            Self::Header(name) => write!(f, "the header `{}`", name.chars().take(64).collect::<String>()),
            Self::Body => f.write_str("the body"),
        }
    }
}

/// Refuses a request that has a value of the vault in it, something that looks like a credential, or a handle where none
/// belongs.
pub(super) fn leaks(request: &Request, guard: Option<&Guard>) -> Result<(), Undone> {
    let shapes = Shapes::shipped().map_err(|why| Undone::Failed(why.to_string()))?;
    // All small parts in one go. What is in one of them is in this; only if there is something, it is asked in which.
    let head = lines([&request.url], &request.headers);
    let hides = |bytes: &[u8]| guard.is_some_and(|guard| guard.scan(bytes).is_some()) || shapes.scan(bytes).is_some();
    if hides(&head) || hides(&request.body.0) {
        parts(request).try_for_each(|(place, bytes)| part(place, bytes, guard, shapes))?;
    }
    for (place, text) in without_values(request) {
        if has_handle(text.as_bytes()) {
            let slot = handles(&text).next().unwrap_or_default();
            let why = "a handle is filled in only in a header's value or as the value of a query parameter";
            return Err(leak(format!("{place} has the handle of slot `{slot}` in it; {why}")));
        }
    }
    Ok(())
}

/// Texts and headers, each name and value on a line of its own: no value, shape or escape that is in one of them depends on
/// what is on the next line.
pub(super) fn lines<'t>(texts: impl IntoIterator<Item = &'t String> + Clone, headers: &'t [Header]) -> Vec<u8> {
    let all = || texts.clone().into_iter().chain(headers.iter().flat_map(|header| [&header.name, &header.value]));
    let mut lines = Vec::with_capacity(all().map(|text| text.len() + 1).sum());
    for text in all() {
        lines.extend_from_slice(text.as_bytes());
        lines.push(b'\n');
    }
    lines
}

/// Refuses a part that has something in it that must not get out.
fn part(place: Part<'_>, bytes: &[u8], guard: Option<&Guard>, shapes: &Shapes) -> Result<(), Undone> {
    if let Some(hit) = guard.and_then(|guard| guard.scan(bytes)) {
        if hit.form == Form::Tangled {
            return Err(leak(format!("{place} can't be searched for secrets: it is {}", hit.form)));
        }
        return Err(leak(format!("{place} has the value of secret `{}` in it, {}", hit.slot, hit.form)));
    }
    match shapes.scan(bytes) {
        Some(like) if like.shape == Shapes::TANGLED => {
            Err(leak(format!("{place} can't be searched for credentials: it is under {}", like.shape)))
        }
        Some(like) => Err(leak(format!("{place} has something in it that looks like a credential, `{}`", like.shape))),
        None => Ok(()),
    }
}

fn leak(reason: String) -> Undone {
    let remedy = "an agent sends a secret by its handle, to a host that an operator bound it to: `lazaret secret bind`";
    refused(Code::SecretLeak, reason, remedy.to_owned())
}

/// Everything that goes out.
fn parts(request: &Request) -> impl Iterator<Item = (Part<'_>, &[u8])> {
    let headers = request.headers.iter().flat_map(|header| {
        [(Part::HeaderName, header.name.as_bytes()), (Part::Header(&header.name), header.value.as_bytes())]
    });
    [(Part::Url, request.url.as_bytes())].into_iter().chain(headers).chain([(Part::Body, request.body.0.as_slice())])
}

/// Everything in which no handle belongs, without percent-encoding.
fn without_values(request: &Request) -> impl Iterator<Item = (Part<'_>, Cow<'_, str>)> {
    let path = request.url.split('?').next().unwrap_or_default();
    let parameters = query(&request.url).map(|part| {
        let name = part.split_once('=').map_or(part, |(name, _)| name);
        (Part::ParameterName, unescaped(name))
    });
    let names = request.headers.iter().map(|header| (Part::HeaderName, Cow::Borrowed(header.name.as_str())));
    // Most bodies have nothing of the kind, and are not copied.
    let stem = HANDLE.trim_end_matches(':').as_bytes();
    let body = Some(&request.body.0).filter(|body| body.len() > stem.len() && memmem::find(body, stem).is_some());
    let body = body.map(|body| (Part::Body, Cow::Owned(unescaped(&String::from_utf8_lossy(body)).into_owned())));
    [(Part::Url, unescaped(path))].into_iter().chain(parameters).chain(names).chain(body)
}
