//! The words of the schema as Rust, and the schema itself, read once.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr as _;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cedar_policy::{Entities, Entity, EntityId, EntityTypeName, EntityUid, Schema, SchemaFragment, Validator};
use serde::{Deserialize, Serialize};

/// The shipped schema, as text.
pub const SCHEMA: &str = include_str!("../../../../policy/lazaret.cedarschema");

/// What sort of thing asks or is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the schema says what each is")]
pub enum Kind {
    Agent,
    App,
    Workflow,
    McpClient,
    Operator,
    Device,
    Host,
    Path,
    Tool,
    Model,
    Secret,
    Namespace,
}

impl Kind {
    /// Every kind, in the order of the schema.
    pub const ALL: [Self; 12] = [
        Self::Agent,
        Self::App,
        Self::Workflow,
        Self::McpClient,
        Self::Operator,
        Self::Device,
        Self::Host,
        Self::Path,
        Self::Tool,
        Self::Model,
        Self::Secret,
        Self::Namespace,
    ];

    /// The name, as rules spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "Agent",
            Self::App => "App",
            Self::Workflow => "Workflow",
            Self::McpClient => "McpClient",
            Self::Operator => "Operator",
            Self::Device => "Device",
            Self::Host => "Host",
            Self::Path => "Path",
            Self::Tool => "Tool",
            Self::Model => "Model",
            Self::Secret => "Secret",
            Self::Namespace => "Namespace",
        }
    }

    /// What an asker of this kind can belong to.
    pub(super) fn belongs_to(self) -> Option<Self> {
        match self {
            Self::Agent | Self::Workflow => Some(Self::App),
            Self::Device => Some(Self::Operator),
            _ => None,
        }
    }
}

/// One thing by name, written `Host::"example.com"` in rules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uid {
    /// What sort of thing.
    pub kind: Kind,
    /// Its name.
    pub id: String,
}

impl Uid {
    /// This thing.
    pub fn new(kind: Kind, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }

    /// What it lies in, nearest first: a host's parent domains, a path's folders, a tool's and a model's prefixes.
    pub(super) fn ancestors(&self) -> Vec<&str> {
        let id = self.id.as_str();
        match self.kind {
            Kind::Host if is_address(id) => Vec::new(),
            Kind::Host => id.match_indices('.').map(|(at, _)| &id[at + 1..]).collect(),
            Kind::Path => {
                let folders = id.match_indices('/').map(|(at, _)| if at == 0 { "/" } else { &id[..at] });
                folders.filter(|folder| *folder != id).collect::<Vec<_>>().into_iter().rev().collect()
            }
            Kind::Tool | Kind::Model => {
                id.rmatch_indices(['.', '/']).map(|(at, _)| &id[..at]).filter(|stem| !stem.is_empty()).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// An address has no parent domains: `0.0.1` is no part of `10.0.0.1`.
fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()))
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::\"{}\"", self.kind.name(), self.id.escape_debug())
    }
}

/// Which facts an action comes with, beside those that all have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// None.
    Plain,
    /// `method`, `scheme`, `port`, `path`, and `content_type` if there is one.
    Http,
    /// `path`.
    Storage,
    /// `content_type`.
    Message,
    /// `host`, `method`, `scheme`, `port` and `path` of the request that a secret goes with, or none of them.
    Secret,
}

/// One line of the schema: what can be done, by whom and to what.
#[derive(Debug)]
pub struct Action {
    /// `http.fetch`.
    pub name: &'static str,
    /// `http.*`.
    pub family: &'static str,
    /// Who can ask.
    pub principals: &'static [Kind],
    /// What for.
    pub resources: &'static [Kind],
    /// With which facts.
    pub shape: Shape,
}

const ANYBODY: &[Kind] = &[Kind::Agent, Kind::App, Kind::Workflow, Kind::McpClient, Kind::Operator, Kind::Device];
const INSIDE: &[Kind] = &[Kind::Agent, Kind::App, Kind::Workflow];
const USERS: &[Kind] = &[Kind::Agent, Kind::App, Kind::Workflow, Kind::McpClient];
const MAKERS: &[Kind] = &[Kind::App, Kind::Workflow, Kind::Operator, Kind::Device];
const PEOPLE: &[Kind] = &[Kind::Operator, Kind::Device];

const fn action(
    name: &'static str,
    family: &'static str,
    principals: &'static [Kind],
    resources: &'static [Kind],
    shape: Shape,
) -> Action {
    Action { name, family, principals, resources, shape }
}

