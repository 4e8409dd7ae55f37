//! Puts secrets into requests on their way out, and takes them out of what comes back.
//!
//! An agent writes handles (`lazaret-secret:SLOT`). A request that has none is still searched for what must not get out.
//! With one, the value takes the handle's place here and nowhere earlier: after the permit, for a request that the binding
//! admits, in the one form that it names. What comes back passes the guard before anything else sees it.

mod fill;
mod search;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use lazaret_gate::effect::Request;
use lazaret_gate::grant::Origin;
use lazaret_gate::leak::Guard;
use lazaret_gate::limits::MAX_VALUE;
use lazaret_gate::outcome::Response;
use lazaret_gate::refusal::{Code, Layer, Refusal};
use lazaret_gate::secret::{Mention, Slot, mentions};
use lazaret_gate::{AgentId, Answer, Effect, Target, Undone};
use zeroize::Zeroizing;

pub use fill::Outgoing;

/// How a secret stands in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// As a header, behind a prefix such as `Bearer `.
    Header {
        /// In lower case.
        name: String,
        /// What stands before the value.
        prefix: String,
    },
    /// As a parameter of the query.
    Query {
        /// Its name.
        name: String,
    },
    /// As the password of `Basic` authentication.
    Basic {
        /// Whose.
        user: String,
    },
}

/// Where a request goes.
#[derive(Clone, Debug)]
pub struct Errand {
    /// Scheme, host and port.
    pub place: Origin,
    /// In capitals.
    pub method: String,
    /// Without the query.
    pub path: String,
}

impl Errand {
    fn new(method: &str, target: &Target) -> Self {
        let path = target.path_and_query().split('?').next().unwrap_or("/").to_owned();
        Self { place: Origin::of(target), method: method.to_owned(), path }
    }
}

/// Uses of secrets at one URL that were let pass and not made yet. The URL was read for them, and isn't read again for the
/// request that they are for.
struct Uses {
    target: Target,
    open: Vec<(Slot, Errand)>,
}

impl Uses {
    fn position(&self, slot: &str, method: &str) -> Option<usize> {
        self.open.iter().position(|(open, errand)| open.as_str() == slot && errand.method == method)
    }
}

/// A value and where it goes. It is wiped when dropped, and nothing prints it.
pub struct Filling {
    /// How it stands there.
    pub form: Form,
    /// The value itself.
    pub value: Zeroizing<Vec<u8>>,
}

/// Why a slot isn't filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfilled {
    /// Nobody bound a secret to it.
    Unbound,
    /// It is bound, but not for this request.
    Elsewhere {
        /// Which part of the binding says no.
        why: String,
        /// The only hosts it goes to.
        hosts: Vec<String>,
    },
    /// The agent's author declared the slot for other hosts, whatever it is bound to.
    Undeclared {
        /// The declared ones.
        hosts: Vec<String>,
    },
    /// The vault has to be unlocked first; says how.
    Locked(String),
    /// The vault can't be read, or the value can't be used.
    Broken(String),
}

/// Where secrets come from. Executors know no vault: this is all that they see of it.
pub trait Secrets: Send + Sync {
    /// Whether a slot of the agent is bound, and for this errand if there is one.
    fn admits(&self, agent: &AgentId, slot: &Slot, errand: Option<&Errand>) -> Result<(), Unfilled>;

    /// What fills a slot on this errand. Checks again: between two effects a binding may go.
    fn fill(&self, agent: &AgentId, slot: &Slot, errand: &Errand) -> Result<Filling, Unfilled>;

    /// Who knows the values of the whole vault; nobody if there is no vault or it is locked.
    fn guard(&self) -> Result<Option<Arc<Guard>>, String>;
}

/// No vault at all.
struct Nothing;

impl Secrets for Nothing {
    fn admits(&self, _: &AgentId, _: &Slot, _: Option<&Errand>) -> Result<(), Unfilled> {
        Err(Unfilled::Unbound)
    }

    fn fill(&self, _: &AgentId, _: &Slot, _: &Errand) -> Result<Filling, Unfilled> {
        Err(Unfilled::Unbound)
    }

    fn guard(&self) -> Result<Option<Arc<Guard>>, String> {
        Ok(None)
    }
}

/// The secrets of one agent's turn.
pub struct Broker {
    agent: Option<AgentId>,
    secrets: Arc<dyn Secrets>,
    /// By URL, as it was written.
    uses: HashMap<String, Uses>,
}

