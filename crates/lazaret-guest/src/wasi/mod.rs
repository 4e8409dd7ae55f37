//! WASI 0.2 for stateless agents, and none of it real. Time, randomness, the environment, stderr and HTTP are effects
//! like any other: charged, gated and on the tape. Input and output are the turn's own. There are no files and no
//! sockets.
//!
//! Every function is defined by [`Interface::local`] or [`Interface::asking`]. Both charge first; only the second is
//! given a way to ask. So no function is free, and none can reach the world round the gate.

mod cli;
mod clocks;
mod filesystem;
mod http;
mod io;
mod random;
mod stdio;
mod table;

use std::ops::{Deref, DerefMut};

use lazaret_gate::record::{Ending, Failure, Reply};
use lazaret_gate::{Answer, Effect, Outcome};
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{
    Component, ComponentExportIndex, ComponentNamedList, Lift, Linker, LinkerInstance, Lower, Resource, ResourceType,
};
use wasmtime::{AsContextMut, Store, StoreContextMut};

use crate::admit::Program;
use crate::imports;
use crate::limits::{FUEL_PER_BYTE, FUEL_PER_CALL, MAX_HANDLES};
use crate::turn::{Guest, Terms};
use table::{Kept, Table};

/// The newest release whose functions are all here. Wasmtime resolves every 0.2 version to this definition.
const VERSION: &str = "@0.2.12";

/// What a turn is called by; any 0.2 version of it is found under this name.
const RUN: &str = "wasi:cli/run@0.2.0";

/// A WASI function that stateless agents can import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// `wasi:io/streams`, …
    pub interface: &'static str,
    /// `[method]input-stream.read`, `get-stdin`, …
    pub function: String,
    /// What it can do.
    pub kind: Kind,
}

/// How far a WASI function reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It works on what the turn already holds and is charged for it.
    Local,
    /// Every call asks for an effect of this kind: one, unless it wants more than one ask carries.
    Asks(&'static str),
    /// A call asks for an effect of one of these kinds if what it is called on needs one: a line is complete, nothing is
    /// ready but a timer, a request is whole.
    MayAsk(&'static [&'static str]),
}

/// What the host keeps for a turn of a WASI guest.
#[derive(Default)]
pub(crate) struct Wasi {
    table: Table,
    stdin: stdio::Stdin,
    stdout: Vec<u8>,
    stderr: stdio::Lines,
    clock: clocks::Clock,
}

/// Why a guest ended before its `run` returned, if it wasn't stopped.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("exit code {0}")]
    Exit(u8),
    /// WASI has no way to say that a clock or a source of randomness failed.
    #[error("{0}")]
    Failed(String),
}

/// What a function can reach that only works on what the turn holds.
pub(crate) struct Host<'a> {
    store: StoreContextMut<'a, Guest>,
}

impl Host<'_> {
    fn wasi(&mut self) -> &mut Wasi {
        &mut self.store.data_mut().wasi
    }

    fn table(&mut self) -> &mut Table {
        &mut self.wasi().table
    }

    /// Charges for bytes that cross.
    fn charge(&mut self, bytes: usize) -> wasmtime::Result<()> {
        imports::charge(&mut self.store, FUEL_PER_BYTE.saturating_mul(bytes as u64))
    }
}

/// What a function can reach that may also ask.
pub(crate) struct Asking<'a>(Host<'a>);

impl<'a> Deref for Asking<'a> {
    type Target = Host<'a>;

    fn deref(&self) -> &Host<'a> {
        &self.0
    }
}

impl<'a> DerefMut for Asking<'a> {
    fn deref_mut(&mut self) -> &mut Host<'a> {
        &mut self.0
    }
}

