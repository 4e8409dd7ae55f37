//! Files and functions that have grown too long: ask what noun is hiding in them.

use super::Finding;
use super::source::{Source, is_word};
use super::tree::Tree;

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;

/// A test's function may be a table of cases, and a table is read row by row.
const TEST_FUNCTION_LINES: usize = 200;

/// Written by hand; data and lock files may be as long as they are.
const SOURCES: &[&str] = &["rs", "wit", "py", "js", "mjs", "c", "h", "sh", "cedar"];

pub(super) fn files(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is(SOURCES)) {
        let lines = file.text.lines().count();
        if lines > FILE_LINES {
            let message = format!("{lines} lines; at most {FILE_LINES}");
            found.push(Finding { figure: lines, ..Finding::new(&file.path, 1, message) });
        }
    }
    found
}

pub(super) fn functions(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, source) in tree.rust() {
        let most = if file.path.contains("/tests/") { TEST_FUNCTION_LINES } else { FUNCTION_LINES };
        for function in scan(source).into_iter().filter(|function| function.lines() > most) {
            let (name, lines) = (&function.name, function.lines());
            let message = format!("`{name}` has {lines} lines; at most {most}");
            let item = Some(name.clone());
            found.push(Finding { item, figure: lines, ..Finding::new(&file.path, function.first, message) });
        }
    }
    found
}

struct Function {
    name: String,
    first: usize,
    last: usize,
}

impl Function {
    fn lines(&self) -> usize {
        self.last + 1 - self.first
    }
}

/// Every function with a body, nested ones too, by counting braces in the code.
fn scan(source: &Source) -> Vec<Function> {
    let mut chars = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        chars.extend(line.chars().chain(['\n']).map(|char| (char, index + 1)));
    }
    let mut functions = Vec::new();
    for at in 0..chars.len() {
        if let Some(name) = name_at(&chars, at)
            && let Some(open) = body(&chars, at)
            && let Some(last) = closing_line(&chars, open)
        {
            functions.push(Function { name, first: chars[at].1, last });
        }
    }
    functions
}

/// The name of the function whose `fn` stands here; a type such as `fn(u8)` has none.
fn name_at(chars: &[(char, usize)], at: usize) -> Option<String> {
    let [('f', _), ('n', _), (space, _), ..] = chars[at..] else {
        return None;
    };
    if !space.is_whitespace() || at > 0 && is_word(chars[at - 1].0) {
        return None;
    }
    let rest = chars[at + 2..].iter().map(|&(char, _)| char).skip_while(|char| char.is_whitespace());
    let name: String = rest.take_while(|&char| is_word(char) || char == '#').collect();
    (!name.is_empty()).then_some(name)
}

/// Where the body opens; a declaration without one ends in `;` first. The `;` of an array type is within brackets.
fn body(chars: &[(char, usize)], from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, &(char, _)) in chars.iter().enumerate().skip(from) {
        match char {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '{' if depth == 0 => return Some(at),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn closing_line(chars: &[(char, usize)], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for &(char, line) in &chars[open..] {
        match char {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(line),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::source::split;
    use super::*;

    #[test]
    fn functions_are_found_by_their_braces() {
        let text = "trait T { fn declared(a: [u8; 2]) -> fn(u8); }\nfn outer() {\n    fn inner() { \"}\"; }\n}\n";
        let found: Vec<_> = scan(&split(text)).into_iter().map(|f| (f.name, f.first, f.last)).collect();
        assert_eq!(found, [("outer".to_string(), 2, 4), ("inner".to_string(), 3, 3)]);
    }
}
