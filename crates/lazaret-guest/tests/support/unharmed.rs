//! Whether the host is as it was before an attack.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lazaret_gate::record::Message;
use lazaret_gate::{Budget, Ending, Grants};
use lazaret_guest::{Admitted, Engine, State, Terms, turn};

use super::world::Memory;

/// Mappings that may stay behind: the allocator's own arenas.
const MAPPINGS: usize = 64;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// The host at rest, and a good agent that it must go on serving.
pub(crate) struct Host {
    good: Vec<u8>,
    admitted: Admitted,
    threads: usize,
    mappings: usize,
}

impl Host {
    /// Takes the measure of a host that has served once.
    pub(crate) fn at_rest(engine: &Engine, good: Vec<u8>) -> Self {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            before(panic);
        }));
        let admitted = engine.admit(&good).expect("the good agent is admitted");
        let mut host = Self { good, admitted, threads: 0, mappings: 0 };
        host.serves().expect("the good agent answers");
        host.threads = threads();
        host.mappings = mappings();
        host
    }

    /// Nothing panicked, nothing was left behind, and the good agent still gets its turn.
    pub(crate) fn check(&self) -> Result<(), String> {
        match PANICS.swap(0, Ordering::SeqCst) {
            0 => {}
            panics => return Err(format!("{panics} panics")),
        }
        let (threads, mappings) = (threads_down_to(self.threads), mappings());
        if threads > self.threads {
            return Err(format!("{threads} threads instead of {}", self.threads));
        }
        if mappings > self.mappings + MAPPINGS {
            return Err(format!("{mappings} mappings instead of {}", self.mappings));
        }
        self.serves()
    }

    /// As [`Host::check`], from admission on.
    pub(crate) fn check_admission(&self, engine: &Engine) -> Result<(), String> {
        let admitted = engine.admit(&self.good).map_err(|why| format!("the good agent is refused: {why}"))?;
        answers(&admitted.program, admitted.birth)?;
        self.check()
    }

    fn serves(&self) -> Result<(), String> {
        answers(&self.admitted.program, self.admitted.program.birth().map_err(|why| why.to_string())?)
    }
}

fn answers(program: &lazaret_guest::Program, birth: lazaret_guest::Change) -> Result<(), String> {
    let mut state = State::default();
    state.advance(&birth);
    state.settle(birth).map_err(|why| why.to_string())?;
    let budget = Budget::default();
    let input = Message::outside("text/plain", "add 7");
    let world = Box::new(Memory::new(Grants::basic(), budget.clone()));
    let ran = turn::run(program, &state, &Terms { input: &input, budget: &budget }, world);
    match ran.ending {
        Ok(Ending::Replied(reply)) if reply.body.0 == b"total=7 count=1" => Ok(()),
        other => Err(format!("the good agent doesn't answer any more: {other:?}")),
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).expect("Linux describes processes in /proc")
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux lists threads in /proc").count()
}

/// The count of threads, once it is down to `most` or has had its time. Joining a thread returns a little before the
/// kernel takes it off the list.
fn threads_down_to(most: usize) -> usize {
    let patience = Instant::now() + Duration::from_secs(10);
    while threads() > most && Instant::now() < patience {
        std::thread::yield_now();
    }
    threads()
}

fn mappings() -> usize {
    read("/proc/self/maps").lines().count()
}

/// Forgets the peak of resident memory so far.
pub(crate) fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux resets the peak of resident memory");
}

/// The peak of resident memory since, in bytes.
pub(crate) fn peak() -> u64 {
    let status = read("/proc/self/status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.expect("Linux tells the peak of resident memory") * 1024
}
