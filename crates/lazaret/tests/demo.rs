//! The demo shows every beat, says the same each time, leaves nothing behind, and is what the README prints.
//! `LAZARET_BLESS=1` writes the README's transcript anew.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test acts on the real machine, says what it expects and prints what it counted"
)]

#[allow(dead_code, reason = "shared by several tests")]
#[path = "support/station.rs"]
mod station;

use station::{done, lazaret, workspace};

const BEGIN: &str = "<!-- transcript: lazaret demo -->\n";
const END: &str = "<!-- end -->";

fn demo(args: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().join("data");
    let said = done(lazaret(&root).arg("demo").args(args));
    assert!(!root.exists(), "the demo leaves nothing behind");
    said
}

#[test]
fn the_demo_is_what_the_readme_shows() {
    let said = demo(&[]);
    let (beats, last) = said.trim_end().rsplit_once('\n').expect("many lines");
    assert!(last.starts_with("That was the whole path"), "the last line is `{last}`");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "the demo fits 80 columns");
    assert!(!said.contains('\u{1b}'), "colours are for terminals");
    let checked = demo(&["--ci"]);
    assert_eq!(checked, format!("{beats}\ndemo: 10 beats, all seen\n"), "the demo says the same each time");

    let path = workspace().join("README.md");
    let readme = std::fs::read_to_string(&path).expect("README.md is there");
    let transcript = format!("```text\n$ lazaret demo\n{said}```\n");
    let (before, rest) = readme.split_once(BEGIN).expect("README.md has a place for the transcript");
    let (found, after) = rest.split_once(END).expect("the transcript in README.md has an end");
    if std::env::var("LAZARET_BLESS").is_ok_and(|bless| bless == "1") {
        std::fs::write(&path, format!("{before}{BEGIN}{transcript}{END}{after}")).expect("README.md can be written");
        return;
    }
    assert_eq!(found, transcript, "README.md's transcript is another; LAZARET_BLESS=1 writes it anew");
}
