//! Takes out of a text what differs from run to run: digests, keys, times, process numbers, and figures of fuel.

/// Words end where none of these stands.
fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+/=-_.:".contains(c)
}

/// The text with `<digest>`, `<short>`, `<key>`, `<hash>`, `<time>`, `<pid>` and `<n>` in place of what changes.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
        if end == 0 {
            // What a terminal would obey is shown, and so compared.
            match first {
                '\u{1b}' => out.push('␛'),
                '\r' => {}
                first => out.push(first),
            }
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(end);
        out += &name(word, &out, after).unwrap_or_else(|| word.to_owned());
        rest = after;
    }
    times(&out)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Whether a number here depends on what things cost, or on what a toolchain made of a guest.
fn counted(before: &str, after: &str) -> bool {
    let named = ["fuel    ", "\"fuel\": "].iter().any(|name| before.ends_with(name));
    (named && !after.starts_with(',')) || [" fuel", " page"].iter().any(|unit| after.starts_with(unit))
}

/// What a word is called, if it is one of those.
fn name(word: &str, before: &str, after: &str) -> Option<String> {
    let bare = word.trim_end_matches([':', '.', ',']);
    let tail = &word[bare.len()..];
    let called = if bare.len() == 64 && is_hex(bare) {
        "<digest>"
    } else if bare.len() == 12 && is_hex(bare) && bare.bytes().any(|byte| byte.is_ascii_digit()) {
        "<short>"
    } else if bare.starts_with("lazaret.invalid/") {
        if bare.contains('+') { "<key>" } else { "<log>" }
    } else if bare.len() == 44 && bare.ends_with('=') {
        "<hash>"
    } else if before.ends_with("— <log> ") {
        "<signature>"
    } else if before.ends_with("process ") && bare.parse::<u32>().is_ok() {
        "<pid>"
    } else if bare.len() == 13 && bare.starts_with('1') && bare.parse::<u64>().is_ok() {
        "<ms>"
    } else if bare.parse::<u64>().is_ok() && tail.is_empty() && counted(before, after) {
        "<n>"
    } else {
        return None;
    };
    Some(format!("{called}{tail}"))
}

/// `2026-11-15 23:50:36` and numbers with commas in them, such as `1,234 fuel`.
fn times(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let shape: String = rest.chars().take(19).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        if shape == "0000-00-00 00:00:00" || shape == "0000-00-00T00:00:00" {
            out += "<time>";
            rest = rest[19..].trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start_matches('Z');
            continue;
        }
        if first.is_ascii_digit() && !out.ends_with(|c: char| c.is_ascii_digit() || c == ',') {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(rest.len());
            let (digits, after) = rest.split_at(end);
            let costs = after.starts_with("<n>") || after.starts_with(" bytes") || counted(&out, after);
            if digits.contains(',') && costs {
                out += "<n>";
                rest = after.strip_prefix("<n>").unwrap_or(after);
                continue;
            }
        }
        out.push(first);
        rest = &rest[first.len_utf8()..];
    }
    out
}

#[test]
fn what_changes_has_a_name() {
    let text = "entry 3 · 2026-11-15 23:50:36 · 1,234,567 fuel · 12 fuel · process 77; image 6c7710bc41f6.";
    assert_eq!(plain(text), "entry 3 · <time> · <n> fuel · <n> fuel · process <pid>; image <short>.");
    assert_eq!(plain("fuel    8,461\n36,250 bytes"), "fuel    <n>\n<n> bytes");
    assert_eq!(plain("1234 bytes, 0123456789ab\u{1b}[1m"), "1234 bytes, <short>␛[1m");
}
