//! A thousand agents that act, and one command that stops them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lazaret_gate::trust::{Score, TrustChange, TrustEvent};
use lazaret_gate::{AgentId, Answer, Outcome};
use lazaret_host::{Host, Keeper, Observed, Observer, Settings, change_trust};
use lazaret_link::Request;
use tempfile::TempDir;

use crate::clients::keeper;
use crate::crowd::{many, post};
use crate::guests;
use crate::timing::show;

/// How long all of them act before anybody is stopped.
const ACTING: Duration = Duration::from_secs(3);

/// Agents that are revoked one by one.
const SINGLY: usize = 20;

/// Nanoseconds since 1970, on the clock that agents are told.
fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(since.as_nanos()).expect("a clock before 2262")
}

/// When each effect of each agent was executed, or at the latest.
#[derive(Default)]
struct Seen(Mutex<BTreeMap<AgentId, Vec<i64>>>);

impl Observer for Seen {
    fn turned(&self, observed: Observed<'_>) {
        let record = &observed.turn.record;
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let time = |outcome: &Outcome| match outcome {
            Outcome::Done(Answer::Time(at)) => i64::try_from(at.0).ok(),
            _ => None,
        };
        let asks = || record.tape.iter().zip(observed.timings);
        // No ask was answered before it was made: so the turn began at the latest.
        let begun = asks().filter_map(|(ask, timing)| Some(time(&ask.outcome)? - nanos(timing.after))).min();
        let executed = |(ask, timing): (&lazaret_gate::record::TapeEntry, &lazaret_host::Timing)| match &ask.outcome {
            // The clock says when itself; of the others the end of the whole ask is known.
            Outcome::Done(Answer::Time(_)) => time(&ask.outcome),
            Outcome::Done(_) | Outcome::Failed(_) => Some(begun? + nanos(timing.after + timing.took)),
            Outcome::Refused(_) => None,
        };
        let times = asks().filter_map(executed).collect();
        self.0.lock().expect("the list").insert(record.agent.clone(), times);
    }
}

/// What came after a moment.
struct After {
    /// From the moment to each agent's last effect, in nanoseconds; negative if it was before.
    last: Vec<i64>,
    effects: usize,
}

impl After {
    fn new(times: &[Vec<i64>], moment: i64) -> Self {
        let mut last: Vec<i64> = times.iter().filter_map(|times| Some(times.iter().max()? - moment)).collect();
        last.sort_unstable();
        Self { last, effects: times.iter().flatten().filter(|time| **time > moment).count() }
    }

    fn at(&self, percent: usize) -> String {
        let nanos = self.last.get((self.last.len() * percent / 100).min(self.last.len().saturating_sub(1)));
        let nanos = nanos.copied().unwrap_or_default();
        let time = show(Duration::from_nanos(nanos.unsigned_abs()));
        if nanos < 0 { format!("{time} before") } else { format!("{time} after") }
    }

    fn print(&self, what: &str) {
        let (middle, late, last) = (self.at(50), self.at(99), self.at(100));
        println!("    {what:<26} last effect: p50 {middle}, p99 {late}, latest {last}; {} effects after", self.effects);
    }
}

struct Crowd {
    keeper: Keeper,
    root: PathBuf,
    agents: Vec<AgentId>,
    seen: Arc<Seen>,
    _dir: TempDir,
}

/// A command that was carried out.
struct Stopped {
    took: Duration,
    /// When the file was in place, and when the command returned.
    in_place: i64,
    returned: i64,
}

