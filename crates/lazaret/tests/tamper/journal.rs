//! Tampering with the journal's tables.

use std::path::Path;

use lazaret_gate::entry::Entry;
use lazaret_gate::merkle::{self, Frontier};
use lazaret_gate::record::Body;
use lazaret_gate::{Digest, canonical};
use lazaret_store::Store;
use rusqlite::types::Value;

use crate::Fate;
use crate::rows::{CHECKPOINTS, Copy, HEAD, JOURNAL, Row, Table};
use crate::station::Dice;
use crate::world::{World, blob, whole};

/// The tables that make up a journal.
#[derive(Clone)]
struct Tables {
    journal: Table,
    head: Table,
    checkpoints: Table,
}

pub(crate) struct Vandal<'a> {
    world: &'a World,
    copy: Copy,
    original: Tables,
}

/// Everything that a reader of a data root can recompute.
pub(crate) fn check(root: &Path) -> Result<(), &'static str> {
    let reader = Store::open_read_only(root).map_err(|_| "opening the data root")?;
    reader.verify_journal(|_| ()).map_err(|_| "verifying the journal")?;
    reader.verify_state().map_err(|_| "verifying the rest of the data root")
}

/// The digest of a row as the store makes it: anybody can, it finds damage and not lies.
pub(crate) fn seal(table: &str, columns: &[&[u8]]) -> Value {
    let mut bytes = Vec::new();
    for part in std::iter::once(&table.as_bytes()).chain(columns) {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    Value::Blob(Digest::of(&bytes).0.to_vec())
}

fn seal_head(row: &mut Row) {
    let number = |at: usize| whole(&row[at]).to_le_bytes();
    let Value::Text(note) = &row[4] else { panic!("a note is text") };
    let columns: [&[u8]; 9] = [
        &number(1),
        blob(&row[2]),
        blob(&row[3]),
        note.as_bytes(),
        &number(5),
        &number(6),
        &number(7),
        &number(8),
        blob(&row[9]),
    ];
    row[10] = seal("head", &columns);
}

impl<'a> Vandal<'a> {
    pub(crate) fn new(world: &'a World, at: &Path) -> Self {
        let original =
            Tables { journal: world.table(&JOURNAL), head: world.table(&HEAD), checkpoints: world.table(&CHECKPOINTS) };
        let copy = Copy::new(&world.still, at);
        check(&copy.root).expect("nothing is wrong before");
        Self { world, copy, original }
    }

    pub(crate) fn tamper(&mut self, dice: &mut Dice) -> Fate {
        let mut tables = self.original.clone();
        let how = match dice.below(20) {
            0..11 => tables.journal.damage(dice),
            11..13 => tables.head.damage(dice),
            13..15 => tables.checkpoints.damage(dice),
            15 => tables.close_up(dice),
            16 => tables.repeat(dice),
            17 => tables.turn_back(&self.world.heads, dice),
            18 => tables.rewrite(dice),
            _ => tables.append(dice),
        };
        let before = &self.original;
        let parts = [
            (&tables.journal, &before.journal),
            (&tables.head, &before.head),
            (&tables.checkpoints, &before.checkpoints),
        ];
        if parts.iter().all(|(now, before)| now.rows == before.rows) {
            return Fate::Nothing;
        }
        let path = self.copy.fresh();
        if !parts.iter().all(|(now, before)| now.write(&path, before)) {
            return Fate::Nothing;
        }
        match check(&self.copy.root) {
            Err(by) => Fate::Found(by),
            Ok(()) => Fate::Unseen(how.to_owned()),
        }
    }
}

impl Tables {
    fn renumber(&mut self) {
        for (seq, row) in self.journal.rows.iter_mut().enumerate() {
            row[0] = Value::Integer(seq as i64);
        }
    }

    fn close_up(&mut self, dice: &mut Dice) -> &'static str {
        let at = dice.below(self.journal.rows.len());
        self.journal.rows.remove(at);
        self.renumber();
        "an entry removed and the rest moved up"
    }

    fn repeat(&mut self, dice: &mut Dice) -> &'static str {
        let row = self.journal.rows[dice.below(self.journal.rows.len())].clone();
        self.journal.rows.insert(dice.below(self.journal.rows.len() + 1), row);
        self.renumber();
        "an entry repeated and the rest moved down"
    }

    /// Cuts the tail off and says so with a signature that was good once.
    fn turn_back(&mut self, heads: &[Row], dice: &mut Dice) -> &'static str {
        let head = heads[dice.below(heads.len())].clone();
        let size = whole(&head[1]);
        self.journal.rows.truncate(size as usize);
        if dice.below(2) == 0 {
            self.checkpoints.rows.retain(|row| whole(&row[0]) <= size);
        }
        self.head.rows[0] = head;
        "the tail cut off and an older head put back"
    }

    /// Changes an entry and then everything that follows from it but the signature.
    fn rewrite(&mut self, dice: &mut Dice) -> &'static str {
        let at = dice.below(self.journal.rows.len());
        let mut entries: Vec<Entry> =
            self.journal.rows.iter().map(|row| Entry::read(blob(&row[6])).expect("an entry")).collect();
        match &mut entries[at].body {
            Body::Turn(turn) if dice.below(2) == 0 => turn.fuel += 1,
            Body::Turn(turn) if !turn.tape.is_empty() => drop(turn.tape.pop()),
            _ => entries[at].time += 1,
        }
        self.follow(&entries, at);
        "an entry rewritten, with all that follows but the signature"
    }

    fn append(&mut self, dice: &mut Dice) -> &'static str {
        let mut entries: Vec<Entry> =
            self.journal.rows.iter().map(|row| Entry::read(blob(&row[6])).expect("an entry")).collect();
        let from = entries.len();
        let mut more = entries[dice.below(from)].clone();
        more.seq = from as u64;
        entries.push(more);
        let copy = self.journal.rows[dice.below(from)].clone();
        self.journal.rows.push(copy);
        self.follow(&entries, from);
        "an entry added, with all that follows but the signature"
    }

    /// Writes these entries from one on, chained anew, and a head that fits them.
    fn follow(&mut self, entries: &[Entry], from: usize) {
        let mut frontier = Frontier::default();
        let mut prev = None;
        for (seq, entry) in entries.iter().enumerate() {
            let mut entry = entry.clone();
            entry.prev = prev.unwrap_or(entry.prev);
            let bytes = canonical::encode(&entry).expect("an entry");
            let (hash, leaf) = (Digest::of(&bytes), merkle::leaf(&bytes));
            if seq >= from {
                let agent = entry.body.agent().map_or(Value::Null, |agent| Value::Text(agent.to_string()));
                let turn = match &entry.body {
                    Body::Turn(turn) => Value::Integer(turn.turn as i64),
                    _ => Value::Null,
                };
                let kind = Value::Text(entry.body.kind().to_owned());
                let [hash, leaf] = [hash.0.to_vec(), leaf.to_vec()].map(Value::Blob);
                self.journal.rows[seq] =
                    vec![Value::Integer(seq as i64), kind, agent, turn, hash, leaf, Value::Blob(bytes)];
            }
            frontier.push(leaf);
            prev = Some(hash);
        }
        let head = &mut self.head.rows[0];
        head[1] = Value::Integer(entries.len() as i64);
        head[2] = Value::Blob(frontier.peaks().concat());
        head[3] = Value::Blob(prev.map_or_else(Vec::new, |hash| hash.0.to_vec()));
        seal_head(head);
    }
}
