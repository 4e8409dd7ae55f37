//! An agent's state between turns: heaps that can be mapped, the names of their pages, and its globals.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazaret_gate::canonical::{self, Exact};
use lazaret_gate::image::{Image, Memory, Node, PAGE, PageTree, WASM_PAGE, name_page};
use lazaret_gate::{Blob, Bytes, Digest};
use wasmtime::Store;

use crate::limits::MAX_HELD_PAGES;
use crate::native::file::bytes_of;
use crate::native::heap::{Heap, HeapError, HeapFile, MAX_IDLE_PAGES, Page};
use crate::turn::Guest;

/// What an agent is, ready to be mapped into its next turn.
#[derive(Debug, Default)]
pub struct State {
    pub(crate) heaps: Vec<Arc<HeapFile>>,
    trees: Vec<PageTree>,
    pub(crate) globals: Vec<Vec<u64>>,
}

/// What one turn changed.
#[derive(Debug, Default)]
pub struct Change {
    memories: Vec<MemoryChange>,
    globals: Vec<Vec<u64>>,
}

#[derive(Debug)]
struct MemoryChange {
    /// In 64 KiB pages.
    size: u32,
    pages: Vec<PageChange>,
    /// Pages that the instance has of its own too, and that are as they were; not all of them if they are many.
    same: Vec<(u32, Page)>,
    /// The pages of its own stay mapped for the next turn.
    stays: bool,
}

#[derive(Debug)]
struct PageChange {
    index: u32,
    /// What it was called.
    old: Option<Digest>,
    page: Page,
}

fn name(page: &Page) -> Option<Digest> {
    page.as_ref().map(Blob::digest)
}

/// The pages that one memory of a kept instance has of its own, as the last turn left them. They are the ones that the
/// kernel calls changed; whether the next turn changes them shows by comparing.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pages: BTreeMap<u32, Page>,
    /// In 64 KiB pages.
    size: u32,
    /// Of the last turn: pages that were compared and had not changed.
    idle: usize,
}

impl Held {
    /// How many pages there are.
    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Pages that the last turn did not change.
    pub(crate) fn idle(&self) -> usize {
        self.idle
    }
}

/// An image that can't be woken.
#[derive(Debug, thiserror::Error)]
pub enum Unwakeable {
    /// Part of it can't be had.
    #[error("{0}")]
    Missing(String),
    /// It isn't an image, or its parts don't fit.
    #[error("the image is damaged: {0}")]
    Damaged(String),
    /// The machine has no room for it.
    #[error(transparent)]
    Heap(#[from] HeapError),
}

/// An image's memories and globals, and the blobs that have to be stored for it.
pub struct Sealed {
    /// As the image lists them.
    pub memories: Vec<Memory>,
    /// As the image lists them.
    pub globals: Vec<Vec<Exact>>,
    /// New nodes and pages.
    pub blobs: Vec<Blob>,
}

impl Change {
    /// How many pages differ from what they were.
    pub fn pages(&self) -> usize {
        self.memories.iter().map(|memory| memory.pages.len()).sum()
    }

    /// Lets the pages of these heaps stay mapped. The change is then to be written into their sources, or these dropped.
    pub(crate) fn keep_writes(&mut self, heaps: &[Heap]) {
        for (heap, memory) in heaps.iter().zip(&mut self.memories) {
            let changed = memory.pages.iter().map(|change| (change.index, change.page.clone()));
            let mut own: Vec<_> = changed.chain(memory.same.iter().cloned()).collect();
            own.sort_unstable_by_key(|(index, _)| *index);
            memory.stays = heap.keep_writes(own, memory.pages.len());
        }
    }

