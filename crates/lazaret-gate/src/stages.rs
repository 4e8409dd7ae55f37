//! The stages. Each consumes what the one before it made, so their order and completeness are facts of the compiler:
//!
//! ```text
//! Effect --form--> Formed --declared--> Declared --weigh--> Weighed --switches--> Running
//!        --policy--> Ruled --approval--> Approved --budget--> Funded --seal--> Permit
//! ```
//!
//! All fields are private and each type is made in one place. Risk is weighed before the rules are read, because rules may
//! speak of it. A secret is asked for before the request that it goes with, as an effect of its own: no stage here, and no type,
//! ever holds a value.

use ed25519_dalek::VerifyingKey;

use crate::approval::{Approver, Approvers, Attempt, Event, State, step};
use crate::budget::{Budget, Meter};
use crate::effect::{Effect, Prompt, Request};
use crate::grant::{Coverage, Grants};
use crate::id::AgentId;
use crate::labels::Labels;
use crate::ledger::{Account, Ask, AtCap, Caps, Killed, Point, Reservation, Short, Switches, Unit, spend_of};
use crate::limits::{MAX_HANDLES, MAX_ITEMS, MAX_KEY, MAX_RANDOM, MAX_TEXT, MAX_URL, MAX_VALUE};
use crate::policy::{self, Decision, Verdict, Who};
use crate::refusal::{Code, Layer, Refusal};
use crate::response::ResponseLimit;
use crate::risk::{Around, Risk};
use crate::rulebook::Rulebook;
use crate::ruling::{Asked, Circumstance};
use crate::secret;
use crate::trust::RevokedAgent;

/// An ask whose every part is of a size that the host carries.
pub struct Formed {
    effect: Effect,
}

/// An ask that the agent was granted.
pub struct Declared {
    effect: Effect,
}

/// An ask whose risk is known.
pub struct Weighed {
    effect: Effect,
    risk: Risk,
}

/// An ask that no kill switch stops, of an agent that isn't revoked.
pub struct Running {
    effect: Effect,
    risk: Risk,
}

/// An ask that the rules permit, perhaps only if a person does too.
pub struct Ruled {
    effect: Effect,
    risk: Risk,
    rule: String,
    /// Why a person has to be asked; none if nobody has to.
    reason: Option<String>,
    /// How large its response may be.
    limit: Option<ResponseLimit>,
}

/// An ask that nobody needs to be asked about any more.
pub struct Approved {
    effect: Effect,
    risk: Risk,
    limit: Option<ResponseLimit>,
}

/// An ask that the budgets have room for; the room is reserved.
pub struct Funded {
    effect: Effect,
    number: u32,
    reservation: Reservation,
    limit: Option<ResponseLimit>,
}

/// Leave to do one effect, once. Executors accept this and nothing else, and using it consumes it.
#[must_use = "a permit that is not used was reserved for nothing"]
pub struct Permit {
    effect: Effect,
    number: u32,
    limit: Option<ResponseLimit>,
    labels: Labels,
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

    /// How large its response may be by the rules; none if they don't say.
    pub fn response_limit(&self) -> Option<&ResponseLimit> {
        self.limit.as_ref()
    }

    /// What the agent had seen when it asked: what it sends to others carries this along.
    pub fn labels(&self) -> &Labels {
        &self.labels
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
        Effect::SecretUse { slot, method, url } => form_secret(slot, method, url),
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
        .or(over("the number of secrets in it", secret::uses(request).len(), MAX_HANDLES))
}

fn form_secret(slot: &str, method: &str, url: &str) -> Option<String> {
    let half = method.is_empty() != url.is_empty();
    over("the slot's name", slot.len(), MAX_KEY)
        .or(over("the method", method.len(), 16))
        .or(over("the URL", url.len(), MAX_URL))
        .or(half.then(|| "a method and a URL go together".to_owned()))
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
            let code = if matches!(effect, Effect::HttpFetch(_)) { Code::EgressDenied } else { Code::NotGranted };
            Err(Refusal {
                code,
                layer: Layer::Declared,
                reason: format!("`{}` needs `{wanted}`; {nearest}", effect.kind()),
                remedy: format!("an operator can allow it with `--grant {wanted}`"),
            })
        }
    }
}

/// Stage 3: how much harm could it do? Never refuses: what a risk means is for the rules to say.
pub fn weigh(declared: Declared, rulebook: &Rulebook, grants: &Grants) -> Weighed {
    let effect = declared.effect;
    let risk = rulebook.risks().weigh(&effect, &Around::of(&effect, grants, None));
    Weighed { effect, risk }
}

impl Weighed {
    /// What was found.
    pub fn risk(&self) -> &Risk {
        &self.risk
    }
}

