//! An agent asleep: its memories as a tree of page hashes, and its globals.
//!
//! A page is 4 KiB and is named by its BLAKE3; a page of zeros has no name and takes no room. 256 page names make a
//! node; the image names its nodes. A turn that changes three pages therefore writes three pages, the node or nodes
//! above them and one small image, however large the heap is.

use serde::{Deserialize, Serialize};

use crate::blob::Blob;
use crate::canonical::{Digest, Exact};
use crate::id::AgentId;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Pages under one node.
pub const NODE_PAGES: usize = 256;

/// WebAssembly's own page, in which memories grow.
pub const WASM_PAGE: usize = 65536;

/// What is bound together when an agent sleeps. Its digest is what the journal names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Whose.
    pub agent: AgentId,
    /// Made by this component.
    pub component: Digest,
    /// Under this engine configuration.
    pub engine: Digest,
    /// Every mutable global's bits, by group.
    pub globals: Vec<Vec<Exact>>,
    /// Every linear memory, in the order in which the component makes them.
    pub memories: Vec<Memory>,
    /// After this turn; 0 before the first.
    pub turn: u64,
}

/// One linear memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Node digests; `null` where all 256 pages are zeros. Trailing nulls are not written.
    pub nodes: Vec<Option<Digest>>,
    /// Its size in WebAssembly pages of 64 KiB.
    pub size: u32,
}

impl Memory {
    /// Whether its nodes fit its size and are in the one spelling.
    pub fn is_well_formed(&self) -> bool {
        let most = (self.size as usize * (WASM_PAGE / PAGE)).div_ceil(NODE_PAGES);
        self.size <= 65536 && self.nodes.len() <= most && !matches!(self.nodes.last(), Some(None))
    }
}

/// 256 page names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pages: Vec<Option<Digest>>,
}

impl Default for Node {
    fn default() -> Self {
        Self { pages: vec![None; NODE_PAGES] }
    }
}

impl Node {
    /// The names, `None` for a page of zeros.
    pub fn pages(&self) -> &[Option<Digest>] {
        &self.pages
    }

    /// A bitmap of the pages that aren't zeros (least significant bit first), then their digests in order.
    /// `None` if all are.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let used = self.pages.iter().flatten().count();
        let mut bytes = Vec::with_capacity(NODE_PAGES / 8 + used * size_of::<Digest>());
        bytes.resize(NODE_PAGES / 8, 0);
        for (index, page) in self.pages.iter().enumerate() {
            if let Some(digest) = page {
                bytes[index / 8] |= 1 << (index % 8);
                bytes.extend_from_slice(&digest.0);
            }
        }
        (bytes.len() > NODE_PAGES / 8).then_some(bytes)
    }

    /// Reads what [`Node::encode`] wrote; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (bitmap, mut digests) = bytes.split_at_checked(NODE_PAGES / 8)?;
        let mut node = Self::default();
        for (index, page) in node.pages.iter_mut().enumerate() {
            if bitmap[index / 8] >> (index % 8) & 1 == 1 {
                let (digest, rest) = digests.split_first_chunk::<32>()?;
                *page = Some(Digest(*digest));
                digests = rest;
            }
        }
        (digests.is_empty() && bytes.len() > NODE_PAGES / 8).then_some(node)
    }
}

/// A page with its name: nothing if it is all zeros.
pub fn name_page(page: &[u8; PAGE]) -> Option<Blob<[u8; PAGE]>> {
    // Block by block, so that the processor compares many bytes at once and still stops early.
    let (blocks, _) = page.as_chunks::<64>();
    let zeros = blocks.iter().all(|block| block.iter().fold(0, |all, byte| all | byte) == 0);
    (!zeros).then(|| Blob::of(*page))
}

/// All page names of one memory, updated in place; remembers which nodes are out of date.
#[derive(Clone, Debug, Default)]
pub struct PageTree {
    nodes: Vec<Node>,
    names: Vec<Option<Digest>>,
    stale: Vec<usize>,
}

impl PageTree {
    /// Takes up a memory as an image describes it; `node` finds a node's bytes by digest.
    pub fn load<E>(memory: &Memory, mut node: impl FnMut(&Digest) -> Result<Node, E>) -> Result<Self, E> {
        let nodes = memory.nodes.iter().map(|name| name.as_ref().map_or(Ok(Node::default()), &mut node));
        Ok(Self { nodes: nodes.collect::<Result<_, E>>()?, names: memory.nodes.clone(), stale: Vec::new() })
    }

    /// The name of a page.
    pub fn get(&self, index: u32) -> Option<Digest> {
        self.nodes.get(index as usize / NODE_PAGES).and_then(|node| node.pages[index as usize % NODE_PAGES])
    }

    /// Every page that isn't zeros.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Digest)> {
        let pages = self.nodes.iter().flat_map(|node| node.pages.iter());
        pages.enumerate().filter_map(|(index, page)| page.map(|page| (index as u32, page)))
    }

    /// Gives a page another name.
    pub fn set(&mut self, index: u32, page: Option<Digest>) {
        let at = index as usize / NODE_PAGES;
        if at >= self.nodes.len() {
            if page.is_none() {
                return;
            }
            self.nodes.resize(at + 1, Node::default());
            self.names.resize(at + 1, None);
        }
        let place = &mut self.nodes[at].pages[index as usize % NODE_PAGES];
        if *place != page {
            *place = page;
            if self.stale.last() != Some(&at) {
                self.stale.push(at);
            }
        }
    }

    /// Renames the nodes that changed. Returns the memory as an image describes it, and the new nodes.
    pub fn seal(&mut self, size: u32) -> (Memory, Vec<Blob>) {
        let mut fresh = Vec::new();
        let mut stale = std::mem::take(&mut self.stale);
        stale.sort_unstable();
        stale.dedup();
        for at in stale {
            let node = self.nodes[at].encode().map(Blob::of);
            self.names[at] = node.as_ref().map(Blob::digest);
            fresh.extend(node);
        }
        let used = self.names.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        (Memory { size, nodes: self.names[..used].to_vec() }, fresh)
    }
}
