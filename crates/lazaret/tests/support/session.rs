//! A session that a document shows: it is played as it is printed there, and must come out the same.

use std::path::Path;

use super::plain::plain;
use super::script::{self, Step};
use super::stage::Stage;

const BEGIN: &str = "<!-- session -->\n```text\n";
const END: &str = "```\n<!-- end -->";

/// Plays it, and gives it back as it was said this time, with what was wrong.
fn play(text: &str) -> (String, Vec<String>) {
    let (mut stage, mut told, mut wrong) = (Stage::new(), Vec::new(), Vec::new());
    for step in script::parse(text) {
        let Step::Run { command, expected, .. } = step else { panic!("a session has commands and what they say") };
        if command == "lazaret serve &" {
            stage.serve();
            told.push(format!("$ {command}\n"));
            continue;
        }
        // Whoever reads it would see a name there, and has the guests where they are built.
        let said = stage.run(&format!("USER=ana {}", command.replace("guests/build/", "guests/")));
        let (found, expected) = (plain(said.text.trim_end()), plain(&expected.join("\n")));
        if found != expected {
            wrong.push(format!("$ {command}\n--- printed there\n{expected}\n--- found\n{found}"));
        }
        let (failed, error) = (said.code != 0, said.text.starts_with("error:"));
        if failed != error || said.text.contains("panicked") {
            wrong.push(format!("$ {command}\nexit code {}\n{}", said.code, said.text));
        }
        wrong
            .extend(said.text.lines().filter(|line| line.chars().count() > 80).map(|line| format!("too wide: {line}")));
        told.push(format!("$ {command}\n{}\n", said.text.trim_end()));
        if command == "lazaret stop" {
            wrong.extend(stage.ended().err());
        }
    }
    wrong.extend(stage.check_data().err());
    (told.join("\n"), wrong)
}

/// Plays the session of a document; with `bless`, writes it there anew.
pub(crate) fn try_document(path: &Path, bless: bool) -> Vec<String> {
    let document = std::fs::read_to_string(path).expect("the document is there");
    let (before, rest) = document.split_once(BEGIN).expect("the document has a session");
    let (session, after) = rest.split_once(END).expect("the session has an end");
    let (told, wrong) = play(session);
    if bless {
        std::fs::write(path, format!("{before}{BEGIN}{told}{END}{after}")).expect("the document can be written");
        return Vec::new();
    }
    wrong
}