    /// Collects what differs from `before`, or everything if there was nothing.
    pub(crate) fn capture(
        store: &Store<Guest>,
        heaps: &[Heap],
        before: &State,
        mut held: Option<&mut [Held]>,
        globals: Vec<Vec<u64>>,
    ) -> Result<Self, HeapError> {
        let mut memories = Vec::with_capacity(heaps.len());
        for (at, heap) in heaps.iter().enumerate() {
            let (mut pages, mut same) = (Vec::new(), Vec::new());
            let mut held = held.as_deref_mut().and_then(|held| held.get_mut(at));
            let mut idle = 0;
            for index in heap.changed_pages(store).pages {
                let now = heap.page(store, index)?;
                if held.as_ref().and_then(|held| held.pages.get(&index)).is_some_and(|page| bytes_of(page) == now) {
                    idle += 1;
                    continue;
                }
                let old = before.trees.get(at).and_then(|tree| tree.get(index));
                // Whoever remembered it may be wrong: that it is called so and has these bytes is proof enough.
                let stayed = heap.stayed(index).filter(|page| name(page) == old && bytes_of(page) == now);
                if let Some(page) = stayed {
                    same.push((index, page.clone()));
                    continue;
                }
                let page = name_page(now);
                if name(&page) != old {
                    pages.push(PageChange { index, old, page });
                } else if let Some(held) = held.as_mut().filter(|held| held.len() < MAX_HELD_PAGES) {
                    held.pages.insert(index, page);
                } else if same.len() <= MAX_IDLE_PAGES {
                    // With one more than that, none stays.
                    same.push((index, page));
                }
            }
            if let Some(held) = held {
                held.idle = idle;
            }
            memories.push(MemoryChange { size: (heap.size() / WASM_PAGE) as u32, pages, same, stays: false });
        }
        Ok(Self { memories, globals })
    }
}

impl State {
    /// Brings the page names up to date with a turn's change. The heaps themselves still hold what was before: when the
    /// change is on disk, call [`State::settle`]; if it never gets there, drop this state and wake the old image anew.
    pub fn advance(&mut self, change: &Change) -> Sealed {
        let mut sealed = self.rename(change);
        let pages = change.memories.iter().flat_map(|memory| &memory.pages);
        sealed.blobs.extend(pages.filter_map(|change| change.page.clone().map(Blob::from)));
        sealed
    }

    /// As [`State::advance`], for a change that isn't stored: the pages are not among the blobs.
    pub(crate) fn rename(&mut self, change: &Change) -> Sealed {
        let mut blobs = Vec::new();
        let mut memories = Vec::with_capacity(change.memories.len());
        self.trees.resize_with(change.memories.len(), PageTree::default);
        for (tree, memory) in self.trees.iter_mut().zip(&change.memories) {
            for change in &memory.pages {
                tree.set(change.index, name(&change.page));
            }
            let (sealed, nodes) = tree.seal(memory.size);
            memories.push(sealed);
            blobs.extend(nodes);
        }
        let globals = change.globals.iter().map(|group| group.iter().copied().map(Exact).collect()).collect();
        Sealed { memories, globals, blobs }
    }

    /// Takes back what [`State::rename`] did with this change.
    pub(crate) fn retreat(&mut self, change: &Change) {
        for (tree, memory) in self.trees.iter_mut().zip(&change.memories) {
            for page in &memory.pages {
                tree.set(page.index, page.old);
            }
        }
    }

    /// Notes a turn's change beside the heaps, which still hold what was when the instance was woken.
    pub(crate) fn hold(&mut self, change: Change, held: &mut Vec<Held>) {
        held.resize_with(change.memories.len(), Held::default);
        for (held, memory) in held.iter_mut().zip(change.memories) {
            held.size = memory.size;
            held.pages.extend(memory.pages.into_iter().map(|change| (change.index, change.page)));
        }
        self.globals = change.globals;
    }

    /// Writes what was noted beside the heaps into them.
    pub(crate) fn release(&mut self, held: Vec<Held>) -> Result<(), HeapError> {
        let page = |(index, page)| PageChange { index, old: None, page };
        let memory = |held: Held| MemoryChange {
            size: held.size,
            same: Vec::new(),
            stays: false,
            pages: held.pages.into_iter().map(page).collect(),
        };
        let globals = std::mem::take(&mut self.globals);
        self.settle(Change { memories: held.into_iter().map(memory).collect(), globals })
    }

    /// Writes a turn's change into the heaps.
    pub fn settle(&mut self, change: Change) -> Result<(), HeapError> {
        for (at, memory) in change.memories.into_iter().enumerate() {
            if at == self.heaps.len() {
                self.heaps.push(Arc::new(HeapFile::new(0)?));
            }
            let heap = &mut self.heaps[at];
            if Arc::get_mut(heap).is_none() {
                *heap = Arc::new(heap.duplicate()?);
            }
            let Some(heap) = Arc::get_mut(heap) else { continue };
            let len = memory.size as usize * WASM_PAGE;
            if heap.len() != len {
                heap.set_len(len)?;
            }
            heap.expect_writes(memory.pages.iter().map(|page| page.index));
            heap.replace(memory.pages.into_iter().map(|change| (change.index, change.page)).collect(), memory.stays)?;
        }
        self.globals = change.globals;
        Ok(())
    }

