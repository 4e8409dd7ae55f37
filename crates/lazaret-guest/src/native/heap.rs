//! Linear memories that the host owns, so that an agent's heap can sleep and wake.
//!
//! Waking maps the sleeping heap copy-on-write: the cost doesn't depend on its size. Going to sleep asks the kernel
//! which pages got a copy of their own: these are the ones the turn wrote to, and nothing else has to be read.
//!
//! ```text
//! HeapFile --with_heaps--> wasmtime memory + Heap --changed_pages, page--> pages --write_page--> HeapFile
//! ```

pub use super::file::HeapFile;
use super::pagemap::Pagemap;
use super::region::{Plan, Region};
use lazaret_gate::Blob;
use rustix::io::Errno;
use std::cell::RefCell;
use std::sync::Arc;
use wasmtime::{
    AsContext, Config, Global, GlobalType, LinearMemory, MemoryCreator, MemoryType, Mutability, Store, StoreContext,
    Val, ValType,
};

/// The unit in which changes are tracked, stored and hashed.
pub const PAGE: usize = 4096;

/// A page's bytes with their name; none if they are all zeros.
pub type Page = Option<Blob<[u8; PAGE]>>;

/// The unit in which guests grow their memory.
pub const WASM_PAGE: usize = 64 * 1024;

/// The largest heap: all that a 32-bit guest can address.
pub const MAX_HEAP_BYTES: usize = 1 << 32;

/// The most memories one `with_heaps` may create. Real components have one per language runtime inside; each costs
/// four mappings out of a process-wide 65,530.
pub const MAX_MEMORIES: usize = 32;

/// Pages that may stay mapped after a turn though it did not change them: each is looked at again after the next one.
pub const MAX_IDLE_PAGES: usize = 8;

/// Pages that are copied before anybody asks, or stay mapped from turn to turn. More than that a guest seldom writes again,
/// all of them.
pub const MAX_HOT_PAGES: usize = 64;

/// What can go wrong with a heap.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// A heap's length isn't one that a guest's memory can have.
    #[error("a heap cannot be {len} bytes long: it must be a multiple of {WASM_PAGE} and at most {MAX_HEAP_BYTES}")]
    Length {
        /// What was asked for.
        len: usize,
    },
    /// A page number past the end.
    #[error("page {index} is outside of the heap, which has {pages} pages of {PAGE} bytes")]
    OutOfRange {
        /// What was asked for.
        index: u32,
        /// How many there are.
        pages: usize,
    },
    /// More sources than an instance may have memories.
    #[error("{count} heaps are too many for one instance: at most {MAX_MEMORIES} are supported")]
    TooMany {
        /// How many were given.
        count: usize,
    },
    /// The kernel refused.
    #[error("the system could not {what}: {errno}")]
    System {
        /// The act, as a verb phrase.
        what: &'static str,
        /// Its answer.
        errno: Errno,
    },
    /// The engine refused.
    #[error("the engine could not bind the heaps to their store: {reason}")]
    Engine {
        /// Its words.
        reason: String,
    },
}

pub(super) fn system(what: &'static str) -> impl Fn(Errno) -> HeapError {
    move |errno| HeapError::System { what, errno }
}

pub(super) fn page_count(len: usize) -> usize {
    len / PAGE
}

/// How changed pages were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// The kernel said which pages were written to.
    Kernel,
    /// The kernel can't say: every page is a candidate, and the caller has to compare.
    Everything,
}

/// The pages that may differ from the source; all others are certain not to.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Page numbers, ascending.
    pub pages: Vec<u32>,
    /// How they were found.
    pub scan: Scan,
}

/// The host's hold on one linear memory of a live instance.
///
/// The bytes can be looked at only with the store that owns the memory in hand: a guest needs the store exclusively
/// to run, so a shared borrow of it is the proof that none does.
#[derive(Debug)]
pub struct Heap {
    region: Arc<Region>,
    pagemap: Option<Arc<Pagemap>>,
    /// An object of the store, made for its identity: the engine panics if it is used with another store.
    owner: Global,
}

