//! When schedules are due. Pure: the time is handed in.

use std::collections::{BTreeMap, BTreeSet};

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use lazaret_gate::AgentId;
use lazaret_gate::schedule::{Missed, When};

use crate::limits::{
    COUNTED_MISSED, LATE_MS, LONGEST_INTERVAL_MS, MADE_UP, MAX_CRON, SCHEDULE_RETRY_MS, SHORTEST_INTERVAL_MS,
};

/// A schedule that can't be kept.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadSchedule {
    /// Not a cron expression.
    #[error("`{expression}` is not a cron expression: {why}; write five fields: minute, hour, day, month, weekday")]
    Cron {
        /// What was written.
        expression: String,
        /// What is wrong with it.
        why: String,
    },
    /// It is never due.
    #[error("`{0}` is never due; there is no such day")]
    Never(String),
    /// Not a time zone.
    #[error("there is no time zone `{0}`; write one of the tz database, like `UTC` or `Europe/Berlin`")]
    Zone(String),
    /// An interval that is too short or too long.
    #[error("an interval of {0} ms; the shortest is 1 second and the longest 366 days")]
    Interval(u64),
    /// Not a name.
    #[error("`{0}` can't name a schedule; use 1 to 64 lower-case letters, digits and `-`, starting with a letter")]
    Name(String),
    /// Too much to say.
    #[error("a schedule's message of {len} bytes; the most is {most}; let the agent keep the rest in its storage")]
    Message {
        /// Its size.
        len: usize,
        /// The cap.
        most: usize,
    },
}

/// A schedule's rule and how far it has come.
#[derive(Clone, Debug)]
pub struct Plan {
    rule: Rule,
    missed: Missed,
    until: u64,
}

#[derive(Clone, Debug)]
enum Rule {
    Cron(Box<Cron>, TimeZone),
    Every { from: u64, interval: u64 },
}

/// What a schedule has to make up for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The due times that it fires for, oldest first.
    pub times: Vec<u64>,
    /// Due times that are passed over, up to a limit.
    pub missed: u64,
    /// Due times up to here are done with then.
    pub until: u64,
}

fn zoned(ms: u64, zone: &TimeZone) -> Option<Zoned> {
    let at = Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
    Some(at.to_zoned(zone.clone()))
}

fn millis(at: &Zoned) -> u64 {
    u64::try_from(at.timestamp().as_millisecond()).unwrap_or(0)
}

impl Rule {
    fn new(when: &When) -> Result<Self, BadSchedule> {
        match when {
            When::Every { from, interval } => {
                if !(SHORTEST_INTERVAL_MS..=LONGEST_INTERVAL_MS).contains(interval) {
                    return Err(BadSchedule::Interval(*interval));
                }
                Ok(Self::Every { from: *from, interval: *interval })
            }
            When::Cron { expression, zone } => {
                let wrong = |why: String| {
                    let expression = expression.chars().take(MAX_CRON).collect();
                    // The library's texts begin with a heading, name its types and end with a full stop.
                    let why = why.split_once(": ").map_or(why.as_str(), |(_, why)| why);
                    let why = why.trim_end_matches('.').replace("CronPattern", "it").to_lowercase();
                    BadSchedule::Cron { expression, why }
                };
                if expression.len() > MAX_CRON {
                    return Err(wrong(format!("it has {} bytes, and the most is {MAX_CRON}", expression.len())));
                }
                let known =
                    |zone: &str| TimeZone::get(zone).map_err(|_| BadSchedule::Zone(zone.chars().take(64).collect()));
                let zone = known(zone)?;
                let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
                let cron = parser.parse(expression).map_err(|why| wrong(why.to_string()))?;
                Ok(Self::Cron(Box::new(cron), zone))
            }
        }
    }

    /// The first due time after this.
    fn after(&self, ms: u64) -> Option<u64> {
        match self {
            Self::Every { from, interval } => {
                let passed = ms.saturating_sub(*from) / interval;
                from.checked_add((passed + 1).checked_mul(*interval)?)
            }
            Self::Cron(cron, zone) => {
                let next = cron.find_next_occurrence(&zoned(ms, zone)?, false).ok()?;
                Some(millis(&next)).filter(|next| *next > ms)
            }
        }
    }