/// Whether these switches stop an effect, before it runs or while it does.
pub fn killed(effect: &Effect, switches: &Switches, rulebook: &Rulebook) -> Result<(), Killed> {
    if *switches == Switches::default() {
        return Ok(());
    }
    // A model without a price can cost anything.
    let costs = Ask::of(effect, rulebook.prices()).map_or(true, |ask| ask.has_money());
    switches.check(effect, costs)
}

fn stopped(killed: &Killed) -> Refusal {
    Refusal { code: Code::Killed, layer: Layer::Switch, reason: killed.reason(), remedy: killed.remedy() }
}

/// Whether an agent may do anything at all, before an effect of it runs or while it does.
pub fn revoked(effect: &Effect, agent: &AgentId, under: &Circumstance) -> Result<(), RevokedAgent> {
    match &under.revoked {
        None => Ok(()),
        Some(revoked) => Err(RevokedAgent { agent: agent.clone(), kind: effect.kind(), revoked: revoked.clone() }),
    }
}

/// What an operator has stopped, everything or this agent.
fn halted(effect: &Effect, agent: &AgentId, under: &Circumstance, rulebook: &Rulebook) -> Result<(), Refusal> {
    killed(effect, &under.switches, rulebook).map_err(|killed| stopped(&killed))?;
    revoked(effect, agent, under).map_err(|revoked| revoked.refusal())
}

/// Stage 4: has an operator stopped this, or revoked the agent?
pub fn switches(
    weighed: Weighed,
    agent: &AgentId,
    under: &Circumstance,
    rulebook: &Rulebook,
) -> Result<Running, Refusal> {
    let Weighed { effect, risk } = weighed;
    halted(&effect, agent, under, rulebook)?;
    Ok(Running { effect, risk })
}

/// What the rules say, asked in these circumstances.
fn judge(effect: &Effect, who: &Who, risk: &Risk, rulebook: &Rulebook, under: &Circumstance) -> Judged {
    match policy::Request::of(effect, who, &under.facts, risk) {
        Ok(request) => Judged { decision: rulebook.decide(&request), request: Some(request) },
        Err(bad) => Judged { decision: Decision::from(&bad), request: None },
    }
}

struct Judged {
    decision: Decision,
    request: Option<policy::Request>,
}

impl Judged {
    fn refusal(&self, effect: &Effect, rulebook: &Rulebook) -> Refusal {
        let Decision { rules, errors, .. } = &self.decision;
        let code = match (errors.is_empty(), rules.is_empty()) {
            (false, _) => Code::PolicyError,
            (true, false) => Code::Forbidden,
            (true, true) => Code::NoPermit,
        };
        let why = self.request.as_ref().map(|request| rulebook.policies().why(request));
        if let (None, Err(bad)) = (&why, spend_of(effect)) {
            return too_short(&Short::BadSpend(bad));
        }
        let (reason, remedy) = match why {
            Some(why) => (why.reason(), why.remedy()),
            None => (
                format!("`{}`: {}", effect.kind(), errors.join("; ")),
                "the agent has to ask differently; no rule changes this".to_owned(),
            ),
        };
        Refusal { code, layer: Layer::Policy, reason, remedy }
    }
}

/// Stage 5: what do the operator's rules say? Names the rules that decided, whichever way.
pub fn policy(
    running: Running,
    who: &Who,
    rulebook: &Rulebook,
    under: &Circumstance,
) -> (Vec<String>, Result<Ruled, Refusal>) {
    let Running { effect, risk } = running;
    let judged = judge(&effect, who, &risk, rulebook, under);
    let rules = judged.decision.rules.clone();
    let reason = match &judged.decision.verdict {
        Verdict::Deny => {
            let refusal = judged.refusal(&effect, rulebook);
            return (rules, Err(refusal));
        }
        Verdict::Allow => None,
        Verdict::Ask { reason } => Some(reason.clone()),
    };
    let rule = rules.first().cloned().unwrap_or_default();
    let limit = ResponseLimit::of(&effect, &judged.decision, rulebook);
    (rules, Ok(Ruled { effect, risk, rule, reason, limit }))
}

impl Ruled {
    /// What a person has to be asked, if one has to.
    pub fn question(&self) -> Option<Matter<'_>> {
        let Self { effect, risk, rule, reason, .. } = self;
        reason.as_ref().map(|reason| Matter { effect, risk, rule, reason })
    }
}

/// What a question is about.
#[derive(Clone, Copy)]
pub struct Matter<'a> {
    /// The ask.
    pub effect: &'a Effect,
    /// How much harm it could do.
    pub risk: &'a Risk,
    /// The rule that asks.
    pub rule: &'a str,
    /// Why it asks.
    pub reason: &'a str,
}