    /// Takes up an image; `fetch` gives a blob whose digest it has checked.
    pub fn wake(image: &Image, mut fetch: impl FnMut(&Digest) -> Result<Vec<u8>, String>) -> Result<Self, Unwakeable> {
        let mut state = Self::default();
        for memory in &image.memories {
            if !memory.is_well_formed() {
                return Err(Unwakeable::Damaged("a memory's nodes don't fit its size".into()));
            }
            let tree = PageTree::load(memory, |name| {
                let bytes = fetch(name).map_err(Unwakeable::Missing)?;
                Node::decode(&bytes).ok_or_else(|| Unwakeable::Damaged(format!("node {name} is malformed")))
            })?;
            let mut heap = HeapFile::new(memory.size as usize * WASM_PAGE)?;
            for (index, name) in tree.iter() {
                let page = fetch(&name).map_err(Unwakeable::Missing)?;
                let page: &[u8; PAGE] = page.as_slice().try_into().map_err(|_| {
                    Unwakeable::Damaged(format!("page {name} has {} bytes instead of {PAGE}", page.len()))
                })?;
                heap.write_page(index, page)?;
            }
            state.heaps.push(Arc::new(heap));
            state.trees.push(tree);
        }
        state.globals = image.globals.iter().map(|group| group.iter().map(|bits| bits.0).collect()).collect();
        Ok(state)
    }

    /// Bytes of all memories.
    pub fn bytes(&self) -> usize {
        self.heaps.iter().map(|heap| heap.len()).sum()
    }

    /// Reads a part of a memory without running anything; cut at the memory's end.
    pub fn read(&self, memory: usize, start: u64, len: usize) -> Option<Bytes> {
        let heap = self.heaps.get(memory)?;
        let end = start.saturating_add(len as u64).min(heap.len() as u64);
        let mut out = Vec::new();
        let mut at = start;
        while at < end {
            let mut page = [0; PAGE];
            heap.read_page((at / PAGE as u64) as u32, &mut page).ok()?;
            let from = (at % PAGE as u64) as usize;
            let upto = PAGE.min(from + (end - at) as usize);
            out.extend_from_slice(&page[from..upto]);
            at += (upto - from) as u64;
        }
        Some(Bytes(out))
    }
}

/// The first page in which two images differ, as a divergence speaks of it.
pub fn first_difference(
    expected: &Image,
    actual: &Image,
    mut node: impl FnMut(&Digest) -> Option<Node>,
) -> (String, String, String) {
    for (at, (old, new)) in expected.memories.iter().zip(&actual.memories).enumerate() {
        if old.size != new.size {
            let pages = |size: u32| format!("{size} pages of 64 KiB");
            return (format!("image: size of memory {at}"), pages(old.size), pages(new.size));
        }
        for index in 0..old.nodes.len().max(new.nodes.len()) {
            let name = |memory: &Memory| memory.nodes.get(index).copied().flatten();
            let (old, new) = (name(old), name(new));
            if old == new {
                continue;
            }
            let mut load = |name: Option<Digest>| name.map_or(Some(Node::default()), |name| node(&name));
            let (Some(old), Some(new)) = (load(old), load(new)) else { break };
            let differs = old.pages().iter().zip(new.pages()).position(|(old, new)| old != new);
            if let Some(page) = differs {
                let show = |page: Option<Digest>| page.map_or("zeros".to_owned(), |page| page.to_string());
                let place = format!("image: memory {at}, page {}", index * lazaret_gate::image::NODE_PAGES + page);
                return (place, show(old.pages()[page]), show(new.pages()[page]));
            }
        }
    }
    let show =
        |image: &Image| canonical::encode(image).map_or_else(|why| why.to_string(), |b| Digest::of(&b).to_string());
    let place = if expected.globals == actual.globals { "image" } else { "image: globals" };
    (place.to_owned(), show(expected), show(actual))
}
