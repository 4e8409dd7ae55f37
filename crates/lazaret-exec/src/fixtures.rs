//! The inbox that the demo works on: data, compiled in.

use serde::Deserialize;

/// A mail of the fixture inbox.
#[derive(Clone, Debug, Deserialize)]
pub struct Mail {
    /// Its name.
    pub id: String,
    /// Who wrote it.
    pub from: String,
    /// Its subject.
    pub subject: String,
    /// Its text.
    pub body: String,
}

/// The inbox, oldest first.
pub fn inbox() -> Result<Vec<Mail>, String> {
    serde_json::from_str(include_str!("inbox.json")).map_err(|why| format!("the fixture inbox is damaged: {why}"))
}
