//! Why a call was not answered.

use serde::{Deserialize, Serialize};

/// What went wrong, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}", self.text())]
pub struct Fault {
    /// Which of the known kinds it is; does not change from release to release.
    pub code: String,
    /// What it is about, in words.
    pub message: String,
    /// What would change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The code that the command exits with.
    pub exit: u8,
}

impl Fault {
    /// A fault from a text in which what would change it comes after the first `; `.
    pub fn new(code: &str, text: &str, exit: u8) -> Self {
        let (message, hint) = text.split_once("; ").map_or((text, None), |(message, hint)| (message, Some(hint)));
        Self { code: code.to_owned(), message: message.to_owned(), hint: hint.map(str::to_owned), exit }
    }

    /// Message and hint as one text, as [`Self::new`] takes it.
    pub fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }
}