impl Asking<'_> {
    fn ask(&mut self, effect: Effect) -> wasmtime::Result<Outcome> {
        imports::ask(&mut self.0.store, effect)
    }

    /// Asks for something whose WASI function has no way to say no: a refusal ends the turn, in the gate's words.
    fn need(&mut self, effect: Effect) -> wasmtime::Result<Answer> {
        let kind = effect.kind();
        match self.ask(effect)? {
            Outcome::Done(answer) => Ok(answer),
            Outcome::Failed(why) => Err(Ended::Failed(format!("{kind} failed: {why}")).into()),
            Outcome::Refused(refusal) => {
                self.store.data_mut().refused = Some(refusal);
                Err(wasmtime::Error::msg("WASI has no way to tell the guest of a refusal here"))
            }
        }
    }
}

/// One interface while it is being defined.
pub(crate) struct Interface<'a> {
    name: &'static str,
    linker: LinkerInstance<'a, Guest>,
    catalogue: &'a mut Vec<Import>,
}

impl Interface<'_> {
    fn list(&mut self, function: &str, kind: Kind) {
        self.catalogue.push(Import { interface: self.name, function: function.to_owned(), kind });
    }

    /// Defines a function that works on what the turn holds.
    fn local<P, R>(
        &mut self,
        function: &'static str,
        run: for<'a> fn(&mut Host<'a>, P) -> wasmtime::Result<R>,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + 'static,
        R: ComponentNamedList + Lower + 'static,
    {
        self.list(function, Kind::Local);
        self.linker.func_wrap(function, move |mut store: StoreContextMut<'_, Guest>, params: P| {
            imports::charge(&mut store, FUEL_PER_CALL)?;
            run(&mut Host { store }, params)
        })
    }

    /// Defines a function that asks, always or sometimes.
    fn asking<P, R>(
        &mut self,
        function: &'static str,
        kind: Kind,
        run: for<'a> fn(&mut Asking<'a>, P) -> wasmtime::Result<R>,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + 'static,
        R: ComponentNamedList + Lower + 'static,
    {
        self.list(function, kind);
        self.linker.func_wrap(function, move |mut store: StoreContextMut<'_, Guest>, params: P| {
            imports::charge(&mut store, FUEL_PER_CALL)?;
            run(&mut Asking(Host { store }), params)
        })
    }

    /// Defines a resource that is simply forgotten when the guest drops it.
    fn resource<T: Kept>(&mut self, name: &'static str) -> wasmtime::Result<()> {
        self.resource_with::<T>(name, |_, _| {})
    }

    /// Defines a resource whose drop has a consequence.
    fn resource_with<T: Kept>(&mut self, name: &'static str, dropped: fn(&mut Wasi, T)) -> wasmtime::Result<()> {
        self.list(&format!("[resource-drop]{name}"), Kind::Local);
        self.linker.resource(name, ResourceType::host::<T>(), move |mut store, rep| {
            imports::charge(&mut store, FUEL_PER_CALL)?;
            let wasi = &mut store.data_mut().wasi;
            let thing = wasi.table.take(Resource::<T>::new_own(rep))?;
            dropped(wasi, thing);
            Ok(())
        })
    }
}