impl Default for Broker {
    /// One without secrets. What looks like a credential is still kept in.
    fn default() -> Self {
        Self { agent: None, secrets: Arc::new(Nothing), uses: HashMap::new() }
    }
}

impl Broker {
    /// Serves this agent.
    pub fn new(agent: AgentId, secrets: Arc<dyn Secrets>) -> Self {
        Self { agent: Some(agent), secrets, uses: HashMap::new() }
    }

    /// Does a `secret.use`: says whether it can be made, and remembers that it may be, once.
    pub fn admit(&mut self, slot: &str, method: &str, url: &str) -> Result<Answer, Undone> {
        let named: Slot = slot.parse().map_err(|why: lazaret_gate::secret::BadSlot| why.to_string())?;
        let target = if url.is_empty() { None } else { Some(read(url)?) };
        let errand = target.as_ref().map(|target| Errand::new(method, target));
        let admitted = match &self.agent {
            Some(agent) => self.secrets.admits(agent, &named, errand.as_ref()),
            None => Err(Unfilled::Unbound),
        };
        admitted.map_err(|why| self.unfilled(&named, errand.as_ref(), why))?;
        let handle = Answer::Handle(named.handle());
        if let Some((target, errand)) = target.zip(errand) {
            self.open(named, errand, url, target);
        }
        Ok(handle)
    }

    /// A use that was let pass before the turn was cut off.
    pub fn recall(&mut self, slot: &str, method: &str, url: &str) {
        // What can't be read was never let pass.
        if let (Ok(slot), Ok(target)) = (slot.parse(), Target::parse(url)) {
            self.open(slot, Errand::new(method, &target), url, target);
        }
    }

    fn open(&mut self, slot: Slot, errand: Errand, url: &str, target: Target) {
        let uses = self.uses.entry(url.to_owned()).or_insert_with(|| Uses { target, open: Vec::new() });
        if uses.position(slot.as_str(), &errand.method).is_none() {
            uses.open.push((slot, errand));
        }
    }

    /// Sends a request with its secrets in it, and gives back what came without them. `send` is called at most once, and
    /// only if nothing leaks.
    pub fn fetch(
        &mut self,
        request: Request,
        send: impl FnOnce(Outgoing) -> Result<Response, Undone>,
    ) -> Result<Response, Undone> {
        let guard = self.secrets.guard().map_err(Undone::Failed)?;
        search::leaks(&request, guard.as_deref())?;
        let found = mentions(&request);
        if found.is_empty() {
            let target = read(&request.url)?;
            let outgoing = Outgoing::plain(request, target, guard.is_some());
            return clean(send(outgoing), guard.as_deref(), false);
        }
        let mut fillings = Vec::with_capacity(found.len());
        for mention in found {
            let filling = self.take(&mention.slot, &request)?;
            fillings.push((mention, filling));
        }
        let target = self.close(&request, &fillings)?;
        // Again: a value that was changed since must not come back unseen.
        let guard = self.secrets.guard().map_err(Undone::Failed)?;
        let known = |(_, filling): &(_, Filling)| guard.as_ref().is_some_and(|g| g.scan(&filling.value).is_some());
        if !fillings.iter().all(known) {
            return Err("a secret was changed while the request was made: nothing was sent; ask again".into());
        }
        let outgoing = Outgoing::filled(request, target, &fillings)?;
        drop(fillings);
        clean(send(outgoing), guard.as_deref(), true)
    }

    /// What fills a slot, if its use was let pass for this very request.
    fn take(&self, slot: &str, request: &Request) -> Result<Filling, Undone> {
        let open = self.uses.get(&request.url);
        let open = open.and_then(|uses| uses.open.get(uses.position(slot, &request.method)?));
        let (Some(agent), Some((slot, errand))) = (self.agent.as_ref(), open) else {
            let slot: Slot = slot.parse().map_err(|why: lazaret_gate::secret::BadSlot| why.to_string())?;
            let errand = Errand::new(&request.method, &read(&request.url)?);
            return Err(self.unfilled(&slot, Some(&errand), Unfilled::Unbound));
        };
        self.secrets.fill(agent, slot, errand).map_err(|why| self.unfilled(slot, Some(errand), why))
    }

