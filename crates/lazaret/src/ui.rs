//! The terminal: colours, JSON or text, progress.

use std::io::{IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use serde::Serialize;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::text::{visible_lines, wrapped};

/// Columns of a terminal that nobody made wider.
const WIDTH: usize = 80;

/// How the user wants to be spoken to.
pub(crate) struct Ui {
    json: bool,
    colors: bool,
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
    pub(crate) fn new(cli: &Cli) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colors = match cli.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !plain,
        };
        Self { json: cli.json, colors: colors && !cli.json, progress: std::io::stderr().is_terminal() && !cli.json }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Colours a text if colours are wanted.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        if self.colors {
            let style = tone.style();
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
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
    pub(crate) fn note(&self, line: &str) {
        if !self.json {
            let _ = writeln!(std::io::stderr().lock(), "{line}");
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
        let text = visible_lines(&failure.to_string());
        if self.json {
            self.json(&serde_json::json!({ "error": text, "exit_code": failure.code() as u8 }));
            return;
        }
        let (message, help) = text.split_once("; ").map_or((text.as_str(), None), |(message, help)| (message, Some(help)));
        self.aside(Tone::Bad, "error:", message);
        if let Some(help) = help {
            self.aside(Tone::Quiet, " help:", help);
        }
    }

    /// A named remark on standard error, in lines that fit a terminal.
    fn aside(&self, tone: Tone, name: &str, text: &str) {
        let mut err = std::io::stderr().lock();
        let lines = text.split('\n').flat_map(|line| wrapped(line, WIDTH - name.len() - 1));
        for (at, line) in lines.enumerate() {
            let name = if at == 0 { self.paint(tone, name) } else { " ".repeat(name.len()) };
            let _ = writeln!(err, "{name} {line}");
        }
    }
}
