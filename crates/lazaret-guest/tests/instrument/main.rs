//! The instrumenter, judged by what real instances of rewritten components do.

mod fuzz;
mod refusals;
mod rewriting;
mod sleeping;

use lazaret_guest::instrument::{Instrumented, StateMap, instrument};
use wasmtime::{
    Config, Engine, Result, Store,
    component::{Component, ComponentNamedList, Instance, Lift, Linker, Lower},
};

/// What the host was told through the import `log`, in order.
type Log = Vec<u32>;

/// A live instance of a component, original or instrumented.
struct Guest {
    store: Store<Log>,
    instance: Instance,
}

/// Every slot of every group.
type Slots = Vec<Vec<u64>>;

const FUEL: u64 = 1_000_000_000;

impl Guest {
    /// Instantiates and does nothing else.
    fn start(component: &[u8]) -> Result<Guest> {
        let mut config = Config::new();
        config.consume_fuel(true);
        let engine = Engine::new(&config)?;
        let component = Component::new(&engine, component)?;
        let mut linker = Linker::<Log>::new(&engine);
        linker.root().func_wrap("log", |mut store, (value,): (u32,)| {
            store.data_mut().push(value);
            Ok(())
        })?;
        linker.define_unknown_imports_as_traps(&component)?;
        let mut store = Store::new(&engine, Log::new());
        store.set_fuel(FUEL)?;
        let instance = linker.instantiate(&mut store, &component)?;
        Ok(Guest { store, instance })
    }

    /// A first start.
    fn born(component: &Instrumented) -> Result<Guest> {
        let mut guest = Guest::start(&component.bytes)?;
        guest.birth(&component.map)?;
        Ok(guest)
    }

    fn birth(&mut self, map: &StateMap) -> Result<()> {
        map.groups.iter().try_for_each(|group| self.call::<(), ()>(&group.birth_export(), ()))
    }

    fn call<P, R>(&mut self, name: &str, params: P) -> Result<R>
    where
        P: ComponentNamedList + Lower,
        R: ComponentNamedList + Lift + 'static,
    {
        self.instance.get_typed_func::<P, R>(&mut self.store, name)?.call(&mut self.store, params)
    }

    /// Calls a function without parameters that returns a number.
    fn ask(&mut self, name: &str) -> Result<u32> {
        Ok(self.call::<(), (u32,)>(name, ())?.0)
    }

    fn globals(&mut self, map: &StateMap) -> Result<Slots> {
        let mut all = Slots::new();
        for group in &map.groups {
            let slot = |index| Ok(self.call::<(u32,), (u64,)>(&group.get_export(), (index,))?.0);
            all.push((0..group.globals.len() as u32).map(slot).collect::<Result<_>>()?);
        }
        Ok(all)
    }

    fn set_globals(&mut self, map: &StateMap, slots: &Slots) -> Result<()> {
        for (group, values) in map.groups.iter().zip(slots) {
            for (index, value) in (0u32..).zip(values) {
                self.call::<(u32, u64), ()>(&group.set_export(), (index, *value))?;
            }
        }
        Ok(())
    }
}

/// Instruments a component in the text format and checks what must hold for every result.
fn instrumented(text: &str) -> Result<Instrumented> {
    let original = wat::parse_str(text)?;
    let result = instrument(&original)?;
    wasmparser::Validator::new().validate_all(&result.bytes)?;
    assert_eq!(result, instrument(&original)?, "the same input must give the same output");
    Ok(result)
}