fn define_all(linker: &mut Linker<Guest>) -> wasmtime::Result<Vec<Import>> {
    type Define = fn(&mut Interface<'_>) -> wasmtime::Result<()>;
    let offered: [(&str, Define); 22] = [
        ("wasi:cli/environment", cli::environment),
        ("wasi:cli/exit", cli::exit),
        ("wasi:cli/stderr", stdio::stderr),
        ("wasi:cli/stdin", stdio::stdin),
        ("wasi:cli/stdout", stdio::stdout),
        ("wasi:cli/terminal-input", cli::terminal_input),
        ("wasi:cli/terminal-output", cli::terminal_output),
        ("wasi:cli/terminal-stderr", cli::terminal_stderr),
        ("wasi:cli/terminal-stdin", cli::terminal_stdin),
        ("wasi:cli/terminal-stdout", cli::terminal_stdout),
        ("wasi:clocks/monotonic-clock", clocks::monotonic),
        ("wasi:clocks/wall-clock", clocks::wall),
        ("wasi:filesystem/preopens", filesystem::preopens),
        ("wasi:filesystem/types", filesystem::types),
        ("wasi:http/outgoing-handler", http::handler),
        ("wasi:http/types", http::types),
        ("wasi:io/error", io::error),
        ("wasi:io/poll", io::poll),
        ("wasi:io/streams", io::streams),
        ("wasi:random/insecure", random::insecure),
        ("wasi:random/insecure-seed", random::insecure_seed),
        ("wasi:random/random", random::random),
    ];
    let mut catalogue = Vec::new();
    for (name, define) in offered {
        let linker = linker.instance(&format!("{name}{VERSION}"))?;
        define(&mut Interface { name, linker, catalogue: &mut catalogue })?;
    }
    Ok(catalogue)
}

/// Everything that a stateless agent can import, for tests and documentation.
pub fn catalogue(engine: &crate::Engine) -> wasmtime::Result<Vec<Import>> {
    define_all(&mut Linker::new(engine.wasm()))
}

/// Defines everything, and checks that the component has the entry that a turn will call.
pub(crate) fn define(linker: &mut Linker<Guest>, component: &Component) -> wasmtime::Result<()> {
    define_all(linker)?;
    let (item, _) = entry(component)?;
    let ComponentItem::ComponentFunc(run) = item else {
        return Err(wasmtime::Error::msg("`run` of `wasi:cli/run` is not a function"));
    };
    run.typecheck::<(), (Result<(), ()>,)>(&component.component_type().instance_type())
        .map_err(|why| wasmtime::Error::msg(format!("`run` of `wasi:cli/run` isn't `func() -> result`: {why:#}")))
}

fn entry(component: &Component) -> wasmtime::Result<(ComponentItem, ComponentExportIndex)> {
    let interface = component.get_export(None, RUN).map(|(_, index)| index);
    let run = interface.and_then(|interface| component.get_export(Some(&interface), "run"));
    run.ok_or_else(|| wasmtime::Error::msg("it has no function `run` in an interface `wasi:cli/run@0.2.x`"))
}

/// Takes one turn, from nothing but its input.
pub(crate) fn run(program: &Program, store: &mut Store<Guest>, terms: &Terms<'_>) -> wasmtime::Result<Ending> {
    // The engine counts a handle again while it is lent: a poll of all of them must do.
    store.set_max_component_handles(2 * MAX_HANDLES);
    store.data_mut().wasi.stdin = stdio::Stdin::new(terms.input.body.0.clone());
    let code = match call(program, store) {
        Ok(Ok(())) => 0,
        Ok(Err(())) => 1,
        Err(why) => match why.downcast::<Ended>()? {
            Ended::Exit(code) => code,
            Ended::Failed(why) => return Ok(Ending::Failed(Failure::Failed(why))),
        },
    };
    stdio::finish_line(&mut Asking(Host { store: store.as_context_mut() }))?;
    let wasi = &mut store.data_mut().wasi;
    if code != 0 {
        let text = match wasi.stderr.last() {
            "" => format!("exit code {code}"),
            line => format!("exit code {code}; {line}"),
        };
        return Ok(Ending::Failed(Failure::Failed(text)));
    }
    let body = std::mem::take(&mut wasi.stdout);
    let is_text = std::str::from_utf8(&body).is_ok();
    let content_type = if is_text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    Ok(Ending::Replied(Reply { content_type: content_type.to_owned(), body: body.into() }))
}

fn call(program: &Program, store: &mut Store<Guest>) -> wasmtime::Result<Result<(), ()>> {
    let (_, index) = entry(program.linked.component())?;
    let instance = program.linked.instantiate(&mut *store)?;
    let run = instance.get_typed_func::<(), (Result<(), ()>,)>(&mut *store, index)?;
    let (result,) = run.call(&mut *store, ())?;
    Ok(result)
}
