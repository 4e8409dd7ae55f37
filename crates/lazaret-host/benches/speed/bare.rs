//! Wasmtime with nothing of ours around it but the configuration.

use lazaret_guest::engine::{Settings, config};
use wasmtime::component::{Component, ComponentType, InstancePre, Lift, Linker, Lower};
use wasmtime::{Engine, Store};

#[derive(ComponentType, Lower)]
#[component(record)]
struct Message<'a> {
    sender: Option<&'a str>,
    #[component(name = "content-type")]
    content_type: &'a str,
    body: &'a [u8],
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct Reply {
    #[component(name = "content-type")]
    _content_type: String,
    body: Vec<u8>,
}

#[derive(ComponentType, Lift)]
#[component(variant)]
enum Failure {
    #[component(name = "bad-input")]
    BadInput(String),
    #[component(name = "failed")]
    Failed(String),
}

#[derive(ComponentType, Lower)]
#[component(variant)]
#[expect(dead_code, reason = "what the interface says; the anchor never fails")]
enum Fault {
    #[component(name = "refused")]
    Refused(Refusal),
    #[component(name = "failed")]
    Failed(String),
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Refusal {
    code: String,
    layer: String,
    reason: String,
    remedy: String,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Entry {
    value: Vec<u8>,
    version: u64,
}

/// A component, compiled and linked.
pub(crate) struct Bare {
    engine: Engine,
    linked: InstancePre<()>,
}

impl Bare {
    /// Imports that are called trap, except `storage.get`, which answers with the same bytes always.
    pub(crate) fn new(component: &[u8]) -> Self {
        let engine = Engine::new(&config(Settings::default())).expect("an engine");
        let component = Component::from_binary(&engine, component).expect("a component that compiles");
        let mut linker = Linker::<()>::new(&engine);
        linker.allow_shadowing(true);
        linker.define_unknown_imports_as_traps(&component).expect("traps for imports");
        let mut storage = linker.instance("lazaret:host/storage@0.1.0").expect("an interface");
        let get = |_: wasmtime::StoreContextMut<'_, ()>, (_key,): (String,)| {
            Ok((Ok::<_, Fault>(Some(Entry { value: vec![7; 64], version: 1 })),))
        };
        storage.func_wrap("get", get).expect("a host function");
        let linked = linker.instantiate_pre(&component).expect("a component that links");
        Self { engine, linked }
    }

    /// A fresh instance, one call; the reply's body, or the agent's own error.
    pub(crate) fn call(&self, body: &[u8]) -> Result<Vec<u8>, String> {
        let mut store = Store::new(&self.engine, ());
        // One that loops is looked at for as long as that takes: it must not run out.
        store.set_fuel(u64::MAX).expect("fuel");
        store.set_epoch_deadline(u64::MAX);
        let instance = self.linked.instantiate(&mut store).expect("an instance");
        let handle = instance
            .get_typed_func::<(Message<'_>,), (Result<Reply, Failure>,)>(&mut store, "handle")
            .expect("the export of an agent");
        let message = Message { sender: None, content_type: "text/plain", body };
        match handle.call(&mut store, (message,)).expect("a call that returns").0 {
            Ok(reply) => Ok(reply.body),
            Err(Failure::BadInput(why) | Failure::Failed(why)) => Err(why),
        }
    }
}
