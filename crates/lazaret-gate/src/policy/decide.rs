//! The answer to one question.

use std::fmt;

use cedar_policy::{AuthorizationError, Authorizer, PolicySet};
use serde::{Deserialize, Serialize};

use super::load::Policies;
use super::reads::Reads;
use super::request::{BadRequest, Question, Request};

/// What the rules say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// A permit matches, no forbid does, and nobody needs to be asked.
    Allow,
    /// A forbid matches, or no permit does, or a rule could not be evaluated.
    Deny,
    /// It would be allowed, once somebody approves it.
    Ask {
        /// What the approver has to judge, from the rule.
        reason: String,
    },
}

impl Verdict {
    /// `allow`, `deny` or `ask`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask { .. } => "ask",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask { reason } => write!(f, "ask: {reason}"),
            other => f.write_str(other.name()),
        }
    }
}

/// A verdict and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The answer.
    pub verdict: Verdict,
    /// The rules that made it so, sorted: the forbids, the permits that ask, the permits, or those that could not be
    /// evaluated. None when no rule matches.
    pub rules: Vec<String>,
    /// What could not be evaluated, and why. Anything here is a denial.
    pub errors: Vec<String>,
    /// How large a response may be; none if no permit that matches says so, and of a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_response: Option<MaxResponse>,
}

/// `@maxResponse`: the smallest of the permits that match, whether or not they ask. Adding a permit never lets more come back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaxResponse {
    /// Bytes of the body.
    pub bytes: u64,
    /// The rule that says so.
    pub rule: String,
}

impl Decision {
    fn deny(rules: Vec<String>, errors: Vec<String>) -> Self {
        Self { verdict: Verdict::Deny, rules, errors, max_response: None }
    }
}

impl From<&BadRequest> for Decision {
    fn from(bad: &BadRequest) -> Self {
        Self::deny(Vec::new(), vec![bad.to_string()])
    }
}

impl Policies {
    /// Asks the rules.
    pub fn decide(&self, request: &Request) -> Decision {
        match request.check() {
            Ok(action) => self.decide_checked(request, action),
            Err(bad) => Decision::from(&bad),
        }
    }

    fn decide_checked(&self, request: &Request, action: usize) -> Decision {
        let question = Question::new(request, action);
        let fitting = self.fitting(action, request);
        match Finding::of(&question, &fitting.set, fitting.reads) {
            Ok(finding) => self.settle(std::iter::once(&finding)),
            Err(bad) => Decision::from(&bad),
        }
    }

    /// The answer of all rules, from what was found of some and of the others.
    pub(super) fn settle<'a>(&self, found: impl Iterator<Item = &'a Finding>) -> Decision {
        let mut all = Finding::default();
        for part in found {
            all.permits.extend_from_slice(&part.permits);
            all.forbids.extend_from_slice(&part.forbids);
            all.failed.extend_from_slice(&part.failed);
        }
        let Finding { mut permits, mut forbids, mut failed } = all;
        permits.sort();
        failed.sort();
        if !failed.is_empty() || !forbids.is_empty() {
            // A forbid that matches is named beside those that failed; a permit that matches decides nothing.
            forbids.extend(failed.iter().map(|(id, _)| id.clone()));
            forbids.sort();
            let errors = failed.into_iter().map(|(_, why)| why).collect();
            return Decision::deny(forbids, errors);
        }
        if permits.is_empty() {
            return Decision::deny(permits, Vec::new());
        }
        let max_response = self.max_response(&permits);
        let mut asking: Vec<(String, String)> = Vec::new();
        for id in &permits {
            if let Some(reason) = self.rule(id).and_then(|rule| rule.said.asks.as_ref()) {
                asking.push((id.clone(), reason.clone()));
            }
        }
        if asking.is_empty() {
            return Decision { verdict: Verdict::Allow, rules: permits, errors: Vec::new(), max_response };
        }
        let (rules, mut reasons): (Vec<_>, Vec<_>) = asking.into_iter().unzip();
        reasons.dedup();
        let verdict = Verdict::Ask { reason: reasons.join("; ") };
        Decision { verdict, rules, errors: Vec::new(), max_response }
    }

    /// The smallest limit of these permits, and the first of those that have it.
    fn max_response(&self, permits: &[String]) -> Option<MaxResponse> {
        let limits = permits.iter().filter_map(|id| Some((self.rule(id)?.said.max_response?, id)));
        limits.min().map(|(bytes, rule)| MaxResponse { bytes, rule: rule.clone() })
    }
}

/// What some rules say. Permits beside a forbid are left out: they change nothing then.
#[derive(Clone, Default)]
pub(super) struct Finding {
    permits: Vec<String>,
    forbids: Vec<String>,
    /// Those that could not be evaluated, and why.
    failed: Vec<(String, String)>,
}

impl Finding {
    /// Asks these rules, which read no more than this.
    pub(super) fn of(question: &Question<'_>, rules: &PolicySet, reads: Reads) -> Result<Self, BadRequest> {
        let (asked, entities) = question.prepare(reads)?;
        let response = Authorizer::new().is_authorized(&asked, rules, entities);
        let found = response.diagnostics();
        let failed = found
            .errors()
            .map(|AuthorizationError::PolicyEvaluationError(error)| {
                (error.policy_id().to_string(), format!("rule `{}`: {}", error.policy_id(), error.inner()))
            })
            .collect();
        let matched = found.reason().map(ToString::to_string).collect();
        let (permits, forbids) = match response.decision() {
            cedar_policy::Decision::Allow => (matched, Vec::new()),
            cedar_policy::Decision::Deny => (Vec::new(), matched),
        };
        Ok(Self { permits, forbids, failed })
    }
}
