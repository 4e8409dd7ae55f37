//! A score from 0.00 to 1.00, in whole hundredths.

use std::fmt;

use serde::{Deserialize, Serialize};

/// 0.00 to 1.00. Rules and records have it in hundredths, 0 to 100: a rule that mistakes them for thousandths trusts too
/// little, never too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Score(u8);

/// What is no score.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadScore {
    /// As people write it.
    #[error("`{0}` is no trust score: write 0.00 to 1.00, with at most two digits behind the point")]
    Text(String),
    /// As records and rules have it.
    #[error("`{0}` is no trust score: write 0 to 100, in hundredths")]
    Hundredths(u8),
}

impl Score {
    /// What a revoked agent has.
    pub const NONE: Self = Self(0);

    /// What an agent begins with if nobody says otherwise.
    pub const START: Self = Self(50);

    /// As much as there is.
    pub const FULL: Self = Self(100);

    /// So many hundredths, or the nearest end if there are no so many.
    pub fn clamped(hundredths: i64) -> Self {
        Self(u8::try_from(hundredths.clamp(0, 100)).unwrap_or(0))
    }

    /// In hundredths.
    pub fn hundredths(self) -> u8 {
        self.0
    }
}

impl TryFrom<u8> for Score {
    type Error = BadScore;

    fn try_from(hundredths: u8) -> Result<Self, BadScore> {
        if hundredths <= 100 { Ok(Self(hundredths)) } else { Err(BadScore::Hundredths(hundredths)) }
    }
}

impl From<Score> for u8 {
    fn from(score: Score) -> Self {
        score.0
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{:02}", self.0 / 100, self.0 % 100))
    }
}

impl std::str::FromStr for Score {
    type Err = BadScore;

    fn from_str(text: &str) -> Result<Self, BadScore> {
        let bad = || BadScore::Text(text.chars().take(40).collect());
        let (whole, part) = text.split_once('.').unwrap_or((text, "00"));
        let digits = |text: &str| !text.is_empty() && text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(part) {
            return Err(bad());
        }
        let number = |text: &str| text.parse::<i64>().map_err(|_| bad());
        let hundredths = number(whole)? * 100 + number(&format!("{part:0<2}"))?;
        let score = u8::try_from(hundredths).map_err(|_| bad())?;
        Self::try_from(score).map_err(|_| bad())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_read_as_they_are_written() {
        for hundredths in 0..=100 {
            let score = Score::try_from(hundredths).unwrap();
            assert_eq!(score.to_string().parse(), Ok(score));
            assert_eq!(Score::clamped(i64::from(hundredths)), score);
        }
        for (text, hundredths) in [("0", 0), ("1", 100), ("0.5", 50), ("1.0", 100), ("00.07", 7)] {
            assert_eq!(text.parse::<Score>().unwrap().hundredths(), hundredths, "{text}");
        }
        for bad in ["", ".", ".5", "1.01", "2", "0.505", "-0.5", "0,5", "half", "1e0", "0.5 ", "٠.٥", "101"] {
            assert!(bad.parse::<Score>().is_err(), "{bad}");
        }
        assert_eq!((Score::clamped(-7), Score::clamped(i64::MAX)), (Score::NONE, Score::FULL));
        assert!(serde_json::from_str::<Score>("101").is_err());
    }
}
