//! One turn: wake, call, put to sleep.

use std::any::Any;
use std::time::{Duration, Instant};

use lazaret_gate::limits::{MAX_KEY, MAX_OUTPUT, MAX_TEXT};
use lazaret_gate::record::{Cause, Ending, Failure, Message, Reply, Stop, World as Lives};
use lazaret_gate::{Budget, Effect, Halt, Outcome, Refusal};
use wasmtime::component::{ComponentType, Instance, Lift, Lower};
use wasmtime::{Store, Trap, UpdateDeadline};

use crate::admit::{Program, nothing};
use crate::limits;
use crate::native::heap::{Heap, with_heaps};
use crate::state::{Change, State};

/// The world as a guest meets it: asks go in, outcomes come out.
pub trait World: Any {
    /// One ask. An error ends the turn.
    fn ask(&mut self, effect: Effect) -> Result<Outcome, Halt>;
}

/// What a turn is given.
pub struct Terms<'a> {
    /// The message.
    pub input: &'a Message,
    /// What it may cost.
    pub budget: &'a Budget,
}

/// A turn that is over.
pub struct Ran {
    /// How it ended, or why it could not be brought to an end.
    pub ending: Result<Ending, Halt>,
    /// Fuel used.
    pub fuel: u64,
    /// What it changed; only a turn that replied changes anything.
    pub change: Option<Change>,
    /// The world it ran in, handed back.
    pub world: Box<dyn World>,
}

/// What the host keeps beside a running guest.
pub(crate) struct Guest {
    pub(crate) world: Box<dyn World>,
    /// Why the turn can't go on, when the world said so.
    pub(crate) halt: Option<Halt>,
    /// The refusal that ended the turn.
    pub(crate) refused: Option<Refusal>,
    pub(crate) wasi: crate::wasi::Wasi,
    memory: MemoryCap,
}

/// Counts linear memory against the budget.
struct MemoryCap {
    used: usize,
    most: usize,
    denied: bool,
    /// Elements of all tables.
    elements: usize,
}

impl MemoryCap {
    /// Memories that were woken are as large as they were when they fell asleep; the engine only told their minima.
    fn woken(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.used = bytes;
        self.denied |= bytes > self.most;
        if self.denied { Err(wasmtime::Error::msg("the agent's memory is larger than its budget")) } else { Ok(()) }
    }
}

impl wasmtime::ResourceLimiter for MemoryCap {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let used = self.used.saturating_add(desired.saturating_sub(current));
        if used > self.most {
            self.denied = true;
            return Ok(false);
        }
        if maximum.is_none_or(|maximum| desired <= maximum) {
            self.used = used;
        }
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let elements = self.elements.saturating_add(desired.saturating_sub(current));
        if elements > limits::MAX_TABLE_ELEMENTS {
            return Ok(false);
        }
        self.elements = elements;
        Ok(true)
    }

    fn instances(&self) -> usize {
        limits::MAX_INSTANCES
    }

    fn tables(&self) -> usize {
        limits::MAX_TABLES
    }

    fn memories(&self) -> usize {
        limits::MAX_MEMORIES
    }
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct WireMessage<'a> {
    sender: Option<&'a str>,
    #[component(name = "content-type")]
    content_type: &'a str,
    body: &'a [u8],
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct WireReply {
    #[component(name = "content-type")]
    content_type: String,
    body: Vec<u8>,
}

#[derive(ComponentType, Lift)]
#[component(variant)]
enum WireFailure {
    #[component(name = "bad-input")]
    BadInput(String),
    #[component(name = "failed")]
    Failed(String),
}

/// A store with every limit set, whose clock runs from now.
fn store(program: &Program, world: Box<dyn World>, budget: &Budget) -> wasmtime::Result<Store<Guest>> {
    let most = usize::try_from(budget.memory).unwrap_or(usize::MAX);
    let memory = MemoryCap { used: 0, most, denied: false, elements: 0 };
    let guest = Guest { world, halt: None, refused: None, wasi: crate::wasi::Wasi::default(), memory };
    let mut store = Store::new(program.engine.wasm(), guest);
    store.limiter(|guest| &mut guest.memory);
    store.set_hostcall_fuel(limits::HOSTCALL_BYTES);
    store.set_fuel(budget.fuel)?;
    #[expect(clippy::disallowed_methods, reason = "the wall-time backstop is measured on a real clock")]
    let deadline = Instant::now() + Duration::from_millis(budget.wall_ms);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |_| {
        #[expect(clippy::disallowed_methods, reason = "the wall-time backstop is measured on a real clock")]
        let late = Instant::now() >= deadline;
        Ok(if late { UpdateDeadline::Interrupt } else { UpdateDeadline::Continue(1) })
    });
    Ok(store)
}

