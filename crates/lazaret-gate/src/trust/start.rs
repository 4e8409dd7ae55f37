//! What new agents begin with, as an operator writes it down.

use serde::Deserialize;

use super::score::{BadScore, Score};

/// Bytes of the file: it has one line.
const MAX_BYTES: usize = 4 << 10;

/// A file that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadStart {
    /// More than anybody writes by hand.
    #[error("the file can have at most {MAX_BYTES} bytes, not {0}")]
    TooLarge(usize),
    /// It isn't TOML of the right shape.
    #[error("the file can't be read, which should have one line like `start = 0.30`: {0}")]
    Unreadable(String),
    /// It names no score.
    #[error(transparent)]
    Score(BadScore),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    start: Written,
}

/// As people write it, with quotes or without.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Whole(i64),
    Number(f64),
}

/// Reads the file.
pub(crate) fn parse(text: &str) -> Result<Score, BadStart> {
    if text.len() > MAX_BYTES {
        return Err(BadStart::TooLarge(text.len()));
    }
    let file: File = toml::from_str(text).map_err(|why| BadStart::Unreadable(why.message().to_owned()))?;
    let written = match file.start {
        Written::Text(text) => text,
        Written::Whole(number) => number.to_string(),
        // The shortest text that is this number: what was written, but for zeros at its end.
        Written::Number(number) => number.to_string(),
    };
    written.parse().map_err(BadStart::Score)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_read_as_people_write_it() {
        for (text, hundredths) in
            [("0.30", 30), ("0.3", 30), ("\"0.30\"", 30), ("0.07", 7), ("0.29", 29), ("1.0", 100), ("1", 100), ("0", 0)]
        {
            assert_eq!(parse(&format!("start = {text}\n")).map(Score::hundredths), Ok(hundredths), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["0.305", "1.01", "-0.1", "30", "nan", "inf", "1e-1000", "\"\"", "\"much\"", "-1"] {
            assert!(matches!(parse(&format!("start = {text}")), Err(BadStart::Score(_)) | Ok(Score::NONE)), "{text}");
        }
        for text in ["", "start = true", "start = 0.3\nmore = 1", "start", "start = [0.3]"] {
            assert!(matches!(parse(text), Err(BadStart::Unreadable(_))), "{text}");
        }
        assert_eq!(parse(&" ".repeat(5_000)), Err(BadStart::TooLarge(5_000)));
    }
}
