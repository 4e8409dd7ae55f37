//! Guests that are too large, too deep or too broken to be written down: made by code, by a recipe of a name and
//! numbers such as `nesting depth=2000 functions=10`.

use std::collections::BTreeMap;

use wasm_encoder::{
    BlockType, CodeSection, Component, ComponentExportKind, ComponentInstanceSection, ConstExpr, CustomSection,
    ElementSection, Elements, Encode, Function, FunctionSection, GlobalSection, GlobalType, InstanceSection,
    MemorySection, MemoryType, Module, ModuleArg, ModuleSection, RawSection, RefType, TableSection, TableType,
    TypeSection, ValType,
};

use super::{attack, wrap};

/// An agent that answers "done" at once. Bombs are put into it.
const HARMLESS: &str = r#"(func (export "handle") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $done))"#;

struct Recipe<'a> {
    name: &'a str,
    numbers: BTreeMap<&'a str, u32>,
}

impl<'a> Recipe<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let name = words.next().ok_or("an empty recipe")?;
        let number = |word: &'a str| {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is not KEY=NUMBER"))?;
            Ok((key, value.parse().map_err(|_| format!("`{word}` has no number"))?))
        };
        Ok(Self { name, numbers: words.map(number).collect::<Result<_, String>>()? })
    }

    fn number(&self, key: &str) -> Result<u32, String> {
        self.numbers.get(key).copied().ok_or_else(|| format!("`{}` needs `{key}=`", self.name))
    }
}

/// Makes what a recipe says.
pub(crate) fn make(recipe: &str) -> Result<Vec<u8>, String> {
    let recipe = Recipe::parse(recipe)?;
    let number = |key| recipe.number(key);
    match recipe.name {
        "empty-file" => Ok(Vec::new()),
        "elf" => Ok(b"\x7fELF\x02\x01\x01".to_vec()),
        "core-module" => Ok(Module::new().finish()),
        "truncated" => {
            let whole = harmless(None)?;
            Ok(whole[..whole.len() * number("percent")? as usize / 100].to_vec())
        }
        "newer-version" => {
            let mut whole = harmless(None)?;
            whole[4] = 0x63;
            Ok(whole)
        }
        "padding" => {
            let padding = vec![0; number("bytes")? as usize];
            appended(|out| {
                out.section(&CustomSection { name: "padding".into(), data: (&padding).into() });
            })
        }
        "functions" => code(number("count")?, &tiny()),
        "nesting" => code(number("functions")?, &nested(number("depth")?)),
        "body" => code(1, &long(number("bytes")?)),
        "bodies" => code(number("count")?, &long(number("bytes")?)),
        "locals" => code(number("functions")?, &crowded(number("count")?)),
        "live-locals" => code(number("functions")?, &lively(number("locals")?, number("blocks")?)),
        "br-table" => code(number("functions")?, &table(number("depth")?, number("targets")?)),
        "calls" => calls(number("results")?, number("count")?),
        "block-params" => block_params(number("params")?, number("blocks")?),
        "results" => results(number("arity")?, number("targets")?),
        "types" => types(number("count")?),
        "elements" => elements(number("segments")?, number("items")?),
        "tables" => tables(number("count")?, number("elements")?),
        "exports" => exports(number("count")?),
        "globals" => globals(number("count")?),
        "modules" => modules(number("count")?),
        "memories" => memories(number("count")?, number("pages")?),
        "components" => components(number("depth")?),
        "component-types" => component_types(number("depth")?),
        "adapter" => adapter(number("levels")?, number("fan")?),
        "adapters" => adapters(number("count")?, number("parts")?),
        "instances" => instances(number("levels")?, number("fan")?),
        other => Err(format!("there is no recipe `{other}`")),
    }
}

/// The harmless agent, with a core module inside that it instantiates.
fn harmless(module: Option<&Module>) -> Result<Vec<u8>, String> {
    // Without a name, or the module would not be empty.
    let place = "  (core module)\n  (core instance (instantiate 3))";
    let fields = attack::with_prelude(HARMLESS);
    let whole = wat::parse_str(wrap::component(&fields, "utf8", place, "$main")).map_err(|why| why.to_string())?;
    match module {
        None => Ok(whole),
        Some(module) => {
            wrap::splice(&whole, module.as_slice()).ok_or_else(|| "there is no place for the module".into())
        }
    }
}