    /// Uses that are made now: they aren't open any more. Where the request goes, as it was read for them.
    fn close(&mut self, request: &Request, made: &[(Mention, Filling)]) -> Result<Target, Undone> {
        let Some(uses) = self.uses.get_mut(&request.url) else { return read(&request.url) };
        let is_made = |slot: &Slot| made.iter().any(|(mention, _)| mention.slot == slot.as_str());
        uses.open.retain(|(slot, errand)| errand.method != request.method || !is_made(slot));
        if !uses.open.is_empty() {
            return Ok(uses.target.clone());
        }
        self.uses.remove(&request.url).map_or_else(|| read(&request.url), |uses| Ok(uses.target))
    }

    fn unfilled(&self, slot: &Slot, errand: Option<&Errand>, why: Unfilled) -> Undone {
        let agent = self.agent.as_ref().map_or("?", AgentId::as_str);
        let bind = format!("lazaret secret bind SECRET --agent {agent} --slot {slot}");
        let host = errand.map_or_else(|| "HOST".to_owned(), |errand| errand.place.as_grant());
        let (code, reason, remedy) = match why {
            Unfilled::Unbound => (
                Code::SecretNotBound,
                format!("no secret is bound to slot `{slot}` of agent `{agent}`"),
                format!("an operator can bind one: `{bind} --host {host} …`"),
            ),
            Unfilled::Elsewhere { why, hosts } => {
                let (goes, only) = (errand.map(to).unwrap_or_default(), hosts.join(", "));
                (
                    Code::SecretNotBound,
                    format!("the secret for slot `{slot}` goes only to {only}, and this is {goes}: {why}"),
                    format!("an operator who means it to go there can bind the slot so: `{bind} --host {host} …`"),
                )
            }
            Unfilled::Undeclared { hosts } => {
                let goes =
                    errand.map_or_else(|| "it is bound to others".to_owned(), |it| format!("this is {}", to(it)));
                (
                    Code::SecretNotBound,
                    format!("agent `{agent}` declares slot `{slot}` for {} alone, and {goes}", hosts.join(", ")),
                    "its author has to declare the host: an operator can then make the agent anew from that manifest"
                        .to_owned(),
                )
            }
            Unfilled::Locked(why) => {
                let remedy = "an operator can unlock the vault: `lazaret vault unlock`".to_owned();
                (Code::VaultLocked, format!("the secret for slot `{slot}` is not at hand: {why}"), remedy)
            }
            Unfilled::Broken(why) => return Undone::Failed(format!("slot `{slot}` can't be filled: {why}")),
        };
        refused(code, reason, remedy)
    }
}

fn read(url: &str) -> Result<Target, Undone> {
    Target::parse(url).map_err(|why| why.to_string().into())
}

/// Where it goes, as people write it; without the query, in which there may be anything.
fn to(errand: &Errand) -> String {
    format!("`{} {}{}`", errand.method, errand.place, errand.path)
}

fn refused(code: Code, reason: String, remedy: String) -> Undone {
    Undone::Cut(Box::new(Refusal { code, layer: Layer::Secrets, reason, remedy }))
}

/// What came back, with a placeholder for every value in it.
fn clean(sent: Result<Response, Undone>, guard: Option<&Guard>, filled: bool) -> Result<Response, Undone> {
    let Some(guard) = guard else { return sent };
    let redacted = |text: &str| String::from_utf8_lossy(&guard.redact(text.as_bytes())).into_owned();
    let mut response = match sent {
        Ok(response) => response,
        Err(Undone::Failed(why)) => return Err(Undone::Failed(redacted(&why))),
        Err(cut) => return Err(cut),
    };
    let packed = |name: &str, value: &str| name == "content-encoding" && !value.eq_ignore_ascii_case("identity");
    if filled && response.headers.iter().any(|header| packed(&header.name, &header.value)) {
        let why = "done, but the answer is withheld: it is packed in a way that can't be searched for the secret";
        return Err(why.into());
    }
    if guard.scan(&search::lines([], &response.headers)).is_some() {
        response.headers.retain(|header| guard.scan(header.name.as_bytes()).is_none());
        response.headers.iter_mut().for_each(|header| header.value = redacted(&header.value));
    }
    if let Cow::Owned(body) = guard.redact(&response.body.0) {
        if body.len() > MAX_VALUE {
            return Err("done, but the answer is withheld: it is too large with a placeholder for each secret".into());
        }
        response.body.0 = body;
    }
    Ok(response)
}

/// The effect that a use is, taken apart.
pub(crate) fn recalled(broker: &mut Broker, effect: &Effect) {
    if let Effect::SecretUse { slot, method, url } = effect {
        broker.recall(slot, method, url);
    }
}
