//! Rulebooks that were read a moment ago. Whoever verifies many records meets the same few again and again, and reading one
//! takes longer than replaying a turn by it.

use std::sync::{Arc, Mutex};

use lazaret_gate::policy::Problem;
use lazaret_gate::{Digest, Rulebook};

use crate::host::lock;

/// How many are kept.
const KEPT: usize = 4;

/// The last one used stands last.
static RECENT: Mutex<Vec<Arc<Rulebook>>> = Mutex::new(Vec::new());

/// Reads the files of a rulebook, as they are kept by digest.
pub(crate) fn read(bytes: &[u8]) -> Result<Arc<Rulebook>, Vec<Problem>> {
    let digest = Digest::of(bytes);
    let recent = || {
        let mut recent = lock(&RECENT);
        let at = recent.iter().position(|book| book.digest() == digest)?;
        let book = recent.remove(at);
        recent.push(book.clone());
        Some(book)
    };
    match recent() {
        Some(book) => Ok(book),
        None => Rulebook::read(bytes).map(Arc::new).inspect(keep),
    }
}

fn keep(book: &Arc<Rulebook>) {
    let mut recent = lock(&RECENT);
    recent.retain(|other| other.digest() != book.digest());
    recent.push(book.clone());
    let old = recent.len().saturating_sub(KEPT);
    recent.drain(..old);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn book(rule: &str) -> Rulebook {
        let text = format!("@id(\"{rule}\") permit (principal, action, resource);");
        Rulebook::load(BTreeMap::from([("rules.cedar".to_owned(), text)])).unwrap()
    }

    #[test]
    fn what_is_kept_is_what_was_asked_for() {
        let books: Vec<Rulebook> = ["a", "b", "c", "d", "e", "f"].map(book).into();
        for _ in 0..2 {
            for book in &books {
                assert_eq!(read(book.bytes()).unwrap().digest(), book.digest());
            }
        }
        let (first, again) = (read(books[0].bytes()).unwrap(), read(books[0].bytes()).unwrap());
        assert!(Arc::ptr_eq(&first, &again));
        assert!(lock(&RECENT).len() <= KEPT);
        assert!(read(b"{}").is_err());
    }
}
