//! The core module that is added to a component: it reads and writes the mutable globals of the component's core
//! instances and runs their births.

use wasm_encoder::{
    BlockType, CodeSection, EntityType, ExportKind, ExportSection, Function, FunctionSection, GlobalType,
    ImportSection, InstructionSink, Module, TypeSection, ValType,
};

use super::{GlobalKind, module::ModuleState};

/// Exports of the accessor module.
pub(super) const BIRTH: &str = "birth";
pub(super) const GET: &str = "get";
pub(super) const SET: &str = "set";

/// Cases per switch. A switch is nested blocks, and compile time grows faster than their depth: several hundred globals
/// go through two short switches instead of one deep one.
const FAN: usize = 64;
const FAN_BITS: i32 = FAN.trailing_zeros() as i32;

/// Type indices within the accessor.
const UNIT: u32 = 0;
const READ: u32 = 1;
const WRITE: u32 = 2;

/// One readable and writable piece of a global, in the accessor's index space.
#[derive(Clone, Copy)]
struct Slot {
    global: u32,
    kind: GlobalKind,
}

/// Builds the accessor for core instances of the given modules. Its imports are named `"0"`, `"1"`, … by position.
pub(super) fn module(instances: &[&ModuleState]) -> Vec<u8> {
    let mut imports = ImportSection::new();
    let mut births = 0;
    let mut slots = Vec::new();
    let mut globals = 0;
    for (position, state) in instances.iter().enumerate() {
        let from = position.to_string();
        if state.birth {
            imports.import(&from, super::CORE_BIRTH, EntityType::Function(UNIT));
            births += 1;
        }
        for global in &state.globals {
            let (val_type, kinds) = global.pieces();
            let ty = GlobalType { val_type, mutable: true, shared: false };
            imports.import(&from, &super::core_global(global.index), EntityType::Global(ty));
            slots.extend(kinds.iter().map(|&kind| Slot { global: globals, kind }));
            globals += 1;
        }
    }

    let leaves: Vec<&[Slot]> = slots.chunks(FAN).collect();
    let count = leaves.len() as u32;
    let mut functions = FunctionSection::new();
    let mut code = CodeSection::new();
    functions.function(UNIT).function(READ).function(WRITE);
    code.function(&birth(births));
    // The leaves stand after the three entry functions: all readers, then all writers.
    let first_leaf = births + 3;
    code.function(&dispatcher(first_leaf, count, Access::Read));
    code.function(&dispatcher(first_leaf + count, count, Access::Write));
    for access in [Access::Read, Access::Write] {
        for leaf in &leaves {
            functions.function(access.type_index());
            code.function(&leaf_function(leaf, access));
        }
    }

    let mut types = TypeSection::new();
    types.ty().function([], []);
    types.ty().function([ValType::I32], [ValType::I64]);
    types.ty().function([ValType::I32, ValType::I64], []);
    let mut exports = ExportSection::new();
    exports.export(BIRTH, ExportKind::Func, births);
    exports.export(GET, ExportKind::Func, births + 1);
    exports.export(SET, ExportKind::Func, births + 2);

    let mut module = Module::new();
    module.section(&types).section(&imports).section(&functions).section(&exports).section(&code);
    module.finish()
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

impl Access {
    fn type_index(self) -> u32 {
        match self {
            Access::Read => READ,
            Access::Write => WRITE,
        }
    }
}

/// The imported births come first in the function index space, in instance order.
fn birth(births: u32) -> Function {
    let mut function = Function::new([]);
    let mut sink = function.instructions();
    for import in 0..births {
        sink.call(import);
    }
    sink.end();
    function
}

fn dispatcher(first_leaf: u32, count: u32, access: Access) -> Function {
    let mut function = Function::new([]);
    let mut sink = function.instructions();
    switch(
        &mut sink,
        count,
        |sink| {
            sink.local_get(0).i32_const(FAN_BITS).i32_shr_u();
        },
        |sink, case| {
            sink.local_get(0);
            if let Access::Write = access {
                sink.local_get(1);
            }
            sink.call(first_leaf + case);
        },
    );
    function
}

fn leaf_function(slots: &[Slot], access: Access) -> Function {
    let mut function = Function::new([]);
    let mut sink = function.instructions();
    switch(
        &mut sink,
        slots.len() as u32,
        |sink| {
            sink.local_get(0).i32_const(FAN as i32 - 1).i32_and();
        },
        |sink, case| {
            if let Some(slot) = slots.get(case as usize) {
                match access {
                    Access::Read => read(sink, *slot),
                    Access::Write => write(sink, *slot),
                }
            }
        },
    );
    function
}

/// A function body that runs `case(i)` and returns, for the `i` that `index` pushes; any other index traps.
fn switch(
    sink: &mut InstructionSink<'_>,
    count: u32,
    index: impl FnOnce(&mut InstructionSink<'_>),
    case: impl Fn(&mut InstructionSink<'_>, u32),
) {
    for _ in 0..=count {
        sink.block(BlockType::Empty);
    }
    index(sink);
    sink.br_table(0..count, count).end();
    for i in 0..count {
        case(sink, i);
        sink.return_().end();
    }
    sink.unreachable().end();
}

/// Pushes the slot's bits as an i64. Floats go by their bits, so that every NaN comes back as it was.
fn read(sink: &mut InstructionSink<'_>, slot: Slot) {
    sink.global_get(slot.global);
    match slot.kind {
        GlobalKind::I32 => sink.i64_extend_i32_u(),
        GlobalKind::I64 => sink,
        GlobalKind::F32 => sink.i32_reinterpret_f32().i64_extend_i32_u(),
        GlobalKind::F64 => sink.i64_reinterpret_f64(),
        GlobalKind::V128Low => sink.i64x2_extract_lane(0),
        GlobalKind::V128High => sink.i64x2_extract_lane(1),
    };
}

/// Sets the slot from the bits in local 1.
fn write(sink: &mut InstructionSink<'_>, slot: Slot) {
    if let GlobalKind::V128Low | GlobalKind::V128High = slot.kind {
        sink.global_get(slot.global);
    }
    sink.local_get(1);
    match slot.kind {
        GlobalKind::I32 => sink.i32_wrap_i64(),
        GlobalKind::I64 => sink,
        GlobalKind::F32 => sink.i32_wrap_i64().f32_reinterpret_i32(),
        GlobalKind::F64 => sink.f64_reinterpret_i64(),
        GlobalKind::V128Low => sink.i64x2_replace_lane(0),
        GlobalKind::V128High => sink.i64x2_replace_lane(1),
    };
    sink.global_set(slot.global);
}