/// The schema's actions. A test compares this with the schema, so that neither changes alone.
pub const ACTIONS: &[Action] = &[
    action("http.fetch", "http.*", ANYBODY, &[Kind::Host], Shape::Http),
    action("storage.get", "storage.*", INSIDE, &[Kind::Namespace], Shape::Storage),
    action("storage.set", "storage.*", INSIDE, &[Kind::Namespace], Shape::Storage),
    action("storage.delete", "storage.*", INSIDE, &[Kind::Namespace], Shape::Storage),
    action("storage.list", "storage.*", INSIDE, &[Kind::Namespace], Shape::Storage),
    action("log.write", "host.*", INSIDE, &[Kind::Namespace], Shape::Plain),
    action("clock.now", "host.*", INSIDE, &[Kind::Namespace], Shape::Plain),
    action("clock.monotonic", "host.*", INSIDE, &[Kind::Namespace], Shape::Plain),
    action("clock.sleep", "host.*", INSIDE, &[Kind::Namespace], Shape::Plain),
    action("random.bytes", "host.*", INSIDE, &[Kind::Namespace], Shape::Plain),
    action("environment.read", "host.*", INSIDE, &[Kind::Namespace], Shape::Plain),
    action("process.run", "process.*", ANYBODY, &[Kind::Path], Shape::Plain),
    action("model.generate", "model.*", ANYBODY, &[Kind::Model], Shape::Plain),
    action("tool.list", "tool.*", ANYBODY, &[Kind::Namespace], Shape::Plain),
    action("tool.call", "tool.*", ANYBODY, &[Kind::Tool], Shape::Plain),
    action("message.send", "message.*", ANYBODY, &[Kind::Agent], Shape::Message),
    action("secret.use", "secret.*", USERS, &[Kind::Secret], Shape::Secret),
    action("agent.create", "agent.*", MAKERS, &[Kind::Agent], Shape::Plain),
    action("agent.run", "agent.*", MAKERS, &[Kind::Agent], Shape::Plain),
    action("agent.rollback", "agent.*", MAKERS, &[Kind::Agent], Shape::Plain),
    action("agent.settle", "agent.*", MAKERS, &[Kind::Agent], Shape::Plain),
    action("agent.remove", "agent.*", MAKERS, &[Kind::Agent], Shape::Plain),
    action("admin.policy", "admin.*", PEOPLE, &[Kind::Agent, Kind::Namespace], Shape::Plain),
    action("admin.kill", "admin.*", PEOPLE, &[Kind::Agent, Kind::Namespace], Shape::Plain),
    action("admin.approval", "admin.*", PEOPLE, &[Kind::Agent, Kind::Namespace], Shape::Plain),
    action("admin.schedule", "admin.*", PEOPLE, &[Kind::Agent, Kind::Namespace], Shape::Plain),
];

/// The bits of some actions, with all of their families.
pub(super) fn actions_of(speaks: impl Fn(&Action) -> bool) -> u32 {
    let families: Vec<&str> = ACTIONS.iter().filter(|action| speaks(action)).map(|action| action.family).collect();
    let bit = |(index, action): (usize, &Action)| u32::from(families.contains(&action.family)) << index;
    ACTIONS.iter().enumerate().map(bit).sum()
}

/// The schema as the engine needs it.
pub(super) struct Engine {
    /// Checks any rule.
    whole: Arc<Validator>,
    /// Check rules that speak of some actions only; by the bits of those, in [`ACTIONS`].
    some: Mutex<BTreeMap<u32, Arc<Validator>>>,
    /// For rules that ask nobody's belongings.
    pub(super) nothing: Entities,
    types: Vec<EntityTypeName>,
    actions: Vec<(EntityUid, Entity)>,
}

impl Engine {
    fn read() -> Result<Self, String> {
        let (schema, _) = Schema::from_cedarschema_str(SCHEMA).map_err(|why| format!("the schema: {why}"))?;
        let named = |name: &str| EntityTypeName::from_str(name).map_err(|why| format!("the schema: {why}"));
        let types = Kind::ALL.iter().map(|kind| named(kind.name())).collect::<Result<_, _>>()?;
        let entities = schema.action_entities().map_err(|why| format!("the schema: {why}"))?;
        let family = named("Action")?;
        let one = |action: &Action| {
            let uid = EntityUid::from_type_name_and_id(family.clone(), EntityId::new(action.name));
            let entity = entities.get(&uid).cloned().ok_or(format!("the schema has no `{}`", action.name))?;
            Ok((uid, entity))
        };
        let actions = ACTIONS.iter().map(one).collect::<Result<_, String>>()?;
        Ok(Self {
            whole: Arc::new(Validator::new(schema)),
            some: Mutex::default(),
            nothing: Entities::empty(),
            types,
            actions,
        })
    }