impl Heap {
    /// Current size in bytes, a multiple of [`WASM_PAGE`].
    pub fn size(&self) -> usize {
        self.region.size()
    }

    /// How changed pages will be found.
    pub fn scan(&self) -> Scan {
        if self.pagemap.is_some() { Scan::Kernel } else { Scan::Everything }
    }

    /// The pages written to since the heap was woken, or for one born empty, since then.
    ///
    /// # Panics
    /// If `store` isn't the one the heap was made in.
    pub fn changed_pages(&self, store: impl AsContext) -> Changed {
        self.owner.ty(store);
        let base = self.region.base().addr();
        let size = self.size();
        let own = self.pagemap.as_ref().and_then(|pagemap| pagemap.own_memory(base..base + size).ok());
        let (ranges, scan) = match own {
            Some(ranges) => (ranges, Scan::Kernel),
            None => (std::iter::once(base..base + size).collect(), Scan::Everything),
        };
        // No truncation: a heap has at most MAX_HEAP_BYTES / PAGE pages. Host pages larger than ours are split.
        let numbers = ranges.into_iter().flat_map(|r| (r.start - base) / PAGE..(r.end - base).div_ceil(PAGE));
        Changed { pages: numbers.map(|number| number as u32).collect(), scan }
    }

    /// Lets the pages of its own stay where they are for the next turn, if they are few. `own` are all that it
    /// has, ascending, and `changed` is how many of them differ from the source.
    ///
    /// The caller's word: the next changes that its source sees are these very pages, each once, or it sees none ever again.
    /// Says whether they stay.
    pub(crate) fn keep_writes(&self, own: Vec<(u32, Page)>, changed: usize) -> bool {
        let few = own.len() <= MAX_HOT_PAGES && own.len() - changed.min(own.len()) <= MAX_IDLE_PAGES;
        if few {
            self.region.keep_writes(changed as u64, own);
        }
        few
    }

    /// What stood in a page when the turn began, if it is one that stayed mapped from the turn before. To compare it is much
    /// less work than to name it.
    pub(crate) fn stayed(&self, index: u32) -> Option<&Page> {
        self.region.stayed(index)
    }

    /// One page as it is now, without a copy.
    ///
    /// # Panics
    /// If `store` isn't the one the heap was made in.
    pub fn page<'a, T: 'static>(
        &'a self,
        store: impl Into<StoreContext<'a, T>>,
        index: u32,
    ) -> Result<&'a [u8; PAGE], HeapError> {
        let store: StoreContext<'a, T> = store.into();
        self.owner.ty(&store);
        let pages = page_count(self.size());
        if index as usize >= pages {
            return Err(HeapError::OutOfRange { index, pages });
        }
        // SAFETY: the page lies within the accessible size of a mapping that `self` keeps for 'a. Nobody writes to it
        // for 'a: guest and host alike need the owning store exclusively, and `store` (checked above to be that one)
        // is borrowed for 'a; the mapped file can't change while it is mapped (see `Region::source`).
        Ok(unsafe { &*self.region.base().add(index as usize * PAGE).cast::<[u8; PAGE]>() })
    }

    /// Copies one page out.
    ///
    /// # Panics
    /// If `store` isn't the one the heap was made in.
    pub fn read_page(&self, store: impl AsContext, index: u32, page: &mut [u8; PAGE]) -> Result<(), HeapError> {
        *page = *self.page(store.as_context(), index)?;
        Ok(())
    }
}

/// The heaps to be born on this thread: wasmtime asks for memories per engine and doesn't say for which instance.
struct Births {
    sources: std::vec::IntoIter<Arc<HeapFile>>,
    limit: usize,
    owner: Global,
    born: Vec<Heap>,
}

