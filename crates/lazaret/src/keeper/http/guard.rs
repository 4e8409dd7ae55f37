//! Who is let in, and what every answer carries.
//!
//! A page of another website can make a browser send requests to loopback. It can't read the token, so it is let nowhere;
//! but it is turned away before that, by the name that it reached us under and by its origin.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::time::timeout;
use tracing::error;

use super::Api;
use super::limits::ANSWER;
use super::problem::Problem;
use crate::keeper::shared::InFlight;

/// Paths that say nothing about what is kept.
const OPEN: &[&str] = &["/v1/health"];

/// What every answer carries.
const SECURITY: [(HeaderName, &str); 7] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The outermost layer.
pub(crate) async fn guard(State(api): State<Api>, request: Request, next: Next) -> Response {
    let let_in = admitted(&api, request.uri(), request.headers());
    let mut response = match let_in {
        Ok(()) => answered(&api, request, next).await,
        Err(problem) => problem.into_response(),
    };
    for (name, value) in SECURITY {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn admitted(api: &Api, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    addressed(api, uri, headers)?;
    own_page(api, headers)?;
    if OPEN.contains(&uri.path()) { Ok(()) } else { known(api, headers) }
}

/// Whether a host, as a header or URL spells it, is this keeper.
fn is_us(api: &Api, authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let loopback = matches!(authority.host().to_ascii_lowercase().as_str(), "localhost" | "127.0.0.1" | "[::1]");
    loopback && authority.port_u16().unwrap_or(80) == api.port() && !authority.as_str().contains('@')
}

fn addressed(api: &Api, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad-request", "a request names exactly one `Host`"));
    };
    let named = host.to_str().is_ok_and(|host| is_us(api, host));
    if named && uri.authority().is_none_or(|authority| is_us(api, authority.as_str())) {
        return Ok(());
    }
    let text = "the request is for another host; use the address that the keeper wrote to run/http in its data root";
    Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "other-host", text))
}

fn own_page(api: &Api, headers: &HeaderMap) -> Result<(), Problem> {
    let ours = |origin: &HeaderValue| {
        let text = origin.to_str().unwrap_or_default();
        text.strip_prefix("http://").is_some_and(|authority| is_us(api, authority))
    };
    if headers.get_all(header::ORIGIN).iter().all(ours) {
        return Ok(());
    }
    let text = "pages of other origins are not answered";
    Err(Problem::new(StatusCode::FORBIDDEN, "other-origin", text))
}

fn known(api: &Api, headers: &HeaderMap) -> Result<(), Problem> {
    let mut said = headers.get_all(header::AUTHORIZATION).iter();
    let token = match (said.next().and_then(|value| value.to_str().ok()), said.next()) {
        (Some(value), None) => match value.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
            _ => "",
        },
        _ => "",
    };
    if api.shared().token.is(token) {
        return Ok(());
    }
    let text = "the token is missing or wrong; send `Authorization: Bearer` and what is in the data root's ipc.token";
    Err(Problem::new(StatusCode::UNAUTHORIZED, "token", text))
}

/// Runs the handler in a task of its own: what was begun is finished even if the client goes, and a panic ends nothing else.
async fn answered(api: &Api, request: Request, next: Next) -> Response {
    let begun = api.shared().begin();
    let work = tokio::spawn(async move { (next.run(request).await, begun) });
    match timeout(ANSWER, work).await {
        Ok(Ok((response, begun))) => held(response, begun),
        Ok(Err(_)) => {
            error!("a handler of the HTTP interface panicked");
            let text = "the keeper failed to answer; that is a bug of lazaret, please report it";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", text).into_response()
        }
        Err(_) => {
            let text = format!("this takes longer than {} s; it goes on, look again later", ANSWER.as_secs());
            Problem::new(StatusCode::GATEWAY_TIMEOUT, "too-slow", &text).into_response()
        }
    }
}

/// Counts the request until its answer is written. A stream has no end, so it is not waited for.
fn held(response: Response, begun: InFlight) -> Response {
    if response.body().size_hint().exact().is_none() {
        return response;
    }
    response.map(|body| Body::new(Held { body, _begun: begun }))
}

/// A body that is under way for as long as it isn't written.
struct Held {
    body: Body,
    _begun: InFlight,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
