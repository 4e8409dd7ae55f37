//! What must not get out, looked for in a request as the agent wrote it.

use lazaret_gate::Undone;
use lazaret_gate::effect::Request;
use lazaret_gate::leak::{Form, Guard, Shapes};
use lazaret_gate::refusal::Code;
use lazaret_gate::secret::{HANDLE, handles, has_handle, query, unescaped};
use memchr::memmem;

use super::refused;

/// A part of a request, and how it is called in a message.
type Part<'r> = (String, &'r [u8]);

/// Refuses a request that has a value of the vault in it, something that looks like a credential, or a handle where none
/// belongs.
pub(super) fn leaks(request: &Request, guard: Option<&Guard>) -> Result<(), Undone> {
    let shapes = Shapes::shipped().map_err(|why| Undone::Failed(why.to_string()))?;
    for (place, bytes) in parts(request) {
        if let Some(hit) = guard.and_then(|guard| guard.scan(bytes)) {
            if hit.form == Form::Tangled {
                return Err(leak(format!("{place} can't be searched for secrets: it is {}", hit.form)));
            }
            return Err(leak(format!("{place} has the value of secret `{}` in it, {}", hit.slot, hit.form)));
        }
        if let Some(like) = shapes.scan(bytes) {
            return Err(leak(format!("{place} has something in it that looks like a credential, `{}`", like.shape)));
        }
    }
    for (place, bytes) in without_values(request) {
        if has_handle(&bytes) {
            let text = String::from_utf8_lossy(&bytes);
            let slot = handles(&text).next().unwrap_or_default();
            let why = "a handle is filled in only in a header's value or as the value of a query parameter";
            return Err(leak(format!("{place} has the handle of slot `{slot}` in it; {why}")));
        }
    }
    Ok(())
}

fn leak(reason: String) -> Undone {
    let remedy = "an agent sends a secret by its handle, to a host that an operator bound it to: `lazaret secret bind`";
    refused(Code::SecretLeak, reason, remedy.to_owned())
}

/// Everything that goes out.
fn parts(request: &Request) -> impl Iterator<Item = Part<'_>> {
    let url = [("the URL".to_owned(), request.url.as_bytes())];
    let headers = request.headers.iter().flat_map(|header| {
        let named = format!("the header `{}`", shown(&header.name));
        [("a header's name".to_owned(), header.name.as_bytes()), (named, header.value.as_bytes())]
    });
    url.into_iter().chain(headers).chain([("the body".to_owned(), request.body.0.as_slice())])
}

/// Everything in which no handle belongs, without percent-encoding.
fn without_values(request: &Request) -> Vec<(&'static str, Vec<u8>)> {
    let path = request.url.split('?').next().unwrap_or_default();
    let mut found = vec![("the URL", unescaped(path).into_bytes())];
    for part in query(&request.url) {
        let name = part.split_once('=').map_or(part, |(name, _)| name);
        found.push(("the name of a query parameter", unescaped(name).into_bytes()));
    }
    let names = request.headers.iter().map(|header| ("a header's name", header.name.as_bytes().to_vec()));
    found.extend(names);
    let body = &request.body.0;
    // Most bodies have nothing of the kind, and are not copied.
    let stem = HANDLE.trim_end_matches(':').as_bytes();
    if memmem::find(body, stem).is_some() {
        found.push(("the body", unescaped(&String::from_utf8_lossy(body)).into_bytes()));
    }
    found
}

fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}