/// Stage 6: did a person say yes, to exactly this, and do the rules still permit it after the wait? `asked` may only be
/// `None` if nobody has to be asked.
pub fn approval(
    ruled: Ruled,
    (who, agent): (&Who, &AgentId),
    asked: Option<&Asked>,
    rulebook: &Rulebook,
    meter: &mut Meter,
) -> Result<Approved, Refusal> {
    let Ruled { effect, risk, reason, limit, .. } = ruled;
    let Some(_) = reason else { return Ok(Approved { effect, risk, limit }) };
    let asked = asked.ok_or_else(|| unanswered("nobody was asked"))?;
    answered((&effect, &risk), agent, asked, rulebook, meter)?;
    let judged = judge(&effect, who, &risk, rulebook, &asked.then);
    match judged.decision.verdict {
        Verdict::Deny => Err(judged.refusal(&effect, rulebook)),
        Verdict::Allow | Verdict::Ask { .. } => {
            // As they say now: the limit that held before the wait may be gone, or there may be a smaller one.
            let limit = ResponseLimit::of(&effect, &judged.decision, rulebook);
            Ok(Approved { effect, risk, limit })
        }
    }
}

fn unanswered(why: &str) -> Refusal {
    Refusal {
        code: Code::ApprovalExpired,
        layer: Layer::Approval,
        reason: format!("a person has to approve it: {why}, and silence is denial"),
        remedy: "the agent may ask again; `lazaret approvals watch` shows questions as they come".to_owned(),
    }
}

/// Checks an answer as whoever was not there would: signature, view, clocks, and that it is about this very effect. A
/// switch that was thrown during the wait stops it whatever the answer is, and so does a revocation.
fn answered(
    (effect, risk): (&Effect, &Risk),
    agent: &AgentId,
    asked: &Asked,
    rulebook: &Rulebook,
    meter: &mut Meter,
) -> Result<(), Refusal> {
    let Asked { question, answer, at, then, .. } = asked;
    halted(effect, agent, then, rulebook)?;
    let Some(answer) = answer else { return Err(unanswered("nobody answered in time")) };
    let invalid = |why: String| Refusal {
        code: Code::ApprovalInvalid,
        layer: Layer::Approval,
        reason: format!("the answer to question `{}` does not count: {why}", question.id),
        remedy: "the agent may ask again".to_owned(),
    };
    let key = answer.key.0.as_slice().try_into().ok().and_then(|key| VerifyingKey::from_bytes(key).ok());
    let key = key.ok_or_else(|| invalid("its key is not one".into()))?;
    let approvers: Approvers = [Approver::new(key)].into_iter().collect();
    let verified = answer.decision.clone().verify(question, &approvers);
    let verified = verified.map_err(|why| invalid(why.to_string()))?;
    let state = step(question, &State::Pending, &Event::Decide(verified), &answer.at);
    let state = state.map_err(|why| invalid(why.to_string()))?;
    if let State::Denied { by } = &state {
        return Err(Refusal {
            code: Code::ApprovalDenied,
            layer: Layer::Approval,
            reason: format!("the approver {} said no to question `{}`", by.short(), question.id),
            remedy: "the agent has to do without; it may ask for something else".to_owned(),
        });
    }
    let attempt = Attempt {
        agent: agent.clone(),
        run: then.facts.run.clone(),
        effect: effect.clone(),
        policy: then.rulebook,
        risk: risk.clone(),
        labels: then.facts.labels.clone(),
    };
    let state = step(question, &state, &Event::Use(Box::new(attempt)), at).map_err(|why| invalid(why.to_string()))?;
    if matches!(state, State::Used { .. }) && !meter.use_up(&question.id) {
        return Err(invalid("it was for once, and is used up".into()));
    }
    Ok(())
}

/// The budgets that an ask is paid from.
pub struct Purse<'a> {
    /// What the agent may spend.
    pub caps: &'a Caps,
    /// What it has spent and reserved.
    pub account: &'a mut Account,
    /// The day, run and turn.
    pub at: &'a Point,
}

impl Purse<'_> {
    /// Money spent and reserved today, in millionths of the budget's currency.
    pub fn spent_today(&self) -> i64 {
        let spent = self.caps.budgeted().map_or(0, |currency| self.account.today(Unit::Money(currency), self.at.day));
        i64::try_from(spent).unwrap_or(i64::MAX)
    }
}

