//! Each rule against a snippet that breaks it and one that doesn't.

use super::packages::Package;
use super::tree::{File, Tree};
use super::{RULES, ratchet, report};

fn tree(files: &[(&str, &str)], metadata: &str) -> Tree {
    let files = files.iter().map(|(path, text)| File::new(path, text)).collect();
    let packages = if metadata.is_empty() { Vec::new() } else { Package::parse(metadata).unwrap() };
    Tree { files, packages }
}

/// A rule, a file that keeps it, one that breaks it, and how the report begins.
struct Row {
    rule: &'static str,
    path: &'static str,
    good: &'static str,
    bad: &'static str,
    says: &'static str,
}

/// Paths that the rule on machine paths looks for, in pieces for its sake.
const MACHINE: &str = concat!("see /wo", "rk/main\n");
const MIRROR: &str = concat!("registry", "=https://mirror.corp.example/npm/\n");

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { rule: "unsafe-home", path: "crates/a/src/lib.rs",
        good: "// unsafe\nconst A: &str = \"unsafe\";\n",
        bad: "// SAFETY: none\nunsafe impl Send for A {}\n",
        says: "crates/a/src/lib.rs:2: `unsafe` outside its home" },
    Row { rule: "unsafe-reason", path: "crates/lazaret-guest/src/native/a.rs",
        good: "fn a() {\n    // SAFETY: `b` is a\n    // pointer of ours.\n    let b =\n        unsafe { *c };\n}\n",
        bad: "fn a() {\n    // SAFETY: of the other\n    let a = 1;\n    let b = unsafe { *c };\n}\n",
        says: "crates/lazaret-guest/src/native/a.rs:4: `unsafe` without a `// SAFETY:`" },
    Row { rule: "suppression", path: "a.rs",
        good: "#[expect(\n    dead_code,\n    reason = \"shown to humans\"\n)]\nfn a() {}\n",
        bad: "fn b() {}\n#[cfg_attr(test, allow(dead_code))]\nfn a() {}\n",
        says: "a.rs:2: a lint is switched off without `reason" },
    Row { rule: "suppression", path: "a.rs",
        good: "fn a() { b.expect(\"c\"); }\n",
        bad: "#[allow(dead_code, reason = \"\")]\nfn a() {}\n",
        says: "a.rs:1: a lint is switched off" },
    Row { rule: "unfinished", path: "a.rs",
        good: "const A: &str = \"TODO todo!()\"; // mktemp XXXXXX\n",
        bad: "fn a() {\n    todo!()\n}\n",
        says: "a.rs:2: `todo!`: finish it" },
    Row { rule: "unfinished", path: "a.rs", good: "// to do\n", bad: "// FIXME later\n", says: "a.rs:1: `FIXME`" },
    Row { rule: "unfinished", path: "a.py", good: "pass\n", bad: "# XXX\n", says: "a.py:1: `XXX`" },
    Row { rule: "machine-path", path: "a.md",
        good: "a /home/ of its own, frame/work/a, ~/work/a\n", bad: MACHINE, says: "a.md:1: `/" },
    Row { rule: "registry-host", path: ".npmrc",
        good: "registry=https://registry.npmjs.org/\n", bad: MIRROR, says: ".npmrc:1: packages come from the public" },
    Row { rule: "whitespace", path: "a.md", good: "a\n", bad: "a\nb \n", says: "a.md:2: whitespace at the end" },
    Row { rule: "whitespace", path: "a.rs", good: "a\n", bad: "\ta\n", says: "a.rs:1: a tab" },
    Row { rule: "whitespace", path: "LICENSE", good: "a\n", bad: "a", says: "LICENSE:1: no newline at the end" },
    Row { rule: "whitespace", path: "a.toml", good: "a\n", bad: "a\n\n", says: "a.toml:2: an empty line at the end" },
    Row { rule: "word", path: "a.rs",
        good: "/// The journal.\n// ledger\n", bad: "/// The Ledgers.\n",
        says: "a.rs:1: say \"journal\", not \"ledger\"" },
    Row { rule: "wit-resource", path: "wit/a.wit",
        good: "/// No resource.\ninterface a {}\n", bad: "interface a {\n    resource b;\n}\n",
        says: "wit/a.wit:2: a `resource` does not survive" },
    Row { rule: "link", path: "docs/a.md",
        good: "[a](a.md#x) [b](../docs) `[c](d)` [e](https://f.example) [g](#h)\n```\n[i](j)\n```\n",
        bad: "a [b](../c.md)\n", says: "docs/a.md:1: the link to `../c.md` leads nowhere" },
    Row { rule: "source", path: "guests/a/Cargo.lock",
        good: "[[package]]\nname = \"a\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n",
        bad: "[[package]]\nname = \"a\"\nsource = \"git+https://github.com/a/a#1\"\n",
        says: "guests/a/Cargo.lock:2: `a` comes from `git+" },
];

