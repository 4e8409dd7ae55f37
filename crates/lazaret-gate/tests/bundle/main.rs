//! Bundles: honest ones pass, changed ones don't, lies are named, and the Python checker says the same of all of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what is wrong by failing")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "this test prints its counts and hands files to the other checker"
)]

mod keeper;
mod kin;
mod lies;
mod tamper;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use keeper::{Dice, honest};
use lazaret_gate::bundle::check;
use lazaret_gate::record::Body;
use tamper::Draft;

#[test]
fn honest_bundles_are_accepted() {
    for seed in 0..30 {
        let keeper = honest(seed);
        let checked = check(&keeper.everything()).unwrap();
        assert_eq!(checked.entries, keeper.entries);
        assert_eq!(checked.checkpoint.size, keeper.entries.len() as u64);
        assert_eq!((checked.older, checked.key), (3, keeper.verifier.to_text()));
        let turns: Vec<u64> =
            keeper.entries.iter().filter(|e| matches!(e.body, Body::Turn(_))).map(|e| e.seq).collect();
        assert!(turns.len() >= 4);
        // One turn alone, and every second one: creations are needed, other entries are not.
        for keep in [turns[turns.len() - 1..].to_vec(), turns.iter().copied().step_by(2).collect()] {
            let seqs = keeper.entries.iter().filter(|entry| match entry.body {
                Body::Genesis(_) | Body::AgentCreated(_) | Body::AgentForked(_) | Body::AgentRolledBack(_) => true,
                _ => keep.contains(&entry.seq),
            });
            let checked = check(&keeper.bundle(seqs.map(|entry| entry.seq), &[])).unwrap();
            assert_eq!(checked.turns().map(|(seq, _)| seq).collect::<Vec<_>>(), keep);
        }
        check(&keeper.bundle([0], &[])).unwrap();
    }
}

#[test]
fn damage_is_seen() {
    let mut dice = Dice(1);
    let mut seen = BTreeMap::<&str, usize>::new();
    for seed in 0..10 {
        let bundle = honest(seed).everything();
        for _ in 0..often("LAZARET_TAMPERINGS", 1000) / 10 {
            let (what, bytes) = tamper::damage(&bundle, &mut dice);
            if bytes != bundle {
                assert!(check(&bytes).is_err(), "seed {seed}: {what} went unseen");
                *seen.entry(what).or_default() += 1;
            }
        }
    }
    println!("damaged bundles refused: {} of {0}, {seen:?}", seen.values().sum::<usize>());
}

#[test]
fn every_bit_of_a_bundle_counts() {
    let bundle = keeper::plain().bundle([0, 2], &[1]);
    for bit in 0..8 * bundle.len() {
        let mut bytes = bundle.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(check(&bytes).is_err(), "bit {bit} can be flipped");
    }
    println!("bits flipped, one at a time, all refused: {}", 8 * bundle.len());
}

#[test]
fn changes_with_a_mended_end_are_seen() {
    let mut dice = Dice(2);
    let mut seen = BTreeMap::<&str, usize>::new();
    for seed in 0..10 {
        let (bundle, other) = (honest(seed).everything(), honest(seed + 1).everything());
        for _ in 0..often("LAZARET_TAMPERINGS", 1000) / 10 {
            let (what, bytes) = tamper::reseal(&bundle, &other, &mut dice);
            if bytes != bundle {
                assert!(check(&bytes).is_err(), "seed {seed}: {what} went unseen");
                *seen.entry(what).or_default() += 1;
            }
        }
    }
    println!("resealed bundles refused: {} of {0}, {seen:?}", seen.values().sum::<usize>());
}

#[test]
fn a_removed_line_can_only_make_it_say_less() {
    let mut dice = Dice(3);
    let (mut refused, mut less) = (0, 0);
    for seed in 0..10 {
        let bundle = honest(seed).everything();
        for _ in 0..often("LAZARET_TAMPERINGS", 1000) / 50 {
            let bytes = tamper::remove(&bundle, &mut dice);
            assert!(tamper::says_no_more(&bundle, &bytes), "seed {seed}");
            if check(&bytes).is_err() { refused += 1 } else { less += 1 }
        }
    }
    assert!(refused > less);
    println!("lines removed and the end mended: {refused} refused, {less} say less and nothing else");
}

