//! How large a response may be, by the operator's rules.

use crate::effect::Effect;
use crate::outcome::Answer;
use crate::policy::Decision;
use crate::refusal::{Code, Layer, Refusal};
use crate::rulebook::Rulebook;
use crate::target::Target;

/// The largest body that a permit lets come back, and the rule that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseLimit {
    bytes: u64,
    rule: String,
    file: String,
    line: usize,
}

impl ResponseLimit {
    /// What these rules say about a request; nothing about anything else, which has no response.
    pub(crate) fn of(effect: &Effect, decision: &Decision, rulebook: &Rulebook) -> Option<Self> {
        let most = decision.max_response.as_ref().filter(|_| matches!(effect, Effect::HttpFetch(_)))?;
        let (_, at) = rulebook.policies().source(&most.rule)?;
        Some(Self { bytes: most.bytes, rule: most.rule.clone(), file: at.file, line: at.line })
    }

    /// Bytes of the body as the agent would get it: unpacked.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether an answer is larger.
    pub(crate) fn is_passed_by(&self, answer: &Answer) -> bool {
        matches!(answer, Answer::Response(response) if response.body.0.len() as u64 > self.bytes)
    }

    /// What the agent is told in place of such an answer. The request was made: it is only not told what came of it.
    pub(crate) fn refusal(&self, effect: &Effect) -> Refusal {
        let Self { bytes, rule, file, line } = self;
        let place = match effect {
            Effect::HttpFetch(request) => Target::parse(&request.url).ok(),
            _ => None,
        };
        let to = place.map_or_else(String::new, |target| format!(" to `{}`", target.host_text()));
        Refusal {
            code: Code::ResponseTooLarge,
            layer: Layer::Policy,
            reason: format!(
                "`{}`{to}: it was sent, and the answer is withheld: its body has more than the {bytes} bytes that rule \
                 `{rule}` ({file}:{line}) lets come back",
                effect.kind()
            ),
            remedy: format!("an operator can raise `@maxResponse` of rule `{rule}` in {file}"),
        }
    }
}
