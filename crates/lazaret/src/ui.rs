//! The terminal: colours, JSON or text, progress.

use std::io::{IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use serde::Serialize;

use crate::failure::Failure;
use crate::text::{visible_lines, without_numbers, wrapped};

/// Columns of a terminal that nobody made wider.
const WIDTH: usize = 80;

/// How the user wants to be spoken to.
pub(crate) struct Ui {
    json: bool,
    colors: bool,
    /// Standard error may go elsewhere than standard output.
    error_colors: bool,
    progress: bool,
}

/// What a colour means.
#[derive(Clone, Copy)]
pub(crate) enum Tone {
    Good,
    Bad,
    Odd,
    Quiet,
    Strong,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Odd => AnsiColor::Yellow.on_default(),
            Self::Quiet => Style::new().dimmed(),
            Self::Strong => Style::new().bold(),
        }
    }
}

impl Ui {
    pub(crate) fn new(json: bool, color: ColorChoice) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let wanted = |terminal: bool| match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !plain,
        };
        let error_terminal = std::io::stderr().is_terminal();
        Self {
            json,
            colors: wanted(std::io::stdout().is_terminal()) && !json,
            error_colors: wanted(error_terminal) && !json,
            progress: error_terminal && !json,
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Colours a text for standard output if colours are wanted there.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        painted(self.colors, tone, text)
    }

    /// A line for people.
    pub(crate) fn line(&self, line: &str) {
        if !self.json {
            self.write(format!("{line}\n").as_bytes());
        }
    }

    /// Bytes for whoever reads standard output.
    pub(crate) fn write(&self, bytes: &[u8]) {
        // A closed pipe is the reader's choice, not an error of ours.
        let _ = std::io::stdout().lock().write_all(bytes);
    }

    /// A side remark, on standard error.
    pub(crate) fn note(&self, tone: Tone, line: &str) {
        if !self.json {
            let _ = writeln!(std::io::stderr().lock(), "{}", painted(self.error_colors, tone, line));
        }
    }

    /// A named remark on standard error, in lines that fit a terminal.
    pub(crate) fn aside(&self, tone: Tone, name: &str, text: &str) {
        if self.json {
            return;
        }
        let mut err = std::io::stderr().lock();
        let lines = text.split('\n').flat_map(|line| wrapped(line, WIDTH - name.len() - 1));
        for (at, line) in lines.enumerate() {
            let name = if at == 0 { painted(self.error_colors, tone, name) } else { " ".repeat(name.len()) };
            let _ = writeln!(err, "{name} {line}");
        }
    }

    /// The result for programs.
    pub(crate) fn json<T: Serialize>(&self, value: &T) {
        if self.json {
            let text = serde_json::to_string_pretty(value).unwrap_or_else(|why| format!("{{\"error\":\"{why}\"}}"));
            self.write(format!("{text}\n").as_bytes());
        }
    }

    /// Overwrites the last line of standard error; for work that takes long.
    pub(crate) fn progress(&self, line: &str) {
        if self.progress {
            let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K{line}");
        }
    }

    /// Takes the progress line away.
    pub(crate) fn progress_done(&self) {
        self.progress("");
    }

    pub(crate) fn failure(&self, failure: &Failure) {
        self.progress_done();
        self.error(&failure.to_string(), failure.code() as u8);
    }

    /// What went wrong; after the first `; ` comes what would change it.
    pub(crate) fn error(&self, text: &str, code: u8) {
        let text = visible_lines(&without_numbers(text));
        self.json(&serde_json::json!({ "error": text, "exit_code": code }));
        let (message, help) =
            text.split_once("; ").map_or((text.as_str(), None), |(message, help)| (message, Some(help)));
        self.aside(Tone::Bad, "error:", message);
        if let Some(help) = help {
            self.aside(Tone::Quiet, " help:", help);
        }
    }
}

fn painted(colors: bool, tone: Tone, text: &str) -> String {
    if !colors {
        return text.to_owned();
    }
    let style = tone.style();
    format!("{style}{text}{style:#}")
}
