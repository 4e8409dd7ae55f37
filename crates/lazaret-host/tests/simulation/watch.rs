//! What must hold, kept by somebody who doesn't believe the core.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_gate::AgentId;
use lazaret_gate::schedule::{Missed, When};
use lazaret_host::Life;
use lazaret_host::schedule::Due;
use lazaret_host::supervisor::core::{Ended, Standing};
use lazaret_host::supervisor::pace::Pace;

use crate::disk::{Disk, Payload, Schedule};

/// A due time that is older was missed; the next look at the clock may come a little later.
const LATE_MS: u64 = 60_000;
const MADE_UP: usize = 24;

/// What the core was told of an agent, and what follows from it.
#[derive(Default)]
struct Told {
    life: Option<Life>,
    work: bool,
    busy: bool,
    /// No turn before this; surely one may begin after that.
    earliest: u64,
    surely: u64,
    /// Attempts in a row that came to nothing.
    tries: u32,
    /// Turns of others that began while it could have.
    passed_by: BTreeMap<AgentId, u32>,
}

pub(crate) struct Watch {
    pace: Pace,
    told: BTreeMap<AgentId, Told>,
    held: bool,
    draining: bool,
    /// What was promised to be answered, and by whom.
    pub(crate) acknowledged: BTreeMap<Payload, AgentId>,
}

type Verdict = Result<(), String>;

impl Watch {
    pub(crate) fn new(pace: Pace) -> Self {
        Self { pace, told: BTreeMap::new(), held: false, draining: false, acknowledged: BTreeMap::new() }
    }

    /// The keeper is gone; the next one is told everything anew.
    pub(crate) fn crashed(&mut self) {
        self.told.clear();
        (self.held, self.draining) = (false, false);
    }

    pub(crate) fn held(&mut self, held: bool) {
        self.held = held;
    }

    pub(crate) fn drained(&mut self) {
        self.draining = true;
    }

    pub(crate) fn seen(&mut self, agent: &AgentId, standing: &Standing) {
        let told = self.told.entry(agent.clone()).or_default();
        if told.life != Some(standing.life) || told.tries > 0 {
            (told.earliest, told.surely, told.tries) = (0, 0, 0);
            // Who could not take its turn when it came stands at the end of the line.
            told.passed_by.clear();
        }
        told.life = Some(standing.life);
        told.work |= standing.mail || standing.unfinished;
        if standing.streak >= self.pace.breaker && standing.life != Life::Revoked && standing.life != Life::Dead {
            told.life = Some(Life::Quarantined);
        }
    }

    pub(crate) fn mail(&mut self, agent: &AgentId) {
        self.told.entry(agent.clone()).or_default().work = true;
    }

    /// A turn begins, by order or because somebody claimed it.
    pub(crate) fn begins(&mut self, now: u64, agent: &AgentId, disk: &Disk) -> Verdict {
        let awake = self.told.values().filter(|told| told.busy).count();
        let told = self.told.get_mut(agent).ok_or_else(|| format!("nobody told of `{agent}`"))?;
        let may = matches!(told.life, Some(Life::New | Life::Asleep));
        let wrong = |what: &str| Err(format!("a turn of `{agent}` begins {what}"));
        match () {
            () if self.held => return wrong("while everything is stopped"),
            () if self.draining => return wrong("while the keeper stops"),
            () if told.busy => return wrong("while another is under way"),
            () if !may => return wrong(&format!("although it is {:?}", told.life)),
            () if awake >= self.pace.awake => return wrong(&format!("although {awake} are under way")),
            () if now < told.earliest => return wrong(&format!("{} ms too early", told.earliest - now)),
            () if disk.agents[agent].streak >= self.pace.breaker => return wrong("though too many were stopped"),
            () => {}
        }
        told.busy = true;
        told.passed_by.clear();
        for (other, told) in &mut self.told {
            if other == agent || !told.could(now) {
                continue;
            }
            let passed = told.passed_by.entry(agent.clone()).or_default();
            *passed += 1;
            if *passed > 1 {
                return Err(format!("`{agent}` had {passed} turns while `{other}` waited for one"));
            }
        }
        Ok(())
    }