/// The harmless agent with sections at its end: what stands before keeps its indices.
fn appended(add: impl FnOnce(&mut Component)) -> Result<Vec<u8>, String> {
    let mut sections = Component::new();
    add(&mut sections);
    let mut whole = harmless(None)?;
    whole.extend_from_slice(&sections.finish()[Component::HEADER.len()..]);
    Ok(whole)
}

/// A module with so many functions of that body, each `(param i32) (result i32)`.
fn code(count: u32, body: &Function) -> Result<Vec<u8>, String> {
    let (mut types, mut functions, mut code) = (TypeSection::new(), FunctionSection::new(), CodeSection::new());
    types.ty().function([ValType::I32], [ValType::I32]);
    let bytes = body.clone().into_raw_body();
    for _ in 0..count {
        functions.function(0);
        code.raw(&bytes);
    }
    harmless(Some(Module::new().section(&types).section(&functions).section(&code)))
}

fn tiny() -> Function {
    let mut function = Function::new([]);
    function.instructions().local_get(0).end();
    function
}

/// Blocks in blocks, each with a way out, so that none can be left away.
fn nested(depth: u32) -> Function {
    let mut function = Function::new([]);
    let mut sink = function.instructions();
    for _ in 0..depth {
        sink.block(BlockType::Empty);
    }
    for level in 0..depth {
        sink.local_get(0).br_if(depth - 1 - level).end();
    }
    sink.local_get(0).end();
    function
}

/// One straight line.
fn long(bytes: u32) -> Function {
    let mut function = Function::new([]);
    let mut sink = function.instructions();
    sink.local_get(0);
    for _ in 0..bytes / 8 {
        sink.local_get(0).i32_mul().local_tee(0).local_get(0).i32_xor();
    }
    sink.end();
    function
}

fn crowded(count: u32) -> Function {
    let mut function = Function::new([(count, ValType::V128)]);
    function.instructions().local_get(0).end();
    function
}

/// Many locals that live across many blocks.
fn lively(locals: u32, blocks: u32) -> Function {
    let mut function = Function::new([(locals, ValType::I32)]);
    let mut sink = function.instructions();
    sink.loop_(BlockType::Empty);
    for at in 0..blocks {
        let local = 1 + at % locals;
        sink.local_get(local).if_(BlockType::Empty).local_get(1 + (at * 7) % locals).local_set(local).end();
    }
    for local in 1..=locals {
        sink.local_get(local).i32_const(1).i32_add().local_set(local);
    }
    sink.local_get(0).br_if(0).end().local_get(1).end();
    function
}

fn table(depth: u32, targets: u32) -> Function {
    let mut function = Function::new([]);
    let mut sink = function.instructions();
    for _ in 0..depth {
        sink.block(BlockType::Empty);
    }
    sink.local_get(0).br_table((0..targets).map(|at| at % depth), 0);
    for _ in 0..depth {
        sink.end();
    }
    sink.local_get(0).end();
    function
}

/// Calls whose results pile up: two bytes for each heap.
fn calls(results: u32, count: u32) -> Result<Vec<u8>, String> {
    let (mut types, mut functions, mut code) = (TypeSection::new(), FunctionSection::new(), CodeSection::new());
    types.ty().function([], vec![ValType::I64; results as usize]);
    functions.function(0);
    let mut function = Function::new([]);
    let mut sink = function.instructions();
    for _ in 0..count {
        sink.call(0);
    }
    sink.unreachable().end();
    code.function(&function);
    harmless(Some(Module::new().section(&types).section(&functions).section(&code)))
}

/// Blocks that take so many values and give none: four bytes for each heap of values to be passed.
fn block_params(params: u32, blocks: u32) -> Result<Vec<u8>, String> {
    let (mut types, mut functions, mut code) = (TypeSection::new(), FunctionSection::new(), CodeSection::new());
    types.ty().function([], []);
    types.ty().function(vec![ValType::I32; params as usize], vec![]);
    functions.function(0);
    let mut function = Function::new([]);
    let mut sink = function.instructions();
    for _ in 0..blocks {
        sink.unreachable().loop_(BlockType::FunctionType(1)).br(0).end();
    }
    sink.end();
    code.function(&function);
    harmless(Some(Module::new().section(&types).section(&functions).section(&code)))
}

