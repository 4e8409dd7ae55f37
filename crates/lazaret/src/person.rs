//! Asking whoever sits at the terminal that a turn runs in.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lazaret_gate::AgentId;
use lazaret_gate::approval::{Question, Scope, Verdict};
use lazaret_gate::shown::{self, Shown};
use lazaret_host::{Approvals, HostError, Person};

/// How often it is looked whether the question's time is over.
const LOOK: Duration = Duration::from_millis(50);

/// The terminal.
pub(crate) struct Terminal {
    /// Lines that were typed. One thread reads them for as long as the process lives.
    lines: Mutex<Option<Receiver<String>>>,
}

impl Terminal {
    /// Somebody, if there is a terminal to ask on.
    pub(crate) fn find() -> Option<Arc<dyn Person>> {
        let there = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        there.then(|| Arc::new(Self { lines: Mutex::new(None) }) as Arc<dyn Person>)
    }
}

fn read_lines() -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if send.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl Person for Terminal {
    fn decide(&self, question: &Question, shown: &Shown, over: &dyn Fn() -> bool) -> Option<(Verdict, Scope)> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = lines.get_or_insert_with(read_lines);
        // What was typed before the question was there is no answer to it.
        while lines.try_recv().is_ok() {}
        let mut err = std::io::stderr().lock();
        for line in &shown.lines {
            let _ = writeln!(err, "{line}");
        }
        let offered = if shown.hidden {
            "part of it can't be shown, so it can only be denied: [n]o"
        } else {
            "[y]es, once; [n]o"
        };
        let _ = write!(err, "{} May it? {offered} > ", question.id);
        let _ = err.flush();
        loop {
            match lines.recv_timeout(LOOK).map(|line| line.trim().to_ascii_lowercase()) {
                Ok(line) if matches!(line.as_str(), "y" | "yes") && !shown.hidden => {
                    return Some((Verdict::Approve, Scope::Once));
                }
                Ok(line) if matches!(line.as_str(), "n" | "no") => return Some((Verdict::Deny, Scope::Once)),
                Ok(_) => {
                    let _ = write!(err, "type y or n > ");
                    let _ = err.flush();
                }
                // Nobody can type any more: the question waits for an answer from elsewhere.
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) if over() => {
                    let _ = writeln!(err);
                    return None;
                }
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Waits for something while a person answers what a turn in the keeper asks. Questions of others are left alone.
pub(crate) fn attend<T: Send>(
    root: &Path,
    person: &dyn Person,
    ours: &(dyn Fn(&AgentId) -> bool + Sync),
    wait: impl FnOnce() -> T,
) -> Result<T, HostError> {
    let approvals = Approvals::open(root)?;
    // Those that wait already are not this turn's.
    let before: BTreeSet<String> = approvals.pending()?.into_iter().map(|question| question.id).collect();
    let over = AtomicBool::new(false);
    let answered = std::thread::scope(|scope| {
        scope.spawn(|| answer(&approvals, person, ours, before, &over));
        let answered = wait();
        over.store(true, Ordering::Relaxed);
        answered
    });
    Ok(answered)
}

/// Puts each new question to a person, until it is over.
fn answer(
    approvals: &Approvals,
    person: &dyn Person,
    ours: &(dyn Fn(&AgentId) -> bool + Sync),
    mut seen: BTreeSet<String>,
    over: &AtomicBool,
) {
    while !over.load(Ordering::Relaxed) {
        for question in approvals.pending().unwrap_or_default() {
            if !ours(&question.agent) || !seen.insert(question.id.clone()) {
                continue;
            }
            let shown = shown::decision(&question, &Scope::Once);
            let gone = || over.load(Ordering::Relaxed) || approvals.question(&question.id).is_err();
            if let Some((verdict, scope)) = person.decide(&question, &shown, &gone)
                && let Err(why) = approvals.decide(&question, verdict, scope)
            {
                let _ = writeln!(std::io::stderr(), "{why}");
            }
        }
        std::thread::sleep(LOOK);
    }
}
