//! Looking at a component before anything is compiled: sizes that make compilers slow, and what it imports.

use std::collections::BTreeMap;

use lazaret_gate::record::World;
use wasmparser::{
    BlockType, ComponentTypeRef, ElementItems, FunctionBody, Operator, Parser, Payload, TypeBounds, Validator,
    WasmFeatures,
};

use crate::limits;

/// The version of the interfaces in `wit/` that this host offers.
pub const INTERFACES: &str = "@0.1.0";

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    extents: BTreeMap<&'static str, Extent>,
    imports: Vec<String>,
    exports: Vec<String>,
    /// Instances that the components being read would make, outermost first.
    instances: Vec<usize>,
    /// The most instances that any component read so far would make.
    heaviest: usize,
    /// How many values the module's types take and give.
    arities: Vec<Arity>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Arity {
    params: usize,
    results: usize,
}

/// How large something is, and how large it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The largest found.
    pub found: usize,
    /// The cap.
    pub most: usize,
}

impl Seen {
    /// Everything that is capped, by name.
    pub fn extents(&self) -> impl Iterator<Item = (&'static str, Extent)> {
        self.extents.iter().map(|(what, extent)| (*what, *extent))
    }

    fn at_most(&mut self, what: &'static str, found: usize, most: usize) -> Result<(), Unfit> {
        let extent = self.extents.entry(what).or_insert(Extent { found, most });
        extent.found = extent.found.max(found);
        if found <= most { Ok(()) } else { Err(Unfit::TooLarge { what, found, most }) }
    }

    /// Adds to what is counted over the whole file.
    fn total(&mut self, what: &'static str, more: usize, most: usize) -> Result<(), Unfit> {
        let before = self.extents.get(what).map_or(0, |extent| extent.found);
        self.at_most(what, before.saturating_add(more), most)
    }

    fn declared(&mut self, what: &'static str, count: u32) -> Result<(), Unfit> {
        self.at_most(what, count as usize, limits::MAX_DECLARATIONS)
    }
}

/// Why a component isn't even compiled.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unfit {
    /// Not WebAssembly at all.
    #[error("this is not WebAssembly: it starts with {0}")]
    NotWasm(String),
    /// A core module.
    #[error(
        "this is a core WebAssembly module, not a component; wrap it with `wasm-tools component new` or your toolchain's own step"
    )]
    CoreModule,
    /// Too much of something.
    #[error("{what} is {found}, and the most is {most}")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How much there is.
        found: usize,
        /// How much there may be.
        most: usize,
    },
    /// Not valid WebAssembly.
    #[error("this is not a valid component: {0}")]
    Invalid(String),
    /// Nothing that the host calls.
    #[error(
        "this component exports neither `handle` (a durable agent, see wit/host.wit) nor `wasi:cli/run` (a WASI command); \
         it exports {0}"
    )]
    NoEntry(String),
    /// Something that the host doesn't offer.
    #[error("this component imports `{import}`, which {why}")]
    Import {
        /// What.
        import: String,
        /// Why not.
        why: &'static str,
    },
}

fn invalid(why: wasmparser::BinaryReaderError) -> Unfit {
    Unfit::Invalid(why.to_string())
}

/// The proposals that the engine accepts; what validates here must compile there.
fn features() -> WasmFeatures {
    let mut features = WasmFeatures::WASM1
        | WasmFeatures::BULK_MEMORY
        | WasmFeatures::SIGN_EXTENSION
        | WasmFeatures::SATURATING_FLOAT_TO_INT
        | WasmFeatures::MULTI_VALUE
        | WasmFeatures::MUTABLE_GLOBAL
        | WasmFeatures::SIMD
        | WasmFeatures::EXTENDED_CONST
        | WasmFeatures::COMPONENT_MODEL;
    features.insert(WasmFeatures::REFERENCE_TYPES);
    // References to the host's own objects: the engine is built without a collector for them.
    features.remove(WasmFeatures::GC_TYPES);
    features
}

