//! The stages. Each consumes what the one before it made, so their order and completeness are facts of the compiler:
//!
//! ```text
//! Effect --form--> Formed --declared--> Declared --budget--> Funded --seal--> Permit
//! ```
//!
//! All fields are private and each type is made in one place. Policy, risk, approval and secrets will stand between
//! `declared` and `seal`, each as a type of its own.

use crate::budget::{Budget, Meter};
use crate::effect::{Effect, Prompt, Request};
use crate::grant::{Coverage, Grants};
use crate::limits::{MAX_ITEMS, MAX_KEY, MAX_RANDOM, MAX_TEXT, MAX_VALUE};
use crate::refusal::{Code, Layer, Refusal};

/// An ask whose every part is of a size that the host carries.
pub struct Formed {
    effect: Effect,
}

/// An ask that the agent was granted.
pub struct Declared {
    effect: Effect,
}

/// An ask that the turn's budget has room for; the room is reserved.
pub struct Funded {
    effect: Effect,
    number: u32,
}

/// Leave to do one effect, once. Executors accept this and nothing else, and using it consumes it.
#[must_use = "a permit that is not used was reserved for nothing"]
pub struct Permit {
    effect: Effect,
    number: u32,
}

impl Permit {
    /// What may be done.
    pub fn effect(&self) -> &Effect {
        &self.effect
    }

    /// The ask's place in its turn, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Uses it up.
    pub fn into_effect(self) -> Effect {
        self.effect
    }
}

/// Stage 1: is it an ask that the host carries at all?
pub fn form(effect: Effect) -> Result<Formed, Refusal> {
    let too_long = match &effect {
        Effect::StorageGet { key } | Effect::StorageDelete { key } => over("the key", key.len(), MAX_KEY),
        Effect::StorageSet { key, value } => {
            over("the key", key.len(), MAX_KEY).or(over("the value", value.0.len(), MAX_VALUE))
        }
        Effect::StorageList { prefix, after, limit } => over("the prefix", prefix.len(), MAX_KEY)
            .or(over("`after`", after.as_ref().map_or(0, String::len), MAX_KEY))
            .or(over("the limit", *limit as usize, MAX_ITEMS)),
        Effect::LogWrite { text, .. } => over("the text", text.len(), MAX_TEXT),
        Effect::RandomBytes { len } => over("the length", *len as usize, MAX_RANDOM as usize),
        Effect::ModelGenerate(prompt) => form_prompt(prompt),
        Effect::ToolsCall { name, arguments } => {
            over("the name", name.len(), MAX_KEY).or(over("the arguments' length", arguments.len(), MAX_VALUE))
        }
        Effect::HttpFetch(request) => form_request(request),
        Effect::AgentsSend { to, content_type, body } => over("the name", to.len(), MAX_KEY)
            .or(over("the content type", content_type.len(), MAX_KEY))
            .or(over("the body", body.0.len(), MAX_VALUE)),
        Effect::ClockNow {}
        | Effect::ClockMonotonic {}
        | Effect::ClockSleep { .. }
        | Effect::EnvironmentRead {}
        | Effect::ToolsList {} => None,
    };
    match too_long {
        None => Ok(Formed { effect }),
        Some(reason) => Err(bad_ask(&effect, reason)),
    }
}

fn form_prompt(prompt: &Prompt) -> Option<String> {
    over("the model's name", prompt.model.len(), MAX_KEY)
        .or(over("the number of utterances", prompt.utterances.len(), MAX_ITEMS))
        .or(over("the prompt", prompt.utterances.iter().map(|u| u.text.len()).sum(), MAX_VALUE))
}