thread_local! {
    static BIRTHS: RefCell<Option<Births>> = const { RefCell::new(None) };
}

/// Puts the outer list back, also when the closure panics.
struct Restore(Option<Births>);

impl Restore {
    fn enter(births: Births) -> Restore {
        Restore(BIRTHS.replace(Some(births)))
    }

    fn leave(self) -> Vec<Heap> {
        BIRTHS.take().map(|births| births.born).unwrap_or_default()
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        BIRTHS.replace(self.0.take());
    }
}

/// Instantiates with `sources` as the content of the memories, in order of creation; memories beyond the last source
/// start empty. Returns what `instantiate` returned and a [`Heap`] for each memory it created.
///
/// A memory with a source holds the source's bytes when it is done. Its size is the source's length, or the module's
/// minimum if that is more, and what a start function added. No memory gets larger than `limit` bytes.
///
/// Instantiation writes data segments and runs start functions over what was woken; that is forgotten again.
///
/// `instantiate` must create memories in the store it is given and in no other: it is this store that later proves
/// that no guest is running.
pub fn with_heaps<T: 'static, R>(
    store: &mut Store<T>,
    sources: Vec<Arc<HeapFile>>,
    limit: usize,
    instantiate: impl FnOnce(&mut Store<T>) -> R,
) -> Result<(R, Vec<Heap>), HeapError> {
    let (result, heaps) = born(store, sources, limit, instantiate)?;
    for heap in heaps.iter().filter(|heap| heap.region.has_source()) {
        // SAFETY: `store` is borrowed exclusively here and owns the memory, so no guest runs and no reference lives.
        unsafe { heap.region.discard() }.map_err(system("put a woken heap back to its source"))?;
        // SAFETY: as above.
        unsafe { heap.region.lay_over() };
        heap.region.expect_writes();
    }
    Ok((result, heaps))
}

/// As [`with_heaps`], for an instantiation that runs nothing and writes nothing, so that there is nothing to forget.
pub(crate) fn with_heaps_untouched<T: 'static, R>(
    store: &mut Store<T>,
    sources: Vec<Arc<HeapFile>>,
    limit: usize,
    instantiate: impl FnOnce(&mut Store<T>) -> R,
) -> Result<(R, Vec<Heap>), HeapError> {
    let (result, heaps) = born(store, sources, limit, instantiate)?;
    heaps.iter().for_each(|heap| heap.region.expect_writes());
    Ok((result, heaps))
}

fn born<T: 'static, R>(
    store: &mut Store<T>,
    sources: Vec<Arc<HeapFile>>,
    limit: usize,
    instantiate: impl FnOnce(&mut Store<T>) -> R,
) -> Result<(R, Vec<Heap>), HeapError> {
    if sources.len() > MAX_MEMORIES {
        return Err(HeapError::TooMany { count: sources.len() });
    }
    let owner = Global::new(&mut *store, GlobalType::new(ValType::I32, Mutability::Const), Val::I32(0))
        .map_err(|error| HeapError::Engine { reason: error.to_string() })?;
    let guard = Restore::enter(Births { sources: sources.into_iter(), limit, owner, born: Vec::new() });
    let result = instantiate(store);
    Ok((result, guard.leave()))
}

/// Makes the linear memories of an engine.
#[derive(Debug)]
pub struct Creator {
    pagemap: Option<Arc<Pagemap>>,
}

impl Creator {
    /// Finds changed pages the best way this machine has. Make it before the process gives up access to `/proc`.
    pub fn new() -> Creator {
        Creator { pagemap: Pagemap::open().map(Arc::new) }
    }

    /// Never asks the kernel: every page is a candidate.
    pub fn without_kernel_scan() -> Creator {
        Creator { pagemap: None }
    }

    /// How heaps of this engine will find changed pages.
    pub fn scan(&self) -> Scan {
        if self.pagemap.is_some() { Scan::Kernel } else { Scan::Everything }
    }

