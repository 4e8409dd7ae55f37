//! Rewrites one component: its core modules, and at its end the accessors with their exports.

use std::rc::Rc;

use wasm_encoder::{
    Alias, CanonicalFunctionSection, Component, ComponentAliasSection, ComponentExportKind, ComponentExportSection,
    ComponentTypeSection, ComponentValType, ExportKind, InstanceSection, ModuleArg, PrimitiveValType, RawSection,
};
use wasmparser::{
    CanonicalFunction, CanonicalOption, ComponentAlias, ComponentExternalKind, ComponentInstance,
    ComponentOuterAliasKind, ComponentTypeRef, Instance, InstantiationArg, Payload, TypeBounds, types::TypesRef,
};

use super::{
    BIRTH, COMPONENT_PREFIX, GET, GlobalKind, SET, accessor,
    handles::Handles,
    limits::Budget,
    module::ModuleState,
    refusal::{Place, Reason, Uncapturable},
};

const MODULE_SECTION: u8 = 1;
const COMPONENT_SECTION: u8 = 4;

/// The slots of one group. Shared, because a nested component that is instantiated often is described once.
pub(super) type Slots = Rc<[GlobalKind]>;

/// What instantiating a component does to state, in order.
enum Step {
    /// Core instances of this component, as `(instance, module)`, with no stateful nested instance between them.
    Own(Vec<(u32, u32)>),
    /// An instance of a nested component.
    Nested { instance: u32, component: u32 },
}

/// Copies a component and remembers what it instantiates.
pub(super) struct ComponentRewrite {
    /// Nested components get what they import from the component around them, so only the outermost is asked.
    outermost: bool,
    out: Component,
    modules: Vec<ModuleState>,
    components: Vec<Vec<Slots>>,
    steps: Vec<Step>,
    handles: Handles,
}

impl ComponentRewrite {
    pub(super) fn new(outermost: bool) -> Self {
        ComponentRewrite {
            outermost,
            out: Component::new(),
            modules: Vec::new(),
            components: Vec::new(),
            steps: Vec::new(),
            handles: Handles::default(),
        }
    }

    /// A core module defined here has been rewritten.
    pub(super) fn add_module(&mut self, bytes: &[u8], state: ModuleState) {
        self.out.section(&RawSection { id: MODULE_SECTION, data: bytes });
        self.modules.push(state);
    }

    /// A component defined here has been rewritten.
    pub(super) fn add_component(&mut self, bytes: &[u8], groups: Vec<Slots>) {
        self.out.section(&RawSection { id: COMPONENT_SECTION, data: bytes });
        self.components.push(groups);
    }

