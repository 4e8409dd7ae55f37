//! Which of its imported functions a core module can ever call or hand on.

use std::collections::BTreeMap;

use wasmparser::{ConstExpr, ElementItems, Operator};

use super::refusal::{Place, Uncapturable};

/// Imported functions by import name, with the first place that mentions each.
pub(super) type UsedImports = BTreeMap<(String, String), Place>;

/// Collects mentions of imported functions while a module is read.
#[derive(Debug, Default)]
pub(super) struct Uses<'a> {
    imports: Vec<(&'a str, &'a str)>,
    used: BTreeMap<u32, Place>,
}

impl<'a> Uses<'a> {
    /// The next imported function.
    pub(super) fn import(&mut self, import: &wasmparser::Import<'a>) {
        self.imports.push((import.module, import.name));
    }

    /// Imported functions come first in the function index space.
    pub(super) fn imported(&self) -> u32 {
        self.imports.len() as u32
    }

    /// A function is called, referred to or exported.
    pub(super) fn mention(&mut self, function: u32, place: Place) {
        if function < self.imported() {
            self.used.entry(function).or_insert(place);
        }
    }

    pub(super) fn expression(&mut self, expression: &ConstExpr<'a>, place: Place) -> Result<(), Uncapturable> {
        for operator in expression.get_operators_reader() {
            if let Operator::RefFunc { function_index } = operator? {
                self.mention(function_index, place);
            }
        }
        Ok(())
    }

    pub(super) fn elements(&mut self, items: ElementItems<'a>, place: Place) -> Result<(), Uncapturable> {
        match items {
            ElementItems::Functions(functions) => {
                for function in functions {
                    self.mention(function?, place);
                }
            }
            ElementItems::Expressions(_, expressions) => {
                for expression in expressions {
                    self.expression(&expression?, place)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> UsedImports {
        let name = |function: u32| self.imports.get(function as usize);
        let owned = |(module, field): &(&str, &str)| ((*module).to_owned(), (*field).to_owned());
        let mut used = UsedImports::new();
        for (function, place) in &self.used {
            if let Some(name) = name(*function).map(owned) {
                used.entry(name).or_insert(*place);
            }
        }
        used
    }
}