impl Crowd {
    /// Agents in turns that do this, all of them for a while.
    fn new(agents: usize, word: &[u8]) -> Self {
        let dir = guests::data_root();
        let root = dir.path().join("root");
        let settings = Settings { preset: "open".into(), ..Settings::default() };
        let host = Host::open_with(&root, settings).expect("a data root");
        let agents = guests::create_many(&host, agents, &guests::busy());
        let seen = Arc::new(Seen::default());
        assert!(host.observe(seen.clone()), "nobody else observes");
        let keeper = keeper(host);
        std::thread::scope(|scope| {
            for part in agents.chunks(agents.len().div_ceil(16).max(1)) {
                let keeper = &keeper;
                scope.spawn(move || part.iter().for_each(|agent| post(keeper, agent, word)));
            }
        });
        let (supervisor, begun) = (keeper.supervisor().expect("it has one"), Instant::now());
        while supervisor.status().awake < agents.len() {
            assert!(begun.elapsed() < Duration::from_secs(60), "only {} are awake", supervisor.status().awake);
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(ACTING);
        Self { keeper, root, agents, seen, _dir: dir }
    }

    /// As `lazaret trust revoke` does it: the file, then word to the keeper.
    fn revoke(&self, agents: &[AgentId]) -> Stopped {
        let event = |agent: &AgentId| TrustEvent {
            agent: agent.clone(),
            change: TrustChange::Revoked,
            score: Score::NONE,
            by: "the benchmark".into(),
            at: wall().unsigned_abs() / 1_000_000,
            reason: String::new(),
            turn: None,
        };
        let events: Vec<_> = agents.iter().map(event).collect();
        let begun = Instant::now();
        change_trust(&self.root, self.keeper.host().store(), &events).expect("a revocation");
        let in_place = wall();
        self.keeper.answer(Request::Record).expect("the keeper's word");
        let returned = wall();
        Stopped { took: begun.elapsed(), in_place, returned }
    }

    /// When these have executed effects; waits for their turns to be on record.
    fn times(&self, agents: &[AgentId]) -> Vec<Vec<i64>> {
        let begun = Instant::now();
        loop {
            let seen = self.seen.0.lock().expect("the list");
            if agents.iter().all(|agent| seen.contains_key(agent)) {
                return agents.iter().map(|agent| seen[agent].clone()).collect();
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "a turn goes on");
            drop(seen);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Drafts that are kept.
    fn drafts(&self) -> usize {
        let kept = std::fs::read(self.root.join("tools/drafts.jsonl")).unwrap_or_default();
        kept.iter().filter(|byte| **byte == b'\n').count()
    }
}

/// A thousand agents in turns, each making effects in a loop; some are revoked one by one, then all with one command. Times
/// are those of effects that were executed, against the moment at which the command returned. Beside it stands the moment at
/// which `revocations.json` was in place: that is what a command would have that doesn't wait.
pub(crate) fn revoke() {
    let agents = many(1_000);
    for (what, word) in [("clock.now", b"c"), ("tools.call, flushed, and clock.now", b"d")] {
        let crowd = Crowd::new(agents, word);
        println!("{agents} agents in turns: {what}");
        let singly: Vec<(AgentId, Stopped)> = crowd
            .agents
            .iter()
            .take(SINGLY.min(agents / 2))
            .map(|agent| (agent.clone(), crowd.revoke(std::slice::from_ref(agent))))
            .collect();
        let rest = &crowd.agents[singly.len()..];
        let all = crowd.revoke(rest);
        let drafts = crowd.drafts();
        let times = crowd.times(rest);
        let acted = times.iter().filter(|times| !times.is_empty()).count();
        one_by_one(&crowd, &singly);
        println!("  all at once, {} of {} had acted: the command took {}", acted, rest.len(), show(all.took));
        After::new(&times, all.returned).print("after its return");
        After::new(&times, all.in_place).print("after the file is in place");
        println!("    {} drafts were kept, {} of them after its return", crowd.drafts(), crowd.drafts() - drafts);
    }
}

fn one_by_one(crowd: &Crowd, singly: &[(AgentId, Stopped)]) {
    let mut took: Vec<Duration> = singly.iter().map(|(_, stopped)| stopped.took).collect();
    took.sort_unstable();
    let longest = took.last().copied().unwrap_or_default();
    let middle = took.get(took.len() / 2).copied().unwrap_or_default();
    println!("  {} one by one: the command took {}, at most {}", singly.len(), show(middle), show(longest));
    let (mut last, mut effects) = ((Vec::new(), Vec::new()), (0, 0));
    for (agent, stopped) in singly {
        let times = crowd.times(std::slice::from_ref(agent));
        let (returned, in_place) = (After::new(&times, stopped.returned), After::new(&times, stopped.in_place));
        effects = (effects.0 + returned.effects, effects.1 + in_place.effects);
        last.0.extend(returned.last);
        last.1.extend(in_place.last);
    }
    last.0.sort_unstable();
    last.1.sort_unstable();
    After { last: last.0, effects: effects.0 }.print("after its return");
    After { last: last.1, effects: effects.1 }.print("after the file is in place");
}
