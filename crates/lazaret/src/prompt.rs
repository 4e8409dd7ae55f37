//! Values and passphrases on their way in: from a terminal that doesn't show them, from standard input, or from a file. Never
//! from the command line, which everybody on the machine can read, and never from a variable, which every child inherits.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use lazaret_host::HostError;
use lazaret_link::Hidden;
use lazaret_store::limits::MAX_SECRET;
use lazaret_store::vault::{Secret, VaultError, disable_core_dumps};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use crate::failure::Failure;

/// Names a file with the vault's passphrase.
pub(crate) const PASSPHRASE_FILE: &str = "LAZARET_VAULT_PASSPHRASE_FILE";

/// Names a file with the passphrase that `vault rotate-master` gives it.
pub(crate) const NEW_PASSPHRASE_FILE: &str = "LAZARET_VAULT_NEW_PASSPHRASE_FILE";

/// The file that a variable names.
pub(crate) fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn of_vault(why: VaultError) -> Failure {
    HostError::Vault(why).into()
}

/// The vault's passphrase.
pub(crate) fn passphrase() -> Result<Hidden, Failure> {
    match named(PASSPHRASE_FILE) {
        Some(path) => from_closed(&path),
        None => typed("Passphrase of the vault: ", PASSPHRASE_FILE).map(|secret| Hidden::new(secret.expose())),
    }
}

/// A passphrase that the vault doesn't have yet; typed twice, since nobody sees it.
pub(crate) fn new_passphrase(variable: &'static str) -> Result<Hidden, Failure> {
    if let Some(path) = named(variable) {
        return from_closed(&path);
    }
    let first = typed("New passphrase for the vault: ", variable)?;
    if first != typed("The same again: ", variable)? {
        return Err(Failure::Input("the two passphrases differ; nothing was changed".into()));
    }
    Ok(Hidden::new(first.expose()))
}

fn from_closed(path: &Path) -> Result<Hidden, Failure> {
    hold_back()?;
    Secret::read_file(path).map(|secret| Hidden::new(secret.expose())).map_err(of_vault)
}

/// A secret's value: from a file, from whoever sits at the terminal, or from standard input.
pub(crate) fn value(name: &str, file: Option<&Path>) -> Result<Hidden, Failure> {
    hold_back()?;
    let stdin = std::io::stdin();
    let read = match file {
        Some(path) => {
            let fail = |why| Failure::File { what: "can't read", path: path.display().to_string(), why };
            Secret::read(&mut File::open(path).map_err(fail)?)
        }
        None if stdin.is_terminal() => return value_typed(name),
        None => Secret::read(&mut stdin.lock()),
    };
    let value = read.map_err(of_vault)?.without_line_break();
    if value.is_empty() {
        return Err(Failure::Input("there is no value; give it on standard input, or with `--from-file PATH`".into()));
    }
    Ok(Hidden::new(value.expose()))
}

fn value_typed(name: &str) -> Result<Hidden, Failure> {
    typed(&format!("Value of {name} (not shown): "), "").map(|secret| Hidden::new(secret.expose()))
}

/// No core file of a process that has seen a value.
fn hold_back() -> Result<(), Failure> {
    Ok(disable_core_dumps()?)
}

/// A terminal that shows nothing of what is typed, until this is dropped.
struct Quiet {
    terminal: File,
    before: Termios,
}

impl Quiet {
    fn new(terminal: File) -> rustix::io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut quiet = before.clone();
        // Byte by byte, and Ctrl-C as a byte too: a signal would end the process and leave the terminal blind.
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&terminal, OptionalActions::Flush, &quiet)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
        let _ = self.terminal.write_all(b"\n");
    }
}

/// One line from whoever sits at the terminal. `variable` could have named a file instead.
fn typed(prompt: &str, variable: &str) -> Result<Secret, Failure> {
    hold_back()?;
    let nobody = || {
        let instead = if variable.is_empty() { String::new() } else { format!(", or name a file with `{variable}`") };
        Failure::Failed(format!("there is no terminal to ask on; run this on one{instead}"))
    };
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(|_| nobody())?;
    let mut quiet = Quiet::new(terminal).map_err(|_| nobody())?;
    let _ = quiet.terminal.write_all(prompt.as_bytes());
    read_line(&mut quiet.terminal)
}

/// Bytes up to the end of a line, as somebody types them. The buffer never grows, so no copy is left behind.
fn read_line(from: &mut impl std::io::Read) -> Result<Secret, Failure> {
    let given_up = || Failure::Failed("nothing was entered; nothing was changed".into());
    let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(MAX_SECRET));
    let mut byte = zeroize::Zeroizing::new([0]);
    loop {
        let read = from.read(&mut *byte).map_err(|why| of_vault(VaultError::Unread { why: why.to_string() }))?;
        match byte[0] {
            _ if read == 0 => return Err(given_up()),
            // Ctrl-C, and Ctrl-D on an empty line.
            3 => return Err(given_up()),
            4 if bytes.is_empty() => return Err(given_up()),
            b'\n' | b'\r' => break,
            // Backspace takes a whole character, Ctrl-U everything.
            8 | 0x7f => while bytes.pop().is_some_and(|byte| (0x80..0xc0).contains(&byte)) {},
            0x15 => bytes.clear(),
            _ if bytes.len() == MAX_SECRET => return Err(of_vault(VaultError::ValueLong)),
            byte => bytes.push(byte),
        }
    }
    if bytes.is_empty() {
        return Err(given_up());
    }
    Ok(Secret::new(std::mem::take(&mut *bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(typed: &[u8]) -> Option<Vec<u8>> {
        read_line(&mut &*typed).ok().map(|secret| secret.expose().to_vec())
    }

    #[test]
    fn a_line_is_typed_as_on_any_terminal() {
        assert_eq!(line(b"six words\nmore").as_deref(), Some(&b"six words"[..]));
        assert_eq!(line("añ\u{7f}b\r".as_bytes()).as_deref(), Some(&b"ab"[..]));
        assert_eq!(line(b"\x7f\x7fwrong\x15right\n").as_deref(), Some(&b"right"[..]));
        for nothing in [&b"\n"[..], b"", b"half a line", b"abc\x03\n", b"\x04"] {
            assert_eq!(line(nothing), None, "{nothing:?}");
        }
        let mut long = vec![b'a'; MAX_SECRET + 1];
        long.push(b'\n');
        assert_eq!(line(&long), None);
    }
}
