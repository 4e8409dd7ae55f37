//! The shipped presets against `tests/policy/*.toml`, and the picture of them in `policy/matrix.txt`.
//! A new case is a new entry there. `LAZARET_BLESS=1` writes the picture anew.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]
#![expect(clippy::disallowed_methods, reason = "this test reads the case files and the snapshot")]

use std::path::{Path, PathBuf};

use lazaret_gate::policy::testing::{CaseResult, run, subject};
use lazaret_gate::policy::{PRESETS, Policies, matrix, preset};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn shipped(name: &str) -> Policies {
    Policies::load(&[preset(name).unwrap()]).unwrap()
}

fn files() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(root().join("tests/policy")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap())).collect()
}

fn wrong(results: &[CaseResult]) -> Vec<String> {
    results.iter().filter(|result| !result.passed).map(ToString::to_string).collect()
}

#[test]
fn the_presets_do_what_their_cases_say() {
    let mut count = 0;
    for (path, text) in files() {
        let name = subject(&text).unwrap().unwrap();
        let results = run(&shipped(&name), &text).unwrap();
        let wrong = wrong(&results);
        assert!(wrong.is_empty(), "{path}\n{}", wrong.join("\n"));
        count += results.len();
    }
    assert!(count >= 100, "only {count} cases");
}

/// Every rule of every preset is needed: without it, or turned round, a case fails.
#[test]
fn a_broken_preset_fails_its_cases() {
    for name in PRESETS {
        let (file, text) = preset(name).unwrap();
        let cases: Vec<String> = files()
            .into_iter()
            .map(|(_, text)| text)
            .filter(|text| subject(text).unwrap().as_deref() == Some(name))
            .collect();
        let failures = |policies: &Policies| -> usize {
            cases.iter().map(|cases| wrong(&run(policies, cases).unwrap()).len()).sum()
        };
        let whole = shipped(name);
        assert_eq!(failures(&whole), 0);
        let ids: Vec<String> = whole.ids().map(str::to_owned).collect();
        for id in ids {
            let (rule, _) = whole.source(&id).unwrap();
            let without = Policies::load(&[(file, text.replace(rule, ""))]).unwrap();
            assert!(failures(&without) > 0, "{name}: no case needs `{id}`");
        }
        let broken = text.replace("containsAll", "containsAny");
        assert!(failures(&Policies::load(&[(file, broken)]).unwrap()) > 0, "{name}");
    }
}

#[test]
fn case_files_that_are_none_are_refused() {
    let policies = shipped("open");
    let case = "[[case]]\nname = \"a\"\naction = \"clock.now\"\nexpect = \"allow\"\n\
        principal = { kind = \"Agent\", id = \"a\" }\nresource = { kind = \"Namespace\", id = \"a\" }\n";
    assert!(run(&policies, case).unwrap()[0].passed);
    for (from, to, says) in [
        ("expect", "expects", "line 1: missing field `expect`"),
        ("\"allow\"", "\"maybe\"", "line 1: unknown variant `maybe`"),
        ("resource", "object", "line 1: case `a`: unknown field `object`"),
        ("\"Namespace\"", "\"Thing\"", "line 1: case `a`: unknown variant `Thing`"),
        ("[[case]]", "[[cases]]", "line 1: unknown field `cases`"),
        ("name = ", "name ", "line 2: "),
        ("[[case]]", "[[case]]\ncontext = { time = 9223372036854775808 }", "line 2: "),
        ("[[case]]", "[[case]]\nrule = \"a\"\nrules = []", "line 1: case `a`: `rule` and `rules`: use one"),
    ] {
        let found = run(&policies, &case.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(found.starts_with(says), "{found}");
    }
    let found = run(&policies, &format!("{case}rule = \"other\"\n")).unwrap();
    assert_eq!(found[0].to_string(), "a: expected allow by other, found allow by everything");
}

#[test]
fn the_matrix_is_the_one_that_was_read() {
    let sections = PRESETS.map(|name| format!("# {name}\n{}", matrix(&shipped(name))));
    let head = "# Who may do what under the shipped presets, each kind of asker in its column: yes, ask, or - for no; empty\n\
        # where there is no such ask. Written by the tests (LAZARET_BLESS=1): read the difference before you keep it.\n\n";
    let found = format!("{head}{}", sections.join("\n"));
    let path = root().join("policy/matrix.txt");
    if std::env::var("LAZARET_BLESS").is_ok_and(|bless| bless == "1") {
        std::fs::write(&path, &found).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == found, "policy/matrix.txt is another; LAZARET_BLESS=1 writes it anew\n{found}");
}