#[test]
fn each_rule_tells_good_from_bad() {
    for Row { rule, path, good, bad, says } in ROWS {
        let lines = report(&tree(&[(path, good)], ""));
        assert!(lines.is_empty(), "{rule} of {path}: {lines:?}");
        let lines = report(&tree(&[(path, bad)], ""));
        assert!(lines.len() == 1 && lines[0].starts_with(says), "{rule} of {path}: {lines:?}");
        assert!(lines[0].ends_with(&format!("[{rule}]")), "{lines:?}");
    }
}

#[test]
fn long_files_and_functions_are_found() {
    let lines = |count: usize| "// a\n".repeat(count);
    assert_eq!(report(&tree(&[("a.rs", &lines(600))], "")), [""; 0]);
    assert_eq!(report(&tree(&[("a.rs", &lines(601))], "")), ["a.rs:1: 601 lines; at most 600 [file-length]"]);

    let function = |count: usize| format!("\nfn a() {{\n{}}}\n", lines(count - 2));
    assert_eq!(report(&tree(&[("a.rs", &function(70))], "")), [""; 0]);
    let long = report(&tree(&[("a.rs", &function(71))], ""));
    assert_eq!(long, ["a.rs:2: `a` has 71 lines; at most 70 [function-length]"]);
    assert_eq!(report(&tree(&[("x/tests/a.rs", &function(200))], "")), [""; 0]);
    let long = report(&tree(&[("x/tests/a.rs", &function(201))], ""));
    assert_eq!(long, ["x/tests/a.rs:2: `a` has 201 lines; at most 200 [function-length]"]);
}

const DENY: &str = r#"[licenses]
allow = [
    "MIT", # fine
]
[bans]
deny = [
    { crate = "openssl", reason = "no" },
]
"#;

#[test]
fn banned_crates_are_found_in_any_lock_file() {
    let lock = "[[package]]\nname = \"openssl\"\n";
    let lines = report(&tree(&[("deny.toml", DENY), ("guests/a/Cargo.lock", lock)], ""));
    assert_eq!(lines, ["guests/a/Cargo.lock:2: `openssl` is banned: no [ban]"]);
}

/// A workspace of one package, `name`, with one dependency.
fn workspace(name: &str, wants: &str, version: &str, licence: &str) -> Tree {
    let metadata = serde_json::json!({
        "workspace_root": "/a",
        "workspace_members": ["ours", "other"],
        "packages": [
            {
                "id": "ours", "name": name, "manifest_path": "/a/crates/b/Cargo.toml", "license": "MIT",
                "dependencies": [{ "name": wants, "req": version }]
            },
            { "id": "other", "name": "lazaret-exec", "manifest_path": "/a/crates/c/Cargo.toml", "license": "MIT" },
            { "id": "theirs", "name": wants, "manifest_path": "/elsewhere/Cargo.toml", "license": licence }
        ],
        "resolve": { "nodes": [
            { "id": "ours", "deps": [{ "pkg": "theirs", "dep_kinds": [{ "kind": null }] }] },
        ] }
    });
    let lints = "[package]\n[lints]\nworkspace = true\n";
    let files = [
        ("deny.toml", DENY),
        ("crates/b/Cargo.toml", lints),
        ("crates/c/Cargo.toml", lints),
        ("crates/b/src/limits.rs", ""),
        ("crates/c/src/limits.rs", ""),
    ];
    tree(&files, &metadata.to_string())
}

