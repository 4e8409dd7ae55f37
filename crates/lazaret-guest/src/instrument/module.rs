//! Rewrites one core module: its mutable globals become reachable, and what ran at instantiation becomes a function.

use std::collections::{BTreeMap, VecDeque};

use wasm_encoder::{Encode, Function, ValType};
use wasmparser::{
    BinaryReader, DataKind, ExternalKind, FunctionBody, Operator, Payload, TableInit, TypeRef, types::TypesRef,
};

use super::{
    CORE_BIRTH, CORE_PREFIX, GlobalKind, core_global,
    refusal::{Place, Reason, Uncapturable},
    uses::{UsedImports, Uses},
};

const HEADER: &[u8] = b"\0asm\x01\0\0\0";

/// Section ids in the order in which a module must have them. Custom sections (0) may stand anywhere.
const ORDER: [u8; 13] = [TYPE, 2, FUNCTION, 4, 5, 13, 6, EXPORT, START, 9, DATA_COUNT, CODE, DATA];
const CUSTOM: u8 = 0;
const TYPE: u8 = 1;
const FUNCTION: u8 = 3;
const EXPORT: u8 = 7;
const START: u8 = 8;
const CODE: u8 = 10;
const DATA: u8 = 11;
const DATA_COUNT: u8 = 12;

/// What instances of a rewritten module offer to the accessor.
#[derive(Debug, Default)]
pub(super) struct ModuleState {
    /// Whether the module has a birth function.
    pub(super) birth: bool,
    /// The mutable globals that the module defines.
    pub(super) globals: Vec<MutableGlobal>,
    /// The imported functions that the module can call or hand on.
    pub(super) used: UsedImports,
}

impl ModuleState {
    /// Whether the accessor has nothing to do for instances of this module.
    pub(super) fn is_empty(&self) -> bool {
        !self.birth && self.globals.is_empty()
    }
}

/// A mutable global that a module defines.
#[derive(Debug, Clone, Copy)]
pub(super) struct MutableGlobal {
    /// Index in the module's global index space.
    pub(super) index: u32,
    ty: ValType,
    kinds: &'static [GlobalKind],
}

impl MutableGlobal {
    fn new(index: u32, ty: wasmparser::ValType) -> Result<Self, Reason> {
        let (ty, kinds): (_, &[GlobalKind]) = match ty {
            wasmparser::ValType::I32 => (ValType::I32, &[GlobalKind::I32]),
            wasmparser::ValType::I64 => (ValType::I64, &[GlobalKind::I64]),
            wasmparser::ValType::F32 => (ValType::F32, &[GlobalKind::F32]),
            wasmparser::ValType::F64 => (ValType::F64, &[GlobalKind::F64]),
            wasmparser::ValType::V128 => (ValType::V128, &[GlobalKind::V128Low, GlobalKind::V128High]),
            wasmparser::ValType::Ref(_) => {
                return Err(Reason::ReferenceGlobal { global: index, kind: ty.to_string() });
            }
        };
        Ok(MutableGlobal { index, ty, kinds })
    }

    /// The global's type and the slots it takes.
    pub(super) fn pieces(&self) -> (ValType, &'static [GlobalKind]) {
        (self.ty, self.kinds)
    }
}

/// A data segment that was active.
struct ActiveSegment<'a> {
    index: u32,
    memory: u32,
    /// The instructions of the constant expression, without its `end`.
    offset: &'a [u8],
    len: u32,
}

/// An instruction that reads a data segment. The code section comes before the data section, so whether the segment is
/// active is known only later.
struct SegmentRead {
    instruction: &'static str,
    place: Place,
}

/// Collects a module's sections until its end.
pub(super) struct ModuleRewrite<'a> {
    ordinal: u32,
    sections: Vec<(u8, &'a [u8])>,
    uses: Uses<'a>,
    bodies: u32,
    memories: u32,
    globals: u32,
    mutable: Vec<MutableGlobal>,
    start: Option<u32>,
    active: Vec<ActiveSegment<'a>>,
    data: Option<Vec<u8>>,
    data_count: u32,
    reads: BTreeMap<u32, SegmentRead>,
}

