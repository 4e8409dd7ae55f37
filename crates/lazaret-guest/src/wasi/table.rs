//! What a guest holds by handle. Entries refer to each other by keys that outlive nothing: a key whose entry is gone
//! finds nothing, whatever was put in its place, so a guest may drop parents and children in any order.

use std::any::Any;
use std::marker::PhantomData;

use wasmtime::component::Resource;

use crate::limits::{MAX_HANDLES, MAX_HELD};

/// Something behind a handle.
pub(crate) trait Kept: Any + Send {
    /// Bytes that the guest makes the host keep with it.
    fn weight(&self) -> usize {
        0
    }
}

/// What a guest can do wrong with handles.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum BadHandle {
    #[error("the guest used a handle of something that it no longer has")]
    Gone,
    #[error("the guest holds more than {MAX_HANDLES} handles at once")]
    TooMany,
    #[error("the guest makes the host keep more than {MAX_HELD} bytes for it")]
    TooHeavy,
}

/// Finds an entry as long as it is there.
pub(super) struct Key<T> {
    slot: u32,
    birth: u64,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

struct Entry {
    birth: u64,
    thing: Box<dyn Kept>,
}

/// All that a guest holds.
#[derive(Default)]
pub(super) struct Table {
    slots: Vec<Option<Entry>>,
    free: Vec<u32>,
    births: u64,
    held: usize,
}

impl Table {
    /// Puts something in.
    pub(super) fn push<T: Kept>(&mut self, thing: T) -> Result<Resource<T>, BadHandle> {
        if self.slots.len() - self.free.len() >= MAX_HANDLES {
            return Err(BadHandle::TooMany);
        }
        self.hold(0, thing.weight())?;
        self.births += 1;
        let entry = Some(Entry { birth: self.births, thing: Box::new(thing) });
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            }
        };
        self.slots[slot as usize] = entry;
        Ok(Resource::new_own(slot))
    }

    fn hold(&mut self, before: usize, after: usize) -> Result<(), BadHandle> {
        self.held = self.held.saturating_sub(before).saturating_add(after);
        if self.held <= MAX_HELD { Ok(()) } else { Err(BadHandle::TooHeavy) }
    }

    fn entry(&self, slot: u32) -> Result<&Entry, BadHandle> {
        self.slots.get(slot as usize).and_then(Option::as_ref).ok_or(BadHandle::Gone)
    }

    /// Looks at something.
    pub(super) fn get<T: Kept>(&self, resource: &Resource<T>) -> Result<&T, BadHandle> {
        let thing: &dyn Any = &*self.entry(resource.rep())?.thing;
        thing.downcast_ref().ok_or(BadHandle::Gone)
    }

    /// Changes something, and weighs it anew.
    pub(super) fn change<T: Kept, R>(
        &mut self,
        resource: &Resource<T>,
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, BadHandle> {
        let entry = self.slots.get_mut(resource.rep() as usize).and_then(Option::as_mut).ok_or(BadHandle::Gone)?;
        let thing: &mut dyn Any = &mut *entry.thing;
        let thing: &mut T = thing.downcast_mut().ok_or(BadHandle::Gone)?;
        let before = thing.weight();
        let result = change(thing);
        let after = thing.weight();
        self.hold(before, after)?;
        Ok(result)
    }

    /// Takes something out.
    pub(super) fn take<T: Kept>(&mut self, resource: Resource<T>) -> Result<T, BadHandle> {
        self.get(&resource)?;
        let entry = self.slots[resource.rep() as usize].take().ok_or(BadHandle::Gone)?;
        self.free.push(resource.rep());
        let thing: Box<dyn Any> = entry.thing;
        let thing: Box<T> = thing.downcast().map_err(|_| BadHandle::Gone)?;
        self.hold(thing.weight(), 0)?;
        Ok(*thing)
    }

    /// A key to something.
    pub(super) fn key<T: Kept>(&self, resource: &Resource<T>) -> Result<Key<T>, BadHandle> {
        self.get(resource)?;
        Ok(Key { slot: resource.rep(), birth: self.entry(resource.rep())?.birth, kind: PhantomData })
    }

    /// What a key finds, if it is still there.
    pub(super) fn find<T: Kept>(&self, key: Key<T>) -> Option<Resource<T>> {
        let entry = self.entry(key.slot).ok()?;
        (entry.birth == key.birth).then(|| Resource::new_borrow(key.slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Weight(usize);

    impl Kept for Weight {
        fn weight(&self) -> usize {
            self.0
        }
    }

    struct Other;

    impl Kept for Other {}

    #[test]
    fn a_key_never_finds_a_successor() {
        let mut table = Table::default();
        let first = table.push(Weight(1)).unwrap();
        let key = table.key(&first).unwrap();
        table.take(first).unwrap();
        let second = table.push(Weight(2)).unwrap();
        assert_eq!(second.rep(), 0, "the slot is used again");
        assert!(table.find(key).is_none());
    }

    #[test]
    fn another_kind_in_the_slot_is_gone() {
        let mut table = Table::default();
        let other = table.push(Other).unwrap();
        let forged = Resource::<Weight>::new_own(other.rep());
        assert_eq!(table.get(&forged).err(), Some(BadHandle::Gone));
        assert_eq!(table.take(forged).err(), Some(BadHandle::Gone));
        assert!(table.take(other).is_ok(), "a failed take takes nothing");
    }

    #[test]
    fn handles_and_bytes_are_capped() {
        let mut table = Table::default();
        for _ in 0..MAX_HANDLES {
            table.push(Other).unwrap();
        }
        assert_eq!(table.push(Other).err(), Some(BadHandle::TooMany));

        let mut table = Table::default();
        let heavy = table.push(Weight(MAX_HELD)).unwrap();
        table.take(heavy).unwrap();
        let grows = table.push(Weight(0)).unwrap();
        assert!(table.change(&grows, |weight| weight.0 = MAX_HELD).is_ok(), "what was taken weighs nothing");
        assert_eq!(table.change(&grows, |weight| weight.0 += 1).err(), Some(BadHandle::TooHeavy));
    }
}