/// A jump table whose every target takes so many values with it.
fn results(arity: u32, targets: u32) -> Result<Vec<u8>, String> {
    let (mut types, mut functions, mut code) = (TypeSection::new(), FunctionSection::new(), CodeSection::new());
    types.ty().function([], vec![ValType::I32; arity as usize]);
    functions.function(0);
    let mut function = Function::new([]);
    let mut sink = function.instructions();
    sink.block(BlockType::FunctionType(0));
    for at in 0..arity {
        sink.i32_const(at as i32);
    }
    sink.i32_const(0).br_table((0..targets).map(|at| at % 2), 0).end().end();
    code.function(&function);
    harmless(Some(Module::new().section(&types).section(&functions).section(&code)))
}

fn types(count: u32) -> Result<Vec<u8>, String> {
    let mut types = TypeSection::new();
    for at in 0..count {
        let params = (0..20).map(|bit| if at >> bit & 1 == 1 { ValType::I32 } else { ValType::I64 });
        types.ty().function(params, []);
    }
    harmless(Some(Module::new().section(&types)))
}

fn elements(segments: u32, items: u32) -> Result<Vec<u8>, String> {
    let (mut tables, mut elements) = (TableSection::new(), ElementSection::new());
    let table_type =
        TableType { element_type: RefType::FUNCREF, table64: false, minimum: 1, maximum: None, shared: false };
    tables.table(table_type);
    let nulls = vec![ConstExpr::ref_null(wasm_encoder::HeapType::FUNC); items as usize];
    for _ in 0..segments {
        elements.passive(Elements::Expressions(RefType::FUNCREF, (&nulls).into()));
    }
    harmless(Some(Module::new().section(&tables).section(&elements)))
}

fn tables(count: u32, elements: u32) -> Result<Vec<u8>, String> {
    let mut tables = TableSection::new();
    let minimum = u64::from(elements);
    for _ in 0..count {
        tables.table(TableType {
            element_type: RefType::FUNCREF,
            table64: false,
            minimum,
            maximum: None,
            shared: false,
        });
    }
    harmless(Some(Module::new().section(&tables)))
}

/// No agent at all, under many long names.
fn exports(count: u32) -> Result<Vec<u8>, String> {
    let name = |at: u32| format!("{}-n{at}", "x".repeat(1000));
    let exports: String = (0..count).map(|at| format!("(export \"{}\" (type $t))", name(at))).collect();
    wat::parse_str(format!("(component (type $t (record (field \"n\" u8))) {exports})")).map_err(|why| why.to_string())
}

fn globals(count: u32) -> Result<Vec<u8>, String> {
    let mut globals = GlobalSection::new();
    for at in 0..count {
        let ty = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
        globals.global(ty, &ConstExpr::i32_const(at as i32));
    }
    harmless(Some(Module::new().section(&globals)))
}

fn modules(count: u32) -> Result<Vec<u8>, String> {
    appended(|out| {
        for _ in 0..count {
            out.section(&ModuleSection(&Module::new()));
        }
    })
}

/// One module, instantiated again and again, each time with a memory of its own.
fn memories(count: u32, pages: u32) -> Result<Vec<u8>, String> {
    let mut memories = MemorySection::new();
    let minimum = u64::from(pages);
    memories.memory(MemoryType { minimum, maximum: None, memory64: false, shared: false, page_size_log2: None });
    let mut module = Module::new();
    module.section(&memories);
    appended(|out| {
        out.section(&ModuleSection(&module));
        let mut instances = InstanceSection::new();
        let no_args: [(&str, ModuleArg); 0] = [];
        for _ in 0..count {
            // The harmless agent has four modules before it.
            instances.instantiate(4, no_args);
        }
        out.section(&instances);
    })
}

fn components(depth: u32) -> Result<Vec<u8>, String> {
    let mut inner = Component::new().finish();
    for _ in 1..depth {
        let mut outer = Component::new();
        outer.section(&RawSection { id: 4, data: &inner });
        inner = outer.finish();
    }
    appended(|out| {
        out.section(&RawSection { id: 4, data: &inner });
    })
}