    /// Makes `config` use this creator, with the settings it depends on.
    pub fn install(self, config: &mut Config) {
        config.with_host_memory(Arc::new(self));
        // wasmtime's own copy-on-write images need memories of wasmtime's own: with ours it would panic on the first
        // module with a data segment.
        config.memory_init_cow(false);
        // Ours never move, and code that may rely on it is smaller.
        config.memory_may_move(false);
    }

    fn birth(&self, births: &mut Births, order: &Order) -> Result<Arc<Region>, String> {
        if births.born.len() >= MAX_MEMORIES {
            return Err(format!("an instance may have at most {MAX_MEMORIES} memories"));
        }
        let source = births.sources.next();
        let region = Arc::new(order.fill(source, births.limit)?);
        births.born.push(Heap { region: region.clone(), pagemap: self.pagemap.clone(), owner: births.owner });
        Ok(region)
    }
}

impl Default for Creator {
    fn default() -> Self {
        Creator::new()
    }
}

/// What wasmtime asks for, in bytes.
struct Order {
    minimum: usize,
    maximum: Option<usize>,
    reserve: usize,
    guard: usize,
}

impl Order {
    fn fill(&self, source: Option<Arc<HeapFile>>, limit: usize) -> Result<Region, String> {
        let most = self.maximum.unwrap_or(MAX_HEAP_BYTES).min(limit).min(MAX_HEAP_BYTES);
        let most = most - most % WASM_PAGE;
        let woken = source.as_ref().map_or(0, |file| file.len());
        let size = self.minimum.max(woken);
        if size > most {
            return Err(format!("a memory of {size} bytes is more than the {most} bytes it may have"));
        }
        // Compiled code leaves out bounds checks on the strength of the whole reservation being there and closed, so
        // it is reserved even if the memory can never grow into it.
        let room = self.reserve.max(most) - most;
        let back = self.guard.checked_add(room).ok_or("the memory's guard is too large")?;
        Region::new(Plan { front: self.guard, back, capacity: most, size, source })
            .map_err(|errno| format!("the system could not map a memory of {size} bytes: {errno}"))
    }
}

// SAFETY: every memory is zero or its source's content where accessible, has the reservation and the guard that was
// asked for closed behind it, and never moves. It is touched from outside of wasmtime only in `with_heaps`, before the
// instance has run, and otherwise only read while the store is borrowed.
unsafe impl MemoryCreator for Creator {
    fn new_memory(
        &self,
        ty: MemoryType,
        minimum: usize,
        maximum: Option<usize>,
        reserved_size_in_bytes: Option<usize>,
        guard_size_in_bytes: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        if ty.is_shared() || ty.page_size() != WASM_PAGE as u64 {
            return Err("shared memories and memories with a page size of their own are not supported".into());
        }
        let reserve = reserved_size_in_bytes.unwrap_or(0);
        let order = Order { minimum, maximum, reserve, guard: guard_size_in_bytes };
        let region = BIRTHS.with_borrow_mut(|births| match births {
            Some(births) => self.birth(births, &order),
            None => order.fill(None, MAX_HEAP_BYTES).map(Arc::new),
        })?;
        Ok(Box::new(Memory { region }))
    }
}

/// wasmtime's hold on a region.
struct Memory {
    region: Arc<Region>,
}

// SAFETY: base and capacity are fixed for the region's life, which this value shares; all bytes up to the size are
// readable and writable.
unsafe impl LinearMemory for Memory {
    fn byte_size(&self) -> usize {
        self.region.size()
    }

    fn byte_capacity(&self) -> usize {
        self.region.capacity()
    }

    fn grow_to(&mut self, new_size: usize) -> wasmtime::Result<()> {
        let grown = self.region.grow(new_size);
        grown.map_err(|errno| wasmtime::format_err!("the memory could not grow to {new_size} bytes: {errno}"))
    }

    fn as_ptr(&self) -> *mut u8 {
        self.region.base()
    }
}