fn form_request(request: &Request) -> Option<String> {
    let method_ok = !request.method.is_empty() && request.method.bytes().all(|b| b.is_ascii_uppercase());
    let token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let name_ok = |name: &str| !name.is_empty() && name.bytes().all(token);
    let value_ok = |value: &str| value.bytes().all(|b| b == b'\t' || (0x20..0x7f).contains(&b));
    over("the URL", request.url.len(), MAX_TEXT)
        .or(over("the method", request.method.len(), 16))
        .or((!method_ok).then(|| format!("the method `{}` is not upper-case letters", request.method)))
        .or(over("the number of headers", request.headers.len(), MAX_ITEMS))
        .or(request.headers.iter().find_map(|header| {
            over("a header's name", header.name.len(), MAX_KEY)
                .or(over("a header's value", header.value.len(), MAX_TEXT))
                .or((!name_ok(&header.name)).then(|| format!("`{}` is not a lower-case header name", header.name)))
                .or((!value_ok(&header.value))
                    .then(|| format!("the value of `{}` has control characters", header.name)))
        }))
        .or(over("the body", request.body.0.len(), MAX_VALUE))
}

fn over(what: &str, is: usize, most: usize) -> Option<String> {
    (is > most).then(|| format!("{what} is {is}, the most is {most}"))
}

fn bad_ask(effect: &Effect, reason: String) -> Refusal {
    Refusal {
        code: Code::BadAsk,
        layer: Layer::Form,
        reason: format!("`{}`: {reason}", effect.kind()),
        remedy: "the agent has to ask differently; no grant changes this".to_owned(),
    }
}

/// Stage 2: was the agent granted this?
pub fn declared(formed: Formed, grants: &Grants) -> Result<Declared, Refusal> {
    let effect = formed.effect;
    match grants.coverage(&effect) {
        Coverage::Granted => Ok(Declared { effect }),
        Coverage::Malformed(why) => Err(bad_ask(&effect, why)),
        Coverage::Lacking { nearest, wanted } => {
            let nearest = match nearest {
                Some((grant, clause)) => format!("the nearest grant is `{grant}`: {clause}"),
                None => format!("nothing of `{}` was granted", wanted.split(':').next().unwrap_or(&wanted)),
            };
            Err(Refusal {
                code: Code::NotGranted,
                layer: Layer::Declared,
                reason: format!("`{}` needs `{wanted}`; {nearest}", effect.kind()),
                remedy: format!("an operator can allow it with `--grant {wanted}`"),
            })
        }
    }
}

/// Stage 3: does the turn's budget reach? Reserves what the ask itself weighs.
pub fn budget(declared: Declared, caps: &Budget, meter: &mut Meter, number: u32) -> Result<Funded, Refusal> {
    let effect = declared.effect;
    let bytes = meter.bytes.saturating_add(effect.weight());
    if bytes > caps.bytes {
        return Err(bytes_spent(&effect, caps));
    }
    meter.bytes = bytes;
    Ok(Funded { effect, number })
}

/// Counts an ask, refused or not, before anything else is decided: asking is what costs the host.
pub(crate) fn count(effect: &Effect, caps: &Budget, meter: &mut Meter) -> Result<u32, Refusal> {
    let number = meter.effects;
    meter.effects = number.saturating_add(1);
    if meter.bytes > caps.bytes {
        return Err(bytes_spent(effect, caps));
    }
    if number < caps.effects {
        return Ok(number);
    }
    Err(Refusal {
        code: Code::EffectsSpent,
        layer: Layer::Budget,
        reason: format!("`{}` is one ask more than the turn's {}", effect.kind(), caps.effects),
        remedy: "an operator can raise it with `--effects`".to_owned(),
    })
}

pub(crate) fn bytes_spent(effect: &Effect, caps: &Budget) -> Refusal {
    Refusal {
        code: Code::BytesSpent,
        layer: Layer::Budget,
        reason: format!("`{}` would move more than the turn's {} bytes", effect.kind(), caps.bytes),
        remedy: "an operator can raise it with `--bytes`".to_owned(),
    }
}

/// Stage 4: the permit, made here and nowhere else.
pub fn seal(funded: Funded) -> Permit {
    Permit { effect: funded.effect, number: funded.number }
}
