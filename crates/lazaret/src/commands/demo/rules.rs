//! The demo's beats about deciding: a question, silence, a draft of rules, a denial and its reasons, a budget.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lazaret_gate::approval::{Question, Scope, Verdict};
use lazaret_gate::ledger::Caps;
use lazaret_gate::policy::{Policies, compare};
use lazaret_gate::refusal::Code as RefusalCode;
use lazaret_gate::shown::{self, Shown};
use lazaret_gate::{AgentId, Outcome};
use lazaret_host::{EffectId, Host, Person, Turn, past, past_ask};

use super::{Demo, missing, write};
use crate::failure::Failure;
use crate::text::{visible, wrapped};
use crate::ui::Tone;

/// Rules for a mailbox assistant that only ever reads.
const DRAFT: &str = r#"// Mail may be read, and what stays on this host may be done.
@id("own-things")
permit (principal, action in [Action::"storage.*", Action::"host.*", Action::"tool.list"], resource);

@id("rehearsal")
permit (principal, action == Action::"model.generate", resource in Model::"rehearsal");

@id("mail-is-read")
permit (principal, action == Action::"tool.call", resource)
when { resource in [Tool::"mail.list", Tool::"mail.read"] };
"#;

/// How long the demo's questions wait.
pub(super) const PATIENCE_MS: u64 = 1_500;

/// Somebody at the terminal, played by the demo: says yes to the first question, and is out when the second comes.
pub(super) struct Actor {
    asked: AtomicU32,
    /// What was said, for the demo to show in its place.
    pub(super) said: Mutex<Vec<String>>,
}

impl Actor {
    pub(super) fn new() -> Self {
        Self { asked: AtomicU32::new(0), said: Mutex::new(Vec::new()) }
    }
}

/// What differs from run to run is left out of the demo; `lazaret approvals show` has it.
fn steady(line: &str) -> bool {
    ["question", "asked  ", "expires", "arguments", "policy"].iter().all(|name| !line.starts_with(name))
}

