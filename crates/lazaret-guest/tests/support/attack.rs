//! An attack as a file says it: what it tries, what it is given, and how it must end.

use std::fmt;
use std::path::Path;

use lazaret_gate::record::{Failure, Message};
use lazaret_gate::{Budget, Ending, Grants, Outcome, TapeEntry};

use super::{bombs, wrap};

const PRELUDE: &str = include_str!("prelude.wat");

/// A refusal or a stop is for people: no guest may flood them.
const LONGEST_WORDS: usize = 2000;

/// One file of `tests/attacks`.
pub(crate) struct Attack {
    pub(crate) name: String,
    /// What it tries.
    pub(crate) what: String,
    expect: Expect,
    /// How many asks must be on the tape, and how many of them refused.
    effects: Option<usize>,
    refused: Option<usize>,
    /// Words that must be in a refusal on the tape.
    refusal: Option<String>,
    pub(crate) input: Message,
    pub(crate) budget: Budget,
    pub(crate) grants: Grants,
    guest: Guest,
}

/// How an attack must end.
#[derive(Debug)]
enum Expect {
    Inadmissible(String),
    Stopped { cause: String, detail: String },
    Replied(String),
    Failed(String),
}

/// Where the bytes come from.
enum Guest {
    /// The fields of a core module.
    Fields { text: String, encoding: String },
    /// A component in the text format.
    Component(String),
    /// Made by code.
    Generated(String),
}

/// What came of it.
pub(crate) enum Came {
    Inadmissible(String),
    Ran {
        ending: Ending,
        tape: Vec<TapeEntry>,
        /// Whether changes came back, which only a durable agent's reply brings.
        changed: bool,
        durable: bool,
    },
    Halted(String),
}

impl fmt::Display for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inadmissible(why) => write!(f, "admission refused: {why}"),
            Self::Halted(why) => write!(f, "halted: {why}"),
            Self::Ran { ending: Ending::Replied(reply), .. } => {
                let body = &reply.body.0[..reply.body.0.len().min(100)];
                write!(f, "replied {}", body.escape_ascii())
            }
            Self::Ran { ending: Ending::Failed(Failure::BadInput(text) | Failure::Failed(text)), .. } => {
                write!(f, "failed {}", text.chars().take(200).collect::<String>())
            }
            Self::Ran { ending: Ending::Stopped(stop), .. } => {
                write!(f, "stopped: {} {}", stop.cause.name(), stop.detail)
            }
        }
    }
}

impl Expect {
    fn parse(text: &str) -> Option<Self> {
        let part = |prefix: &str| text.strip_prefix(prefix).map(|rest| rest.trim().to_owned());
        if let Some(why) = part("admission refused:") {
            return (!why.is_empty()).then_some(Self::Inadmissible(why));
        }
        if let Some(rest) = part("stopped:") {
            let (cause, detail) = rest.split_once(' ').unwrap_or((&rest, ""));
            return (!cause.is_empty()).then(|| Self::Stopped { cause: cause.to_owned(), detail: detail.to_owned() });
        }
        part("replied").map(Self::Replied).or_else(|| part("failed").map(Self::Failed))
    }

    fn is_met(&self, came: &Came) -> bool {
        match (self, came) {
            (Self::Inadmissible(words), Came::Inadmissible(why)) => why.contains(words.as_str()),
            (Self::Stopped { cause, detail }, Came::Ran { ending: Ending::Stopped(stop), .. }) => {
                stop.cause.name() == cause && stop.detail.contains(detail.as_str())
            }
            (Self::Replied(text), Came::Ran { ending: Ending::Replied(reply), .. }) => {
                text.is_empty() || reply.body.0 == text.as_bytes()
            }
            (Self::Failed(text), Came::Ran { ending: Ending::Failed(failure), .. }) => {
                let (Failure::BadInput(said) | Failure::Failed(said)) = failure;
                said.contains(text.as_str())
            }
            _ => false,
        }
    }
}

