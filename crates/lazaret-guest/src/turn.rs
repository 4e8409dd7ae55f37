//! One turn: wake, call, put to sleep.

use std::any::Any;
use std::time::{Duration, Instant};

use lazaret_gate::limits::{MAX_KEY, MAX_OUTPUT, MAX_TEXT};
use lazaret_gate::record::{Cause, Ending, Failure, Message, Reply, Stop, World as Lives};
use lazaret_gate::refusal::Code;
use lazaret_gate::{Budget, Effect, Halt, Outcome, Refusal};
use wasmtime::component::{ComponentType, Func, Instance, Lift, Lower, TypedFunc};
use wasmtime::{Store, Trap, UpdateDeadline};

use crate::admit::{Program, nothing};
use crate::limits;
use crate::native::heap::{Heap, HeapError, Scan, with_heaps_untouched};
use crate::state::{Change, Held, State};

/// The world as a guest meets it: asks go in, outcomes come out.
pub trait World: Any {
    /// One ask. An error ends the turn.
    fn ask(&mut self, effect: Effect) -> Result<Outcome, Halt>;

    /// How long the turn has waited for people and for its place among others so far: that is not the guest's time.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    /// Called now and then while the guest computes: the turn may be held up here, so that others get to compute.
    fn give_way(&mut self) {}

    /// Why the turn must end now, whatever the guest is doing; none if it need not.
    fn stopped(&self) -> Option<Stop> {
        None
    }
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
    /// Bytes of linear memory at the end.
    pub memory: u64,
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
    /// Why an operator ended it.
    stopped: Option<Stop>,
    pub(crate) wasi: crate::wasi::Wasi,
    memory: MemoryCap,
    /// When its wall time is used up.
    deadline: Instant,
}

impl Guest {
    /// As a turn begins.
    fn new(world: Box<dyn World>, budget: &Budget) -> Self {
        let most = usize::try_from(budget.memory).unwrap_or(usize::MAX);
        let memory = MemoryCap { used: 0, most, denied: false, elements: 0 };
        #[expect(clippy::disallowed_methods, reason = "the wall-time backstop is measured on a real clock")]
        let deadline = Instant::now() + Duration::from_millis(budget.wall_ms);
        let wasi = crate::wasi::Wasi::default();
        Self { world, halt: None, refused: None, stopped: None, wasi, memory, deadline }
    }
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
    let mut store = Store::new(program.engine.wasm(), Guest::new(Box::new(Gone), budget));
    store.limiter(|guest| &mut guest.memory);
    store.epoch_deadline_callback(|mut running| {
        let guest = running.data_mut();
        guest.world.give_way();
        guest.stopped = guest.world.stopped();
        #[expect(clippy::disallowed_methods, reason = "the wall-time backstop is measured on a real clock")]
        let late = guest.stopped.is_some() || Instant::now() >= guest.deadline + guest.world.waited();
        Ok(if late { UpdateDeadline::Interrupt } else { UpdateDeadline::Continue(1) })
    });
    begin(&mut store, world, budget)?;
    Ok(store)
}

/// Puts everything in a store that is one turn's as a turn finds it: the same for a new store and for one in which a turn
/// was taken before. What instances have laid out in tables stays counted; no durable agent can change that.
fn begin(store: &mut Store<Guest>, world: Box<dyn World>, budget: &Budget) -> wasmtime::Result<()> {
    let elements = store.data().memory.elements;
    *store.data_mut() = Guest::new(world, budget);
    store.data_mut().memory.elements = elements;
    store.set_hostcall_fuel(limits::HOSTCALL_BYTES);
    store.set_fuel(budget.fuel)?;
    store.set_epoch_deadline(1);
    Ok(())
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
        let getters = getters(program, &mut store, &instance)?;
        let globals = globals(&mut store, &getters)?;
        Ok(Change::capture(&store, &heaps, &before, None, globals)?)
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
    // An instrumented component runs nothing and writes nothing before it is told to.
    let (instance, heaps) =
        with_heaps_untouched(store, state.heaps.clone(), limit, |store| program.linked.instantiate(store))?;
    let instance = instance?;
    // The limiter was told of the modules' minimum; what was woken may be larger.
    store.data_mut().memory.used = heaps.iter().map(Heap::size).sum();
    Ok((instance, heaps))
}