/// Lays out a component's memory for the first time.
pub(crate) fn birth(program: &Program, world: Box<dyn World>) -> Result<Change, String> {
    let _ticking = program.engine.tick();
    let budget = Budget { fuel: limits::FUEL_FOR_BIRTH, wall_ms: limits::WALL_FOR_BIRTH_MS, ..Budget::default() };
    let budget = Budget { memory: limits::MEMORY_FOR_BIRTH, ..budget };
    let before = nothing();
    let mut store = store(program, world, &budget).map_err(|why| why.to_string())?;
    let born = (|| {
        let (instance, heaps) = instantiate(program, &mut store, &before, usize::MAX)?;
        for group in &program.map.groups {
            instance.get_typed_func::<(), ()>(&mut store, &group.birth_export())?.call(&mut store, ())?;
        }
        // The type is checked now, so that a first turn can't fail on it.
        instance.get_typed_func::<(WireMessage<'_>,), (Result<WireReply, WireFailure>,)>(&mut store, "handle")?;
        store.set_fuel(u64::MAX)?;
        let globals = globals(program, &mut store, &instance)?;
        Ok(Change::capture(&store, &heaps, &before, globals)?)
    })();
    let guest = store.data_mut();
    born.map_err(|why: wasmtime::Error| match (guest.halt.take(), why.downcast_ref::<Trap>()) {
        (Some(Halt::Stopped(why)), _) => why,
        _ if guest.memory.denied => format!("it wants more than {} bytes of memory before any turn", budget.memory),
        (_, Some(Trap::OutOfFuel)) => format!("it used {} of fuel before any turn", limits::FUEL_FOR_BIRTH),
        (_, Some(Trap::Interrupt)) => format!("it ran for {} ms before any turn", limits::WALL_FOR_BIRTH_MS),
        _ => format!("{why:#}"),
    })
}

fn instantiate(
    program: &Program,
    store: &mut Store<Guest>,
    state: &State,
    limit: usize,
) -> wasmtime::Result<(Instance, Vec<Heap>)> {
    let (instance, heaps) = with_heaps(store, state.heaps.clone(), limit, |store| program.linked.instantiate(store))?;
    let instance = instance?;
    // The limiter was told of the modules' minimum; what was woken may be larger.
    store.data_mut().memory.used = heaps.iter().map(Heap::size).sum();
    Ok((instance, heaps))
}

fn globals(program: &Program, store: &mut Store<Guest>, instance: &Instance) -> wasmtime::Result<Vec<Vec<u64>>> {
    let mut all = Vec::with_capacity(program.map.groups.len());
    for group in &program.map.groups {
        let mut values = Vec::with_capacity(group.globals.len());
        if !group.globals.is_empty() {
            let get = instance.get_typed_func::<(u32,), (u64,)>(&mut *store, &group.get_export())?;
            for index in 0..group.globals.len() as u32 {
                values.push(get.call(&mut *store, (index,))?.0);
            }
        }
        all.push(values);
    }
    Ok(all)
}

fn set_globals(
    program: &Program,
    store: &mut Store<Guest>,
    instance: &Instance,
    state: &State,
) -> wasmtime::Result<()> {
    for (group, values) in program.map.groups.iter().zip(&state.globals) {
        if values.is_empty() {
            continue;
        }
        let set = instance.get_typed_func::<(u32, u64), ()>(&mut *store, &group.set_export())?;
        for (index, value) in values.iter().enumerate() {
            set.call(&mut *store, (index as u32, *value))?;
        }
    }
    Ok(())
}

/// Whether a state fits this program: a forged image must not reach the accessors.
fn fits(program: &Program, state: &State) -> bool {
    let groups = &program.map.groups;
    groups.len() == state.globals.len()
        && groups.iter().zip(&state.globals).all(|(group, values)| group.globals.len() == values.len())
}

/// Takes one turn from `state`. A durable agent's state is not changed here: what changed comes back in [`Ran`].
pub fn run(program: &Program, state: &State, terms: &Terms<'_>, world: Box<dyn World>) -> Ran {
    let _ticking = program.engine.tick();
    let mut store = match store(program, world, terms.budget) {
        Ok(store) => store,
        // INVARIANT: only an engine without fuel fails here, and ours has it.
        Err(why) => {
            return Ran { ending: Err(Halt::Stopped(why.to_string())), fuel: 0, change: None, world: Box::new(Gone) };
        }
    };
    let called = match program.lives {
        Lives::Durable => durable(program, &mut store, state, terms),
        Lives::Stateless => crate::wasi::run(program, &mut store, terms).map(|ending| (ending, None)),
    };
    let left = store.get_fuel().unwrap_or(0);
    let fuel = terms.budget.fuel.saturating_sub(left);
    let (ending, fuel, change) = match called {
        Ok((ending, Some((used, change)))) => (Ok(ending), used, change),
        Ok((ending, None)) => (Ok(ending), fuel, None),
        Err(why) => (stopped(&mut store, &why, terms), fuel, None),
    };
    Ran { ending, fuel, change, world: store.into_data().world }
}

/// A world for the case that cannot be.
struct Gone;

impl World for Gone {
    fn ask(&mut self, _: Effect) -> Result<Outcome, Halt> {
        Err(Halt::Stopped("there is no world".into()))
    }
}

type Called = (Ending, Option<(u64, Option<Change>)>);

fn durable(program: &Program, store: &mut Store<Guest>, state: &State, terms: &Terms<'_>) -> wasmtime::Result<Called> {
    if !fits(program, state) {
        return Err(wasmtime::Error::msg("the image is of another component: its globals don't fit"));
    }
    // Waking is the host's work, not the guest's: it is not charged.
    store.set_fuel(u64::MAX)?;
    let (instance, heaps) = instantiate(program, store, state, usize::MAX)?;
    store.data_mut().memory.woken(heaps.iter().map(Heap::size).sum())?;
    set_globals(program, store, &instance, state)?;
    store.set_fuel(terms.budget.fuel)?;
    let handle =
        instance.get_typed_func::<(WireMessage<'_>,), (Result<WireReply, WireFailure>,)>(&mut *store, "handle")?;
    let input = terms.input;
    let message = WireMessage {
        sender: input.sender.as_ref().map(|sender| sender.as_str()),
        content_type: &input.content_type,
        body: &input.body.0,
    };
    let (result,) = handle.call(&mut *store, (message,))?;
    let used = terms.budget.fuel.saturating_sub(store.get_fuel()?);
    let ending = ending(result);
    let change = match &ending {
        Ending::Replied(_) => {
            store.set_fuel(u64::MAX)?;
            let globals = globals(program, store, &instance)?;
            Some(Change::capture(store, &heaps, state, globals)?)
        }
        Ending::Failed(_) | Ending::Stopped(_) => None,
    };
    Ok((ending, Some((used, change))))
}

fn ending(result: Result<WireReply, WireFailure>) -> Ending {
    let too_large = |what: &str, len: usize, most: usize| {
        Ending::Stopped(Stop { cause: Cause::BadValue, detail: format!("{what} of {len} bytes; the most is {most}") })
    };
    match result {
        Ok(reply) if reply.body.len() > MAX_OUTPUT => too_large("a reply", reply.body.len(), MAX_OUTPUT),
        Ok(reply) if reply.content_type.len() > MAX_KEY => {
            too_large("a content type", reply.content_type.len(), MAX_KEY)
        }
        Ok(reply) => Ending::Replied(Reply { content_type: reply.content_type, body: reply.body.into() }),
        Err(WireFailure::BadInput(text) | WireFailure::Failed(text)) if text.len() > MAX_TEXT => {
            too_large("an error text", text.len(), MAX_TEXT)
        }
        Err(WireFailure::BadInput(text)) => Ending::Failed(Failure::BadInput(text)),
        Err(WireFailure::Failed(text)) => Ending::Failed(Failure::Failed(text)),
    }
}

/// What an error of the engine means for the turn.
fn stopped(store: &mut Store<Guest>, why: &wasmtime::Error, terms: &Terms<'_>) -> Result<Ending, Halt> {
    let guest = store.data_mut();
    if let Some(halt) = guest.halt.take() {
        return Err(halt);
    }
    let stop = |cause, detail| Ok(Ending::Stopped(Stop { cause, detail }));
    if let Some(refusal) = guest.refused.take() {
        return stop(Cause::Refused, refusal.to_string());
    }
    let budget = terms.budget;
    match why.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => stop(Cause::Fuel, format!("all {} of fuel used; `--fuel` raises it", budget.fuel)),
        Some(Trap::Interrupt) => {
            stop(Cause::WallClock, format!("{} ms of wall time used; `--wall-ms` raises it", budget.wall_ms))
        }
        _ if guest.memory.denied => {
            stop(Cause::Memory, format!("more than {} bytes of memory wanted; `--memory` raises it", budget.memory))
        }
        Some(trap) => stop(Cause::Trap, trap.to_string()),
        None => stop(Cause::BadValue, why.root_cause().to_string()),
    }
}
