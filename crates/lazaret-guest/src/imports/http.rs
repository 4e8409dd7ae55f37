use lazaret_gate::effect::{Header, Request};
use lazaret_gate::{Answer, Effect};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::Interface;

#[derive(ComponentType, Lift, Lower)]
#[component(record)]
struct WireHeader {
    name: String,
    value: String,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct WireRequest {
    method: String,
    url: String,
    headers: Vec<WireHeader>,
    body: Vec<u8>,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct WireResponse {
    status: u16,
    headers: Vec<WireHeader>,
    body: Vec<u8>,
}

pub(super) fn define(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.import(
        "fetch",
        |(request,): (WireRequest,)| {
            let headers = request.headers.into_iter().map(|header| Header { name: header.name, value: header.value });
            Effect::HttpFetch(Request {
                method: request.method,
                url: request.url,
                headers: headers.collect(),
                body: request.body.into(),
            })
        },
        |answer| match answer {
            Answer::Response(response) => {
                let headers = response.headers.into_iter().map(|h| WireHeader { name: h.name, value: h.value });
                Some(WireResponse { status: response.status, headers: headers.collect(), body: response.body.0 })
            }
            _ => None,
        },
    )
}
