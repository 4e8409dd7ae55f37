//! What a durable agent can import. Every import has the same shape: its parameters become an effect, the effect is
//! charged and asked, the answer becomes its result. [`Interface::import`] is the only way to define one, so none can
//! be ungated, uncharged or unrecorded.

mod agents;
mod clock;
mod http;
mod log;
mod model;
mod random;
mod secrets;
mod storage;
mod tools;

use lazaret_gate::limits::MAX_HANDLES;
use lazaret_gate::{Answer, Effect, Halt, Outcome, Refusal, secret};
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentNamedList, ComponentType, Lift, Linker, LinkerInstance, Lower};

use crate::inspect::INTERFACES;
use crate::limits::{FUEL_PER_ASK, FUEL_PER_BYTE};
use crate::turn::Guest;

/// A function that agents can import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// `storage`, `http`, …
    pub interface: &'static str,
    /// `get`, `fetch`, …
    pub function: &'static str,
}

#[derive(ComponentType, Lower)]
#[component(variant)]
enum Fault {
    #[component(name = "refused")]
    Refused(WireRefusal),
    #[component(name = "failed")]
    Failed(String),
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct WireRefusal {
    code: String,
    layer: String,
    reason: String,
    remedy: String,
}

impl From<Refusal> for WireRefusal {
    fn from(refusal: Refusal) -> Self {
        Self {
            code: refusal.code.name().to_owned(),
            layer: refusal.layer.name().to_owned(),
            reason: refusal.reason,
            remedy: refusal.remedy,
        }
    }
}

/// The answer has another shape than the ask calls for. Only a forged tape can do that.
#[derive(Debug, thiserror::Error)]
#[error("the answer doesn't fit the ask")]
pub(crate) struct WrongAnswer;

/// One interface while it is being defined.
pub(crate) struct Interface<'a> {
    name: &'static str,
    linker: LinkerInstance<'a, Guest>,
    catalogue: &'a mut Vec<Import>,
}

impl Interface<'_> {
    /// Defines a function: how its parameters become an effect, and how the answer becomes its result.
    pub(crate) fn import<P, R>(
        &mut self,
        function: &'static str,
        effect: fn(P) -> Effect,
        read: fn(Answer) -> Option<R>,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + 'static,
        R: ComponentType + Lower + 'static,
    {
        self.catalogue.push(Import { interface: self.name, function });
        self.linker.func_wrap(function, move |mut store: StoreContextMut<'_, Guest>, params: P| {
            let result = match ask(&mut store, effect(params))? {
                Outcome::Done(answer) => Ok(read(answer).ok_or(WrongAnswer)?),
                Outcome::Failed(why) => Err(Fault::Failed(why)),
                Outcome::Refused(refusal) => Err(Fault::Refused(refusal.into())),
            };
            Ok((result,))
        })
    }
}

/// The one door between a guest and the gate. The use of each secret that a request names is asked for before the request
/// itself, so that it is judged and recorded as what it is; if one isn't granted, that is what becomes of the request.
pub(crate) fn ask(store: &mut StoreContextMut<'_, Guest>, effect: Effect) -> wasmtime::Result<Outcome> {
    if let Effect::HttpFetch(request) = &effect {
        // Too many are for the gate to refuse, with the request.
        let uses = Some(secret::uses(request)).filter(|uses| uses.len() <= MAX_HANDLES);
        for using in uses.into_iter().flatten() {
            match ask_one(store, using)? {
                Outcome::Done(_) => {}
                undone => return Ok(undone),
            }
        }
    }
    ask_one(store, effect)
}

/// Charges, asks, charges what came back.
fn ask_one(store: &mut StoreContextMut<'_, Guest>, effect: Effect) -> wasmtime::Result<Outcome> {
    charge(store, FUEL_PER_ASK + FUEL_PER_BYTE.saturating_mul(effect.weight()))?;
    let outcome = match store.data_mut().world.ask(effect) {
        Ok(outcome) => outcome,
        Err(halt) => return Err(stop(store, halt)),
    };
    charge(store, FUEL_PER_BYTE.saturating_mul(outcome.weight()))?;
    match outcome {
        Outcome::Refused(refusal) if refusal.ends_turn() => {
            store.data_mut().refused = Some(refusal.clone());
            Err(wasmtime::Error::msg("the turn ends with this refusal"))
        }
        outcome => Ok(outcome),
    }
}

fn stop(store: &mut StoreContextMut<'_, Guest>, halt: Halt) -> wasmtime::Error {
    let error = wasmtime::Error::msg("the turn was halted");
    store.data_mut().halt = Some(halt);
    error
}

/// Takes fuel for work that the host does for the guest.
pub(crate) fn charge(store: &mut StoreContextMut<'_, Guest>, fuel: u64) -> wasmtime::Result<()> {
    let left = store.get_fuel()?;
    match left.checked_sub(fuel) {
        Some(left) => store.set_fuel(left),
        None => {
            store.set_fuel(0)?;
            Err(wasmtime::Trap::OutOfFuel.into())
        }
    }
}

/// Defines everything; returns what was defined.
pub(crate) fn define(linker: &mut Linker<Guest>) -> wasmtime::Result<Vec<Import>> {
    type Define = fn(&mut Interface<'_>) -> wasmtime::Result<()>;
    const INTERFACES_OFFERED: [(&str, Define); 9] = [
        ("agents", agents::define),
        ("clock", clock::define),
        ("http", http::define),
        ("log", log::define),
        ("model", model::define),
        ("random", random::define),
        ("secrets", secrets::define),
        ("storage", storage::define),
        ("tools", tools::define),
    ];
    let mut catalogue = Vec::new();
    linker.instance(&format!("lazaret:host/types{INTERFACES}"))?;
    for (name, define) in INTERFACES_OFFERED {
        let linker = linker.instance(&format!("lazaret:host/{name}{INTERFACES}"))?;
        define(&mut Interface { name, linker, catalogue: &mut catalogue })?;
    }
    Ok(catalogue)
}

/// Everything that a durable agent can import, for tests and documentation.
pub fn catalogue(engine: &crate::Engine) -> wasmtime::Result<Vec<Import>> {
    define(&mut Linker::new(engine.wasm()))
}
