//! All that a decision may read about one ask, and how an effect becomes that.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashSet};
use std::fmt;

use cedar_policy::{Entities, Entity, RestrictedExpression};
use serde::{Deserialize, Serialize};

use super::context::{Context, Fact, RiskFacts};
use super::reads::Reads;
use super::schema::{ACTIONS, Action, Engine, Kind, Uid};
use super::{MAX_MARKS, MAX_NAME, url};
use crate::canonical::Digest;
use crate::effect::Effect;
use crate::ledger::spend_of;
use crate::risk::Risk;
use crate::trust::Score;

/// Who asks: a thing by name, and what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Who {
    /// An agent, an app, an operator, …
    pub kind: Kind,
    /// Its name.
    pub id: String,
    /// The app of an agent or a workflow, the operator of a device.
    #[serde(default)]
    pub parents: Vec<Uid>,
}

impl Who {
    /// An agent, with the app it is made from if that is known.
    pub fn agent(id: &crate::id::AgentId, app: Option<&str>) -> Self {
        let parents = app.map(|app| Uid::new(Kind::App, app)).into_iter().collect();
        Self { kind: Kind::Agent, id: id.to_string(), parents }
    }

    /// Somebody who belongs to nothing.
    pub fn new(kind: Kind, id: impl Into<String>) -> Self {
        Self { kind, id: id.into(), parents: Vec::new() }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::\"{}\"", self.kind.name(), self.id.escape_debug())
    }
}

/// What the keeper knows about the asker at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// The device that the run was started from.
    pub device: Option<String>,
    /// What the agent has seen.
    pub labels: BTreeSet<String>,
    /// Which run asks.
    pub run: String,
    /// Micro-units of money, today.
    pub spent: i64,
    /// How the code is confined.
    pub tier: String,
    /// Milliseconds since 1970.
    pub time: u64,
    /// How far the asking agent is trusted; none if nobody wrote that down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Score>,
}

/// One question to the rules. Its canonical form holds everything that the answer depends on beside the rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Who asks.
    pub principal: Who,
    /// `http.fetch`, …
    pub action: String,
    /// What for.
    pub resource: Uid,
    /// In which circumstances.
    #[serde(default)]
    pub context: Context,
}