    /// The last due time before this, or at it if `inclusive`.
    fn before(&self, ms: u64, inclusive: bool) -> Option<u64> {
        match self {
            Self::Every { from, interval } => {
                let ms = if inclusive { ms } else { ms.checked_sub(1)? };
                let passed = ms.checked_sub(*from)? / interval;
                (passed > 0).then(|| from + passed * interval)
            }
            Self::Cron(cron, zone) => {
                let before = cron.find_previous_occurrence(&zoned(ms, zone)?, inclusive).ok()?;
                Some(millis(&before)).filter(|before| *before < ms || (inclusive && *before == ms))
            }
        }
    }
}

impl Plan {
    /// Checks a schedule. Due times up to `until` are none of it.
    pub fn new(when: &When, missed: Missed, until: u64) -> Result<Self, BadSchedule> {
        let plan = Self { rule: Rule::new(when)?, missed, until };
        match (plan.next(), when) {
            (None, When::Cron { expression, .. }) => Err(BadSchedule::Never(expression.clone())),
            _ => Ok(plan),
        }
    }

    /// When it is due next.
    pub fn next(&self) -> Option<u64> {
        self.rule.after(self.until)
    }

    /// What it has to make up for, if anything.
    pub fn due(&self, now: u64) -> Option<Due> {
        let last = self.rule.before(now, true).filter(|last| *last > self.until)?;
        let mut passed = 0;
        let mut at = self.until;
        while passed < COUNTED_MISSED
            && let Some(next) = self.rule.after(at).filter(|next| *next <= last)
        {
            (passed, at) = (passed + 1, next);
        }
        let mut times = vec![last];
        match self.missed {
            Missed::Skip if now - last > LATE_MS => return None,
            Missed::Skip | Missed::Once => {}
            Missed::All => {
                while times.len() < MADE_UP
                    && let Some(before) =
                        times.last().and_then(|at| self.rule.before(*at, false)).filter(|it| *it > self.until)
                {
                    times.push(before);
                }
                times.reverse();
            }
        }
        Some(Due { missed: passed.saturating_sub(times.len() as u64), times, until: last })
    }
}

/// A schedule by its agent and name.
type Key = (AgentId, String);

/// All schedules of a data root.
#[derive(Debug, Default)]
pub struct Timetable {
    plans: BTreeMap<Key, Place>,
    /// When to look at which.
    line: BTreeSet<(u64, Key)>,
}

/// A schedule's place in the timetable.
#[derive(Debug)]
struct Place {
    plan: Plan,
    /// Where it stands in the line, if it does.
    at: Option<u64>,
    /// It is being fired: until it is known how that went, it is not looked at.
    out: bool,
}

impl Timetable {
    /// Puts the schedules of an agent in place of those that were known of it.
    pub fn set(&mut self, agent: &AgentId, plans: Vec<(String, Plan)>) {
        let of_agent = self.plans.range((agent.clone(), String::new())..).take_while(|((of, _), _)| of == agent);
        let known: Vec<Key> = of_agent.map(|(key, _)| key.clone()).collect();
        let mut out = BTreeSet::new();
        for key in known {
            self.look(&key, None);
            if self.plans.remove(&key).is_some_and(|place| place.out) {
                out.insert(key);
            }
        }
        for (name, plan) in plans {
            let (key, next) = ((agent.clone(), name), plan.next());
            let out = out.contains(&key);
            self.plans.insert(key.clone(), Place { plan, at: None, out });
            self.look(&key, next.filter(|_| !out));
        }
    }

    /// Says when to look at a schedule again.
    fn look(&mut self, key: &Key, at: Option<u64>) {
        let Some(place) = self.plans.get_mut(key) else { return };
        if let Some(before) = std::mem::replace(&mut place.at, at) {
            self.line.remove(&(before, key.clone()));
        }
        self.line.extend(at.map(|at| (at, key.clone())));
    }

