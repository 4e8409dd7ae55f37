//! Tables as lists of rows, changed at will and put into a copy of the data root behind the journal's back.

use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::station::Dice;

pub(crate) type Row = Vec<Value>;

/// A table, and how many of its first columns name a row.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static str,
}

/// The first column is the key of each.
pub(crate) const JOURNAL: Shape = Shape { name: "journal", columns: "seq, kind, agent, turn, hash, leaf, bytes" };
pub(crate) const HEAD: Shape = Shape {
    name: "head",
    columns: "id, size, peaks, hash, note, agents, checkpoints, messages, applied, mark, digest",
};
pub(crate) const CHECKPOINTS: Shape = Shape { name: "checkpoints", columns: "size, note" };
pub(crate) const AGENTS: Shape = Shape { name: "agents", columns: "agent, row, digest" };
/// Not its `id`: where a blob lies in the table says nothing about it.
pub(crate) const BLOBS: Shape = Shape { name: "blobs", columns: "digest, size, packed, bytes" };

#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) shape: &'static Shape,
    pub(crate) rows: Vec<Row>,
}

fn open(path: &Path) -> Connection {
    Connection::open(path).expect("the database can be opened")
}

impl Table {
    pub(crate) fn read(path: &Path, shape: &'static Shape) -> Self {
        let conn = open(path);
        let key = shape.columns.split(',').next().unwrap_or_default();
        let mut query =
            conn.prepare(&format!("SELECT {} FROM {} ORDER BY {key}", shape.columns, shape.name)).expect("SQL");
        let width = query.column_count();
        let rows = query.query_map([], |row| (0..width).map(|at| row.get(at)).collect()).expect("rows");
        let rows = rows.collect::<Result<_, _>>().expect("a row");
        Self { shape, rows }
    }

    /// Changes one thing about it, whatever it is, and says what.
    pub(crate) fn damage(&mut self, dice: &mut Dice) -> &'static str {
        let (one, two) = (dice.below(self.rows.len()), dice.below(self.rows.len()));
        let width = self.rows[0].len();
        let (column, value) = (dice.below(width), dice.below(width - 1) + 1);
        match dice.below(12) {
            0..4 => {
                flip(&mut self.rows[one][column], dice);
                "a bit flipped"
            }
            4 => {
                cut(&mut self.rows[one][value], dice);
                "a value cut"
            }
            5 => {
                let from = self.rows[two][value].clone();
                splice(&mut self.rows[one][value], &from, dice);
                "a value spliced"
            }
            6 => {
                let from = self.rows[two][value].clone();
                self.rows[one][value] = from;
                "a value from another row"
            }
            7 => {
                let (left, right) = (self.rows[one][value].clone(), self.rows[two][value].clone());
                (self.rows[one][value], self.rows[two][value]) = (right, left);
                "a value swapped"
            }
            8 => {
                self.swap_contents(one, two);
                "two rows swapped"
            }
            9 => {
                self.rows.remove(one);
                "a row removed"
            }
            10 => {
                let content = self.rows[two][1..].to_vec();
                self.rows[one].splice(1.., content);
                "a row over another"
            }
            _ => {
                let (first, last) = (one.min(two), one.max(two));
                (first..last).for_each(|at| self.swap_contents(at, at + 1));
                "rows moved"
            }
        }
    }

    fn swap_contents(&mut self, one: usize, two: usize) {
        for column in 1..self.rows[one].len() {
            let left = self.rows[one][column].clone();
            self.rows[one][column] = self.rows[two][column].clone();
            self.rows[two][column] = left;
        }
    }

    /// Writes what differs from `before` into a database. False if the database can't hold such rows at all.
    pub(crate) fn write(&self, path: &Path, before: &Self) -> bool {
        let conn = open(path);
        let quiet =
            conn.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF");
        quiet.expect("settings");
        // Somebody who rewrites history doesn't ask the triggers.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).expect("a setting");
        let key = self.shape.columns.split(',').next().unwrap_or_default();
        let marks = vec!["?"; self.rows.first().map_or(1, Vec::len)].join(", ");
        let name = self.shape.name;
        let made = (|| {
            conn.execute_batch("BEGIN")?;
            for gone in before.rows.iter().filter(|row| !self.rows.contains(row)) {
                conn.execute(&format!("DELETE FROM {name} WHERE {key} = ?"), [&gone[0]])?;
            }
            for new in self.rows.iter().filter(|row| !before.rows.contains(row)) {
                let insert = format!("INSERT INTO {name} ({}) VALUES ({marks})", self.shape.columns);
                conn.execute(&insert, params_from_iter(new))?;
            }
            conn.execute_batch("COMMIT")
        })();
        made.is_ok()
    }
}

/// A copy of a data root that is made anew for each tampering.
pub(crate) struct Copy {
    pub(crate) root: PathBuf,
    original: Vec<u8>,
}

impl Copy {
    pub(crate) fn new(root: &Path, to: &Path) -> Self {
        crate::station::copy_dir(root, to);
        Self { root: to.to_owned(), original: std::fs::read(root.join("lazaret.db")).expect("the database") }
    }

    /// The database as it was.
    pub(crate) fn fresh(&self) -> PathBuf {
        let path = self.root.join("lazaret.db");
        for beside in ["lazaret.db-wal", "lazaret.db-shm"] {
            let _ = std::fs::remove_file(self.root.join(beside));
        }
        std::fs::write(&path, &self.original).expect("the copy");
        path
    }
}

fn flip(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Blob(bytes) if !bytes.is_empty() => {
            let at = dice.below(bytes.len());
            bytes[at] ^= 1 << dice.below(8);
        }
        Value::Text(text) if !text.is_empty() => {
            let mut bytes = std::mem::take(text).into_bytes();
            let at = dice.below(bytes.len());
            bytes[at] ^= 1 << dice.below(7);
            *text = String::from_utf8_lossy(&bytes).into_owned();
        }
        Value::Integer(number) => *number ^= 1 << dice.below(10),
        Value::Null => *value = Value::Integer(dice.below(10) as i64),
        _ => {}
    }
}

fn cut(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Blob(bytes) => bytes.truncate(dice.below(bytes.len() + 1)),
        Value::Text(text) => *text = text.chars().take(dice.below(text.len() + 1)).collect(),
        Value::Integer(number) => *number /= 2,
        _ => {}
    }
}

/// Part of one value over part of another.
fn splice(value: &mut Value, from: &Value, dice: &mut Dice) {
    if let (Value::Blob(bytes), Value::Blob(from)) = (value, from) {
        if bytes.is_empty() || from.is_empty() {
            return;
        }
        let (at, start) = (dice.below(bytes.len()), dice.below(from.len()));
        let len = (1 + dice.below(64)).min(bytes.len() - at).min(from.len() - start);
        bytes[at..at + len].copy_from_slice(&from[start..start + len]);
    }
}
