//! What a stream is to tell, and from where.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use axum::http::StatusCode;
use lazaret_gate::AgentId;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::keeper::http::problem::Problem;

/// Types that one stream can name.
const MAX_TYPES: usize = 64;

/// What somebody wants to hear.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wish {
    /// Go on after this event: its id, or a place in the journal. Without it, only what happens from now on.
    #[param(pattern = r"^[0-9]{1,15}(\.[0-9]{1,9})?$")]
    pub(crate) since: Option<String>,
    /// Only this agent's.
    #[param(value_type = Option<String>, pattern = "^[a-z][a-z0-9-]{0,63}$")]
    agent: Option<AgentId>,
    /// Only these types, with commas between.
    #[param(pattern = "^[a-z-]{1,40}(,[a-z-]{1,40}){0,20}$")]
    types: Option<String>,
    /// Messages, arguments and answers too; without, only what they were for.
    #[serde(default, deserialize_with = "yes")]
    #[param(value_type = Option<bool>, default = false)]
    bodies: bool,
    /// Whether to wait for more when all that is on record has been told.
    #[serde(default = "always", deserialize_with = "yes")]
    #[param(value_type = Option<bool>, default = true)]
    pub(crate) follow: bool,
}

fn always() -> bool {
    true
}

/// `1` and `true` are yes.
fn yes<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        other => Err(serde::de::Error::custom(format!("`{other}` is not true or false"))),
    }
}

/// The same, understood.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) agent: Option<AgentId>,
    pub(super) types: Option<BTreeSet<String>>,
    pub(super) bodies: bool,
}

pub(super) fn bad(what: &str, text: &str) -> Problem {
    let text: String = text.chars().take(80).collect();
    Problem::new(StatusCode::BAD_REQUEST, "bad-request", &format!("`{text}` is not {what}"))
}

impl Wish {
    pub(super) fn understood(&self) -> Result<Wanted, Problem> {
        let types = match &self.types {
            Some(types) => {
                let names: BTreeSet<String> = types.split(',').map(str::to_owned).collect();
                let lawful = |name: &String| {
                    (1..=40).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
                };
                if names.len() > MAX_TYPES || !names.iter().all(lawful) {
                    return Err(bad("a list of event types, like `turn,effect-refused`", types));
                }
                Some(names)
            }
            None => None,
        };
        Ok(Wanted { agent: self.agent.clone(), types, bodies: self.bodies })
    }
}

/// Between two events: `next` of the entry at `seq` is the next one that is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) seq: u64,
    pub(super) next: usize,
}

impl Place {
    /// Behind a journal of this length.
    pub(super) fn after_all(len: u64) -> Self {
        Self { seq: len, next: 0 }
    }
}

/// As an event's id: the entry that is told whole, or how far it is.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.seq.checked_sub(1), self.next) {
            (Some(last), 0) => write!(f, "{last}"),
            (None, 0) => Ok(()),
            (_, next) => write!(f, "{}.{}", self.seq, next - 1),
        }
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = |text: &str| {
            let lawful = (1..=15).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
            if lawful { text.parse::<u64>().map_err(|_| ()) } else { Err(()) }
        };
        match text.split_once('.') {
            None => Ok(Self { seq: digits(text)? + 1, next: 0 }),
            Some((seq, number)) => {
                let number = usize::try_from(digits(number)?).map_err(|_| ())?;
                Ok(Self { seq: digits(seq)?, next: number + 1 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn an_id_is_where_to_go_on() {
        for (text, seq, next) in [("0", 1, 0), ("17", 18, 0), ("17.0", 17, 1), ("17.4", 17, 5)] {
            let place: Place = text.parse().unwrap();
            assert_eq!(place, Place { seq, next });
            assert_eq!(place.to_string(), text);
        }
        for bad in ["", "x", "-1", "1.", ".1", "1.2.3", "99999999999999999999", "+1", " 1"] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
        assert!(Place { seq: 17, next: 1 } < Place::after_all(18));
    }
}