    /// Some of the schedules that are due, of agents that may take turns; none if there are no more. Each has to be told
    /// [`Self::fired`] or [`Self::failed`].
    pub fn take(
        &mut self,
        now: u64,
        most: usize,
        mut may: impl FnMut(&AgentId) -> bool,
    ) -> Vec<(AgentId, String, Due)> {
        let mut due = Vec::new();
        while due.len() < most
            && let Some((at, key)) = self.line.first().cloned()
            && at <= now
        {
            let Some(place) = self.plans.get(&key) else {
                self.line.remove(&(at, key));
                continue;
            };
            if !may(&key.0) {
                self.look(&key, Some(now + SCHEDULE_RETRY_MS));
                continue;
            }
            let (found, next) = (place.plan.due(now), place.plan.rule.after(now));
            if let Some(found) = found {
                self.look(&key, None);
                self.mark(&key, true);
                due.push((key.0, key.1, found));
            } else {
                // All that was due is passed over.
                self.look(&key, next);
            }
        }
        due
    }

    /// Notes that a schedule is being fired, or not any more.
    fn mark(&mut self, key: &Key, out: bool) {
        if let Some(place) = self.plans.get_mut(key) {
            place.out = out;
        }
    }

    /// A schedule fired for what was due.
    pub fn fired(&mut self, agent: &AgentId, name: &str, until: u64) {
        let key = (agent.clone(), name.to_owned());
        self.mark(&key, false);
        if let Some(place) = self.plans.get_mut(&key) {
            place.plan.until = place.plan.until.max(until);
            let next = place.plan.next();
            self.look(&key, next);
        }
    }

    /// A schedule could not fire; it is tried again.
    pub fn failed(&mut self, agent: &AgentId, name: &str, now: u64) {
        let key = (agent.clone(), name.to_owned());
        self.mark(&key, false);
        self.look(&key, Some(now + SCHEDULE_RETRY_MS));
    }

