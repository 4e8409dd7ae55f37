//! Makes a component's state readable and writable from outside, once, at admission.
//!
//! Between turns an agent is bytes on disk: its memories, which the host supplies and sees, and the mutable globals of
//! every core instance inside its component, nested components included, which nothing outside can see. So the component
//! is rewritten such that one compiled component serves birth and wake:
//!
//! - Each core module exports the mutable globals that it defines. Its data segments are no longer laid out, and its start
//!   function no longer run, by instantiation: a new function, its birth, does both. Function bodies are unchanged,
//!   byte for byte, and so is the fuel they use.
//! - Each component gets accessor modules that reach those globals and births, and exports them in numbered groups. A
//!   component that instantiates another passes the inner groups on under numbers of its own.
//!
//! Instantiation then runs no guest code and leaves every memory empty. At birth, call the birth of each group in the
//! order of the map, which is the order in which the original component would have started. At a wake, map the memories
//! and set the globals. Tables are not touched: element segments fill them at each instantiation, and a component that
//! could change them later is refused, like everything else that would be lost (see [`Reason`]).

mod accessor;
mod component;
mod handles;
mod limits;
mod module;
mod refusal;
mod uses;

use serde::{Deserialize, Serialize};
use wasmparser::{Encoding, Parser, Payload, ValidPayload, Validator, WasmFeatures, types::TypesRef};

pub use refusal::{Place, Reason, Uncapturable};

use component::{ComponentRewrite, Slots};
use limits::Budget;
use module::ModuleRewrite;

/// Exports of rewritten core modules begin with this.
const CORE_PREFIX: &str = "lazaret:";
const CORE_BIRTH: &str = "lazaret:birth";

/// Exports of rewritten components begin with this.
const COMPONENT_PREFIX: &str = "lazaret-";
const BIRTH: &str = "lazaret-birth-";
const GET: &str = "lazaret-get-";
const SET: &str = "lazaret-set-";

fn core_global(index: u32) -> String {
    format!("{CORE_PREFIX}global:{index}")
}

/// A component that can sleep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instrumented {
    /// The component to compile. The same input always gives the same bytes.
    pub bytes: Vec<u8>,
    /// What its added exports reach.
    pub map: StateMap,
}

/// The added exports of an instrumented component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateMap {
    /// In birth order. Empty if no core instance has a mutable global, a data segment or a start function.
    pub groups: Vec<Group>,
}

/// Core instances that are born, read and written together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// What the names of the group's three exports end with.
    pub name: String,
    /// One entry per slot: the kind of slot `i` is `globals[i]`.
    pub globals: Vec<GlobalKind>,
}

impl Group {
    /// Name of the export `func()` that lays out data segments and runs start functions.
    pub fn birth_export(&self) -> String {
        format!("{BIRTH}{}", self.name)
    }

    /// Name of the export `func(index: u32) -> u64` that reads slot `index`. It traps if there is no such slot.
    pub fn get_export(&self) -> String {
        format!("{GET}{}", self.name)
    }

    /// Name of the export `func(index: u32, value: u64)` that writes slot `index`. It traps if there is no such slot.
    pub fn set_export(&self) -> String {
        format!("{SET}{}", self.name)
    }
}

/// What a slot holds. Every slot is read and written as the 64 bits of a `u64`, narrower ones in the low half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GlobalKind {
    /// An `i32`, zero-extended.
    I32,
    /// An `i64`.
    I64,
    /// The bits of an `f32`, zero-extended.
    F32,
    /// The bits of an `f64`.
    F64,
    /// Lanes 0 to 7 of a `v128`; the next slot has the rest.
    V128Low,
    /// Lanes 8 to 15 of a `v128`.
    V128High,
}

/// The proposals whose state the rules in this module cover. What is not here is refused as unreadable: garbage collected
/// objects, continuations, and the component model's tasks, streams, futures and values.
const KNOWN: WasmFeatures = WasmFeatures::WASM1
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::FUNCTION_REFERENCES)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::RELAXED_SIMD)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::MULTI_MEMORY)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::EXCEPTIONS)
    .union(WasmFeatures::WIDE_ARITHMETIC)
    .union(WasmFeatures::COMPONENT_MODEL);