/// A question that the rules can't be asked. It counts as denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum BadRequest {
    #[error("`{0}` is not an action of the schema")]
    Action(String),
    #[error("`{action}` is not asked by {kind}")]
    Principal { action: &'static str, kind: &'static str },
    #[error("`{action}` is not asked for {kind}")]
    Resource { action: &'static str, kind: &'static str },
    #[error("{child} can't belong to {parent}")]
    Parent { child: String, parent: String },
    #[error("`{action}` needs `{name}`, which is not given")]
    Missing { action: &'static str, name: &'static str },
    #[error("`{action}` has no `{name}`")]
    Unknown { action: &'static str, name: &'static str },
    #[error("`{name}` is {value}, which is less than nothing")]
    Negative { name: &'static str, value: i64 },
    #[error("`{name}` is {value}, more than a rule can count (2^63-1)")]
    Overflow { name: &'static str, value: String },
    #[error("{0}")]
    Money(String),
    #[error("{0} has a `.` or `..` segment: write where it leads")]
    Dots(String),
    #[error("{0}")]
    Url(String),
    #[error("a name or list in the request is longer than anything lawful")]
    TooLong,
    #[error("the rules can't be asked: {0}")]
    Engine(String),
}

impl Request {
    /// The question that an effect is.
    pub fn of(effect: &Effect, who: &Who, facts: &Facts, risk: &Risk) -> Result<Self, BadRequest> {
        let time = long("time", facts.time)?;
        let arguments = Digest::of_value(effect).map_err(|why| BadRequest::Engine(why.to_string()))?;
        let context = Context {
            risk: RiskFacts::from(risk),
            labels: facts.labels.clone(),
            run: facts.run.clone(),
            device: facts.device.clone(),
            tier: facts.tier.clone(),
            spent: facts.spent,
            time,
            bytes: long("bytes", effect.weight())?,
            arguments: arguments.to_string(),
            trust: facts.trust,
            ..Context::default()
        };
        let own = || Uid::new(Kind::Namespace, who.id.clone());
        let mut request =
            Self { principal: who.clone(), action: action_of(effect).to_owned(), resource: own(), context };
        let context = &mut request.context;
        match effect {
            Effect::StorageGet { key } | Effect::StorageSet { key, .. } | Effect::StorageDelete { key } => {
                context.path = Some(key.clone());
            }
            Effect::StorageList { prefix, .. } => context.path = Some(prefix.clone()),
            Effect::ModelGenerate(prompt) => request.resource = Uid::new(Kind::Model, prompt.model.clone()),
            Effect::ToolsCall { name, .. } => {
                request.resource = Uid::new(Kind::Tool, name.clone());
                let spend = spend_of(effect).map_err(|why| BadRequest::Money(why.to_string()))?;
                context.amount = spend.map(|spend| long("amount", spend.amount.micros)).transpose()?;
            }
            Effect::HttpFetch(asked) => {
                let (origin, path) = url::parts(&asked.url)?;
                request.resource = Uid::new(Kind::Host, origin.host());
                context.method = Some(asked.method.clone());
                context.scheme = Some(origin.scheme().name().to_owned());
                context.port = Some(origin.port());
                context.path = Some(path);
                let mut types = asked.headers.iter().filter(|header| header.name == "content-type");
                context.content_type = types.next().map(|header| url::essence(&header.value));
                if types.next().is_some() {
                    return Err(BadRequest::Url("the request has two content types".to_owned()));
                }
            }
            Effect::SecretUse { slot, method, url } => {
                request.resource = Uid::new(Kind::Secret, slot.clone());
                if !url.is_empty() {
                    let (origin, path) = url::parts(url)?;
                    context.host = Some(origin.host().to_owned());
                    context.method = Some(method.clone());
                    context.scheme = Some(origin.scheme().name().to_owned());
                    context.port = Some(origin.port());
                    context.path = Some(path);
                }
            }
            Effect::AgentsSend { to, content_type, .. } => {
                request.resource = Uid::new(Kind::Agent, to.clone());
                context.content_type = Some(url::essence(content_type));
            }
            Effect::LogWrite { .. }
            | Effect::ClockNow {}
            | Effect::ClockMonotonic {}
            | Effect::ClockSleep { .. }
            | Effect::RandomBytes { .. }
            | Effect::EnvironmentRead {}
            | Effect::ToolsList {} => {}
        }
        request.check()?;
        Ok(request)
    }

    /// Whether it conforms to the schema; the place of its action in [`ACTIONS`] if so.
    pub(super) fn check(&self) -> Result<usize, BadRequest> {
        let index = ACTIONS.iter().position(|action| action.name == self.action);
        let index = index.ok_or_else(|| BadRequest::Action(clip(&self.action, 80)))?;
        let action: &Action = &ACTIONS[index];
        let who = &self.principal;
        if !action.principals.contains(&who.kind) {
            return Err(BadRequest::Principal { action: action.name, kind: who.kind.name() });
        }
        if !action.resources.contains(&self.resource.kind) {
            return Err(BadRequest::Resource { action: action.name, kind: self.resource.kind.name() });
        }
        // One kind belongs to another and never back, so there are no circles.
        if let Some(parent) = who.parents.iter().find(|parent| who.kind.belongs_to() != Some(parent.kind)) {
            return Err(BadRequest::Parent {
                child: clip(&who.to_string(), 120),
                parent: clip(&parent.to_string(), 120),
            });
        }
        let mut names = who.parents.iter().map(|parent| &parent.id).chain([&who.id, &self.resource.id]);
        if who.parents.len() > MAX_MARKS || names.any(|name| name.len() > MAX_NAME) {
            return Err(BadRequest::TooLong);
        }
        if self.resource.kind == Kind::Path && self.resource.id.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(BadRequest::Dots(clip(&self.resource.to_string(), 120)));
        }
        self.context.check(action)?;
        Ok(index)
    }

    /// One line for people: who, what, for what.
    pub fn summary(&self) -> String {
        let part = |text: String| clip(&text, 120);
        let action = part(self.action.escape_debug().to_string());
        format!("`{action}` on {} by {}", part(self.resource.to_string()), part(self.principal.to_string()))
    }
}

/// A request that was checked, to be put to sets of rules in the engine's terms.
pub(super) struct Question<'a> {
    pub(super) request: &'a Request,
    /// The place of its action in [`ACTIONS`], as [`Request::check`] gave it.
    pub(super) action: usize,
    entities: OnceCell<Entities>,
}

fn broken(why: &dyn fmt::Display) -> BadRequest {
    BadRequest::Engine(why.to_string())
}