/// Component types inside component types: three bytes a level.
fn component_types(depth: u32) -> Result<Vec<u8>, String> {
    const COMPONENT_TYPE_OF_ONE: [u8; 2] = [0x41, 0x01];
    const TYPE_DECLARATION: u8 = 0x01;
    const NO_DECLARATIONS: u8 = 0x00;
    let mut types = Vec::new();
    1_u32.encode(&mut types);
    for _ in 0..depth {
        types.extend_from_slice(&COMPONENT_TYPE_OF_ONE);
        types.push(TYPE_DECLARATION);
    }
    types.extend_from_slice(&[COMPONENT_TYPE_OF_ONE[0], NO_DECLARATIONS]);
    appended(|out| {
        out.section(&RawSection { id: 7, data: &types });
    })
}

/// Two components inside, one of which hands the other values of these types: the engine writes the code that copies them.
fn handed(types: &str, names: &[String]) -> Result<Vec<u8>, String> {
    let library = r#"(core module $m
        (memory (export "m") 1)
        (func (export "r") (param i32 i32 i32 i32) (result i32) (i32.const 0))
        (func (export "f") (param i32)))
      (core instance $i (instantiate $m))"#;
    let (mut lifts, mut lowers, mut imports, mut args) = (String::new(), String::new(), String::new(), String::new());
    for (at, name) in names.iter().enumerate() {
        let options = r#"(memory $i "m") (realloc (func $i "r"))"#;
        lifts += &format!(r#"(func (export "f{at}") (param "x" {name}) (canon lift (core func $i "f") {options}))"#);
        lowers += &format!(r#"(core func $g{at} (canon lower (func $x "f{at}") {options}))"#);
        imports += &format!(r#"(import "" "{at}" (func (param i32)))"#);
        args += &format!(r#"(export "{at}" (func $g{at}))"#);
    }
    let text = format!(
        r#"(component
          (component $inner {types} {library} {lifts})
          (instance $x (instantiate $inner))
          {library}
          {lowers}
          (core module $use {imports} (func (export "f") (call 0 (i32.const 0))))
          (core instance $u (instantiate $use (with "" (instance {args}))))
          (func (export "handle") (canon lift (core func $u "f"))))"#
    );
    wat::parse_str(text).map_err(|why| why.to_string())
}

/// One value of `fan` to the power of `levels` parts.
fn adapter(levels: u32, fan: u32) -> Result<Vec<u8>, String> {
    let mut types = "(type $t0 u8)".to_owned();
    for level in 1..=levels {
        let parts = format!(" $t{}", level - 1).repeat(fan as usize);
        types += &format!("(type $t{level} (tuple{parts}))");
    }
    handed(&types, &[format!("$t{levels}")])
}

/// Values of many types, each with so many parts.
fn adapters(count: u32, parts: u32) -> Result<Vec<u8>, String> {
    let part = |ty: u32, at: u32| if at == ty { " u16" } else { " u8" };
    let tuple = |ty: u32| (0..parts).map(|at| part(ty, at)).collect::<String>();
    let types: String = (0..count).map(|ty| format!("(type $t{ty} (tuple{}))", tuple(ty))).collect();
    handed(&types, &(0..count).map(|ty| format!("$t{ty}")).collect::<Vec<_>>())
}

/// Components that each instantiate the one inside so many times: `fan` to the power of `levels` instances.
fn instances(levels: u32, fan: u32) -> Result<Vec<u8>, String> {
    let mut inner = Component::new();
    let no_args: [(&str, ModuleArg); 0] = [];
    inner.section(&ModuleSection(&Module::new())).section(InstanceSection::new().instantiate(0, no_args));
    let mut inner = inner.finish();
    for _ in 1..levels {
        let mut outer = Component::new();
        outer.section(&RawSection { id: 4, data: &inner }).section(&fanned(fan));
        inner = outer.finish();
    }
    appended(|out| {
        out.section(&RawSection { id: 4, data: &inner }).section(&fanned(fan));
    })
}

fn fanned(fan: u32) -> ComponentInstanceSection {
    let mut instances = ComponentInstanceSection::new();
    let no_args: [(&str, ComponentExportKind, u32); 0] = [];
    for _ in 0..fan {
        instances.instantiate(0, no_args);
    }
    instances
}
