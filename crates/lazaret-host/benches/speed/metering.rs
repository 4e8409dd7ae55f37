//! What bounds and determinism cost inside of a guest that only computes.

use std::time::Duration;

use lazaret_guest::engine::{Settings, config};
use wasmtime::{Engine, Instance, Module, Store, TypedFunc};

use crate::timing::{median, show, time};

const NONE: Settings = Settings { fuel: false, epochs: false, canonical_nans: false, host_memory: false };

const VARIANTS: [(&str, Settings); 5] = [
    ("nothing", NONE),
    ("fuel", Settings { fuel: true, ..NONE }),
    ("epochs", Settings { epochs: true, ..NONE }),
    ("canonical NaNs", Settings { canonical_nans: true, ..NONE }),
    ("all, as agents run", Settings { fuel: true, epochs: true, canonical_nans: true, host_memory: true }),
];

/// A program under one setting, ready to be called.
struct Ready {
    store: Store<()>,
    work: TypedFunc<i32, i64>,
}

impl Ready {
    fn new(settings: Settings, text: &str) -> Self {
        let engine = Engine::new(&config(settings)).expect("an engine");
        let module = Module::new(&engine, wat::parse_str(text).expect("the guest's text")).expect("a module");
        let mut store = Store::new(&engine, ());
        if settings.fuel {
            store.set_fuel(u64::MAX).expect("fuel");
        }
        store.set_epoch_deadline(1 << 40);
        let instance = Instance::new(&mut store, &module, &[]).expect("an instance");
        let work = instance.get_typed_func(&mut store, "work").expect("its export");
        Self { store, work }
    }

    fn run(&mut self, rounds: i32) -> i64 {
        self.work.call(&mut self.store, rounds).expect("a result")
    }
}

/// Two programs, each under every setting in turn.
pub(crate) fn metering() {
    let programs = [("hash", include_str!("hash.wat"), 2_000), ("orbits", include_str!("orbits.wat"), 100_000)];
    for (name, text, rounds) in programs {
        let mut ready: Vec<Ready> = VARIANTS.iter().map(|(_, settings)| Ready::new(*settings, text)).collect();
        let expected = ready[0].run(rounds);
        let mut times = vec![Vec::new(); VARIANTS.len()];
        for _ in 0..60 {
            for (ready, times) in ready.iter_mut().zip(&mut times) {
                let mut result = 0;
                times.push(time(|| result = ready.run(rounds)));
                assert_eq!(result, expected, "every setting computes the same");
            }
        }
        let medians: Vec<Duration> = times.into_iter().map(median).collect();
        let figures = VARIANTS
            .iter()
            .zip(&medians)
            .skip(1)
            .map(|((name, _), time)| format!("{name} {:.2}", time.as_secs_f64() / medians[0].as_secs_f64()));
        let figures = figures.collect::<Vec<_>>().join("   ");
        println!("{:<34} unmetered {:>9}   ratio: {figures}", format!("metering, {name}"), show(medians[0]));
    }
}
