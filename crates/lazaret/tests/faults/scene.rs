//! Scenes: what an agent is asked while the disk fails. `tests/faults/README.md` has the format.

use std::fs;
use std::path::Path;

/// A text that makes a turn's record larger than the log may grow before it is carried over.
const LONG: usize = 1 << 20;

/// One data file.
pub(crate) struct Scene {
    pub(crate) name: String,
    pub(crate) about: String,
    agents: Vec<(String, String)>,
    steps: Vec<Step>,
    /// The run that is hit also makes the data root.
    pub(crate) fresh: bool,
    /// Each message is a command of its own.
    pub(crate) command: bool,
    /// The faults that it is for; all of them if empty.
    under: Vec<String>,
}

/// One thing that is asked of the host.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A message: to whom, and what.
    Send(String, String),
    /// An agent made from another one: that one, the new one, and after which turn.
    Fork(String, String, u64),
    /// An agent put back to what a turn left.
    Rollback(String, u64),
}

impl Step {
    /// As the driver reads it.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Send(agent, text) => format!("send {agent} {text}"),
            Self::Fork(from, new, turn) => format!("fork {from} {new} {turn}"),
            Self::Rollback(agent, turn) => format!("rollback {agent} {turn}"),
        }
    }
}

/// What stands for the words in braces.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub(crate) port: u16,
    pub(crate) run: u64,
}

impl Words {
    fn put_in(self, text: &str) -> String {
        let text = text.replace("{port}", &self.port.to_string()).replace("{run}", &self.run.to_string());
        if text.contains("{long}") { text.replace("{long}", &"lorem ipsum ".repeat(LONG / 12)) } else { text }
    }
}

impl Scene {
    /// Reads every scene of a directory, by name.
    pub(crate) fn read_all(dir: &Path) -> Vec<Self> {
        let files = fs::read_dir(dir).expect("tests/faults is there").map(|file| file.expect("a file").path());
        let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ext| ext == "scene")).collect();
        files.sort();
        files.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Self {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let (agents, steps, under) = (Vec::new(), Vec::new(), Vec::new());
        let mut scene = Self { name, about: String::new(), agents, steps, fresh: false, command: false, under };
        for line in fs::read_to_string(path).expect("a scene").lines().filter(|line| !line.trim().is_empty()) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let (first, more) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
            match word {
                "about" => scene.about = rest.trim().to_owned(),
                "agent" => scene.agents.push((first.to_owned(), more.to_owned())),
                "send" => scene.steps.push(Step::Send(first.to_owned(), more.to_owned())),
                "fork" => {
                    let (new, turn) = more.split_once(' ').expect("fork SOURCE NEW TURN");
                    scene.steps.push(Step::Fork(first.to_owned(), new.to_owned(), turn.parse().expect("a turn")));
                }
                "rollback" => {
                    scene.steps.push(Step::Rollback(first.to_owned(), more.parse().expect("rollback NAME TURN")));
                }
                "under" => scene.under.push(rest.trim().to_owned()),
                "fresh" => scene.fresh = true,
                "command" => scene.command = true,
                other => panic!("`{}`: `{other}` is not a word of scenes", path.display()),
            }
        }
        scene
    }

    pub(crate) fn is_for(&self, fault: &str) -> bool {
        self.under.is_empty() || self.under.iter().any(|name| name == fault)
    }

    /// All agents, forks too.
    pub(crate) fn agents(&self) -> impl Iterator<Item = &str> {
        let forks = self.steps.iter().filter_map(|step| match step {
            Step::Fork(_, new, _) => Some(new.as_str()),
            _ => None,
        });
        self.agents.iter().map(|(name, _)| name.as_str()).chain(forks)
    }

    /// Lines for the driver that make the agents.
    pub(crate) fn births(&self, words: Words) -> Vec<String> {
        self.agents.iter().map(|(name, grants)| format!("create {name} {}", words.put_in(grants))).collect()
    }

    /// What is asked, in order.
    pub(crate) fn steps(&self, words: Words) -> Vec<Step> {
        let put_in = |step: &Step| match step {
            Step::Send(agent, text) => Step::Send(agent.clone(), words.put_in(text)),
            other => other.clone(),
        };
        self.steps.iter().map(put_in).collect()
    }

    /// Agent and text of each message.
    pub(crate) fn messages(&self, words: Words) -> Vec<(String, String)> {
        let message = |step: Step| match step {
            Step::Send(agent, text) => Some((agent, text)),
            _ => None,
        };
        self.steps(words).into_iter().filter_map(message).collect()
    }
}
