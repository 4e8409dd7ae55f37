//! Whether a component can ever make a resource handle.
//!
//! Handles live in tables of the host and do not survive sleep. They come into being in two ways only: the outermost
//! component imports a resource, or something calls `resource.new`. Toolchains that stub out WASI define `resource.new` for
//! every WASI resource and hand it to a module that never calls it, so what is refused is not the definition but the use.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::{
    CanonicalFunction, CanonicalOption, ComponentAlias, ComponentType, Export, ExternalKind, InstantiationArg,
    types::TypesRef,
};

use super::{
    module::ModuleState,
    refusal::{Place, Reason, Uncapturable},
};

/// Follows `resource.new` through one component's index spaces.
#[derive(Debug, Default)]
pub(super) struct Handles {
    /// Core functions that are `resource.new`.
    makers: BTreeSet<u32>,
    /// Core instances that are lists of exports, with the names under which they hand on a maker.
    lists: BTreeMap<u32, BTreeSet<String>>,
}

impl Handles {
    /// `types` are the component's after this section, as everywhere here.
    pub(super) fn canonical(
        &mut self,
        section: wasmparser::ComponentCanonicalSectionReader<'_>,
        types: TypesRef<'_>,
    ) -> Result<(), Uncapturable> {
        // A lift defines no core function; everything else here defines one.
        let mut defined = 0;
        for item in section.clone() {
            defined += u32::from(!matches!(item?, CanonicalFunction::Lift { .. }));
        }
        let mut next = types.function_count().saturating_sub(defined);
        for item in section.into_iter_with_offsets() {
            let (offset, function) = item?;
            let refuse = || Place::at(offset).refuse(Reason::ResourceMade);
            match function {
                // Lifting a maker hands it to whoever imports the lifted function.
                CanonicalFunction::Lift { core_func_index, options, .. } => {
                    if self.makers.contains(&core_func_index) || self.any_option(&options) {
                        return Err(refuse());
                    }
                    continue;
                }
                CanonicalFunction::Lower { options, .. } if self.any_option(&options) => return Err(refuse()),
                CanonicalFunction::ResourceNew { .. } => drop(self.makers.insert(next)),
                _ => {}
            }
            next += 1;
        }
        Ok(())
    }

    fn any_option(&self, options: &[CanonicalOption]) -> bool {
        options.iter().any(|option| match option {
            CanonicalOption::Realloc(function) | CanonicalOption::PostReturn(function) => {
                self.makers.contains(function)
            }
            _ => false,
        })
    }

    /// A core function that is taken out of a list again is still a maker.
    pub(super) fn aliases(
        &mut self,
        section: wasmparser::ComponentAliasSectionReader<'_>,
        types: TypesRef<'_>,
    ) -> Result<(), Uncapturable> {
        let mut makers = Vec::new();
        let mut defined = 0;
        for item in section {
            if let ComponentAlias::CoreInstanceExport { kind: ExternalKind::Func, instance_index, name } = item? {
                if self.lists.get(&instance_index).is_some_and(|names| names.contains(name)) {
                    makers.push(defined);
                }
                defined += 1;
            }
        }
        let first = types.function_count().saturating_sub(defined);
        self.makers.extend(makers.into_iter().map(|position| first + position));
        Ok(())
    }

    /// A core instance that is a list of exports.
    pub(super) fn list(&mut self, instance: u32, exports: &[Export<'_>]) {
        let maker = |export: &&Export<'_>| export.kind == ExternalKind::Func && self.makers.contains(&export.index);
        let names: BTreeSet<String> = exports.iter().filter(maker).map(|export| export.name.to_owned()).collect();
        if !names.is_empty() {
            self.lists.insert(instance, names);
        }
    }

    /// A core module is given makers: it may import them, not use them.
    pub(super) fn instantiate(&self, args: &[InstantiationArg<'_>], module: &ModuleState) -> Result<(), Uncapturable> {
        for arg in args {
            for name in self.lists.get(&arg.index).into_iter().flatten() {
                if let Some(place) = module.used.get(&(arg.name.to_owned(), name.clone())) {
                    return Err(place.refuse(Reason::ResourceMade));
                }
            }
        }
        Ok(())
    }

    /// The host calls a resource's destructor.
    pub(super) fn types(&self, section: wasmparser::ComponentTypeSectionReader<'_>) -> Result<(), Uncapturable> {
        for item in section.into_iter_with_offsets() {
            let (offset, ty) = item?;
            if let ComponentType::Resource { dtor: Some(function), .. } = ty
                && self.makers.contains(&function)
            {
                return Err(Place::at(offset).refuse(Reason::ResourceMade));
            }
        }
        Ok(())
    }
}
