//! WASI commands around core code in the text format.

use std::fmt::Write as _;

/// Everything that a command can import.
const WASI: &str = include_str!("wasi.wat");

/// A function, or the drop of a resource, of [`WASI`].
pub struct Declared {
    /// `wasi:io/streams`.
    pub interface: &'static str,
    /// `[method]input-stream.read`.
    pub function: String,
    /// `streams:input-stream.read`: what core code calls it.
    pub name: String,
    /// How it is lowered: the instance's name, and what of it.
    instance: &'static str,
    /// Its core signature, if it can be called.
    signature: Option<String>,
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.split_once(start)?.1.split_once(end).map(|(found, _)| found)
}

/// Reads the declarations.
pub fn declared() -> Vec<Declared> {
    let mut all = Vec::new();
    let (mut interface, mut instance) = ("", "");
    for line in WASI.lines() {
        if let Some(name) = between(line, "(import \"", "@") {
            interface = name;
            instance = line.rsplit_once('$').map_or("", |(_, name)| name);
        }
        let Some(exported) = between(line, "(export \"", "\"") else {
            continue;
        };
        if line.contains("(sub resource)") {
            let function = format!("[resource-drop]{exported}");
            let signature = Some("(param i32)".to_owned());
            all.push(Declared {
                interface,
                function,
                name: format!("{instance}:drop-{exported}"),
                instance,
                signature,
            });
        } else if line.contains(" (func ") {
            let signature = line.split_once(";; ").map(|(_, signature)| signature.to_owned());
            let plain = exported.rsplit(']').next().unwrap_or(exported);
            let constructs = if exported.starts_with("[constructor]") { "new-" } else { "" };
            let name = format!("{instance}:{constructs}{plain}");
            all.push(Declared { interface, function: exported.to_owned(), name, instance, signature });
        }
    }
    all
}

/// A command whose `run` is this code, in a function with i32 locals `$a` to `$e`, one memory and the given data at 4096;
/// every function is there as `$streams:input-stream.read`, every drop as `$streams:drop-input-stream`, `$http:new-fields`
/// makes fields. What is called comes back at 0. The heap begins at 8192.
pub fn command(code: &str, data: &str) -> Vec<u8> {
    let (mut lowers, mut exports, mut imports) = (String::new(), String::new(), String::new());
    for (at, function) in declared().iter().enumerate() {
        let Some(signature) = function.signature.as_ref().filter(|_| calls(code, &function.name) > 0) else {
            continue;
        };
        let (instance, name) = (function.instance, &function.function);
        let _ = match name.strip_prefix("[resource-drop]") {
            Some(resource) => writeln!(
                lowers,
                "  (alias export ${instance} \"{resource}\" (type $r{at}))\n  (core func $f{at} (canon resource.drop $r{at}))"
            ),
            None => writeln!(
                lowers,
                "  (core func $f{at} (canon lower (func ${instance} \"{name}\") (memory $memory) (realloc $realloc)))"
            ),
        };
        let _ = writeln!(exports, "    (export \"{at}\" (func $f{at}))");
        let _ = writeln!(imports, "    (import \"host\" \"{at}\" (func ${} {signature}))", function.name);
    }
    let text = format!(
        r#"(component
{WASI}
  (core module $libc
    (memory (export "memory") 1)
    (global $heap (mut i32) (i32.const 8192))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
      (global.get $heap)
      (global.set $heap (i32.add (global.get $heap) (local.get 3)))
      (block $fits (loop $grow
        (br_if $fits (i32.le_u (global.get $heap) (i32.shl (memory.size) (i32.const 16))))
        (br_if $grow (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))
        unreachable)))
  )
  (core instance $libc (instantiate $libc))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))
{lowers}
  (core instance $host
{exports}
  )
  (core module $main
    (import "libc" "memory" (memory 1))
{imports}
    (data (i32.const 4096) "{data}")
    (func (export "run") (result i32) (local $a i32) (local $b i32) (local $c i32) (local $d i32) (local $e i32)
      {code}
      (i32.const 0))
  )
  (core instance $main (instantiate $main (with "libc" (instance $libc)) (with "host" (instance $host))))
  (func $run (result (result)) (canon lift (core func $main "run")))
  (instance $cli-run (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $cli-run))
)"#
    );
    wat::parse_str(&text).unwrap_or_else(|why| panic!("the command can't be assembled: {why}\n{code}"))
}

/// How often the code calls a function.
pub fn calls(code: &str, name: &str) -> usize {
    code.match_indices(&format!("(call ${name}"))
        .filter(|(at, found)| code[at + found.len()..].starts_with([' ', ')', '\n']))
        .count()
}
