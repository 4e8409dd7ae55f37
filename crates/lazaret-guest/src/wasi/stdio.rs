//! Standard streams. Stdin is the turn's input, stdout becomes its output, and each line of stderr is a log line.

use lazaret_gate::Effect;
use lazaret_gate::effect::Level;
use lazaret_gate::limits::MAX_OUTPUT;

use super::io::{InputStream, OutputStream};
use super::{Asking, Host, Interface};
use crate::limits::MAX_STDERR_LINE;

/// The turn's input, read once from the front by whoever reads.
#[derive(Default)]
pub(super) struct Stdin {
    bytes: Vec<u8>,
    at: usize,
}

impl Stdin {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0 }
    }

    /// Up to so many of the bytes that are left.
    pub(super) fn read(&mut self, most: usize) -> &[u8] {
        let start = self.at;
        self.at = start.saturating_add(most).min(self.bytes.len());
        &self.bytes[start..self.at]
    }
}

/// Stderr, cut into lines.
#[derive(Default)]
pub(super) struct Lines {
    unfinished: Vec<u8>,
    last: String,
}

impl Lines {
    /// The last line that was written, whole or not.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// Adds bytes and takes out what lines they complete. Blank lines say nothing and are left out.
    fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.unfinished.extend_from_slice(piece);
            while self.unfinished.len() > MAX_STDERR_LINE {
                let rest = self.unfinished.split_off(cut(&self.unfinished, MAX_STDERR_LINE));
                lines.extend(self.finish());
                self.unfinished = rest;
            }
            if piece.ends_with(b"\n") {
                lines.extend(self.finish());
            }
        }
        lines
    }

    fn finish(&mut self) -> Option<String> {
        let bytes = std::mem::take(&mut self.unfinished);
        let mut line = String::from_utf8_lossy(&bytes).into_owned();
        line.truncate(line.trim_end().len());
        (!line.is_empty()).then(|| {
            self.last.clone_from(&line);
            line
        })
    }
}

/// The last place at or before `most` that isn't inside of a character.
fn cut(bytes: &[u8], most: usize) -> usize {
    let is_inside = |at: usize| bytes[at] & 0b1100_0000 == 0b1000_0000;
    (most - 3..=most).rev().find(|&at| !is_inside(at)).unwrap_or(most)
}

/// Adds to the turn's output.
pub(super) fn write_out(host: &mut Host<'_>, bytes: &[u8]) -> wasmtime::Result<()> {
    let stdout = &mut host.wasi().stdout;
    if stdout.len() + bytes.len() > MAX_OUTPUT {
        return Err(wasmtime::Error::msg(format!("more than {MAX_OUTPUT} bytes written to stdout")));
    }
    stdout.extend_from_slice(bytes);
    Ok(())
}

/// Logs the lines that these bytes complete. A refusal is on the tape; a guest that can't log goes on.
pub(super) fn write_err(host: &mut Asking<'_>, bytes: &[u8]) -> wasmtime::Result<()> {
    for text in host.wasi().stderr.push(bytes) {
        host.ask(Effect::LogWrite { level: Level::Info, text })?;
    }
    Ok(())
}

/// Logs what was left without a line end.
pub(super) fn finish_line(host: &mut Asking<'_>) -> wasmtime::Result<()> {
    match host.wasi().stderr.finish() {
        Some(text) => host.ask(Effect::LogWrite { level: Level::Info, text }).map(drop),
        None => Ok(()),
    }
}

pub(super) fn stdin(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.local("get-stdin", |host, (): ()| Ok((host.table().push(InputStream::Stdin)?,)))
}

pub(super) fn stdout(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.local("get-stdout", |host, (): ()| Ok((host.table().push(OutputStream::Stdout)?,)))
}

pub(super) fn stderr(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.local("get-stderr", |host, (): ()| Ok((host.table().push(OutputStream::Stderr)?,)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_their_ends() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"one\ntw"), ["one"]);
        assert_eq!(lines.push(b"o\r\n\n  \nthree"), ["two"]);
        assert_eq!(lines.last(), "two");
        assert_eq!(lines.finish().as_deref(), Some("three"));
        assert_eq!(lines.finish(), None);
        assert_eq!(lines.last(), "three");
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let mut lines = Lines::default();
        let text = "é".repeat(MAX_STDERR_LINE);
        let mut got = lines.push(&[b"x", text.as_bytes()].concat());
        got.extend(lines.finish());
        assert!(got.iter().all(|line| line.len() <= MAX_STDERR_LINE));
        assert_eq!(got.concat(), format!("x{text}"));
    }

    #[test]
    fn bytes_that_are_no_text_are_still_cut() {
        let mut lines = Lines::default();
        let got = lines.push(&vec![0x80; 2 * MAX_STDERR_LINE + 1]);
        assert_eq!(got.len(), 2);
    }
}