#[test]
fn lies_are_named() {
    let lies = lies::all();
    let mut believed = Vec::new();
    for lie in &lies {
        match check(&lie.bundle) {
            Ok(_) => believed.push(format!("{} ({}) is believed", lie.what, lie.rule)),
            Err(why) if why.to_string().contains(lie.why) => {}
            Err(why) => believed.push(format!("{} ({}): `{why}` doesn't say `{}`", lie.what, lie.rule, lie.why)),
        }
    }
    assert!(believed.is_empty(), "{believed:#?}");
    println!("named lies refused: {}", lies.len());
}

/// Where bundles for the other checker go: a directory of its own, or the one named by `LAZARET_DUMP_BUNDLES`.
fn dump_place() -> PathBuf {
    let place = std::env::var_os("LAZARET_DUMP_BUNDLES")
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("bundles"), PathBuf::from);
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// What `tools/check_bundle.py` says of each file: `Some(rule)` if it is bad.
fn ask_python(files: &[PathBuf]) -> Vec<Option<String>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/check_bundle.py");
    let ran = Command::new("python3").arg(script).args(["--pure", "--json"]).args(files).output();
    let ran = ran.expect("this test needs `python3` on the path: it compares two implementations");
    let said = String::from_utf8(ran.stdout).unwrap();
    let verdicts: Vec<Option<String>> = said
        .lines()
        .map(|line| {
            let said: serde_json::Value = serde_json::from_str(line).unwrap();
            match said["verdict"].as_str() {
                Some("ok") => None,
                Some("bad") => Some(said["rule"].as_str().unwrap().to_owned()),
                _ => panic!("{said}"),
            }
        })
        .collect();
    assert_eq!(verdicts.len(), files.len(), "{}", String::from_utf8_lossy(&ran.stderr));
    verdicts
}

#[test]
fn the_python_checker_agrees() {
    let mut dice = Dice(4);
    let mut cases: Vec<(String, Vec<u8>)> = Vec::new();
    for lie in lies::all() {
        cases.push((format!("lie {}", lie.rule), lie.bundle));
    }
    for seed in 0..12 {
        let keeper = honest(seed);
        let (bundle, other) = (keeper.everything(), honest(seed + 1).everything());
        cases.push(("honest".into(), bundle.clone()));
        for _ in 0..6 {
            cases.push(("damaged".into(), tamper::damage(&bundle, &mut dice).1));
            cases.push(("resealed".into(), tamper::reseal(&bundle, &other, &mut dice).1));
            cases.push(("shortened".into(), tamper::remove(&bundle, &mut dice)));
        }
        for _ in 0..often("LAZARET_LIES", 144) / 12 {
            let mut draft = Draft::of(&bundle);
            let what = draft.lie(&mut dice);
            cases.push((format!("random lie in {what}"), draft.sign(&keeper)));
        }
    }
    let place = dump_place();
    let write = |(number, (what, bytes)): (usize, &(String, Vec<u8>))| {
        let file = place.join(format!("{number:05}-{}.bundle", what.replace(' ', "-")));
        std::fs::write(&file, bytes).unwrap();
        file
    };
    let files: Vec<PathBuf> = cases.iter().enumerate().map(write).collect();
    let (mut accepted, mut refused, mut differ) = (0, BTreeMap::<String, usize>::new(), Vec::new());
    for (theirs, (file, (what, bytes))) in ask_python(&files).into_iter().zip(files.iter().zip(&cases)) {
        let ours = check(bytes).map(|_| ()).map_err(|why| why.to_string());
        if ours.is_ok() != theirs.is_none() {
            differ.push(format!("{what}, {}: {ours:?}, but python: {theirs:?}", file.display()));
        }
        if let Some(rule) = what.strip_prefix("lie ") {
            assert_eq!(theirs.as_deref(), Some(rule), "{}", file.display());
        }
        match theirs {
            None => accepted += 1,
            Some(rule) => *refused.entry(rule).or_default() += 1,
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
    println!(
        "both checkers agree: {accepted} accepted, {} refused, by rule {refused:?}",
        refused.values().sum::<usize>()
    );
    assert!(accepted > 12 && refused.len() > 20, "too tame a choice of bundles");
    if std::env::var_os("LAZARET_DUMP_BUNDLES").is_none() {
        std::fs::remove_dir_all(&place).unwrap();
    }
}

/// How often, over all journals; a long run asks for more by this variable.
fn often(variable: &str, usually: usize) -> usize {
    std::env::var(variable).ok().and_then(|count| count.parse().ok()).unwrap_or(usually)
}