impl Attack {
    /// Reads a file. Every line of its header must be understood: a misspelt expectation would expect nothing.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let wrong = |what: &str| format!("{}: {what}", path.display());
        let (mut what, mut expect, mut encoding) = (None, None, "utf8".to_owned());
        let (mut raw, mut generate) = (false, None);
        let mut attack = Self {
            name,
            what: String::new(),
            expect: Expect::Replied(String::new()),
            effects: None,
            refused: None,
            refusal: None,
            input: Message::outside("text/plain", Vec::new()),
            budget: Budget { fuel: 200_000_000, wall_ms: 10_000, ..Budget::default() },
            grants: Grants::basic(),
            guest: Guest::Component(String::new()),
        };
        for line in text.lines().map_while(|line| line.strip_prefix(";; ")) {
            let (key, value) = line.split_once(':').map_or((line.trim(), ""), |(key, value)| (key, value.trim()));
            let number = || value.parse::<usize>().map_err(|_| wrong(&format!("`{line}` has no number")));
            match key {
                "attack" => what = Some(value.to_owned()),
                "expect" => expect = Some(Expect::parse(value).ok_or_else(|| wrong(&format!("what is `{line}`?")))?),
                "effects" => attack.effects = Some(number()?),
                "refused" => attack.refused = Some(number()?),
                "refusal" => attack.refusal = Some(value.to_owned()),
                "input" => attack.input.body = value.into(),
                "input-bytes" => attack.input.body = vec![b'x'; number()?].into(),
                "budget" => attack.budget = budget(attack.budget, value).map_err(|why| wrong(&why))?,
                "grants" => {
                    let grants = value.split_whitespace().map(str::parse).collect::<Result<_, _>>();
                    attack.grants =
                        Grants::new(grants.map_err(|why: lazaret_gate::grant::BadGrant| wrong(&why.to_string()))?);
                }
                "encoding" => encoding = value.to_owned(),
                "raw component" => raw = true,
                "generate" => generate = Some(value.to_owned()),
                _ => return Err(wrong(&format!("what is `{line}`?"))),
            }
        }
        attack.what = what.ok_or_else(|| wrong("it doesn't say `;; attack:`"))?;
        attack.expect = expect.ok_or_else(|| wrong("it doesn't say `;; expect:`"))?;
        attack.guest = match (generate, raw) {
            (Some(generate), _) => Guest::Generated(generate),
            (None, true) => Guest::Component(text.to_owned()),
            (None, false) => Guest::Fields { text: text.to_owned(), encoding },
        };
        Ok(attack)
    }

    /// The component's bytes.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, String> {
        let text = match &self.guest {
            Guest::Generated(recipe) => return bombs::make(recipe),
            Guest::Component(text) => text.clone(),
            Guest::Fields { text, encoding } => wrap::component(&with_prelude(text), encoding, "", "$main"),
        };
        wat::parse_str(&text).map_err(|why| format!("{}: {why}", self.name))
    }

    /// Whether it ended as it must; if not, in which way.
    pub(crate) fn judge(&self, came: &Came) -> Result<(), String> {
        if !self.expect.is_met(came) {
            return Err(format!("expected {:?}, but it {came}", self.expect));
        }
        let said = came.to_string().len();
        if said > LONGEST_WORDS {
            return Err(format!("the words about it are {said} bytes long"));
        }
        let Came::Ran { ending, tape, changed, durable } = came else {
            return Ok(());
        };
        if *changed != (*durable && matches!(ending, Ending::Replied(_))) {
            return Err(format!("it {came} and yet its changes were {}", if *changed { "kept" } else { "lost" }));
        }
        let refusals: Vec<_> = tape
            .iter()
            .filter_map(|entry| if let Outcome::Refused(r) = &entry.outcome { Some(r) } else { None })
            .collect();
        let counted = |what: &str, expected: Option<usize>, found: usize| match expected {
            Some(expected) if expected != found => Err(format!("expected {expected} {what}, found {found}")),
            _ => Ok(()),
        };
        counted("asks", self.effects, tape.len())?;
        counted("refusals", self.refused, refusals.len())?;
        match &self.refusal {
            Some(words) if !refusals.iter().any(|refusal| refusal.to_string().contains(words.as_str())) => {
                Err(format!("expected a refusal with `{words}`, found {refusals:?}"))
            }
            _ => Ok(()),
        }
    }
}

fn budget(mut budget: Budget, text: &str) -> Result<Budget, String> {
    for pair in text.split_whitespace() {
        let (name, number) = pair.split_once('=').ok_or_else(|| format!("`{pair}` is not NAME=NUMBER"))?;
        let number: u64 = number.parse().map_err(|_| format!("`{pair}` has no number"))?;
        match name {
            "fuel" => budget.fuel = number,
            "memory" => budget.memory = number,
            "wall-ms" => budget.wall_ms = number,
            "effects" => budget.effects = number as u32,
            "bytes" => budget.bytes = number,
            _ => return Err(format!("there is no budget of `{name}`")),
        }
    }
    Ok(budget)
}

/// The prelude's parts that the attack doesn't bring itself, then the attack.
pub(crate) fn with_prelude(fields: &str) -> String {
    let mut parts = PRELUDE.split(";;; ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, body) = part.split_once('\n').unwrap_or((part, ""));
        if !fields.contains(&format!("(export \"{name}\")")) {
            text.push_str(body);
        }
    }
    text + fields
}
