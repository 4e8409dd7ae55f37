//! `wasi:http`, outgoing. A request is gathered whole and then asked as one effect: when it is handed over, or when
//! its body is finished if that comes later. Its response is then here whole, too.

mod code;
mod fields;
mod request;
mod response;

use lazaret_gate::effect::{Header, Request};
use lazaret_gate::{Answer, Effect, Outcome};
use wasmtime::component::Resource;

use super::io::IoError;
use super::table::Kept;
use super::{Asking, Interface, Kind};
use crate::imports::WrongAnswer;
use code::ErrorCode;
use fields::Fields;
pub(super) use request::OutgoingBody;
use request::{Gathering, OutgoingRequest, RequestOptions};
pub(super) use response::FutureResponse;
use response::IncomingResponse;

const FETCHES: Kind = Kind::MayAsk(&["secret.use", "http.fetch"]);

/// Asks for a request that is whole.
fn fetch(host: &mut Asking<'_>, request: Request) -> wasmtime::Result<Result<IncomingResponse, ErrorCode>> {
    let outcome = host.ask(Effect::HttpFetch(request))?;
    host.wasi().clock.pass();
    match outcome {
        Outcome::Done(Answer::Response(response)) => {
            let headers = response.headers.into_iter().map(|Header { name, value }| (name, value.into_bytes()));
            let headers = Fields::received(headers.collect());
            Ok(Ok(IncomingResponse::new(response.status, headers, response.body.0)))
        }
        Outcome::Done(_) => Err(WrongAnswer.into()),
        Outcome::Failed(why) => Ok(Err(ErrorCode::InternalError(Some(why)))),
        Outcome::Refused(_) => Ok(Err(ErrorCode::HttpRequestDenied)),
    }
}

type Handed = (Resource<OutgoingRequest>, Option<Resource<RequestOptions>>);

pub(super) fn handler(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.asking("handle", FETCHES, |host, (request, options): Handed| {
        if let Some(options) = options {
            host.table().take(options)?;
        }
        let OutgoingRequest { head, body } = host.table().take(request)?;
        let request = match head.compose() {
            Ok(request) => request,
            Err(code) => return Ok((Err(code),)),
        };
        let future = match body {
            Gathering::Untaken => FutureResponse::ready(fetch(host, request)?),
            Gathering::Whole(bytes) => FutureResponse::ready(fetch(host, Request { body: bytes.into(), ..request })?),
            Gathering::Lost => FutureResponse::ready(Err(request::lost())),
            Gathering::Taken(key) => {
                let future = host.table().push(FutureResponse::waiting(request))?;
                let owner = request::Owner::Future(host.table().key(&future)?);
                if let Some(body) = host.table().find(key) {
                    host.table().change(&body, |body| body.owner = owner)?;
                }
                return Ok((Ok(future),));
            }
        };
        Ok((Ok(host.table().push(future)?),))
    })
}

pub(super) fn types(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.local("http-error-code", |host, (error,): (Resource<IoError>,)| {
        Ok((match host.table().get(&error)? {
            IoError::BodyTooLarge => Some(ErrorCode::body_too_large()),
        },))
    })?;
    fields::define(interface)?;
    request::define(interface)?;
    response::define(interface)?;
    define_incoming(interface)
}

/// Of servers. Nobody can hold one.
struct IncomingRequest;

/// Of servers. Nobody can hold one.
struct ResponseOutparam;

/// Of servers: made for a request that never comes.
struct OutgoingResponse;

impl Kept for IncomingRequest {}
impl Kept for ResponseOutparam {}
impl Kept for OutgoingResponse {}

/// What only servers use. Bindings name these types beside the others; their functions are left out, so that a guest
/// that would serve is told at admission which function is missing.
fn define_incoming(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.resource::<IncomingRequest>("incoming-request")?;
    interface.resource::<ResponseOutparam>("response-outparam")?;
    interface.resource::<OutgoingResponse>("outgoing-response")
}
