//! Taking a request apart. What can't be read is answered with a fault, never with the framework's own words.

use std::future::Future;
use std::ops::RangeInclusive;

use axum::body::Bytes;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use tokio::time::timeout;

use super::Api;
use super::limits;
use super::problem::Problem;

/// Something that is sent as a body.
pub(crate) trait Wanted: DeserializeOwned + Send {
    /// Bytes that it may have.
    const MOST: usize = limits::SMALL;
}

/// A body, read whole.
pub(crate) struct Sent<T>(pub(crate) T);

/// What stands behind the question mark.
pub(crate) struct Asked<T>(pub(crate) T);

/// What the path names.
pub(crate) struct At<T>(pub(crate) T);

/// The largest whole number that JSON carries everywhere.
const MAX_WHOLE: u64 = lazaret_gate::limits::MAX_EXACT;

/// A number that JSON carries everywhere.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    within(deserializer, 0..=MAX_WHOLE)
}

/// How many items are to be on a page.
pub(crate) fn page<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    within(deserializer, 1..=limits::PAGE)
}

fn within<'de, D: Deserializer<'de>>(deserializer: D, range: RangeInclusive<u64>) -> Result<Option<u64>, D::Error> {
    match Option::<u64>::deserialize(deserializer)? {
        Some(number) if !range.contains(&number) => {
            let (first, last) = range.into_inner();
            Err(D::Error::custom(format!("{number} is not {first} to {last}")))
        }
        number => Ok(number),
    }
}

fn bad(text: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad-request", text)
}

impl<T: Wanted> FromRequest<Api> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            let text = "the body must be JSON; send it with `Content-Type: application/json`";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", text));
        }
        let _large = if T::MOST > limits::SMALL { api.large().await } else { None };
        read::<T>(request).await.map(Self)
    }
}

fn read<T: Wanted>(request: Request) -> impl Future<Output = Result<T, Problem>> + Send {
    let most = T::MOST;
    async move {
        let too_large = || {
            let text = format!("the body is larger than {most} bytes, which is the most here");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "input-too-large", &text)
        };
        let said = request.headers().get(header::CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
        if said.is_some_and(|len: usize| len > most) {
            return Err(too_large());
        }
        let bytes = match timeout(limits::BODY, axum::body::to_bytes(request.into_body(), most)).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(why)) => return Err(if is_too_long(&why) { too_large() } else { bad("the body was cut off") }),
            Err(_) => {
                let text = format!("the body took longer than {} s", limits::BODY.as_secs());
                return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", &text));
            }
        };
        parse(&bytes)
    }
}

fn is_too_long(why: &axum::Error) -> bool {
    let mut why: Option<&dyn std::error::Error> = Some(why);
    while let Some(error) = why {
        if error.to_string().contains("length limit exceeded") {
            return true;
        }
        why = error.source();
    }
    false
}

fn parse<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Problem> {
    // What has members could also be read from a list of them, which nobody has said that it can.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        let text = "the body is a list; it must be an object";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-input", text));
    }
    serde_json::from_slice(bytes).map_err(|why| {
        if why.is_data() {
            let text = format!("the body is not what is asked for: {why}; /v1/openapi.json says what is");
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-input", &text)
        } else {
            bad(&format!("the body is not JSON: {why}"))
        }
    })
}

impl<T: DeserializeOwned> FromRequestParts<Api> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let Query(value) = Query::<T>::try_from_uri(&parts.uri)
            .map_err(|why| bad(&format!("the parameters can't be read: {}", why.body_text())))?;
        Ok(Self(value))
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<Api> for At<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, api).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(PathRejection::FailedToDeserializePathParams(why)) => Err(match why.kind() {
                ErrorKind::Message(text) | ErrorKind::DeserializeError { message: text, .. } => bad(text),
                _ => bad(&why.body_text()),
            }),
            Err(why) => Err(bad(&why.body_text())),
        }
    }
}