/// Stage 7: do the budgets reach? Reserves what the ask weighs in its turn, and what it can take at worst of what outlives
/// the turn. `time` is that of the ask, in milliseconds since 1970. At a cap that is to pause, `raised` are the caps that a
/// person has said yes to, for this once.
pub fn budget(
    approved: Approved,
    (caps, meter): (&Budget, &mut Meter),
    purse: &mut Purse<'_>,
    rulebook: &Rulebook,
    (number, time): (u32, u64),
    raised: Option<&Caps>,
) -> Result<Funded, Box<Unfunded>> {
    let Approved { effect, risk, limit } = approved;
    let bytes = meter.bytes.saturating_add(effect.weight());
    if bytes > caps.bytes {
        return Err(Box::new(Unfunded { refusal: bytes_spent(&effect, caps), pause: None }));
    }
    let ask = match Ask::of(&effect, rulebook.prices()) {
        Ok(ask) => ask,
        Err(short) => return Err(Box::new(Unfunded { refusal: too_short(&short), pause: None })),
    };
    // A host's caps are about how fast, and nobody is asked to wait: the agent may.
    if let Err(short) = purse.account.admit_host(purse.caps, &effect, time) {
        return Err(Box::new(Unfunded { refusal: too_short(&short), pause: None }));
    }
    match purse.account.reserve(raised.unwrap_or(purse.caps), &ask, purse.at) {
        Ok(reservation) => {
            meter.bytes = bytes;
            purse.account.ask_host(purse.caps, &effect, time);
            Ok(Funded { effect, number, reservation, limit })
        }
        Err(short) => {
            let refusal = too_short(&short);
            // Only one cap is asked about: whoever says yes to that has not said yes to another.
            let pauses = raised.is_none() && short.at_cap() == AtCap::Pause;
            let caps = purse.caps.raised(&short).filter(|_| pauses);
            let (rule, approved) = (short.code(), Approved { effect, risk, limit });
            let pause = caps.map(|caps| Paused { approved, caps, refusal: refusal.clone(), rule });
            Err(Box::new(Unfunded { refusal, pause }))
        }
    }
}

/// An ask that the budgets don't reach for.
pub struct Unfunded {
    /// What the agent is told if nobody lets it pass.
    pub refusal: Refusal,
    /// The ask again, if a person may let it pass.
    pause: Option<Paused>,
}

impl Unfunded {
    /// The ask, if a person may let it pass, and why one has to be asked.
    pub fn pause(self) -> Result<Paused, Refusal> {
        self.pause.ok_or(self.refusal)
    }
}

/// An ask that waits at a cap.
pub struct Paused {
    approved: Approved,
    /// The caps that would let it pass.
    caps: Caps,
    /// What is said if nobody lets it pass.
    refusal: Refusal,
    rule: &'static str,
}

impl Paused {
    /// What a person has to be asked.
    pub fn question(&self) -> Matter<'_> {
        let Approved { effect, risk, .. } = &self.approved;
        Matter { effect, risk, rule: self.rule, reason: &self.refusal.reason }
    }

    /// Goes on if a person said yes.
    pub fn answered(
        self,
        agent: &AgentId,
        asked: &Asked,
        rulebook: &Rulebook,
        meter: &mut Meter,
    ) -> Result<(Approved, Caps), Refusal> {
        let Self { approved, caps, refusal, .. } = self;
        match answered((&approved.effect, &approved.risk), agent, asked, rulebook, meter) {
            Ok(()) => Ok((approved, caps)),
            Err(halted) if matches!(halted.code, Code::Killed | Code::Revoked) => Err(halted),
            // Who reads it must hear of the cap too: that is what can be changed.
            Err(no) => {
                Err(Refusal { reason: format!("{}; {}", refusal.reason, no.reason), remedy: refusal.remedy, ..no })
            }
        }
    }
}

fn too_short(short: &Short) -> Refusal {
    let code = match short {
        Short::NoBudget { .. } => Code::NoBudget,
        Short::BudgetExceeded { .. } | Short::HostExceeded { .. } => Code::BudgetExceeded,
        Short::PerActionLimit { .. } => Code::PerActionLimit,
        Short::RailNotAllowed { .. } => Code::RailNotAllowed,
        Short::Unpriced { .. } => Code::Unpriced,
        Short::BadSpend(_) => Code::BadSpend,
        Short::Killed(_) => Code::Killed,
        Short::TooManyOpen { .. } => Code::TooManyOpen,
    };
    Refusal { code, layer: Layer::Budget, reason: short.reason(), remedy: short.remedy() }
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

/// Stage 8: the permit, made here and nowhere else, and what has to be settled after its use. `labels` is what the agent has
/// seen.
pub fn seal(funded: Funded, labels: Labels) -> (Permit, Reservation) {
    let Funded { effect, number, reservation, limit } = funded;
    (Permit { effect, number, limit, labels }, reservation)
}