/// Rewrites `component` such that its state can be captured, or says why it cannot be.
///
/// The structure of the component is validated on the way; function bodies are only searched for instructions that cannot
/// be allowed, so the caller validates them, at the latest by compiling the result.
pub fn instrument(component: &[u8]) -> Result<Instrumented, Uncapturable> {
    let mut walk = Walk {
        bytes: component,
        validator: Validator::new_with_features(KNOWN),
        components: Vec::new(),
        module: None,
        modules: 0,
        budget: Budget::new(),
    };
    for payload in Parser::new(0).parse_all(component) {
        if let Some((bytes, groups)) = walk.step(payload?)? {
            let group = |(number, slots): (usize, Slots)| Group { name: number.to_string(), globals: slots.to_vec() };
            let groups = groups.into_iter().enumerate().map(group).collect();
            return Ok(Instrumented { bytes, map: StateMap { groups } });
        }
    }
    Err(Place::at(component.len()).refuse(Reason::Unreadable("it ends too early".into())))
}

/// One pass over the component. Nesting is a stack on the heap, because its depth is the guest's choice.
struct Walk<'a> {
    bytes: &'a [u8],
    validator: Validator,
    /// The components being read, outermost first.
    components: Vec<ComponentRewrite>,
    /// The core module being read, if any.
    module: Option<ModuleRewrite<'a>>,
    /// Core modules begun so far.
    modules: u32,
    budget: Budget,
}

/// A component's new bytes and its groups.
type Rewritten = (Vec<u8>, Vec<Slots>);

impl<'a> Walk<'a> {
    /// Returns the rewritten component once the outermost one has ended.
    fn step(&mut self, payload: Payload<'a>) -> Result<Option<Rewritten>, Uncapturable> {
        // Our own rules are asked first: their reasons say more than the validator's.
        match (&payload, &mut self.module, self.components.last()) {
            (Payload::Version { encoding, range, .. }, _, _) => self.begin(*encoding, range.start)?,
            (_, Some(module), _) => module.section(&payload, self.bytes)?,
            (_, None, Some(component)) => component.inspect(&payload)?,
            (_, None, None) => {}
        }
        match (&payload, self.validator.payload(&payload)?) {
            (Payload::End(offset), ValidPayload::End(types)) => return self.end(*offset, types.as_ref()),
            _ if self.module.is_some() => {}
            _ => {
                if let (Some(component), Some(types)) = (self.components.last_mut(), self.validator.types(0)) {
                    component.section(&payload, self.bytes, types)?;
                }
            }
        }
        Ok(None)
    }

    fn begin(&mut self, encoding: Encoding, offset: usize) -> Result<(), Uncapturable> {
        let depth = self.components.len();
        let what = "levels of nested components";
        let limit = limits::MAX_DEPTH;
        match encoding {
            Encoding::Module if depth == 0 => return Err(Place::at(offset).refuse(Reason::NotAComponent)),
            Encoding::Module => {
                self.module = Some(ModuleRewrite::new(self.modules));
                self.modules = self.modules.saturating_add(1);
            }
            Encoding::Component if depth == limit => {
                return Err(Place::at(offset).refuse(Reason::TooMany { what, limit }));
            }
            Encoding::Component => self.components.push(ComponentRewrite::new(depth == 0)),
        }
        Ok(())
    }

    fn end(&mut self, offset: usize, types: TypesRef<'_>) -> Result<Option<Rewritten>, Uncapturable> {
        if let Some(module) = self.module.take() {
            let (bytes, state) = module.finish(types)?;
            if let Some(component) = self.components.last_mut() {
                component.add_module(&bytes, state);
            }
            return Ok(None);
        }
        let Some(component) = self.components.pop() else {
            return Ok(None);
        };
        let (bytes, groups) = component.finish(types, offset, &mut self.budget)?;
        let Some(outer) = self.components.last_mut() else {
            return Ok(Some((bytes, groups)));
        };
        outer.add_component(&bytes, groups);
        Ok(None)
    }
}
