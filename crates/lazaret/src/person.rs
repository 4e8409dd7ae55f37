//! Asking whoever sits at the terminal that a turn runs in.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lazaret_gate::approval::{Question, Scope, Verdict};
use lazaret_gate::shown::Shown;
use lazaret_host::Person;

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