/// Checks sizes, validity and imports, and says how the component lives.
pub fn inspect(bytes: &[u8]) -> Result<World, Unfit> {
    let seen = measure(bytes)?;
    Validator::new_with_features(features()).validate_all(bytes).map_err(invalid)?;
    world(&seen)
}

/// Checks sizes alone. They come before validation, because validation's own work grows with what is bounded here.
pub fn measure(bytes: &[u8]) -> Result<Seen, Unfit> {
    let mut seen = Seen::default();
    seen.at_most("the component's size in bytes", bytes.len(), limits::MAX_COMPONENT)?;
    if !bytes.starts_with(b"\0asm") {
        let start: String = bytes.iter().take(4).map(|byte| format!("{byte:02x} ")).collect();
        return Err(Unfit::NotWasm(if start.is_empty() { "nothing".into() } else { start.trim_end().into() }));
    }
    if Parser::is_core_wasm(bytes) {
        return Err(Unfit::CoreModule);
    }
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(invalid)?;
        match payload {
            Payload::Version { .. } => {
                seen.instances.push(0);
                seen.at_most("components inside components", seen.instances.len(), limits::MAX_COMPONENT_DEPTH)?;
                seen.total("the number of modules", 1, limits::MAX_MODULES)?;
            }
            Payload::End(_) => seen.heaviest = seen.heaviest.max(seen.instances.pop().unwrap_or(0)),
            _ => {
                of_module(&payload, &mut seen)?;
                of_component(&payload, bytes, &mut seen)?;
            }
        }
    }
    Ok(seen)
}

/// The sections of core modules.
fn of_module(payload: &Payload<'_>, seen: &mut Seen) -> Result<(), Unfit> {
    match payload {
        Payload::TypeSection(section) => {
            seen.at_most("types", section.count() as usize, limits::MAX_TYPES)?;
            seen.arities.clear();
            for ty in section.clone().into_iter_err_on_gc_types() {
                let ty = ty.map_err(invalid)?;
                seen.arities.push(Arity { params: ty.params().len(), results: ty.results().len() });
                seen.at_most("a function's results", ty.results().len(), limits::MAX_RESULTS)?;
            }
            Ok(())
        }
        Payload::ImportSection(section) => seen.declared("imports", section.count()),
        Payload::ExportSection(section) => seen.declared("exports", section.count()),
        Payload::GlobalSection(section) => seen.declared("globals", section.count()),
        Payload::DataSection(section) => seen.declared("data segments", section.count()),
        Payload::ElementSection(section) => {
            seen.declared("element segments", section.count())?;
            for element in section.clone() {
                let items = match element.map_err(invalid)?.items {
                    ElementItems::Functions(items) => items.count(),
                    ElementItems::Expressions(_, items) => items.count(),
                };
                seen.total("elements of tables", items as usize, limits::MAX_TABLE_ELEMENTS)?;
            }
            Ok(())
        }
        Payload::CodeSectionStart { count, .. } => {
            seen.total("the number of functions", *count as usize, limits::MAX_FUNCTIONS)
        }
        Payload::CodeSectionEntry(body) => of_body(body, seen),
        _ => Ok(()),
    }
}

fn of_body(body: &FunctionBody<'_>, seen: &mut Seen) -> Result<(), Unfit> {
    seen.at_most("a function's size in bytes", body.range().len(), limits::MAX_BODY)?;
    seen.total("bytes of code", body.range().len(), limits::MAX_CODE)?;
    let mut locals = 0_usize;
    for local in body.get_locals_reader().map_err(invalid)? {
        locals = locals.saturating_add(local.map_err(invalid)?.0 as usize);
        seen.at_most("a function's locals", locals, limits::MAX_LOCALS)?;
    }
    seen.total("locals of all functions", locals, limits::MAX_ALL_LOCALS)?;
    let blocks = Blocks::read(body, &seen.arities)?;
    seen.at_most("blocks inside blocks", blocks.deepest, limits::MAX_NESTING)?;
    seen.total("depths of all blocks", blocks.depths, limits::MAX_ALL_NESTING)?;
    seen.total("blocks and branches", blocks.count + blocks.branches, limits::MAX_BRANCHES)?;
    seen.total("calls", blocks.calls, limits::MAX_CALLS)?;
    seen.total("values passed along branches", blocks.passed, limits::MAX_PASSED)?;
    seen.total("locals times blocks", locals.saturating_mul(blocks.count), limits::MAX_LIVENESS)
}