    pub(crate) fn ended(&mut self, now: u64, agent: &AgentId, ended: &Ended, work: bool) {
        let told = self.told.entry(agent.clone()).or_default();
        told.busy = false;
        told.work = work;
        let row = match ended {
            Ended::Stopped { streak, .. } => *streak,
            Ended::Unable(_) | Ended::Broken(_) => told.tries + 1,
            Ended::Nothing if work => told.tries + 1,
            _ => 0,
        };
        match ended {
            Ended::Unable(_) | Ended::Broken(_) | Ended::Nothing => told.tries = row,
            _ => told.tries = 0,
        }
        if row > 0 {
            let full = self.pace.full_pause(row);
            (told.earliest, told.surely) = (now + full / 2, now + full);
        }
        match (ended, told.life) {
            (Ended::Doubt, Some(Life::New | Life::Asleep)) => told.life = Some(Life::InDoubt),
            (Ended::Stopped { streak, .. }, Some(Life::New | Life::Asleep)) if *streak >= self.pace.breaker => {
                told.life = Some(Life::Quarantined);
            }
            (_, Some(Life::New)) => told.life = Some(Life::Asleep),
            _ => {}
        }
    }

    /// What the core believes is what it was told.
    pub(crate) fn compare(&self, agent: &AgentId, life: Option<Life>) -> Verdict {
        let told = self.told.get(agent).and_then(|told| told.life);
        let busy = self.told.get(agent).is_some_and(|told| told.busy);
        let same = match (told, life) {
            (Some(Life::New | Life::Asleep), Some(Life::Awake)) => busy,
            (Some(Life::New | Life::Asleep), Some(Life::New | Life::Asleep)) => !busy,
            (told, life) => told == life,
        };
        if same {
            Ok(())
        } else {
            Err(format!("`{agent}` is {life:?} to the core and should be {told:?}, busy: {busy}"))
        }
    }

    /// Nobody who could take a turn is left standing while there is room.
    pub(crate) fn nobody_forgotten(&self, now: u64) -> Verdict {
        let awake = self.told.values().filter(|told| told.busy).count();
        if self.held || self.draining || awake >= self.pace.awake {
            return Ok(());
        }
        match self.told.iter().find(|(_, told)| told.could(now)) {
            Some((agent, _)) => Err(format!("`{agent}` could take a turn and doesn't: {awake} are awake")),
            None => Ok(()),
        }
    }
}

impl Told {
    /// Whether it surely could take a turn now.
    fn could(&self, now: u64) -> bool {
        !self.busy && self.work && matches!(self.life, Some(Life::New | Life::Asleep)) && now > self.surely
    }
}

/// All due times in a stretch, the plain way.
fn due_times(when: &When, after: u64, until: u64) -> Vec<u64> {
    let (from, interval) = match when {
        When::Every { from, interval } => (*from, *interval),
        // The simulation only writes `*/N * * * *`, in UTC.
        When::Cron { expression, .. } => {
            let minutes = expression.trim_start_matches("*/").split(' ').next().unwrap().parse::<u64>().unwrap();
            (0, minutes * 60_000)
        }
    };
    let first = (after.saturating_sub(from) / interval + 1) * interval + from;
    (0..).map(|n| first + n * interval).take_while(|time| *time <= until).collect()
}

/// Whether a schedule fires for what its policy says.
pub(crate) fn lawful(schedule: &Schedule, due: &Due, now: u64) -> Verdict {
    let open = due_times(&schedule.when, schedule.until, now);
    let wrong = |why: &str| Err(format!("{why}: {due:?} at {now} of {schedule:?}"));
    let Some(last) = open.last() else { return wrong("nothing is due") };
    let expected = match schedule.missed {
        Missed::Skip if now - last > LATE_MS => return wrong("it is too late for that"),
        Missed::Skip | Missed::Once => vec![*last],
        Missed::All => open[open.len().saturating_sub(MADE_UP)..].to_vec(),
    };
    let missed = (open.len() - expected.len()) as u64;
    if due.times != expected || due.missed != missed || due.until != *last {
        return wrong(&format!("should be {expected:?}, {missed} missed"));
    }
    Ok(())
}

/// At the end: every due time was fired for or passed over, once, and none is owed.
pub(crate) fn accounted(schedule: &Schedule, now: u64) -> Verdict {
    let wrong = |why: &str| Err(format!("{why}: {schedule:?} at {now}"));
    let all = due_times(&schedule.when, schedule.made, schedule.until);
    let fired: BTreeSet<u64> = schedule.fired.iter().copied().collect();
    if fired.len() != schedule.fired.len() {
        return wrong("a due time was kept twice");
    }
    if !fired.iter().all(|time| all.contains(time)) {
        return wrong("it fired when it wasn't due");
    }
    if fired.len() as u64 + schedule.passed != all.len() as u64 {
        return wrong("a due time is unaccounted for");
    }
    let owed = due_times(&schedule.when, schedule.until, now.saturating_sub(10_000));
    if schedule.missed != Missed::Skip && !owed.is_empty() {
        return wrong(&format!("it owes {owed:?}"));
    }
    Ok(())
}
