//! The engine: one configuration, named by its digest, and the clock behind the wall-time backstop.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lazaret_gate::Digest;
use serde_json::json;
use wasmtime::{Config, OperatorCost};

use crate::limits;
use crate::native::heap;

/// How often running guests are asked whether their time is up.
const TICK: Duration = Duration::from_millis(10);

/// Changes when the instrumenter lays state out differently: images of one layout can't be woken by another.
const STATE_LAYOUT: u32 = 1;

/// Compiles and runs components. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    wasm: wasmtime::Engine,
    digest: Digest,
    ticker: Arc<Ticker>,
}

/// The engine can't be made on this machine.
#[derive(Debug, thiserror::Error)]
#[error("the WebAssembly engine can't start here: {0}")]
pub struct Unsupported(String);

/// What metering and canonicalisation cost is a published figure, so a benchmark must be able to turn them off.
/// Nothing but a benchmark does.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Deterministic fuel.
    pub fuel: bool,
    /// Wall-time interruption.
    pub epochs: bool,
    /// One bit pattern for every NaN, so that replay holds across instruction sets.
    pub canonical_nans: bool,
    /// Memories that the host owns and can map images into.
    pub host_memory: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { fuel: true, epochs: true, canonical_nans: true, host_memory: true }
    }
}

/// The engine's configuration. Public for benchmarks that put bare Wasmtime beside us.
pub fn config(settings: Settings) -> Config {
    let mut config = Config::new();
    config.consume_fuel(settings.fuel);
    if settings.fuel {
        let mut cost = OperatorCost::default();
        cost.variable.memory_grow_per_page = limits::FUEL_PER_PAGE;
        config.operator_cost(cost);
    }
    config.epoch_interruption(settings.epochs);
    config.cranelift_nan_canonicalization(settings.canonical_nans);
    if settings.host_memory {
        heap::Creator::new().install(&mut config);
    }
    config.max_wasm_stack(limits::MAX_STACK);
    config.wasm_backtrace_max_frames(None);
    config.concurrency_support(false);
    // Multiple memories stay on for the engine's own adapters between nested components; `inspect` refuses guests that
    // use them. Off: proposals that no guest toolchain of ours needs, and those that are not deterministic.
    config.wasm_relaxed_simd(false);
    config.wasm_memory64(false);
    config.wasm_tail_call(false);
    config.wasm_custom_page_sizes(false);
    config.wasm_wide_arithmetic(false);
    config
}

impl Engine {
    /// The engine as it always is.
    pub fn new() -> Result<Self, Unsupported> {
        let wasm =
            wasmtime::Engine::new(&config(Settings::default())).map_err(|why| Unsupported(format!("{why:#}")))?;
        let ticker = Arc::new(Ticker::default());
        Ok(Self { wasm, digest: digest(), ticker })
    }

    /// The digest of everything in the engine that can change what a turn computes or what it costs. The machine's
    /// instruction set is not in it: results are the same on all of them.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    pub(crate) fn wasm(&self) -> &wasmtime::Engine {
        &self.wasm
    }

    /// Keeps the clock ticking while the guard lives.
    pub(crate) fn tick(&self) -> Ticking {
        self.ticker.clone().start(&self.wasm)
    }
}

fn digest() -> Digest {
    let facts = json!({
        "engine": "wasmtime 48.0.8",
        "state-layout": STATE_LAYOUT,
        "nan": "canonical",
        "fuel": "wasmtime default table",
        "fuel-per-ask": limits::FUEL_PER_ASK,
        "fuel-per-byte": limits::FUEL_PER_BYTE,
        "fuel-per-page": limits::FUEL_PER_PAGE,
        "max-stack": limits::MAX_STACK,
        "max-table-elements": limits::MAX_TABLE_ELEMENTS,
        "hostcall-bytes": limits::HOSTCALL_BYTES,
        "wasi-fuel-per-call": limits::FUEL_PER_CALL,
        "wasi-max-transfer": limits::MAX_TRANSFER,
        "wasi-max-handles": limits::MAX_HANDLES,
        "wasi-max-held": limits::MAX_HELD,
        "wasi-max-stderr-line": limits::MAX_STDERR_LINE,
        "wasi-max-random-call": limits::MAX_RANDOM_CALL,
    });
    // INVARIANT: these are integers and text, so canonical JSON holds them and this can't fail.
    Digest::of_value(&facts).unwrap_or(Digest([0; 32]))
}

/// A thread that moves the engine's epoch while any guest runs, and sleeps otherwise.
#[derive(Default)]
struct Ticker {
    /// Guests that run now.
    running: AtomicU32,
    /// The thread waits for a guest to run; otherwise nobody has to wake it, and guests that begin don't wait for each other.
    asleep: AtomicBool,
    /// There is a thread.
    started: AtomicBool,
    door: Mutex<()>,
    wake: Condvar,
}

/// While this lives, the clock ticks.
pub(crate) struct Ticking(Arc<Ticker>);

impl Ticker {
    fn door(&self) -> MutexGuard<'_, ()> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: Arc<Self>, engine: &wasmtime::Engine) -> Ticking {
        // Whoever comes says so and then looks whether the thread sleeps; the thread says that it will and then looks whether
        // anybody came. In one order for all, so one of them sees the other.
        self.running.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            let _door = self.door();
            self.wake.notify_one();
        }
        if !self.started.load(Ordering::Relaxed) && !self.started.swap(true, Ordering::Relaxed) {
            let weak = (Arc::downgrade(&self), engine.weak());
            // If no thread can be had, guests still end by fuel; the wall clock is the backstop.
            let _ = std::thread::Builder::new().name("lazaret-ticker".into()).spawn(move || {
                while let (Some(ticker), Some(engine)) = (weak.0.upgrade(), weak.1.upgrade()) {
                    if !ticker.guest_runs() {
                        continue;
                    }
                    drop(ticker);
                    #[expect(clippy::disallowed_methods, reason = "the wall-time backstop is a real clock's tick")]
                    std::thread::sleep(TICK);
                    engine.increment_epoch();
                }
            });
        }
        Ticking(self)
    }

    /// Waits for a guest to run. False if none did for a while: the engine may be gone meanwhile.
    fn guest_runs(&self) -> bool {
        let idle = |_: &mut ()| self.running.load(Ordering::SeqCst) == 0;
        if !idle(&mut ()) {
            return true;
        }
        let door = self.door();
        self.asleep.store(true, Ordering::SeqCst);
        let waited = self.wake.wait_timeout_while(door, 100 * TICK, idle);
        self.asleep.store(false, Ordering::SeqCst);
        let (_door, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        !waited.timed_out()
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}