/// What a function's control flow costs a compiler.
#[derive(Default)]
struct Blocks {
    count: usize,
    branches: usize,
    calls: usize,
    deepest: usize,
    depths: usize,
    /// Values that blocks take and give, and that each branch carries, each counted at every place.
    passed: usize,
    /// How many values a branch to each open block carries, outermost first.
    labels: Vec<usize>,
}

impl Blocks {
    fn read(body: &FunctionBody<'_>, arities: &[Arity]) -> Result<Self, Unfit> {
        let mut blocks = Self::default();
        for operator in body.get_operators_reader().map_err(invalid)? {
            match operator.map_err(invalid)? {
                Operator::Block { blockty } | Operator::If { blockty } => blocks.open(arity(blockty, arities), false),
                Operator::Loop { blockty } => blocks.open(arity(blockty, arities), true),
                Operator::End => drop(blocks.labels.pop()),
                Operator::Call { .. } | Operator::CallIndirect { .. } => blocks.calls += 1,
                Operator::Br { relative_depth } | Operator::BrIf { relative_depth } => {
                    blocks.branches += 1;
                    blocks.branch(relative_depth);
                }
                Operator::BrTable { targets } => {
                    blocks.branches += 1;
                    blocks.branch(targets.default());
                    for target in targets.targets() {
                        blocks.branch(target.map_err(invalid)?);
                    }
                }
                _ => {}
            }
        }
        Ok(blocks)
    }

    fn open(&mut self, arity: Arity, repeats: bool) {
        self.labels.push(if repeats { arity.params } else { arity.results });
        self.passed = self.passed.saturating_add(arity.params + arity.results);
        self.count += 1;
        self.deepest = self.deepest.max(self.labels.len());
        self.depths = self.depths.saturating_add(self.labels.len());
    }

    fn branch(&mut self, depth: u32) {
        let label = self.labels.len().checked_sub(1 + depth as usize).and_then(|at| self.labels.get(at));
        // A branch to the function itself returns, and functions have few results.
        self.passed = self.passed.saturating_add(label.copied().unwrap_or(1));
    }
}

fn arity(ty: BlockType, arities: &[Arity]) -> Arity {
    match ty {
        BlockType::Empty => Arity::default(),
        BlockType::Type(_) => Arity { params: 0, results: 1 },
        BlockType::FuncType(index) => arities.get(index as usize).copied().unwrap_or_default(),
    }
}

