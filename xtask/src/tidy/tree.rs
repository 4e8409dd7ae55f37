//! What the rules look at: the files that are, or would be, in version control, and what cargo says of the packages.

use super::packages::Package;
use super::source::{self, Source};
use crate::run;
use std::path::Path;

/// The tree at one moment. Rules read this and nothing else, so a test can hand them any tree it likes.
pub(super) struct Tree {
    pub(super) files: Vec<File>,
    /// Every package of the build, ours and others'.
    pub(super) packages: Vec<Package>,
}

/// A text file; others are not looked at.
pub(super) struct File {
    /// From the root, with forward slashes.
    pub(super) path: String,
    pub(super) text: String,
    /// For Rust and WIT, whose comments are alike: code and comments apart.
    pub(super) source: Option<Source>,
}

impl File {
    pub(super) fn new(path: &str, text: &str) -> File {
        let mut file = File { path: path.to_string(), text: text.to_string(), source: None };
        if file.is(&["rs", "wit"]) {
            file.source = Some(source::split(text));
        }
        file
    }

    pub(super) fn is(&self, extensions: &[&str]) -> bool {
        self.name().rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
    }

    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Lines, numbered as an editor does.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(self.text.lines())
    }
}

/// Counts from 1.
pub(super) fn numbered<'a, S: AsRef<str> + ?Sized + 'a>(
    lines: impl Iterator<Item = &'a S>,
) -> impl Iterator<Item = (usize, &'a str)> {
    lines.enumerate().map(|(index, line)| (index + 1, line.as_ref()))
}

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Tree, String> {
        let listed = run::capture(root, &["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let mut files = Vec::new();
        for path in listed.split_terminator('\0') {
            // A file can be listed and gone (deleted, not yet committed), or be a link to a directory.
            let full = root.join(path);
            if !full.is_file() {
                continue;
            }
            let bytes = std::fs::read(&full).map_err(|error| format!("{path}: {error}"))?;
            if let Ok(text) = String::from_utf8(bytes)
                && !text.contains('\0')
            {
                files.push(File::new(path, &text));
            }
        }
        Ok(Tree { files, packages: Package::all(root)? })
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Rust files with their code and comments apart.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter(|file| file.is(&["rs"])).filter_map(|file| Some((file, file.source.as_ref()?)))
    }

    pub(super) fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.ours)
    }
}