impl<'a> ModuleRewrite<'a> {
    /// `ordinal` is the module's number in refusals.
    pub(super) fn new(ordinal: u32) -> Self {
        ModuleRewrite {
            ordinal,
            sections: Vec::new(),
            uses: Uses::default(),
            bodies: 0,
            memories: 0,
            globals: 0,
            mutable: Vec::new(),
            start: None,
            active: Vec::new(),
            data: None,
            data_count: 0,
            reads: BTreeMap::new(),
        }
    }

    fn place(&self, offset: usize) -> Place {
        Place { module: Some(self.ordinal), function: None, offset }
    }

    /// Takes in one section, or one function of the code section.
    pub(super) fn section(&mut self, payload: &Payload<'a>, bytes: &'a [u8]) -> Result<(), Uncapturable> {
        match payload {
            Payload::ImportSection(section) => self.imports(section.clone())?,
            Payload::MemorySection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    let (offset, memory) = item?;
                    self.memory(memory, offset)?;
                }
            }
            Payload::TableSection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    let (offset, table) = item?;
                    if let TableInit::Expr(expression) = &table.init {
                        self.uses.expression(expression, self.place(offset))?;
                    }
                }
            }
            Payload::GlobalSection(section) => self.globals(section.clone())?,
            Payload::ExportSection(section) => self.exports(section.clone())?,
            Payload::StartSection { func, range } => {
                self.start = Some(*func);
                self.uses.mention(*func, self.place(range.start));
            }
            Payload::ElementSection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    let (offset, element) = item?;
                    self.uses.elements(element.items, self.place(offset))?;
                }
            }
            Payload::CodeSectionEntry(body) => self.body(body)?,
            Payload::DataSection(section) => self.data(section.clone())?,
            _ => {}
        }
        if let Some((id, range)) = payload.as_section() {
            let at = self.place(range.start);
            let content = bytes.get(range).ok_or_else(|| at.refuse(Reason::Unreadable("section cut off".into())))?;
            self.sections.push((id, content));
        }
        Ok(())
    }

    fn imports(&mut self, section: wasmparser::ImportSectionReader<'a>) -> Result<(), Uncapturable> {
        for item in section.into_imports_with_offsets() {
            let (offset, import) = item?;
            match import.ty {
                TypeRef::Func(_) | TypeRef::FuncExact(_) => self.uses.import(&import),
                TypeRef::Memory(memory) => self.memory(memory, offset)?,
                // An imported global belongs to the instance that defines it, and is captured there.
                TypeRef::Global(_) => self.globals += 1,
                TypeRef::Table(_) | TypeRef::Tag(_) => {}
            }
        }
        Ok(())
    }

    fn globals(&mut self, section: wasmparser::GlobalSectionReader<'a>) -> Result<(), Uncapturable> {
        for item in section.into_iter_with_offsets() {
            let (offset, global) = item?;
            let place = self.place(offset);
            self.uses.expression(&global.init_expr, place)?;
            if global.ty.mutable {
                let mutable = MutableGlobal::new(self.globals, global.ty.content_type);
                self.mutable.push(mutable.map_err(|reason| place.refuse(reason))?);
            }
            self.globals += 1;
        }
        Ok(())
    }

    fn exports(&mut self, section: wasmparser::ExportSectionReader<'a>) -> Result<(), Uncapturable> {
        for item in section.into_iter_with_offsets() {
            let (offset, export) = item?;
            let place = self.place(offset);
            if export.name.starts_with(CORE_PREFIX) {
                let name = export.name.to_owned();
                return Err(place.refuse(Reason::Reserved { name }));
            }
            if let ExternalKind::Func | ExternalKind::FuncExact = export.kind {
                self.uses.mention(export.index, place);
            }
        }
        Ok(())
    }

    fn memory(&mut self, ty: wasmparser::MemoryType, offset: usize) -> Result<(), Uncapturable> {
        let memory = self.memories;
        self.memories += 1;
        let reason = if ty.shared {
            Reason::SharedMemory { memory }
        } else if ty.memory64 {
            Reason::WideMemory { memory }
        } else if ty.page_size_log2.is_some() {
            Reason::PageSize { memory }
        } else {
            return Ok(());
        };
        Err(self.place(offset).refuse(reason))
    }

    /// Looks for instructions with effects that neither memories nor numeric globals hold.
    fn body(&mut self, body: &FunctionBody<'a>) -> Result<(), Uncapturable> {
        let function = Some(self.uses.imported().saturating_add(self.bodies));
        self.bodies += 1;
        for item in body.get_operators_reader()?.into_iter_with_offsets() {
            let (operator, offset) = item?;
            let place = Place { function, ..self.place(offset) };
            let table = |instruction| Err(place.refuse(Reason::TableMutation { instruction }));
            let drop = |instruction| Err(place.refuse(Reason::SegmentDrop { instruction }));
            match operator {
                Operator::TableSet { .. } => return table("table.set"),
                Operator::TableGrow { .. } => return table("table.grow"),
                Operator::TableFill { .. } => return table("table.fill"),
                Operator::TableCopy { .. } => return table("table.copy"),
                Operator::TableInit { .. } => return table("table.init"),
                Operator::TableAtomicSet { .. } => return table("table.atomic.set"),
                Operator::TableAtomicRmwXchg { .. } => return table("table.atomic.rmw.xchg"),
                Operator::TableAtomicRmwCmpxchg { .. } => return table("table.atomic.rmw.cmpxchg"),
                Operator::ElemDrop { .. } => return drop("elem.drop"),
                Operator::DataDrop { .. } => return drop("data.drop"),
                Operator::Call { function_index }
                | Operator::ReturnCall { function_index }
                | Operator::RefFunc { function_index } => self.uses.mention(function_index, place),
                Operator::MemoryInit { data_index, .. } => self.read(data_index, "memory.init", place),
                Operator::ArrayNewData { array_data_index, .. } => self.read(array_data_index, "array.new_data", place),
                Operator::ArrayInitData { array_data_index, .. } => {
                    self.read(array_data_index, "array.init_data", place);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read(&mut self, segment: u32, instruction: &'static str, place: Place) {
        self.reads.entry(segment).or_insert(SegmentRead { instruction, place });
    }

    /// Encodes the same segments, all passive, and remembers where the active ones were to go.
    fn data(&mut self, section: wasmparser::DataSectionReader<'a>) -> Result<(), Uncapturable> {
        let mut content = Vec::new();
        section.count().encode(&mut content);
        for (index, item) in (0u32..).zip(section) {
            let segment = item?;
            if let DataKind::Active { memory_index, offset_expr } = &segment.kind {
                if let Some(SegmentRead { instruction, place }) = self.reads.get(&index) {
                    return Err(place.refuse(Reason::ActiveSegmentRead { instruction, segment: index }));
                }
                let mut expr = offset_expr.get_binary_reader();
                let expr = expr.read_bytes(expr.bytes_remaining())?;
                let unreadable = || self.place(segment.range.start).refuse(Reason::Unreadable("data segment".into()));
                self.active.push(ActiveSegment {
                    index,
                    memory: *memory_index,
                    offset: expr.strip_suffix(b"\x0b").ok_or_else(unreadable)?,
                    len: u32::try_from(segment.data.len()).map_err(|_| unreadable())?,
                });
            }
            content.push(1);
            segment.data.encode(&mut content);
            self.data_count += 1;
        }
        self.data = Some(content);
        Ok(())
    }

    /// The rewritten module and what its instances offer. `types` are those of the original module at its end.
    pub(super) fn finish(mut self, types: TypesRef<'_>) -> Result<(Vec<u8>, ModuleState), Uncapturable> {
        let state = ModuleState {
            birth: !self.active.is_empty() || self.start.is_some(),
            globals: std::mem::take(&mut self.mutable),
            used: std::mem::take(&mut self.uses).finish(),
        };
        let mut changed: BTreeMap<u8, Option<Vec<u8>>> = BTreeMap::new();
        let mut exports = Vec::new();
        for global in &state.globals {
            core_global(global.index).as_str().encode(&mut exports);
            exports.push(3);
            global.index.encode(&mut exports);
        }
        if state.birth {
            changed.insert(TYPE, Some(self.grown(TYPE, 1, &[0x60, 0, 0])?));
            let mut function = Vec::new();
            types.core_type_count_in_module().encode(&mut function);
            changed.insert(FUNCTION, Some(self.grown(FUNCTION, 1, &function)?));
            let mut code = Vec::new();
            self.birth().encode(&mut code);
            changed.insert(CODE, Some(self.grown(CODE, 1, &code)?));
            CORE_BIRTH.encode(&mut exports);
            exports.push(0);
            types.function_count().encode(&mut exports);
            changed.insert(START, None);
        }
        if !state.is_empty() {
            let count = state.globals.len() as u32 + u32::from(state.birth);
            changed.insert(EXPORT, Some(self.grown(EXPORT, count, &exports)?));
        }
        if !self.active.is_empty() {
            let mut count = Vec::new();
            self.data_count.encode(&mut count);
            changed.insert(DATA_COUNT, Some(count));
            changed.insert(DATA, self.data.take());
        }
        Ok((self.emit(changed), state))
    }

    /// What instantiation used to do: lay the data out, then run the start function.
    fn birth(&self) -> Function {
        let mut function = Function::new([]);
        for segment in &self.active {
            function.raw(segment.offset.iter().copied());
            let mut sink = function.instructions();
            // The length is unsigned; the constant has its bits.
            sink.i32_const(0).i32_const(segment.len as i32).memory_init(segment.memory, segment.index);
        }
        let mut sink = function.instructions();
        if let Some(start) = self.start {
            sink.call(start);
        }
        sink.end();
        function
    }

    /// The content of a section with `count` more items at its end; the old items are copied byte for byte.
    fn grown(&self, id: u8, count: u32, items: &[u8]) -> Result<Vec<u8>, Uncapturable> {
        let old = self.sections.iter().find(|section| section.0 == id).map_or(&[0][..], |section| section.1);
        let mut reader = BinaryReader::new(old, 0);
        let old_count = reader.read_var_u32()?;
        let mut content = Vec::with_capacity(old.len() + items.len() + 4);
        old_count.saturating_add(count).encode(&mut content);
        content.extend_from_slice(old.get(reader.original_position()..).unwrap_or_default());
        content.extend_from_slice(items);
        Ok(content)
    }

    /// Writes the sections out, with changed ones replaced, removed (`None`) or put in at their place.
    fn emit(&self, mut changed: BTreeMap<u8, Option<Vec<u8>>>) -> Vec<u8> {
        let mut module = HEADER.to_vec();
        let mut ahead: VecDeque<u8> = ORDER.into();
        for &(id, content) in &self.sections {
            while id != CUSTOM && ahead.contains(&id) {
                let Some(next) = ahead.pop_front() else { break };
                match changed.remove(&next) {
                    Some(replacement) => put(&mut module, next, replacement.as_deref()),
                    None if next == id => put(&mut module, id, Some(content)),
                    None => {}
                }
            }
            if id == CUSTOM {
                put(&mut module, id, Some(content));
            }
        }
        for id in ahead {
            put(&mut module, id, changed.remove(&id).flatten().as_deref());
        }
        module
    }
}

fn put(module: &mut Vec<u8>, id: u8, content: Option<&[u8]>) {
    if let Some(content) = content {
        module.push(id);
        content.encode(module);
    }
}