impl<'a> Question<'a> {
    pub(super) fn new(request: &'a Request, action: usize) -> Self {
        Self { request, action, entities: OnceCell::new() }
    }

    /// The question with as much of it as is read.
    pub(super) fn prepare(&self, reads: Reads) -> Result<(cedar_policy::Request, &Entities), BadRequest> {
        let engine = Engine::get().map_err(|why| broken(&why))?;
        let Request { principal, resource, context, .. } = self.request;
        let entities = match self.entities.get() {
            _ if !reads.belongings() => &engine.nothing,
            Some(known) => known,
            None => {
                let made = self.entities(engine)?;
                self.entities.get_or_init(|| made)
            }
        };
        let context = cedar_policy::Context::from_pairs(context.pairs(reads)?).map_err(|why| broken(&why))?;
        let (principal, resource) =
            (engine.uid(principal.kind, &principal.id), engine.uid(resource.kind, &resource.id));
        let (action, _) = engine.action(self.action);
        let asked = cedar_policy::Request::new(principal, action.clone(), resource, context, None);
        Ok((asked.map_err(|why| broken(&why))?, entities))
    }

    fn entities(&self, engine: &Engine) -> Result<Entities, BadRequest> {
        let Request { principal: who, resource, .. } = self.request;
        let (_, family) = engine.action(self.action);
        let parents: HashSet<_> = who.parents.iter().map(|parent| engine.uid(parent.kind, &parent.id)).collect();
        let mut entities = vec![family.clone()];
        if (who.kind, &who.id) != (resource.kind, &resource.id) {
            let within = resource.ancestors().into_iter().map(|id| engine.uid(resource.kind, id)).collect();
            entities.push(Entity::new_no_attrs(engine.uid(resource.kind, &resource.id), within));
        }
        entities.push(Entity::new_no_attrs(engine.uid(who.kind, &who.id), parents));
        Entities::from_entities(entities, None).map_err(|why| broken(&why))
    }
}

impl Context {
    fn pairs(&self, reads: Reads) -> Result<Vec<(String, RestrictedExpression)>, BadRequest> {
        type Value = RestrictedExpression;
        let text = |text: &str| Value::new_string(text.to_owned());
        let optional = |value: &Option<String>| value.as_deref().map(text);
        let mut pairs = Vec::with_capacity(Fact::ALL.len());
        for fact in Fact::ALL.into_iter().filter(|fact| reads.fact(*fact)) {
            let value = match fact {
                Fact::Risk => {
                    let tier = ("tier".to_owned(), text(self.risk.tier.name()));
                    let score = ("score".to_owned(), Value::new_long(i64::from(self.risk.score)));
                    Some(Value::new_record([tier, score]).map_err(|why| broken(&why))?)
                }
                Fact::Labels => Some(Value::new_set(self.labels.iter().map(|label| text(label)))),
                Fact::Run => Some(text(&self.run)),
                Fact::Device => optional(&self.device),
                Fact::Tier => Some(text(&self.tier)),
                Fact::Spent => Some(Value::new_long(self.spent)),
                Fact::Time => Some(Value::new_long(self.time)),
                Fact::Bytes => Some(Value::new_long(self.bytes)),
                Fact::Arguments => Some(text(&self.arguments)),
                Fact::Amount => self.amount.map(Value::new_long),
                Fact::Method => optional(&self.method),
                Fact::Scheme => optional(&self.scheme),
                Fact::Port => self.port.map(|port| Value::new_long(i64::from(port))),
                Fact::Path => optional(&self.path),
                Fact::ContentType => optional(&self.content_type),
                Fact::Host => optional(&self.host),
                Fact::Trust => self.trust.map(|score| Value::new_long(i64::from(score.hundredths()))),
            };
            pairs.extend(value.map(|value| (fact.name().to_owned(), value)));
        }
        Ok(pairs)
    }
}

/// A text, or the start of it and a mark that it goes on.
pub(super) fn clip(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// The name that rules use for an effect.
fn action_of(effect: &Effect) -> &'static str {
    match effect {
        Effect::ToolsList {} => "tool.list",
        Effect::ToolsCall { .. } => "tool.call",
        Effect::AgentsSend { .. } => "message.send",
        other => other.kind(),
    }
}

fn long(name: &'static str, value: u64) -> Result<i64, BadRequest> {
    i64::try_from(value).map_err(|_| BadRequest::Overflow { name, value: value.to_string() })
}
