//! Forks, rollbacks and quarantine: what is shown of them, and lies about them.

use lazaret_gate::bundle::{Descent, check};
use lazaret_gate::canonical::Digest;
use serde_json::{Value, json};

use crate::keeper::{Keeper, kin};
use crate::lies::{Lie, Make};
use crate::tamper::Draft;

/// Where things stand in [`kin`]'s journal.
const CREATED: usize = 2;
const TURN_1: usize = 3;
const TURN_2: usize = 4;
const FORKED: usize = 5;
const COPY_TURN_1: usize = 6;
const BACK_TO_1: usize = 7;
const TURN_3: usize = 8;
const WOKEN: usize = 10;
const BACK_TO_0: usize = 12;

fn lied(edit: impl FnOnce(&mut Draft)) -> Vec<u8> {
    let keeper = kin();
    let mut draft = Draft::of(&keeper.everything());
    edit(&mut draft);
    draft.sign(&keeper)
}

fn said(at: usize, kind: &str, field: &str, value: Value) -> Vec<u8> {
    lied(|draft| {
        let place = &mut draft.entries[at]["body"][kind][field];
        assert_ne!(*place, value);
        *place = value;
    })
}

fn forked(field: &str, value: Value) -> Vec<u8> {
    said(FORKED, "agent-forked", field, value)
}

fn back(at: usize, field: &str, value: Value) -> Vec<u8> {
    said(at, "agent-rolled-back", field, value)
}

/// The fork's image with something else in it, and everything that names it.
fn image(edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    lied(|draft| {
        let name = draft.entries[FORKED]["body"]["agent-forked"]["image"].as_str().unwrap().to_owned();
        let at = draft.blobs.iter().position(|blob| Digest::of(blob).to_string() == name).unwrap();
        let mut image: Value = serde_json::from_slice(&draft.blobs[at]).unwrap();
        edit(&mut image);
        draft.change_blob(at, serde_json_canonicalizer::to_vec(&image).unwrap());
    })
}

/// A rollback and the turn after it, both of what another turn left: only that turn's entry tells.
fn back_to_another() -> Vec<u8> {
    lied(|draft| {
        let image = draft.entries[TURN_2]["body"]["turn"]["image_after"].clone();
        draft.entries[BACK_TO_1]["body"]["agent-rolled-back"]["image"] = image.clone();
        draft.entries[TURN_3]["body"]["turn"]["image_before"] = image;
    })
}

/// An entry that stands elsewhere than where it was.
fn moved(from: usize, to: usize) -> Vec<u8> {
    lied(|draft| {
        let body = draft.entries[from]["body"].clone();
        draft.entries[from]["body"] = json!({ "agent-removed": { "agent": "nobody" } });
        draft.entries[to]["body"] = body;
    })
}

pub(crate) fn lies(lie: Make) -> Vec<Lie> {
    let none = || json!("0".repeat(64));
    vec![
        lie("T1", "a fork of that name before", "created twice", forked("agent", json!("mailbox"))),
        lie("T5", "a rollback that nobody chained", "doesn't follow", back(BACK_TO_1, "previous", none())),
        lie("T5", "a rollback into the future", "doesn't follow", back(BACK_TO_1, "to", json!(3))),
        lie("T5", "a rollback before its turn", "doesn't follow", back(BACK_TO_1, "taken", json!(1))),
        lie("T5", "a turn that forgets the rollback", "doesn't follow", {
            lied(|draft| {
                let image = draft.entries[TURN_2]["body"]["turn"]["image_after"].clone();
                draft.entries[TURN_3]["body"]["turn"]["image_before"] = image;
            })
        }),
        lie("T5", "a rollback left out", "doesn't follow", {
            lied(|draft| draft.entries[BACK_TO_1]["body"] = json!({ "agent-removed": { "agent": "nobody" } }))
        }),
        lie("T4", "a turn number given twice", "doesn't follow", said(TURN_3, "turn", "turn", json!(2))),
        lie("T9", "a fork of another entry", "another entry", forked("entry", none())),
        lie("T9", "a fork of another turn", "another entry", forked("turn", json!(2))),
        lie("T9", "a fork of a turn that is to come", "comes after", forked("turn", json!(3))),
        lie("T9", "a rollback to another entry", "another image", back(BACK_TO_0, "entry", none())),
        lie("T9", "a rollback to another image", "another image", back_to_another()),
        lie("T2", "a rollback of nobody", "creation is missing", back(BACK_TO_0, "agent", json!("nobody"))),
        lie("T10", "a fork of itself", "from itself", forked("from", json!("copy"))),
        lie("T10", "a fork with other grants", "not its source's", forked("grants", json!(["environment"]))),
        lie("T11", "a turn in quarantine", "quarantined before", moved(WOKEN, CREATED - 1)),
        lie("B4", "a fork of another's image", "bound to another", image(|image| image["agent"] = json!("mailbox"))),
        lie("B4", "a fork that begins late", "bound to another", image(|image| image["turn"] = json!(1))),
        lie(
            "B10",
            "a fork with another memory",
            "is not what turn 1",
            image(|image| image["globals"] = json!([["7"]])),
        ),
    ]
}

fn descents(keeper: &Keeper, seqs: impl IntoIterator<Item = u64>) -> Vec<(u64, u64, bool)> {
    let checked = check(&keeper.bundle(seqs, &[])).unwrap();
    checked.descents.iter().map(|Descent { seq, turn, shown, .. }| (*seq, *turn, *shown)).collect()
}

#[test]
fn what_is_in_the_bundle_is_shown_and_what_is_not_is_said() {
    let keeper = kin();
    let all = [(FORKED, 1, true), (BACK_TO_1, 1, true), (BACK_TO_0, 0, true)]
        .map(|(at, turn, shown)| (at as u64, turn, shown));
    assert_eq!(descents(&keeper, 0..keeper.entries.len() as u64), all);
    // The fork alone: its source is not there.
    let alone = [0, FORKED, COPY_TURN_1].map(|at| at as u64);
    assert_eq!(descents(&keeper, alone), [(FORKED as u64, 1, false)]);
    // Without a turn of the fork its image is compared all the same.
    let entry = [0, CREATED, TURN_1, FORKED].map(|at| at as u64);
    assert_eq!(descents(&keeper, entry), [(FORKED as u64, 1, true)]);
    // The turn that it went back to is left out.
    let later = [0, CREATED, BACK_TO_1, TURN_3].map(|at| at as u64);
    assert_eq!(descents(&keeper, later), [(BACK_TO_1 as u64, 1, false)]);
}
