//! The kill switches of a data root. They lie in a file that is read whoever has the root open, so that anybody who may
//! write there can stop everything at once; what happened to them goes from there into the journal.

use std::path::Path;
use std::time::UNIX_EPOCH;

use lazaret_gate::ledger::{Change, Switch, SwitchEvent, Switches, Thrown};
use serde::{Deserialize, Serialize};

use crate::error::HostError;
use crate::files;

/// The switches as they stand.
pub(crate) const FILE: &str = "switches.json";

/// Whoever changes them holds this: of two that throw a switch at once, none must be lost.
const LOCK: &str = "switches.lock";

/// Bytes of the file.
const MAX_BYTES: u64 = 256 << 10;

/// Events that the file keeps, until a process that has the data root open has put them on record.
const MAX_EVENTS: usize = 64;

/// The switches, and how they came to stand so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Board {
    pub(crate) switches: Switches,
    /// What happened last, oldest first.
    events: Vec<SwitchEvent>,
    /// The file can't be understood, and so stops everything.
    #[serde(skip)]
    pub(crate) is_damaged: bool,
}

impl Board {
    /// The board of a data root; none if nobody ever touched a switch there.
    pub(crate) fn read(root: &Path) -> Option<Self> {
        match read_file(&root.join(FILE)) {
            Ok(None) => None,
            Ok(Some((bytes, changed))) => Some(
                serde_json::from_slice(&bytes)
                    .unwrap_or_else(|why| Self::stopped(changed, format!("`{FILE}` is damaged: {why}"))),
            ),
            Err(why) => Some(Self::stopped(0, format!("`{FILE}` can't be read: {why}"))),
        }
    }

    /// A file that is there and can't be understood stops everything: somebody meant to.
    fn stopped(at: u64, reason: String) -> Self {
        let mut board = Self { is_damaged: true, ..Self::default() };
        board.switches.throw(Switch::All, Thrown { by: "the host".into(), at, reason });
        board
    }

    fn apply(&mut self, event: &SwitchEvent) {
        self.switches.apply(event);
        self.events.push(event.clone());
        let old = self.events.len().saturating_sub(MAX_EVENTS);
        self.events.drain(..old);
    }

    /// Whether somebody has lifted a switch since then.
    fn is_lifted_since(&self, switch: Switch, at: u64) -> bool {
        let lifted = |event: &SwitchEvent| event.switch == switch && event.change == Change::Lifted && event.at >= at;
        self.events.iter().any(lifted)
    }

    fn write(&self, root: &Path) -> Result<(), HostError> {
        let bytes = serde_json::to_vec_pretty(self).map_err(|why| HostError::Rules(why.to_string()))?;
        files::write(&root.join(FILE), &bytes).map_err(|why| HostError::Unsaved { file: FILE, why })
    }

    /// What happened since the switches stood so, and since `last`. What somebody wrote by hand is told by its effect.
    pub(crate) fn since(&self, was: &Switches, last: Option<&SwitchEvent>) -> Vec<SwitchEvent> {
        let known = last.map_or(Some(0), |last| self.events.iter().rposition(|event| event == last).map(|at| at + 1));
        let mut events = known.map_or_else(Vec::new, |known| self.events[known..].to_vec());
        let mut switches = was.clone();
        events.iter().for_each(|event| switches.apply(event));
        events.extend(differences(&switches, &self.switches));
        events
    }
}

/// The events that lead from one to the other.
fn differences(was: &Switches, is: &Switches) -> Vec<SwitchEvent> {
    let mut events = Vec::new();
    for switch in [Switch::Spend, Switch::All] {
        match (was.thrown(switch), is.thrown(switch)) {
            (before, Some(thrown)) if before != Some(thrown) => {
                events.push(Switches::default().throw(switch, thrown.clone()));
            }
            (Some(_), None) => {
                let at = crate::asking::now().moment.wall_ms;
                events.extend(was.clone().lift(switch, "somebody who changed the file", at, ""));
            }
            _ => {}
        }
    }
    events
}

