//! Admission: from a stranger's bytes to a program that can be run, or the reason why not.

use std::sync::Arc;

use lazaret_gate::record::World as Lives;
use lazaret_gate::{Digest, Halt};
use wasmtime::component::{Component, InstancePre, Linker};

use crate::engine::Engine;
use crate::imports;
use crate::inspect::{self, Unfit};
use crate::instrument::{self, StateMap, Uncapturable};
use crate::native::code;
use crate::state::{Change, State};
use crate::turn::{self, Guest, World};

/// A component that was admitted: compiled, linked, ready for turns. Cheap to clone.
#[derive(Clone)]
pub struct Program {
    pub(crate) engine: Engine,
    pub(crate) lives: Lives,
    pub(crate) map: Arc<StateMap>,
    pub(crate) linked: InstancePre<Guest>,
    digest: Digest,
}

/// A program and the state that its agents begin with.
pub struct Admitted {
    /// What runs.
    pub program: Program,
    /// What it begins with; empty if stateless.
    pub birth: Change,
}

/// Why a component can't be admitted.
#[derive(Debug, thiserror::Error)]
pub enum Inadmissible {
    /// It failed inspection.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// Its state can't be captured, so it can't sleep.
    #[error("this component can't sleep: {0}")]
    Uncapturable(#[from] Uncapturable),
    /// The compiler refused it.
    #[error("this component can't be compiled: {0}")]
    Uncompilable(String),
    /// It needs a function that the host doesn't have, or has with another type.
    #[error("this component doesn't fit what the host offers (wit/host.wit, or WASI 0.2): {0}")]
    Unlinkable(String),
    /// It failed, asked for something or ran too long while its memory was laid out.
    #[error("this component can't be born: {0}")]
    Stillborn(String),
}

impl Engine {
    /// Inspects, instruments, compiles, links and bears a component. Nothing of it runs if it can be refused without.
    pub fn admit(&self, bytes: &[u8]) -> Result<Admitted, Inadmissible> {
        let lives = inspect::inspect(bytes)?;
        let (map, component) = match lives {
            Lives::Durable => {
                let instrumented = instrument::instrument(bytes)?;
                (instrumented.map, self.compile(&instrumented.bytes)?)
            }
            Lives::Stateless => (StateMap { groups: Vec::new() }, self.compile(bytes)?),
        };
        let program = self.link(Digest::of(bytes), lives, map, component)?;
        let birth = match lives {
            Lives::Durable => program.birth()?,
            Lives::Stateless => Change::default(),
        };
        Ok(Admitted { program, birth })
    }

    fn compile(&self, bytes: &[u8]) -> Result<Component, Inadmissible> {
        // A compiler is large, and its input is a stranger's: if it panics, that is a refusal and not our end. It works on
        // nothing that outlives the call, so nothing half-done can be seen afterwards.
        let compile = std::panic::AssertUnwindSafe(|| Component::from_binary(self.wasm(), bytes));
        match std::panic::catch_unwind(compile) {
            Ok(compiled) => compiled.map_err(|why| Inadmissible::Uncompilable(format!("{why:#}"))),
            Err(_) => Err(Inadmissible::Uncompilable("the compiler failed on it".to_owned())),
        }
    }

    fn link(&self, digest: Digest, lives: Lives, map: StateMap, component: Component) -> Result<Program, Inadmissible> {
        let unlinkable = |why: wasmtime::Error| Inadmissible::Unlinkable(format!("{why:#}"));
        let mut linker = Linker::new(self.wasm());
        match lives {
            Lives::Durable => imports::define(&mut linker).map(drop).map_err(unlinkable)?,
            Lives::Stateless => crate::wasi::define(&mut linker, &component).map_err(unlinkable)?,
        }
        let linked = linker.instantiate_pre(&component).map_err(unlinkable)?;
        Ok(Program { engine: self.clone(), lives, map: Arc::new(map), linked, digest })
    }

    /// Takes up a program that this host compiled before. `None` if the bytes were not sealed with this key by this
    /// very engine for this component: they are native code, and nothing else about them is checked.
    pub fn unseal(&self, sealed: &[u8], key: &[u8; 32], component: &Digest) -> Option<Program> {
        let (header, compiled) = code::unseal(self.wasm(), sealed, key, &self.binding(component))?;
        let (lives, map) = serde_json::from_slice(&header).ok()?;
        self.link(*component, lives, map, compiled).ok()
    }

    fn binding(&self, component: &Digest) -> Vec<u8> {
        [self.digest().0, component.0].concat()
    }
}

/// The world of a component that is being born: there is none yet.
struct Womb;

impl World for Womb {
    fn ask(&mut self, effect: lazaret_gate::Effect) -> Result<lazaret_gate::Outcome, Halt> {
        Err(Halt::Stopped(format!("it asks for `{}` while its memory is laid out, before any turn", effect.kind())))
    }
}

impl Program {
    /// The digest of the component as it was given.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// How it lives.
    pub fn lives(&self) -> Lives {
        self.lives
    }

    /// The engine it was compiled for.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Lays out data segments and runs start functions; what comes of it is where every agent begins.
    pub fn birth(&self) -> Result<Change, Inadmissible> {
        turn::birth(self, Box::new(Womb)).map_err(Inadmissible::Stillborn)
    }

    /// The compiled program, authenticated with a key of this host, for [`Engine::unseal`].
    pub fn seal(&self, key: &[u8; 32]) -> Result<Vec<u8>, Inadmissible> {
        let uncompilable = |why: String| Inadmissible::Uncompilable(why);
        let header = serde_json::to_vec(&(self.lives, &*self.map)).map_err(|why| uncompilable(why.to_string()))?;
        let native = self.linked.component().serialize().map_err(|why| uncompilable(format!("{why:#}")))?;
        Ok(code::seal(&header, &native, key, &self.engine.binding(&self.digest)))
    }
}

/// What a state begins with before birth.
pub(crate) fn nothing() -> State {
    State::default()
}
