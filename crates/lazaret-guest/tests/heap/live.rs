//! A guest that can be woken, poked and put to sleep.

use lazaret_guest::native::heap::{Creator, Heap, HeapFile, PAGE, Scan, with_heaps};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use wasmtime::{Config, Engine, Instance, Module, Store, Trap};

pub(crate) const MIB: usize = 1 << 20;

pub(crate) const GUEST: &str = r#"
(module
  (memory (export "memory") 1 2048)
  (func (export "poke") (param i32 i32) (i32.store8 (local.get 0) (local.get 1)))
  (func (export "peek") (param i32) (result i32) (i32.load8_u (local.get 0)))
  (func (export "peek_far") (param i32) (result i32) (i32.load8_u offset=0xfffffff0 (local.get 0)))
  (func (export "peek_word") (param i32) (result i64) (i64.load (local.get 0)))
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
  (func (export "size") (result i32) memory.size)
  (func (export "read_all") (result i32) (local $at i32) (local $sum i32)
    (loop $next
      (local.set $sum (i32.add (local.get $sum) (i32.load8_u (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 4096)))
      (br_if $next (i32.lt_u (local.get $at) (i32.mul (memory.size) (i32.const 65536)))))
    (local.get $sum)))
"#;

/// Only the tests that count mappings or descriptors of the whole process need it for themselves.
static PROCESS: RwLock<()> = RwLock::new(());

pub(crate) fn shared() -> RwLockReadGuard<'static, ()> {
    PROCESS.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    PROCESS.write().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub(crate) fn engine(creator: Creator, tune: impl FnOnce(&mut Config)) -> Engine {
    let mut config = Config::new();
    tune(&mut config);
    creator.install(&mut config);
    Engine::new(&config).unwrap()
}

pub(crate) fn kernel_engine() -> Engine {
    let creator = Creator::new();
    assert_eq!(creator.scan(), Scan::Kernel, "these tests need PAGEMAP_SCAN: Linux 6.7 and /proc");
    engine(creator, |_| {})
}

pub(crate) fn module(engine: &Engine, text: &str) -> Module {
    Module::new(engine, wat::parse_str(text).unwrap()).unwrap()
}

/// An awake guest with one memory.
pub(crate) struct Live {
    pub(crate) store: Store<()>,
    pub(crate) instance: Instance,
    pub(crate) heap: Heap,
}

impl Live {
    pub(crate) fn wake(module: &Module, sources: Vec<Arc<HeapFile>>) -> Live {
        let mut store = Store::new(module.engine(), ());
        let born = with_heaps(&mut store, sources, 256 * MIB, |store| Instance::new(store, module, &[]));
        let (instance, mut heaps) = born.unwrap();
        let instance = instance.unwrap();
        assert_eq!(heaps.len(), 1);
        Live { store, instance, heap: heaps.remove(0) }
    }

    pub(crate) fn try_call<P: wasmtime::WasmParams, R: wasmtime::WasmResults>(
        &mut self,
        name: &str,
        args: P,
    ) -> wasmtime::Result<R> {
        self.instance.get_typed_func::<P, R>(&mut self.store, name)?.call(&mut self.store, args)
    }

    pub(crate) fn call<P: wasmtime::WasmParams, R: wasmtime::WasmResults>(&mut self, name: &str, args: P) -> R {
        self.try_call(name, args).unwrap()
    }

    pub(crate) fn poke(&mut self, at: usize, value: u8) {
        self.call::<_, ()>("poke", (at as u32 as i32, i32::from(value)));
    }

    pub(crate) fn peek(&mut self, at: usize) -> u8 {
        self.call::<_, i32>("peek", at as u32 as i32) as u8
    }

    pub(crate) fn traps_at<R: wasmtime::WasmResults>(&mut self, name: &str, at: usize) -> bool {
        let error = match self.try_call::<_, R>(name, at as u32 as i32) {
            Ok(_) => return false,
            Err(error) => error,
        };
        assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::MemoryOutOfBounds), "{error:?}");
        true
    }

    pub(crate) fn pages(&self) -> Vec<[u8; PAGE]> {
        let count = (self.heap.size() / PAGE) as u32;
        (0..count).map(|index| *self.heap.page(&self.store, index).unwrap()).collect()
    }

    pub(crate) fn changed(&self) -> Vec<u32> {
        self.heap.changed_pages(&self.store).pages
    }

    /// Ends the instance and writes what it changed to `file`.
    pub(crate) fn sleep(self, file: &mut Arc<HeapFile>) {
        let mut changes = Vec::new();
        for index in self.changed() {
            let mut page = [0; PAGE];
            self.heap.read_page(&self.store, index, &mut page).unwrap();
            changes.push((index, page));
        }
        let size = self.heap.size();
        drop(self);
        let file = Arc::get_mut(file).expect("nobody maps the file any more");
        file.set_len(size).unwrap();
        for (index, page) in changes {
            file.write_page(index, &page).unwrap();
        }
    }
}

/// A heap in which every page is different and not zero.
pub(crate) fn full_file(len: usize) -> Arc<HeapFile> {
    let mut file = HeapFile::new(len).unwrap();
    for index in 0..(len / PAGE) as u32 {
        file.write_page(index, &[(index % 251 + 1) as u8; PAGE]).unwrap();
    }
    Arc::new(file)
}

pub(crate) fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 33) as usize
}