impl Person for Actor {
    fn decide(&self, _: &Question, shown: &Shown, over: &dyn Fn() -> bool) -> Option<(Verdict, Scope)> {
        let first = self.asked.fetch_add(1, Ordering::Relaxed) == 0;
        if let Ok(mut said) = self.said.lock() {
            said.extend(shown.lines.iter().filter(|line| steady(line)).cloned());
            said.push(if first {
                "May it? [y]es, once; [n]o > y".into()
            } else {
                "May it? [y]es, once; [n]o >".into()
            });
        }
        if first {
            return Some((Verdict::Approve, Scope::Once));
        }
        while !over() {
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Demo<'_> {
    /// What the person at the terminal saw, and said.
    pub(super) fn show_questions(&self, actor: &Actor) {
        let lines = actor.said.lock().map(|mut said| std::mem::take(&mut *said)).unwrap_or_default();
        for line in lines {
            self.ui.line(&format!("  {} {line}", self.ui.paint(Tone::Odd, "?")));
        }
    }

    /// A draft of rules is tried on the past, then put in force.
    pub(super) fn backtest(&mut self) -> Result<(), Failure> {
        self.beat("The operator drafts stricter rules, and tries them on the past");
        let host = self.host()?;
        let (book, _, _) = host.rules();
        let draft = Policies::load(&[("mailbox.cedar", DRAFT)]).map_err(|problems| {
            missing("stricter rules", problems.iter().map(ToString::to_string).collect::<String>())
        })?;
        let mut recorded = Vec::new();
        past(host.store(), 0, |ask| recorded.push(ask.recorded()))?;
        let found = compare(book.policies(), &draft, recorded.into_iter());
        self.say("$ lazaret policy backtest mailbox.cedar");
        for example in &found.examples {
            self.say(&format!("{} -> {}  {}", example.was.name(), example.now.name(), visible(&example.what)));
        }
        self.say(&format!("the draft would change {} of {} recorded effects", found.changed(), found.total()));
        if found.changed() == 0 || found.unknown > 1 {
            return Err(missing("stricter rules", "nothing would change"));
        }
        drop(host);
        self.put_in_force()
    }

    /// Moves the draft to where the preset was.
    fn put_in_force(&self) -> Result<(), Failure> {
        let folder = self.root.join("policy");
        write(&folder.join("mailbox.cedar"), DRAFT.as_bytes())?;
        remove(&folder.join("default.cedar"))
    }

    /// Another agent of the same component meets the new rules.
    pub(super) fn denied(&mut self) -> Result<(), Failure> {
        self.beat("They are in force at once: a second assistant meets them");
        let clerk: AgentId = "clerk".parse().map_err(|why: lazaret_gate::id::BadAgentId| missing("meets them", why))?;
        let host = self.host()?;
        self.create(&host, &clerk)?;
        let turn = self.send_to(&host, &clerk, "sort")?;
        let refused = |entry: &lazaret_gate::TapeEntry| match &entry.outcome {
            Outcome::Refused(refusal) => refusal.code == RefusalCode::NoPermit,
            _ => false,
        };
        let number =
            turn.record.tape.iter().position(refused).ok_or_else(|| missing("meets them", "nothing denied"))?;
        self.show_ask(&turn.record.tape[number]);
        let id = EffectId { entry: turn.seq, number: u32::try_from(number).unwrap_or_default() };
        self.say(&format!("$ lazaret policy why {id}"));
        let ask = past_ask(host.store(), id)?;
        let (book, _, _) = host.rules();
        let request = ask.request().ok_or_else(|| missing("meets them", "no request on record"))?;
        let why = book.policies().why(&request);
        if why.nearest.is_none() {
            return Err(missing("meets them", "no nearest permit"));
        }
        self.quote(&why.to_string());
        Ok(())
    }

    /// A cap on what the agent may ask for in all its life: a warning, then the end.
    pub(super) fn capped(&mut self) -> Result<(), Failure> {
        self.beat("Its budget is nearly used up, and then it is");
        let host = self.host()?;
        let asked = count(&host, &self.agent)?;
        let mut caps = Caps::default();
        let cap = asked + 4;
        let set = caps.set("total.effects", &cap.to_string()).and_then(|()| caps.set("at_cap", "refuse"));
        set.map_err(|why| missing("budget", why))?;
        host.set_caps(&self.agent, caps)?;
        self.say(&format!("It has asked {asked} times; the operator allows {cap} in all."));
        let (mut warned, mut stopped) = (false, false);
        for _ in 0..4 {
            let turn = self.send(&host, "sort")?;
            warned |= self.show_warnings(&host, &turn)?;
            for entry in &turn.record.tape {
                if let Outcome::Refused(refusal) = &entry.outcome
                    && refusal.code == RefusalCode::BudgetExceeded
                    && !stopped
                {
                    stopped = true;
                    self.show_ask(entry);
                }
            }
        }
        if !(warned && stopped) {
            return Err(missing("budget", format!("warned: {warned}, stopped: {stopped}")));
        }
        host.set_caps(&self.agent, Caps::default()).map_err(Failure::from)
    }

    fn show_warnings(&self, host: &Host, turn: &Turn) -> Result<bool, Failure> {
        let mut warned = false;
        for number in 0..turn.record.tape.len() {
            let id = EffectId { entry: turn.seq, number: u32::try_from(number).unwrap_or_default() };
            for warning in past_ask(host.store(), id)?.ruling.map(|ruling| ruling.warnings).unwrap_or_default() {
                warned = true;
                for (at, line) in wrapped(&shown::text(&warning), 67).iter().enumerate() {
                    let name = if at == 0 { self.ui.paint(Tone::Odd, "warning") } else { " ".repeat(7) };
                    self.ui.line(&format!("   {name}  {line}"));
                }
            }
        }
        Ok(warned)
    }
}

/// How often an agent has asked.
fn count(host: &Host, agent: &AgentId) -> Result<u64, Failure> {
    let mut count = 0;
    past(host.store(), 0, |ask| {
        let done = !matches!(ask.entry.outcome, Outcome::Refused(_));
        count += u64::from(ask.agent == *agent && done);
    })?;
    Ok(count)
}

fn remove(path: &Path) -> Result<(), Failure> {
    std::fs::remove_file(path).map_err(|why| Failure::File {
        what: "can't remove",
        path: path.display().to_string(),
        why,
    })
}