/// Throws or lifts a switch of a data root, whoever has it open. It is on disk when this returns.
pub fn set_switch(root: &Path, event: &SwitchEvent) -> Result<Switches, HostError> {
    let _alone = alone(root)?;
    let mut board = Board::read(root).unwrap_or_default();
    board.apply(event);
    board.write(root)?;
    Ok(board.switches)
}

/// Has the file say that a switch is thrown, which it could not be made to before; not if somebody has lifted it meanwhile.
pub(crate) fn save_switch(root: &Path, switch: Switch, thrown: &Thrown) -> Result<(), HostError> {
    let _alone = alone(root)?;
    let mut board = Board::read(root).unwrap_or_default();
    if board.switches.thrown(switch).is_some() || board.is_lifted_since(switch, thrown.at) {
        return Ok(());
    }
    board.apply(&Switches::default().throw(switch, thrown.clone()));
    board.write(root)
}

fn alone(root: &Path) -> Result<impl Sized + use<>, HostError> {
    lock_file(&root.join(LOCK)).map_err(|why| HostError::Unsaved { file: LOCK, why })
}

/// The switches of a data root, whoever has it open.
pub fn switches(root: &Path) -> Switches {
    Board::read(root).unwrap_or_default().switches
}

#[expect(clippy::disallowed_types, reason = "the operator's switches lie in the data root")]
pub(crate) fn lock_file(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    file.lock()?;
    Ok(file)
}

/// The file and when it was changed.
fn read_file(path: &Path) -> std::io::Result<Option<(Vec<u8>, u64)>> {
    let Some((bytes, about)) = files::read(path, MAX_BYTES)? else { return Ok(None) };
    let changed = about.modified()?.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    Ok(Some((bytes, changed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(switch: Switch, thrown: bool, by: &str, at: u64) -> SwitchEvent {
        let mut switches = Switches::default();
        let event = switches.throw(switch, Thrown { by: by.into(), at, reason: String::new() });
        if thrown { event } else { switches.lift(switch, by, at, "").unwrap() }
    }

    #[test]
    fn every_event_is_told_once_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let events = [
            event(Switch::All, true, "ana", 1),
            event(Switch::All, false, "ben", 2),
            event(Switch::Spend, true, "cy", 3),
        ];
        assert_eq!(Board::read(dir.path()), None);
        for event in &events {
            set_switch(dir.path(), event).unwrap();
        }
        let board = Board::read(dir.path()).unwrap();
        assert_eq!(board.since(&Switches::default(), None), events);
        let mut after = Switches::default();
        after.apply(&events[0]);
        assert_eq!(board.since(&after, Some(&events[0])), &events[1..]);
        assert!(board.since(&board.switches, Some(&events[2])).is_empty());
        assert_eq!(switches(dir.path()).spend.unwrap().by, "cy");
    }

    #[test]
    fn what_is_written_by_hand_counts_and_what_is_damaged_stops() {
        let dir = tempfile::tempdir().unwrap();
        let thrown = set_switch(dir.path(), &event(Switch::All, true, "ana", 1)).unwrap();
        let last = event(Switch::All, true, "ana", 1);
        let by_hand = Board::default();
        let told = by_hand.since(&thrown, Some(&last));
        assert_eq!(told.len(), 1, "{told:?}");
        files::write(&dir.path().join(FILE), b"{\"switches\":").unwrap();
        let board = Board::read(dir.path()).unwrap();
        let all = board.switches.all.as_ref().unwrap();
        assert!(all.by == "the host" && all.reason.contains("damaged"), "{all:?}");
        assert_eq!(board, Board::read(dir.path()).unwrap(), "it is the same event however often it is read");
        set_switch(dir.path(), &event(Switch::All, false, "ana", 4)).unwrap();
        assert_eq!(switches(dir.path()), Switches::default());
    }

    #[test]
    fn two_at_once_are_both_heard() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for (at, switch) in [Switch::Spend, Switch::All].into_iter().cycle().take(16).enumerate() {
                let root = dir.path();
                scope.spawn(move || set_switch(root, &event(switch, true, "ana", at as u64)).unwrap());
            }
        });
        let board = Board::read(dir.path()).unwrap();
        assert!(board.switches.spend.is_some() && board.switches.all.is_some());
        assert_eq!(board.events.len(), 16);
    }
}