    /// Refuses what could not be captured.
    ///
    /// INVARIANT: core modules and components enter the index spaces only by definition, so that an index is the position
    /// in `modules` and `components`.
    pub(super) fn inspect(&self, payload: &Payload<'_>) -> Result<(), Uncapturable> {
        match payload {
            Payload::ComponentImportSection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    let (offset, import) = item?;
                    foreign(import.ty.kind(), "imported", offset)?;
                    if self.outermost && import.ty == ComponentTypeRef::Type(TypeBounds::SubResource) {
                        let name = import.name.name.to_owned();
                        return Err(Place::at(offset).refuse(Reason::ResourceImported { name }));
                    }
                }
            }
            Payload::ComponentAliasSection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    let (offset, alias) = item?;
                    inspect_alias(&alias, offset)?;
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    if let (offset, ComponentInstance::Instantiate { args, .. }) = item? {
                        for arg in &args {
                            foreign(arg.kind, "passed as an argument", offset)?;
                        }
                    }
                }
            }
            Payload::ComponentCanonicalSection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    let (offset, function) = item?;
                    inspect_canonical(&function).map_err(|reason| Place::at(offset).refuse(reason))?;
                }
            }
            Payload::ComponentStartSection { range, .. } => {
                return Err(Place::at(range.start).refuse(Reason::ComponentStart));
            }
            Payload::ComponentExportSection(section) => {
                for item in section.clone().into_iter_with_offsets() {
                    let (offset, export) = item?;
                    foreign(export.kind, "exported", offset)?;
                    inspect_name(export.name.name).map_err(|reason| Place::at(offset).refuse(reason))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Copies a section that was found valid and notes the instances in it. `types` are the component's so far.
    pub(super) fn section(
        &mut self,
        payload: &Payload<'_>,
        bytes: &[u8],
        types: TypesRef<'_>,
    ) -> Result<(), Uncapturable> {
        match payload {
            Payload::InstanceSection(section) => {
                let first = types.core_instance_count().saturating_sub(section.count());
                for (instance, item) in (first..).zip(section.clone()) {
                    match item? {
                        Instance::Instantiate { module_index, args } => {
                            self.core_instance(instance, module_index, &args)?;
                        }
                        Instance::FromExports(exports) => self.handles.list(instance, &exports),
                    }
                }
            }
            Payload::ComponentInstanceSection(section) => {
                let first = types.component_instance_count().saturating_sub(section.count());
                for (instance, item) in (first..).zip(section.clone()) {
                    if let ComponentInstance::Instantiate { component_index, .. } = item? {
                        self.nested_instance(instance, component_index);
                    }
                }
            }
            Payload::ComponentImportSection(section) if self.outermost => imported_resources(section.clone(), types)?,
            Payload::ComponentTypeSection(section) => self.handles.types(section.clone())?,
            Payload::ComponentCanonicalSection(section) => self.handles.canonical(section.clone(), types)?,
            Payload::ComponentAliasSection(section) => self.handles.aliases(section.clone(), types)?,
            _ => {}
        }
        // Modules and components are put in by their own rewrites.
        if let Payload::ModuleSection { .. } | Payload::ComponentSection { .. } = payload {
            return Ok(());
        }
        if let Some((id, range)) = payload.as_section() {
            let at = Place::at(range.start);
            let data = bytes.get(range).ok_or_else(|| at.refuse(Reason::Unreadable("section cut off".into())))?;
            self.out.section(&RawSection { id, data });
        }
        Ok(())
    }

    fn core_instance(&mut self, instance: u32, module: u32, args: &[InstantiationArg<'_>]) -> Result<(), Uncapturable> {
        let Some(state) = self.modules.get(module as usize) else {
            return Ok(());
        };
        self.handles.instantiate(args, state)?;
        if !state.is_empty() {
            match self.steps.last_mut() {
                Some(Step::Own(instances)) => instances.push((instance, module)),
                _ => self.steps.push(Step::Own(vec![(instance, module)])),
            }
        }
        Ok(())
    }

    fn nested_instance(&mut self, instance: u32, component: u32) {
        let groups = self.components.get(component as usize);
        if groups.is_some_and(|groups| !groups.is_empty()) {
            self.steps.push(Step::Nested { instance, component });
        }
    }

    /// Appends the accessors and exports every group under its number. `types` are those of the original component at
    /// its end, `offset` is where it ends.
    pub(super) fn finish(
        mut self,
        types: TypesRef<'_>,
        offset: usize,
        budget: &mut Budget,
    ) -> Result<(Vec<u8>, Vec<Slots>), Uncapturable> {
        let mut tail = Tail::new(types);
        let mut groups: Vec<Slots> = Vec::new();
        for step in &self.steps {
            match step {
                Step::Own(instances) => {
                    let states: Vec<&ModuleState> =
                        instances.iter().filter_map(|(_, module)| self.modules.get(*module as usize)).collect();
                    let slots: Slots = states
                        .iter()
                        .flat_map(|state| &state.globals)
                        .flat_map(|global| global.pieces().1)
                        .copied()
                        .collect();
                    budget.spend(slots.len()).map_err(|reason| Place::at(offset).refuse(reason))?;
                    self.out.section(&RawSection { id: MODULE_SECTION, data: &accessor::module(&states) });
                    tail.own(instances);
                    groups.push(slots);
                }
                Step::Nested { instance, component } => {
                    for (inner, slots) in self.components.get(*component as usize).into_iter().flatten().enumerate() {
                        budget.spend(slots.len()).map_err(|reason| Place::at(offset).refuse(reason))?;
                        tail.nested(*instance, inner);
                        groups.push(slots.clone());
                    }
                }
            }
        }
        if !groups.is_empty() {
            tail.write(&mut self.out);
        }
        Ok((self.out.finish(), groups))
    }
}

/// Everything after the accessor modules, section by section. Each call adds one group.
struct Tail {
    instances: InstanceSection,
    core_aliases: ComponentAliasSection,
    aliases: ComponentAliasSection,
    lifts: CanonicalFunctionSection,
    /// Component functions to export as birth, get and set, by group.
    groups: Vec<[Function; 3]>,
    next_module: u32,
    next_instance: u32,
    next_core_function: u32,
    first_type: u32,
    first_function: u32,
}

/// A component function that this tail defines: aliases come first, then lifts.
#[derive(Clone, Copy)]
enum Function {
    Alias(u32),
    Lift(u32),
}

impl Tail {
    fn new(types: TypesRef<'_>) -> Self {
        Tail {
            instances: InstanceSection::new(),
            core_aliases: ComponentAliasSection::new(),
            aliases: ComponentAliasSection::new(),
            lifts: CanonicalFunctionSection::new(),
            groups: Vec::new(),
            next_module: types.module_count(),
            next_instance: types.core_instance_count(),
            next_core_function: types.function_count(),
            first_type: types.component_type_count(),
            first_function: types.component_function_count(),
        }
    }

    /// The next accessor module gets the core instances and its three functions are lifted.
    fn own(&mut self, instances: &[(u32, u32)]) {
        let args = instances.iter().enumerate();
        let args: Vec<_> = args.map(|(i, (instance, _))| (i.to_string(), ModuleArg::Instance(*instance))).collect();
        self.instances.instantiate(self.next_module, args);
        let lifted = [(accessor::BIRTH, 0), (accessor::GET, 1), (accessor::SET, 2)].map(|(name, ty)| {
            self.core_aliases.alias(Alias::CoreInstanceExport {
                instance: self.next_instance,
                kind: ExportKind::Func,
                name,
            });
            let lift = Function::Lift(self.lifts.len());
            self.lifts.lift(self.next_core_function, self.first_type + ty, []);
            self.next_core_function += 1;
            lift
        });
        self.groups.push(lifted);
        self.next_module += 1;
        self.next_instance += 1;
    }

    /// A group of a nested instance is passed on.
    fn nested(&mut self, instance: u32, inner: usize) {
        let aliased = [BIRTH, GET, SET].map(|prefix| {
            let alias = Function::Alias(self.aliases.len());
            let name = format!("{prefix}{inner}");
            self.aliases.alias(Alias::InstanceExport { instance, kind: ComponentExportKind::Func, name: &name });
            alias
        });
        self.groups.push(aliased);
    }

    fn write(self, out: &mut Component) {
        let u32_type = ComponentValType::Primitive(PrimitiveValType::U32);
        let u64_type = ComponentValType::Primitive(PrimitiveValType::U64);
        let mut types = ComponentTypeSection::new();
        let nothing: [(&str, ComponentValType); 0] = [];
        types.function().params(nothing).result(None);
        types.function().params([("index", u32_type)]).result(Some(u64_type));
        types.function().params([("index", u32_type), ("value", u64_type)]).result(None);

        let first_lift = self.first_function + self.aliases.len();
        let mut exports = ComponentExportSection::new();
        for (number, functions) in self.groups.iter().enumerate() {
            for (prefix, function) in [BIRTH, GET, SET].into_iter().zip(functions) {
                let index = match function {
                    Function::Alias(n) => self.first_function + n,
                    Function::Lift(n) => first_lift + n,
                };
                exports.export(format!("{prefix}{number}").as_str(), ComponentExportKind::Func, index, None);
            }
        }
        out.section(&self.instances).section(&self.core_aliases).section(&self.aliases);
        out.section(&types).section(&self.lifts).section(&exports);
    }
}

/// Code must be defined where it is instantiated.
fn foreign(kind: ComponentExternalKind, how: &'static str, offset: usize) -> Result<(), Uncapturable> {
    let what = match kind {
        ComponentExternalKind::Module => "core module",
        ComponentExternalKind::Component => "component",
        _ => return Ok(()),
    };
    Err(Place::at(offset).refuse(Reason::Foreign { what, how }))
}

fn inspect_alias(alias: &ComponentAlias<'_>, offset: usize) -> Result<(), Uncapturable> {
    match alias {
        ComponentAlias::InstanceExport { kind, .. } => foreign(*kind, "taken from an instance", offset),
        ComponentAlias::Outer { kind, .. } => {
            let kind = match kind {
                ComponentOuterAliasKind::CoreModule => ComponentExternalKind::Module,
                ComponentOuterAliasKind::Component => ComponentExternalKind::Component,
                ComponentOuterAliasKind::CoreType | ComponentOuterAliasKind::Type => ComponentExternalKind::Type,
            };
            foreign(kind, "taken from an outer component", offset)
        }
        ComponentAlias::CoreInstanceExport { .. } => Ok(()),
    }
}

/// Only functions that leave nothing behind in the host.
///
/// `resource.drop` and `resource.rep` take a handle: where nothing makes handles, they can only trap. Who may use
/// `resource.new` is a question for [`Handles`].
fn inspect_canonical(function: &CanonicalFunction) -> Result<(), Reason> {
    match function {
        CanonicalFunction::Lift { options, .. } | CanonicalFunction::Lower { options, .. } => {
            let bad = |option: &&CanonicalOption| {
                matches!(option, CanonicalOption::Async | CanonicalOption::Callback(_) | CanonicalOption::Gc)
            };
            match options.iter().find(bad) {
                Some(CanonicalOption::Gc) => Err(Reason::Async { what: "gc".into() }),
                Some(_) => Err(Reason::Async { what: "async".into() }),
                None => Ok(()),
            }
        }
        CanonicalFunction::ResourceNew { .. }
        | CanonicalFunction::ResourceDrop { .. }
        | CanonicalFunction::ResourceRep { .. } => Ok(()),
        other => Err(Reason::Async { what: canonical_name(other) }),
    }
}

/// `waitable-set-new` and the like, from the parser's name for it.
fn canonical_name(function: &CanonicalFunction) -> String {
    let debug = format!("{function:?}");
    let end = debug.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(debug.len());
    let mut name = String::new();
    for c in debug.chars().take(end) {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// Names are unique without regard to case or to an annotation such as `[async]`.
fn inspect_name(name: &str) -> Result<(), Reason> {
    let plain = name.rsplit(']').next().unwrap_or(name);
    let prefix = plain.as_bytes().get(..COMPONENT_PREFIX.len());
    if prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(COMPONENT_PREFIX.as_bytes())) {
        return Err(Reason::Reserved { name: name.to_owned() });
    }
    Ok(())
}

/// Instances that the outermost component imports may carry resources in their types.
fn imported_resources(
    section: wasmparser::ComponentImportSectionReader<'_>,
    types: TypesRef<'_>,
) -> Result<(), Uncapturable> {
    let mut instances = Vec::new();
    for item in section.into_iter_with_offsets() {
        let (offset, import) = item?;
        if let ComponentTypeRef::Instance(_) = import.ty {
            instances.push((offset, import.name.name));
        }
    }
    let first = types.component_instance_count().saturating_sub(instances.len() as u32);
    for (instance, (offset, name)) in (first..types.component_instance_count()).zip(instances) {
        let ty = &types[types.component_instance_at(instance)];
        if !ty.explicit_resources.is_empty() || !ty.defined_resources.is_empty() {
            return Err(Place::at(offset).refuse(Reason::ResourceImported { name: name.to_owned() }));
        }
    }
    Ok(())
}
