//! A case: a text file of setups, commands and what they must say.
//!
//! ```text
//! # Lines like this are for people.
//! % write note.txt hello\n        prepares something; `stage.rs` lists what there is
//! $ lazaret run note.txt          runs the command in the case's own directory
//! error: [..]                     what it says, on both outputs; `[..]` stands for anything
//! ? 3                             its exit code, if it isn't 0
//! ```
//!
//! What differs from run to run is replaced before it is compared (`plain.rs`).

/// One thing that a case does.
pub(crate) enum Step {
    /// Kept as it is when expectations are written anew.
    Comment(String),
    /// A setup and its lines, if it has any.
    Setup { line: String, body: Vec<String> },
    /// A command and what is expected of it.
    Run { command: String, expected: Vec<String>, code: i32 },
}

/// Lines of output that look like something else are written with a `\` before them.
fn is_special(line: &str) -> bool {
    ["#", "% ", "$ ", "? ", "\\"].iter().any(|start| line.starts_with(start))
}

pub(crate) fn parse(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        if line.starts_with('#') {
            steps.push(Step::Comment(line.to_owned()));
        } else if let Some(line) = line.strip_prefix("% ") {
            steps.push(Step::Setup { line: line.to_owned(), body: Vec::new() });
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step::Run { command: command.to_owned(), expected: Vec::new(), code: 0 });
        } else {
            match steps.last_mut() {
                Some(Step::Run { code, .. }) if line.starts_with("? ") => {
                    *code = line[2..].parse().unwrap_or_else(|_| panic!("`{line}` is no exit code"));
                }
                Some(Step::Run { expected, .. }) => expected.push(line.strip_prefix('\\').unwrap_or(line).to_owned()),
                Some(Step::Setup { body, .. }) if line.starts_with("    ") => body.push(line.to_owned()),
                _ if line.is_empty() => {}
                _ => panic!("`{line}` belongs to no command"),
            }
        }
    }
    for step in &mut steps {
        if let Step::Run { expected, .. } = step {
            while expected.last().is_some_and(String::is_empty) {
                expected.pop();
            }
        }
    }
    steps
}

/// The case as a file says it.
pub(crate) fn print(steps: &[Step]) -> String {
    let mut text = String::new();
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Comment(line) => {
                if number > 0 && !matches!(steps[number - 1], Step::Comment(_)) {
                    text.push('\n');
                }
                text += &format!("{line}\n");
            }
            Step::Setup { line, body } => {
                text += &format!("% {line}\n");
                body.iter().for_each(|line| text += &format!("{line}\n"));
            }
            Step::Run { command, expected, code } => {
                if number > 0 && matches!(steps[number - 1], Step::Run { .. }) {
                    text.push('\n');
                }
                text += &format!("$ {command}\n");
                for line in expected {
                    text += &format!("{}{line}\n", if is_special(line) { "\\" } else { "" });
                }
                if *code != 0 {
                    text += &format!("? {code}\n");
                }
            }
        }
    }
    text
}

/// Whether lines are as expected. `[..]` stands for any part of a line, a line `...` for any number of lines.
pub(crate) fn matches(expected: &[String], found: &[&str]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((first, rest)) if first == "..." => (0..=found.len()).any(|skip| matches(rest, &found[skip..])),
        Some((first, rest)) => {
            found.split_first().is_some_and(|(line, more)| line_matches(first, line) && matches(rest, more))
        }
    }
}

fn line_matches(expected: &str, found: &str) -> bool {
    let mut parts = expected.split("[..]");
    let Some(mut rest) = parts.next().and_then(|first| found.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// What to expect from now on: the lines found, with what stood for any part or any lines kept where it still can.
pub(crate) fn renewed(expected: &[String], found: &[&str]) -> Vec<String> {
    let (rows, columns) = (expected.len(), found.len());
    let any = |row: usize| expected[row] == "...";
    // How many lines have to change from a place in both to the end.
    let mut cost = vec![vec![0_usize; columns + 1]; rows + 1];
    for row in (0..=rows).rev() {
        for column in (0..=columns).rev() {
            cost[row][column] = match (row < rows, column < columns) {
                (false, _) => columns - column,
                (true, false) => cost[row + 1][column] + usize::from(!any(row)),
                (true, true) if any(row) => cost[row + 1][column].min(cost[row][column + 1]),
                (true, true) => {
                    let differs = usize::from(!line_matches(&expected[row], found[column]));
                    let (both, less, more) = (cost[row + 1][column + 1], cost[row + 1][column], cost[row][column + 1]);
                    (both + differs).min(less + 1).min(more + 1)
                }
            };
        }
    }
    let (mut row, mut column, mut lines) = (0, 0, Vec::new());
    while row < rows || column < columns {
        if row < rows && any(row) {
            if cost[row][column] == cost[row + 1][column] {
                lines.push(expected[row].clone());
                row += 1;
            } else {
                column += 1;
            }
        } else if row < rows && (column == columns || cost[row][column] == cost[row + 1][column] + 1) {
            row += 1;
        } else if row == rows || cost[row][column] == cost[row][column + 1] + 1 {
            lines.push(found[column].to_owned());
            column += 1;
        } else {
            lines.push(renewed_line(&expected[row], found[column]));
            (row, column) = (row + 1, column + 1);
        }
    }
    lines
}

fn renewed_line(expected: &str, found: &str) -> String {
    if line_matches(expected, found) {
        return expected.to_owned();
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.split(' ').collect(), found.split(' ').collect());
    if old.len() != new.len() {
        return found.to_owned();
    }
    let word = |(old, new): (&&str, &&str)| if line_matches(old, new) { (*old).to_owned() } else { (*new).to_owned() };
    old.iter().zip(&new).map(word).collect::<Vec<_>>().join(" ")
}