    /// Whether there is such a schedule.
    pub fn has(&self, agent: &AgentId, name: &str) -> bool {
        self.plans.contains_key(&(agent.clone(), name.to_owned()))
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<u64> {
        self.line.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn at(text: &str) -> u64 {
        u64::try_from(text.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
    }

    fn cron(expression: &str, zone: &str) -> When {
        When::Cron { expression: expression.into(), zone: zone.into() }
    }

    fn plan(when: &When, missed: Missed, until: u64) -> Plan {
        Plan::new(when, missed, until).unwrap()
    }

    #[test]
    fn cron_is_meant_in_its_zone_and_outlives_changes_of_clocks() {
        let berlin = cron("30 2 * * *", "Europe/Berlin");
        // Clocks go from 2 to 3 on 29 March 2026: kept right after the gap.
        let next = plan(&berlin, Missed::Skip, at("2026-03-28T12:00:00Z")).next();
        assert_eq!(next, Some(at("2026-03-29T01:00:00Z")));
        // And from 3 back to 2 on 25 October: kept once.
        let autumn = plan(&berlin, Missed::All, at("2026-10-24T12:00:00Z"));
        let due = autumn.due(at("2026-10-26T00:00:00Z")).unwrap();
        assert_eq!(due.times, [at("2026-10-25T00:30:00Z")]);
        let tokyo = plan(&cron("0 9 * * MON-FRI", "Asia/Tokyo"), Missed::Skip, at("2026-03-06T12:00:00Z"));
        assert_eq!(tokyo.next(), Some(at("2026-03-09T00:00:00Z")));
    }

    #[test]
    fn what_was_missed_is_made_up_for_as_the_policy_says() {
        let every = When::Every { from: 0, interval: HOUR };
        let due = |missed, now| plan(&every, missed, 0).due(now);
        assert_eq!(due(Missed::Skip, HOUR - 1), None);
        let first = Due { times: vec![HOUR], missed: 0, until: HOUR };
        for missed in [Missed::Skip, Missed::Once, Missed::All] {
            assert_eq!(due(missed, HOUR), Some(first.clone()));
            assert_eq!(due(missed, HOUR + LATE_MS), Some(first.clone()));
        }
        assert_eq!(due(Missed::Skip, HOUR + LATE_MS + 1), None);
        assert_eq!(due(Missed::Once, HOUR + LATE_MS + 1), Some(first));
        let late = 5 * HOUR + HOUR / 2;
        assert_eq!(due(Missed::Skip, late), None);
        assert_eq!(due(Missed::Skip, 5 * HOUR), Some(Due { times: vec![5 * HOUR], missed: 4, until: 5 * HOUR }));
        assert_eq!(due(Missed::Once, late), Some(Due { times: vec![5 * HOUR], missed: 4, until: 5 * HOUR }));
        let all = due(Missed::All, late).unwrap();
        assert_eq!(all.times, (1..=5).map(|n| n * HOUR).collect::<Vec<_>>());
        let long = due(Missed::All, 100 * HOUR).unwrap();
        assert_eq!((long.times.len(), long.missed), (MADE_UP, 100 - MADE_UP as u64));
        assert_eq!(long.times.first(), Some(&(77 * HOUR)));
        let years = plan(&cron("* * * * *", "UTC"), Missed::Once, 0).due(at("2026-01-01T00:00:30Z")).unwrap();
        assert_eq!((years.times, years.missed), (vec![at("2026-01-01T00:00:00Z")], COUNTED_MISSED - 1));
    }

    #[test]
    fn what_cant_be_kept_is_refused_with_what_was_written() {
        let wrong = |when: &When| Plan::new(when, Missed::Once, 0).unwrap_err().to_string();
        assert!(wrong(&cron("61 * * * *", "UTC")).starts_with("`61 * * * *` is not a cron expression: "));
        assert!(wrong(&cron("* * * * * *", "UTC")).contains("five fields"));
        assert!(wrong(&cron("", "UTC")).contains("five fields"));
        assert!(wrong(&cron(&"*".repeat(10_000), "UTC")).contains("10000 bytes"));
        assert_eq!(wrong(&cron("0 0 30 2 *", "UTC")), "`0 0 30 2 *` is never due; there is no such day");
        assert!(wrong(&cron("0 0 * * *", "Mars/Base")).starts_with("there is no time zone `Mars/Base`"));
        assert!(wrong(&When::Every { from: 0, interval: 999 }).starts_with("an interval of 999 ms"));
        assert!(Plan::new(&When::Every { from: u64::MAX, interval: 1_000 }, Missed::Once, 0).unwrap().next().is_none());
    }

    #[test]
    fn the_timetable_tells_each_due_time_once() {
        let (agent, mut table) = ("a".parse::<AgentId>().unwrap(), Timetable::default());
        let every = |interval| plan(&When::Every { from: 0, interval }, Missed::Once, 0);
        table.set(&agent, vec![("x".into(), every(HOUR)), ("y".into(), every(2 * HOUR))]);
        assert_eq!(table.next(), Some(HOUR));
        assert!(table.take(HOUR, 9, |_| false).is_empty());
        assert_eq!(table.next(), Some(HOUR + SCHEDULE_RETRY_MS));
        let due = table.take(2 * HOUR, 9, |_| true);
        assert_eq!(due.iter().map(|(_, name, _)| name.as_str()).collect::<Vec<_>>(), ["x", "y"]);
        assert!(table.take(2 * HOUR, 9, |_| true).is_empty(), "they are under way");
        table.fired(&agent, "x", 2 * HOUR);
        table.failed(&agent, "y", 2 * HOUR);
        assert_eq!(table.take(2 * HOUR + SCHEDULE_RETRY_MS, 9, |_| true).len(), 1);
        assert_eq!(table.next(), Some(3 * HOUR));
        table.set(&agent, Vec::new());
        assert_eq!(table.next(), None);
    }
}