#[test]
fn packages_keep_their_place() {
    let at = "crates/b/Cargo.toml:1: ";
    for (name, wants, version, licence, says) in [
        ("lazaret-guest", "serde", "^1", "MIT", String::new()),
        ("lazaret-guest", "wasmtime", "=48.0.8", "MIT", String::new()),
        (
            "lazaret-guest",
            "lazaret-exec",
            "*",
            "MIT",
            format!("{at}`lazaret-guest` may not depend on `lazaret-exec` [direction]"),
        ),
        (
            "lazaret-misc",
            "serde",
            "^1",
            "MIT",
            format!("{at}`lazaret-misc` has no place in the order of our crates (LAYERS in xtask) [direction]"),
        ),
        (
            "lazaret-gate",
            "rusqlite",
            "^1",
            "MIT",
            format!("{at}`lazaret-gate` reaches `rusqlite`; it decides and does no I/O [reach]"),
        ),
        (
            "lazaret-host",
            "wasmtime",
            "^48",
            "MIT",
            format!("{at}`wasmtime` must be pinned exactly, as `=x.y.z`; it is `^48` [pin]"),
        ),
        (
            "lazaret-host",
            "serde",
            "^1",
            "GPL-3.0",
            "Cargo.lock:1: `serde` is under `GPL-3.0`, which deny.toml does not allow [licence]".to_string(),
        ),
    ] {
        assert_eq!(report(&workspace(name, wants, version, licence)).join("\n"), says);
    }
}

#[test]
fn a_package_without_lints_or_limits_is_found() {
    let mut tree = workspace("lazaret-guest", "serde", "^1", "MIT");
    tree.files.retain(|file| !file.path.starts_with("crates/b"));
    tree.files.push(File::new("crates/b/Cargo.toml", "[lints]\n[package]\nworkspace = true\n"));
    let expected = [
        "crates/b/Cargo.toml:1: no `[lints]` table with `workspace = true` [lints-table]",
        "crates/b/src/limits.rs:1: missing: a crate that takes hostile input names its limits here [limits]",
    ];
    assert_eq!(report(&tree), expected);
}

#[test]
fn exceptions_hold_only_at_their_figure() {
    let bad = "/// A ledger.\n/// Two ledgers.\n";
    let with = |exception: &str| report(&tree(&[("a.rs", bad), (ratchet::PATH, exception)], ""));
    assert_eq!(with("# why\nword a.rs 2 quoted from a law\n"), [""; 0]);
    let same = "xtask/tidy.txt:1: word of";
    for (exception, count, says) in [
        ("word a.rs 1 too few\n", 3, format!("{same} a.rs: grew from 1 to 2 [exception]")),
        (
            "word a.rs 3 too many\n",
            1,
            format!("{same} a.rs: down from 3 to 2: say so here, so that it stays down [exception]"),
        ),
        ("word b.rs 1 gone\n", 3, format!("{same} b.rs: no longer needed: take the exception out [exception]")),
        ("word a.rs 2\n", 3, "xtask/tidy.txt:1: an exception is `rule path figure reason` [exception]".to_string()),
        ("wrod a.rs 2 typo\n", 3, "xtask/tidy.txt:1: there is no rule `wrod` [exception]".to_string()),
    ] {
        let lines = with(exception);
        assert_eq!(lines.len(), count, "{lines:?}");
        assert!(lines.contains(&says), "{lines:?}");
    }
}

#[test]
fn an_exception_can_name_a_function() {
    let long = format!("fn a() {{\n{}}}\n", "// b\n".repeat(80));
    let files = [("a.rs", long.as_str()), (ratchet::PATH, "function-length a.rs::a 82 a table\n")];
    assert_eq!(report(&tree(&files, "")), [""; 0]);
}

#[test]
fn every_rule_is_tested() {
    let elsewhere =
        ["file-length", "function-length", "lints-table", "limits", "direction", "reach", "pin", "licence", "ban"];
    for rule in RULES {
        let tested = ROWS.iter().any(|row| row.rule == rule.name) || elsewhere.contains(&rule.name);
        assert!(tested, "{} has no test", rule.name);
    }
}