    /// The one that all share. Only a change of the shipped schema can make it fail, and tests would see it.
    pub(super) fn get() -> Result<&'static Self, &'static str> {
        static ENGINE: LazyLock<Result<Engine, String>> = LazyLock::new(Engine::read);
        ENGINE.as_ref().map_err(String::as_str)
    }

    /// What checks rules that speak of these actions only, so many of them. A rule is tried against every sort of request
    /// of the schema; those for other actions it can't match, so a schema in which they apply to nobody finds the same,
    /// in a fraction of the time. Making one is worth it for a few rules.
    pub(super) fn validator(&self, actions: u32, rules: usize) -> Arc<Validator> {
        const WORTH: usize = 8;
        const MOST: usize = 32;
        let mut some = self.some.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = some.get(&actions) {
            return Arc::clone(known);
        }
        let made = if rules < WORTH || some.len() >= MOST { None } else { narrowed(actions) };
        let made = made.map(|schema| Arc::new(Validator::new(schema)));
        some.extend(made.clone().map(|made| (actions, made)));
        made.unwrap_or_else(|| Arc::clone(&self.whole))
    }

    pub(super) fn uid(&self, kind: Kind, id: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(self.types[kind as usize].clone(), EntityId::new(id))
    }

    pub(super) fn action(&self, index: usize) -> &(EntityUid, Entity) {
        &self.actions[index]
    }
}

/// The schema with no requests for other actions than these. All names stay, so that messages do.
fn narrowed(actions: u32) -> Option<Schema> {
    static FULL: LazyLock<Option<serde_json::Value>> =
        LazyLock::new(|| SchemaFragment::from_cedarschema_str(SCHEMA).ok()?.0.to_json_value().ok());
    let mut json = FULL.as_ref()?.clone();
    for (index, action) in ACTIONS.iter().enumerate().filter(|(index, _)| actions & (1 << index) == 0) {
        debug_assert!(index < 32, "there are more actions than bits");
        json.get_mut("")?.get_mut("actions")?.get_mut(action.name)?.as_object_mut()?.remove("appliesTo")?;
    }
    Schema::from_json_value(json).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cedar_policy::{Policy, PolicySet, ValidationMode};

    use super::*;
    use crate::policy::slice::speaks_of;

    /// Heads of every sort, and of none.
    const HEADS: &[&str] = &[
        "principal, action == Action::\"http.fetch\", resource",
        "principal is Operator, action in Action::\"storage.*\", resource",
        "principal in App::\"a\", action in [Action::\"http.*\", Action::\"tool.call\"], resource is Tool",
        "principal == Agent::\"a\", action == Action::\"message.send\", resource in App::\"a\"",
        "principal, action in Action::\"admin.*\", resource is Agent",
        "principal is User, action == Action::\"http.fetch\", resource",
        "principal, action == Action::\"http.get\", resource",
        "principal is Host, action == Action::\"clock.now\", resource",
    ];

    const BODIES: &[&str] = &[
        "true",
        "false",
        "context.path like \"x*\"",
        "context.method == 1",
        "context.colour == 1",
        "context.device == \"d\"",
        "context has device && context.device == \"d\"",
        "action == Action::\"http.fetch\" && context.port > 1",
        "action == Action::\"http.get\"",
        "action in Action::\"model.*\"",
        "principal in App::\"a\" || resource in Host::\"com\"",
        "resource is Secret",
        "context.spent + \"1\" > 2",
        "context.run == \"s\u{0441}ope\"",
        "resource.owner == principal",
    ];

    #[test]
    fn a_narrowed_schema_says_the_same() {
        let engine = Engine::get().unwrap();
        let (mut complaints, mut fine) = (0, 0);
        for head in HEADS {
            for body in BODIES {
                let text = format!("permit ({head}) when {{ {body} }};");
                let policy = Policy::parse(None, &text).unwrap();
                let actions = actions_of(|action| speaks_of(&policy.action_constraint(), action));
                let narrow = Validator::new(narrowed(actions).unwrap());
                let set = PolicySet::from_policies([policy]).unwrap();
                let said = |validator: &Validator| {
                    let result = validator.validate(&set, ValidationMode::Strict);
                    let errors = result.validation_errors().map(ToString::to_string);
                    errors.chain(result.validation_warnings().map(ToString::to_string)).collect::<BTreeSet<_>>()
                };
                let (all, some) = (said(&engine.whole), said(&narrow));
                assert_eq!(all, some, "{text}");
                *(if all.is_empty() { &mut fine } else { &mut complaints }) += 1;
            }
        }
        assert!(complaints > 40 && fine > 10, "{complaints} and {fine}");
    }
}
