//! The document of the interface, made from the routes themselves.

use std::sync::OnceLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};

use super::problem::{Always, Problem};
use super::shapes;

/// What the routes don't say.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Lazaret",
        description = "The HTTP interface of a Lazaret keeper. It is served on loopback only. Every request but that for \
                       health shows the token that lies in the data root's `ipc.token`. An answer that is not a success \
                       is a `Fault`, whose `code` stays the same from release to release.",
    ),
    components(schemas(shapes::Fault)),
    tags(
        (name = "agents", description = "Agents, their turns and their mail"),
        (name = "trust", description = "How far agents are trusted, and who is not at all"),
        (name = "schedules", description = "When agents are woken by themselves"),
        (name = "approvals", description = "Questions that effects raise, and their answers"),
        (name = "policy", description = "What agents may do"),
        (name = "journal", description = "What happened, chained and signed"),
        (name = "operator", description = "How things are, and how they are stopped"),
    )
)]
pub(crate) struct About;

static DOCUMENT: OnceLock<String> = OnceLock::new();

/// Keeps the document for whoever asks.
pub(crate) fn keep(mut document: utoipa::openapi::OpenApi) {
    let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("The data root's `ipc.token`"));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(token.build()));
    document.security = Some(vec![SecurityRequirement::new::<_, [&str; 0], &str>("token", [])]);
    let _ = DOCUMENT.set(document.to_json().unwrap_or_default());
}

/// This document.
#[utoipa::path(
    get, path = "/v1/openapi.json", operation_id = "document", tag = "operator",
    responses((status = 200, description = "OpenAPI 3.1", body = Object), Always)
)]
pub(crate) async fn serve() -> Result<Response, Problem> {
    let text = DOCUMENT.get().filter(|text| !text.is_empty()).ok_or_else(Problem::unexpected)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text.as_str()).into_response())
}