/// The sections of components.
fn of_component(payload: &Payload<'_>, bytes: &[u8], seen: &mut Seen) -> Result<(), Unfit> {
    let outermost = seen.instances.len() == 1;
    match payload {
        Payload::CoreTypeSection(section) => seen.declared("core types", section.count()),
        Payload::ComponentTypeSection(section) => {
            seen.declared("component types", section.count())?;
            let content = bytes.get(section.range()).unwrap_or_default();
            seen.total("bytes of component types", content.len(), limits::MAX_TYPE_BYTES)?;
            seen.at_most("types inside types", nested_types(content), limits::MAX_TYPE_NESTING)
        }
        Payload::ComponentAliasSection(section) => seen.declared("aliases", section.count()),
        Payload::ComponentCanonicalSection(section) => seen.declared("adapters", section.count()),
        Payload::InstanceSection(section) => instantiates(section.count() as usize, seen),
        Payload::ComponentInstanceSection(section) => {
            // What is instantiated has been read to its end, so it is no heavier than the heaviest.
            instantiates((section.count() as usize).saturating_mul(1 + seen.heaviest), seen)
        }
        Payload::ComponentImportSection(section) => {
            seen.declared("component imports", section.count())?;
            for import in section.clone().into_iter().filter(|_| outermost) {
                let import = import.map_err(invalid)?;
                // A type that equals another is a name, not an ask.
                if !matches!(import.ty, ComponentTypeRef::Type(TypeBounds::Eq(_))) {
                    seen.imports.push(import.name.name.to_owned());
                }
            }
            Ok(())
        }
        Payload::ComponentExportSection(section) => {
            seen.declared("component exports", section.count())?;
            for export in section.clone().into_iter().filter(|_| outermost) {
                seen.exports.push(export.map_err(invalid)?.name.name.to_owned());
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Components that instantiate components multiply: nine levels of ten take a kilobyte to say.
fn instantiates(more: usize, seen: &mut Seen) -> Result<(), Unfit> {
    let Some(here) = seen.instances.last_mut() else { return Ok(()) };
    *here = here.saturating_add(more);
    let here = *here;
    seen.at_most("instances, with those inside them", here, limits::MAX_DECLARED_INSTANCES)
}

/// At least as many as types stand inside types in this section. The reader of types calls itself for each level, so
/// this can't be left to it: a declaration of a component or instance type begins with these two bytes.
fn nested_types(section: &[u8]) -> usize {
    const TYPE_DECLARATION: u8 = 0x01;
    const COMPONENT_OR_INSTANCE: [u8; 2] = [0x41, 0x42];
    section.windows(2).filter(|pair| pair[0] == TYPE_DECLARATION && COMPONENT_OR_INSTANCE.contains(&pair[1])).count()
}

/// Tells a durable agent from a WASI command by what it exports, then holds it to that world's imports.
fn world(seen: &Seen) -> Result<World, Unfit> {
    let exports =
        |name: &str| seen.exports.iter().any(|export| export == name || export.starts_with(&format!("{name}@")));
    if exports("handle") {
        let ours = |import: &str| import.starts_with("lazaret:host/") && import.ends_with(INTERFACES);
        let why = "a durable agent can't: it may import the lazaret:host interfaces of version 0.1.0, and no WASI, whose \
                   handles don't survive sleep; build it against wit/host.wit alone, or export wasi:cli/run and live \
                   without memory";
        return refuse_foreign(seen, ours, why).map(|()| World::Durable);
    }
    if exports("wasi:cli/run") {
        let known = ["wasi:io/", "wasi:clocks/", "wasi:random/", "wasi:cli/", "wasi:http/", "wasi:filesystem/"];
        let ours = |import: &str| import.contains("@0.2.") && known.iter().any(|known| import.starts_with(known));
        let why = "this host doesn't offer to a WASI command (there are wasi:io, clocks, random, cli and http of 0.2; no \
                   sockets, and a filesystem without directories)";
        return refuse_foreign(seen, ours, why).map(|()| World::Stateless);
    }
    Err(Unfit::NoEntry(if seen.exports.is_empty() { "nothing".into() } else { cut(&seen.exports.join(", ")) }))
}

fn refuse_foreign(seen: &Seen, ours: impl Fn(&str) -> bool, why: &'static str) -> Result<(), Unfit> {
    match seen.imports.iter().find(|import| !ours(import)) {
        None => Ok(()),
        Some(import) => Err(Unfit::Import { import: cut(import), why }),
    }
}

/// A stranger's words, short enough to be read.
fn cut(words: &str) -> String {
    const MOST: usize = 200;
    let mut chars = words.chars();
    let mut start: String = chars.by_ref().take(MOST).collect();
    if chars.next().is_some() {
        start.push('…');
    }
    start
}
