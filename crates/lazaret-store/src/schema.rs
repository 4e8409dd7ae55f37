//! The database's format: a number, and the steps that lead to it.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::error::StoreError;

/// "LZRT": tells a Lazaret database from any other SQLite file.
const APPLICATION: i64 = 0x4c5a_5254;

/// Step `n` turns format `n` into format `n + 1`. A step that was released is never edited.
const STEPS: &[&str] = &[
    include_str!("../schema/001.sql"),
    include_str!("../schema/002.sql"),
    include_str!("../schema/003.sql"),
    include_str!("../schema/004.sql"),
    include_str!("../schema/005.sql"),
];

/// The format that this release reads and writes.
pub(crate) fn known() -> i64 {
    STEPS.len() as i64
}

/// Brings a database up to date; an empty one becomes ours.
pub(crate) fn migrate(conn: &mut Connection, path: &Path) -> Result<(), StoreError> {
    migrate_by(conn, path, STEPS)
}

fn migrate_by(conn: &mut Connection, path: &Path, steps: &[&str]) -> Result<(), StoreError> {
    let known = steps.len() as i64;
    let found = identify(conn, path, known)?;
    for (from, step) in steps.iter().enumerate().skip(usize::try_from(found).unwrap_or_default()) {
        let step_tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        step_tx.execute_batch(step)?;
        step_tx.pragma_update(None, "application_id", APPLICATION)?;
        step_tx.pragma_update(None, "user_version", from as i64 + 1)?;
        step_tx.commit()?;
    }
    same_schema(conn, steps)
}

/// Insists that a database is ours and of this very format.
pub(crate) fn insist(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let found = identify(conn, path, known())?;
    if found == 0 {
        return Err(StoreError::NoStore { path: path.parent().unwrap_or(path).to_owned() });
    }
    if found < known() {
        return Err(StoreError::Older { found, known: known() });
    }
    same_schema(conn, STEPS)
}

/// The format found: 0 for an empty file.
fn identify(conn: &Connection, path: &Path, known: i64) -> Result<i64, StoreError> {
    let not_ours = |why: String| StoreError::NotOurs { path: path.to_owned(), why };
    let number = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = number("application_id").map_err(|why| match why.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => not_ours("it is not an SQLite file".into()),
        _ => why.into(),
    })?;
    let found = number("user_version")?;
    let objects: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (application, found, objects) {
        (0, 0, 0) => Ok(0),
        (APPLICATION, found, _) if found > known => Err(StoreError::Newer { found, known }),
        (APPLICATION, found, _) if found > 0 => Ok(found),
        (APPLICATION, found, _) => Err(not_ours(format!("it says it has format {found}"))),
        (other, _, _) => Err(not_ours(format!("its application id is {other:#x}, not {APPLICATION:#x}"))),
    }
}

/// Insists that tables, indexes and triggers are the ones this release would make: without its triggers a journal isn't
/// append-only, and without an index a lookup could miss what is there.
fn same_schema(conn: &Connection, steps: &[&str]) -> Result<(), StoreError> {
    let fresh = Connection::open_in_memory()?;
    steps.iter().try_for_each(|step| fresh.execute_batch(step))?;
    if objects(conn)? == objects(&fresh)? { Ok(()) } else { Err(StoreError::damaged("the database's schema")) }
}

type Object = (String, String, String, Option<String>);

fn objects(conn: &Connection) -> Result<Vec<Object>, StoreError> {
    let mut query = conn.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: &str = "CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT; INSERT INTO later VALUES (7);";

    fn version(conn: &Connection) -> i64 {
        conn.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a number")
    }

    #[test]
    fn an_empty_file_becomes_the_latest_format_and_that_the_next() {
        let path = Path::new("x");
        let mut conn = Connection::open_in_memory().expect("memory");
        migrate(&mut conn, path).expect("0 to the latest");
        assert_eq!(version(&conn), known());
        conn.execute("INSERT INTO agents VALUES ('a', x'00', x'00')", []).expect("a row");
        let steps = [STEPS, &[NEXT]].concat();
        let later = known() + 1;
        migrate_by(&mut conn, path, &steps).expect("one more");
        assert_eq!(version(&conn), later);
        let kept: i64 = conn.query_row("SELECT count(*) FROM agents", [], |row| row.get(0)).expect("a count");
        assert_eq!(kept, 1, "a step keeps what is there");
        migrate_by(&mut conn, path, &steps).expect("nothing to do");
        assert_eq!(migrate(&mut conn, path), Err(StoreError::Newer { found: later, known: known() }));
    }

    /// Blobs of every earlier format are where they were, and each is found by the index.
    #[test]
    fn blobs_are_found_after_every_step() {
        for before in 1..STEPS.len() {
            let mut conn = Connection::open_in_memory().expect("memory");
            migrate_by(&mut conn, Path::new("x"), &STEPS[..before]).expect("an earlier format");
            let names: Vec<lazaret_gate::Digest> = (0..50_u8).map(|byte| lazaret_gate::Digest::of(&[byte])).collect();
            for (place, name) in names.iter().enumerate() {
                let row = rusqlite::params![place as i64 * 3, name.0, [place as u8]];
                conn.execute("INSERT INTO blobs VALUES (?1, ?2, 1, 0, ?3)", row).expect("a row");
            }
            migrate(&mut conn, Path::new("x")).expect("up to date");
            let found = crate::blobs::get(&conn, &names).expect("all of them");
            assert_eq!(found, (0..50_u8).map(|byte| vec![byte]).collect::<Vec<_>>(), "from format {before}");
            let places: i64 = conn.query_row("SELECT sum(id) FROM blobs", [], |row| row.get(0)).expect("a sum");
            assert_eq!(places, (0..50).map(|place| place * 3).sum::<i64>());
            let plan = format!("EXPLAIN QUERY PLAN {}", crate::blobs::HAS);
            let plan: String = conn.query_row(&plan, [names[0].0], |row| row.get(3)).expect("a plan");
            assert!(plan.contains("USING INDEX blobs_beginning"), "{plan}");
        }
    }

    #[test]
    fn a_step_that_fails_leaves_the_format_before_it() {
        let path = Path::new("x");
        let mut conn = Connection::open_in_memory().expect("memory");
        let fails = "CREATE TABLE later (id INTEGER) STRICT; INSERT INTO nowhere VALUES (1);";
        assert!(migrate_by(&mut conn, path, &[STEPS, &[fails]].concat()).is_err());
        assert_eq!(version(&conn), known());
        migrate(&mut conn, path).expect("still whole, and the format before it");
    }

    #[test]
    fn a_dropped_trigger_is_seen() {
        let path = Path::new("x");
        let mut conn = Connection::open_in_memory().expect("memory");
        migrate(&mut conn, path).expect("0 to 1");
        conn.execute("DROP TRIGGER journal_no_update", []).expect("dropped");
        assert_eq!(migrate(&mut conn, path), Err(StoreError::damaged("the database's schema")));
    }
}
