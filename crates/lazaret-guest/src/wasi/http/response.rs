//! Responses: promised, and here.

use lazaret_gate::effect::Request;
use wasmtime::component::Resource;

use super::super::Interface;
use super::super::io::{InputStream, Pollable};
use super::super::table::Kept;
use super::code::ErrorCode;
use super::fields::Fields;

/// A response that is here whole, or will be when its request is.
pub(in super::super) struct FutureResponse(Stage);

enum Stage {
    /// The request's body isn't finished.
    Waiting(Box<Request>),
    Here(Box<Result<IncomingResponse, ErrorCode>>),
    /// The guest has it.
    Got,
}

impl FutureResponse {
    pub(super) fn waiting(request: Request) -> Self {
        Self(Stage::Waiting(Box::new(request)))
    }

    pub(super) fn ready(response: Result<IncomingResponse, ErrorCode>) -> Self {
        Self(Stage::Here(Box::new(response)))
    }

    pub(in super::super) fn is_waiting(&self) -> bool {
        matches!(self.0, Stage::Waiting(_))
    }

    /// The request that waits for its body; it is sent by whoever takes it.
    pub(super) fn take_request(&mut self) -> Option<Request> {
        match std::mem::replace(&mut self.0, Stage::Got) {
            Stage::Waiting(request) => Some(*request),
            stage => {
                self.0 = stage;
                None
            }
        }
    }
}

impl Kept for FutureResponse {
    fn weight(&self) -> usize {
        match &self.0 {
            Stage::Waiting(request) => {
                let headers: usize = request.headers.iter().map(|header| header.name.len() + header.value.len()).sum();
                request.url.len() + headers
            }
            Stage::Here(response) => response.as_ref().as_ref().map_or(0, IncomingResponse::weight),
            Stage::Got => 0,
        }
    }
}

pub(super) struct IncomingResponse {
    status: u16,
    headers: Fields,
    /// Until the guest takes it.
    body: Option<Vec<u8>>,
}

impl IncomingResponse {
    pub(super) fn new(status: u16, headers: Fields, body: Vec<u8>) -> Self {
        Self { status, headers, body: Some(body) }
    }
}

impl Kept for IncomingResponse {
    fn weight(&self) -> usize {
        self.headers.weight() + self.body.as_ref().map_or(0, Vec::len)
    }
}

/// A body until its stream is taken.
struct IncomingBody(Option<Vec<u8>>);

impl Kept for IncomingBody {
    fn weight(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::len)
    }
}

/// Trailers are not carried: there are none, and that can be got once.
struct FutureTrailers {
    is_got: bool,
}

impl Kept for FutureTrailers {}

pub(super) fn define(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    define_future(interface)?;
    define_response(interface)?;
    define_body(interface)?;
    define_trailers(interface)
}

fn define_future(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    type Of = Resource<FutureResponse>;
    interface.resource::<FutureResponse>("future-incoming-response")?;
    interface.local("[method]future-incoming-response.subscribe", |host, (future,): (Of,)| {
        let key = host.table().key(&future)?;
        Ok((host.table().push(Pollable::Response(key))?,))
    })?;
    interface.local("[method]future-incoming-response.get", |host, (future,): (Of,)| {
        let stage = host.table().change(&future, |future| match std::mem::replace(&mut future.0, Stage::Got) {
            Stage::Waiting(request) => {
                future.0 = Stage::Waiting(request);
                None
            }
            stage => Some(stage),
        })?;
        Ok((match stage {
            Some(Stage::Here(response)) => Some(Ok(match *response {
                Ok(response) => Ok(host.table().push(response)?),
                Err(code) => Err(code),
            })),
            Some(_) => Some(Err(())),
            None => None,
        },))
    })
}

fn define_response(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    type Of = Resource<IncomingResponse>;
    interface.resource::<IncomingResponse>("incoming-response")?;
    interface.local("[method]incoming-response.status", |host, (response,): (Of,)| {
        Ok((host.table().get(&response)?.status,))
    })?;
    interface.local("[method]incoming-response.headers", |host, (response,): (Of,)| {
        let copy = host.table().get(&response)?.headers.fixed();
        host.charge(copy.weight())?;
        Ok((host.table().push(copy)?,))
    })?;
    interface.local("[method]incoming-response.consume", |host, (response,): (Of,)| {
        Ok((match host.table().change(&response, |response| response.body.take())? {
            Some(bytes) => Ok(host.table().push(IncomingBody(Some(bytes)))?),
            None => Err(()),
        },))
    })
}

fn define_body(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    type Of = Resource<IncomingBody>;
    interface.resource::<IncomingBody>("incoming-body")?;
    interface.local("[method]incoming-body.stream", |host, (body,): (Of,)| {
        Ok((match host.table().change(&body, |body| body.0.take())? {
            Some(bytes) => Ok(host.table().push(InputStream::Bytes { bytes, at: 0 })?),
            None => Err(()),
        },))
    })?;
    interface.local("[static]incoming-body.finish", |host, (body,): (Of,)| {
        host.table().take(body)?;
        Ok((host.table().push(FutureTrailers { is_got: false })?,))
    })
}

type Trailers = Result<Option<Resource<Fields>>, ErrorCode>;

fn define_trailers(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    type Of = Resource<FutureTrailers>;
    interface.resource::<FutureTrailers>("future-trailers")?;
    interface
        .local("[method]future-trailers.subscribe", |host, (_,): (Of,)| Ok((host.table().push(Pollable::Ready)?,)))?;
    interface.local("[method]future-trailers.get", |host, (trailers,): (Of,)| {
        let is_got = host.table().change(&trailers, |trailers| std::mem::replace(&mut trailers.is_got, true))?;
        let got: Result<Trailers, ()> = if is_got { Err(()) } else { Ok(Ok(None)) };
        Ok((Some(got),))
    })
}
