//! An agent's state between turns: heaps that can be mapped, the names of their pages, and its globals.

use std::sync::Arc;

use lazaret_gate::canonical::{self, Exact};
use lazaret_gate::image::{Image, Memory, Node, PAGE, PageTree, WASM_PAGE, name_page};
use lazaret_gate::{Bytes, Digest};
use wasmtime::Store;

use crate::native::heap::{Heap, HeapError, HeapFile};
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
}

#[derive(Debug)]
struct PageChange {
    index: u32,
    name: Option<Digest>,
    bytes: Box<[u8; PAGE]>,
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
    /// New nodes and pages by digest.
    pub blobs: Vec<(Digest, Vec<u8>)>,
}

impl Change {
    /// How many pages differ from what they were.
    pub fn pages(&self) -> usize {
        self.memories.iter().map(|memory| memory.pages.len()).sum()
    }

    /// Collects what differs from `before`, or everything if there was nothing.
    pub(crate) fn capture(
        store: &Store<Guest>,
        heaps: &[Heap],
        before: &State,
        globals: Vec<Vec<u64>>,
    ) -> Result<Self, HeapError> {
        let mut memories = Vec::with_capacity(heaps.len());
        for (at, heap) in heaps.iter().enumerate() {
            let mut pages = Vec::new();
            for index in heap.changed_pages(store).pages {
                let bytes = heap.page(store, index)?;
                let name = name_page(bytes);
                if name != before.trees.get(at).and_then(|tree| tree.get(index)) {
                    pages.push(PageChange { index, name, bytes: Box::new(*bytes) });
                }
            }
            memories.push(MemoryChange { size: (heap.size() / WASM_PAGE) as u32, pages });
        }
        Ok(Self { memories, globals })
    }
}

impl State {
    /// Brings the page names up to date with a turn's change. The heaps themselves still hold what was before: when the
    /// change is on disk, call [`State::settle`]; if it never gets there, drop this state and wake the old image anew.
    pub fn advance(&mut self, change: &Change) -> Sealed {
        let mut blobs = Vec::new();
        let mut memories = Vec::with_capacity(change.memories.len());
        self.trees.resize_with(change.memories.len(), PageTree::default);
        for (tree, memory) in self.trees.iter_mut().zip(&change.memories) {
            for page in &memory.pages {
                tree.set(page.index, page.name);
                blobs.extend(page.name.map(|name| (name, page.bytes.to_vec())));
            }
            let (sealed, nodes) = tree.seal(memory.size);
            memories.push(sealed);
            blobs.extend(nodes);
        }
        let globals = change.globals.iter().map(|group| group.iter().copied().map(Exact).collect()).collect();
        Sealed { memories, globals, blobs }
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
            for page in memory.pages {
                heap.write_page(page.index, &page.bytes)?;
            }
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