/// Reads one group's globals; how many there are, and how, if there are any.
type Getter = (u32, Option<TypedFunc<(u32,), (u64,)>>);

fn getters(program: &Program, store: &mut Store<Guest>, instance: &Instance) -> wasmtime::Result<Vec<Getter>> {
    let getter = |group: &crate::instrument::Group| {
        let count = group.globals.len() as u32;
        let get = (count > 0).then(|| instance.get_typed_func(&mut *store, group.get_export()));
        Ok((count, get.transpose()?))
    };
    program.map.groups.iter().map(getter).collect()
}

fn globals(store: &mut Store<Guest>, getters: &[Getter]) -> wasmtime::Result<Vec<Vec<u64>>> {
    let mut all = Vec::with_capacity(getters.len());
    for (count, get) in getters {
        let mut values = Vec::with_capacity(*count as usize);
        if let Some(get) = get {
            for index in 0..*count {
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
    start(program, state, terms, world).0
}

/// As [`run`], for whoever has a better moment to take the instance down. The state can't change before that.
pub fn run_and_leave(program: &Program, state: &State, terms: &Terms<'_>, world: Box<dyn World>) -> (Ran, Leftover) {
    let (ran, live) = start(program, state, terms, world);
    (ran, Leftover { live })
}

/// The instance of a turn that is over. Nothing can be done with it but to take it down.
pub struct Leftover {
    live: Option<Live>,
}

impl Leftover {
    /// Takes the instance down and writes what its turn changed into the heaps. The pages that it wrote stay mapped for the
    /// agent's next turn, if they are few.
    ///
    /// If this fails, or the change turns out not to hold, the state must be dropped.
    pub fn settle(self, state: &mut State, change: Option<Change>) -> Result<(), HeapError> {
        let Some(mut change) = change else { return Ok(()) };
        if let Some(live) = &self.live {
            change.keep_writes(&live.woken.heaps);
        }
        // The heaps can be written to when nothing has them mapped.
        drop(self);
        state.settle(change)
    }
}

/// Takes one turn on a fresh instance. The instance comes back too if it can take another: if it is a durable agent's and
/// the turn replied.
pub(crate) fn start(program: &Program, state: &State, terms: &Terms<'_>, world: Box<dyn World>) -> (Ran, Option<Live>) {
    let _ticking = program.engine.tick();
    let mut store = match store(program, world, terms.budget) {
        Ok(store) => store,
        // INVARIANT: only an engine without fuel fails here, and ours has it.
        Err(why) => return (Ran::not_begun(&why, Box::new(Gone)), None),
    };
    match program.lives {
        Lives::Durable => {
            let mut woken = None;
            let called = wake(program, &mut store, state)
                .and_then(|fresh| call(program, &mut store, woken.insert(fresh), state, None, terms));
            let ran = ran(&mut store, called, terms);
            let live = woken.filter(|woken| ran.change.is_some() && woken.tells_changes());
            let live = live.map(|woken| Live { store, woken });
            (ran, live)
        }
        Lives::Stateless => {
            let called = crate::wasi::run(program, &mut store, terms).map(|ending| (ending, None));
            (ran(&mut store, called, terms), None)
        }
    }
}

/// What came of a call.
fn ran(store: &mut Store<Guest>, called: wasmtime::Result<Called>, terms: &Terms<'_>) -> Ran {
    let left = store.get_fuel().unwrap_or(0);
    let fuel = terms.budget.fuel.saturating_sub(left);
    let (ending, fuel, change) = match called {
        Ok((ending, Some((used, change)))) => (Ok(ending), used, change),
        Ok((ending, None)) => (Ok(ending), fuel, None),
        Err(why) => (stopped(store, &why, terms), fuel, None),
    };
    let memory = store.data().memory.used as u64;
    let world = std::mem::replace(&mut store.data_mut().world, Box::new(Gone));
    Ran { ending, fuel, memory, change, world }
}

impl Ran {
    /// A turn that could not even begin.
    pub(crate) fn not_begun(why: &impl ToString, world: Box<dyn World>) -> Self {
        Self { ending: Err(Halt::Stopped(why.to_string())), fuel: 0, memory: 0, change: None, world }
    }
}

/// The world of a guest that isn't in a turn.
struct Gone;

impl World for Gone {
    fn ask(&mut self, _: Effect) -> Result<Outcome, Halt> {
        Err(Halt::Stopped("there is no world".into()))
    }
}

type Called = (Ending, Option<(u64, Option<Change>)>);

/// An instance that is as its agent's image says.
struct Woken {
    instance: Instance,
    handle: Func,
    heaps: Vec<Heap>,
    /// Found when first needed, which in a turn that fails is never.
    getters: Option<Vec<Getter>>,
}

impl Woken {
    /// Whether the kernel says what is written to: to look at everything after every turn is not worth staying awake.
    fn tells_changes(&self) -> bool {
        self.heaps.iter().all(|heap| heap.scan() == Scan::Kernel)
    }
}

fn wake(program: &Program, store: &mut Store<Guest>, state: &State) -> wasmtime::Result<Woken> {
    if !fits(program, state) {
        return Err(wasmtime::Error::msg("the image is of another component: its globals don't fit"));
    }
    // Waking is the host's work, not the guest's: it is not charged.
    store.set_fuel(u64::MAX)?;
    let (instance, heaps) = instantiate(program, store, state, usize::MAX)?;
    store.data_mut().memory.woken(heaps.iter().map(Heap::size).sum())?;
    set_globals(program, store, &instance, state)?;
    let handle = instance.get_func(&mut *store, "handle");
    let handle = handle.ok_or_else(|| wasmtime::Error::msg("the component has no `handle`"))?;
    Ok(Woken { instance, handle, heaps, getters: None })
}

/// The one call of a turn. `held` is what a kept instance's pages were before it.
fn call(
    program: &Program,
    store: &mut Store<Guest>,
    woken: &mut Woken,
    before: &State,
    held: Option<&mut [Held]>,
    terms: &Terms<'_>,
) -> wasmtime::Result<Called> {
    store.set_fuel(terms.budget.fuel)?;
    let handle = woken.handle.typed::<(WireMessage<'_>,), (Result<WireReply, WireFailure>,)>(&*store)?;
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
            let getters = match woken.getters.take() {
                Some(getters) => getters,
                None => getters(program, store, &woken.instance)?,
            };
            let globals = globals(store, woken.getters.insert(getters))?;
            Some(Change::capture(store, &woken.heaps, before, held, globals)?)
        }
        Ending::Failed(_) | Ending::Stopped(_) => None,
    };
    Ok((ending, Some((used, change))))
}

/// An instance whose last turn replied.
pub(crate) struct Live {
    store: Store<Guest>,
    woken: Woken,
}

impl Live {
    /// Takes one more turn on the instance, from `before`, which is how its last turn left it. If this one doesn't reply,
    /// the instance is not to be used again.
    pub(crate) fn again(
        &mut self,
        program: &Program,
        before: &State,
        held: &mut [Held],
        terms: &Terms<'_>,
        world: Box<dyn World>,
    ) -> Ran {
        let _ticking = program.engine.tick();
        let store = &mut self.store;
        let called = begin(store, world, terms.budget).and_then(|()| {
            // As in `wake`: not charged, and the same check.
            store.set_fuel(u64::MAX)?;
            store.data_mut().memory.woken(self.woken.heaps.iter().map(Heap::size).sum())?;
            call(program, store, &mut self.woken, before, Some(held), terms)
        });
        ran(store, called, terms)
    }
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
    match guest.refused.take() {
        Some(Refusal { code: Code::Killed, reason, remedy, .. }) => {
            return stop(Cause::Killed, format!("{reason}; {remedy}"));
        }
        Some(Refusal { code: Code::Revoked, reason, remedy, .. }) => {
            return stop(Cause::Revoked, format!("{reason}; {remedy}"));
        }
        Some(refusal) => return stop(Cause::Refused, refusal.to_string()),
        None => {}
    }
    if let Some(stop) = guest.stopped.take() {
        return Ok(Ending::Stopped(stop));
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
