//! The secret that whoever asks must know.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the token lies in the data root")]

use std::fmt;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::limits::TOKEN_BYTES;

/// A token. It is never printed.
#[derive(Clone)]
pub struct Token(String);

/// A token that can't be used. What it was is not said.
#[derive(Debug, thiserror::Error)]
pub enum BadToken {
    /// Not one that can be typed behind a command.
    #[error("a token has {} to {} letters, digits and signs, without blanks; this one has not", TOKEN_BYTES.start(), TOKEN_BYTES.end())]
    Form,
    /// The file is another's, or open to others.
    #[error("`{path}` can be opened by others; `chmod 600 {path}` closes it")]
    Exposed {
        /// Which.
        path: String,
    },
    /// The file.
    #[error("`{path}`: {why}")]
    File {
        /// Which.
        path: String,
        /// What the system said.
        why: std::io::Error,
    },
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Takes a text as a token.
    pub fn parse(text: &str) -> Result<Self, BadToken> {
        let lawful = TOKEN_BYTES.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if lawful { Ok(Self(text.to_owned())) } else { Err(BadToken::Form) }
    }

    /// 32 random bytes.
    fn make() -> std::io::Result<Self> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(|why| std::io::Error::other(why.to_string()))?;
        Ok(Self(blake3::Hash::from_bytes(bytes).to_hex().to_string()))
    }

    /// Reads a token from its file.
    pub fn read(path: &Path) -> Result<Self, BadToken> {
        let name = || path.display().to_string();
        let wrong = |why| BadToken::File { path: name(), why };
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path).map_err(wrong)?;
        let about = file.metadata().map_err(wrong)?;
        let me = rustix::process::geteuid().as_raw();
        if !about.is_file() {
            return Err(wrong(std::io::Error::other("it is not a file")));
        }
        if about.mode() & 0o077 != 0 || (about.uid() != me && me != 0) {
            return Err(BadToken::Exposed { path: name() });
        }
        let mut text = String::new();
        file.take(*TOKEN_BYTES.end() as u64 + 2).read_to_string(&mut text).map_err(wrong)?;
        Self::parse(text.trim_end())
    }

    /// Reads a token from its file; makes one if there is no file.
    pub fn read_or_make(path: &Path) -> Result<Self, BadToken> {
        match Self::read(path) {
            Err(BadToken::File { why, .. }) if why.kind() == ErrorKind::NotFound => {}
            read => return read,
        }
        let wrong = |why| BadToken::File { path: path.display().to_string(), why };
        let token = Self::make().map_err(wrong)?;
        // Under a name of its own first: whoever reads finds no token or a whole one.
        let part = path.with_extension(format!("part-{}", std::process::id()));
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&part).map_err(wrong)?;
        let written = writeln!(file, "{}", token.0).and_then(|()| file.sync_all());
        written.and_then(|()| std::fs::rename(&part, path)).map_err(wrong)?;
        Ok(token)
    }

    /// Whether somebody knows it. Takes the same time whatever they said.
    pub fn is(&self, said: &str) -> bool {
        // Hashes are of one length, and are compared in constant time.
        blake3::hash(self.0.as_bytes()) == blake3::hash(said.as_bytes())
    }

    /// The text, for the one place that sends it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_token_is_made_once_and_closed_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ipc.token");
        assert!(matches!(Token::read(&path), Err(BadToken::File { .. })));
        let token = Token::read_or_make(&path).unwrap();
        assert_eq!(token.0.len(), 64);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let again = Token::read_or_make(&path).unwrap();
        assert!(again.is(token.reveal()) && Token::read(&path).unwrap().is(token.reveal()));
        assert!(!again.is("") && !again.is(&token.0[1..]) && !again.is(&format!("{}0", token.0)));
        assert_eq!(format!("{token:?}"), "Token");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Token::read_or_make(&path), Err(BadToken::Exposed { .. })));
    }

    #[test]
    fn what_can_not_be_typed_is_no_token() {
        for bad in ["", "short", "with a blank in the middle", "with-a-line-break-in\nit", &"x".repeat(257)] {
            assert!(matches!(Token::parse(bad), Err(BadToken::Form)), "{bad}");
        }
        assert!(Token::parse("0123456789abcdef").is_ok());
    }
}
