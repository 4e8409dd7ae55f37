//! Components of world `agent` around core modules in the text format.

use std::fmt::Write as _;

use wasm_encoder::Encode;

/// World `agent`'s imports and types.
const AGENT: &str = include_str!("agent.wat");

/// An import as a core function: how many `i32` it takes. None returns anything: results go where the last one points.
struct Lowered {
    interface: &'static str,
    function: &'static str,
    params: usize,
}

const fn lowered(interface: &'static str, function: &'static str, params: usize) -> Lowered {
    Lowered { interface, function, params }
}

const LOWERED: [Lowered; 13] = [
    lowered("storage", "get", 3),
    lowered("storage", "set", 5),
    lowered("storage", "delete", 3),
    lowered("storage", "list", 7),
    lowered("log", "write", 4),
    lowered("clock", "now", 1),
    lowered("random", "bytes", 2),
    lowered("model", "generate", 6),
    lowered("tools", "list", 1),
    lowered("tools", "call", 5),
    lowered("http", "fetch", 9),
    lowered("agents", "send", 7),
    lowered("secrets", "handle", 3),
];

impl Lowered {
    fn name(&self) -> String {
        format!("{}.{}", self.interface, self.function)
    }

    fn signature(&self) -> String {
        format!("(param{})", " i32".repeat(self.params))
    }
}

/// A component around the fields of one core module, which must export `memory` and `cabi_realloc`. Every import stands
/// ready as `$storage.get` and so on, and is left out if it isn't named. `rest` may add to the component; `handle` is an export of the core instance
/// `handler`, which is `$main` if it is the module's own.
///
/// The lowered imports need the module's memory, and the module needs the imports: as in what toolchains emit, it gets
/// calls through a table that a last instance fills.
pub(crate) fn component(fields: &str, encoding: &str, rest: &str, handler: &str) -> String {
    let mut text = format!("(component\n{AGENT}\n");
    let (mut shim, mut shims, mut imports) = (String::new(), String::new(), String::new());
    let (mut lowers, mut fixes, mut fixed) = (String::new(), String::new(), String::new());
    let used: Vec<_> = LOWERED.iter().filter(|import| fields.contains(&format!("${}", import.name()))).collect();
    for (at, import) in used.iter().enumerate() {
        let (name, signature) = (import.name(), import.signature());
        let pushes: String = (0..import.params).map(|param| format!("(local.get {param}) ")).collect();
        let _ = writeln!(
            shim,
            "    (func (export \"{at}\") {signature} (call_indirect {signature} {pushes}(i32.const {at})))"
        );
        let _ = writeln!(shims, "    (export \"{name}\" (func $shims \"{at}\"))");
        let _ = writeln!(imports, "    (import \"host\" \"{name}\" (func ${name} {signature}))");
        let _ = writeln!(
            lowers,
            "  (core func $f{at} (canon lower (func ${} \"{}\") (memory $memory) (realloc $realloc) string-encoding={encoding}))",
            import.interface, import.function
        );
        let _ = writeln!(fixes, "    (import \"\" \"{at}\" (func {signature}))");
        let _ = writeln!(fixed, "    (export \"{at}\" (func $f{at}))");
    }
    let count = used.len();
    let all: String = (0..count).map(|at| format!(" {at}")).collect();
    let _ = write!(
        text,
        r#"  (core module $shim
    (table (export "t") {count} {count} funcref)
{shim}  )
  (core instance $shims (instantiate $shim))
  (core instance $host
{shims}  )
  (core module $guest
{imports}{fields}
  )
  (core instance $main (instantiate $guest (with "host" (instance $host))))
  (alias core export $main "memory" (core memory $memory))
  (alias core export $main "cabi_realloc" (core func $realloc))
{lowers}  (core module $fix
    (import "" "t" (table {count} {count} funcref))
{fixes}    (elem (i32.const 0) func{all})
  )
  (alias core export $shims "t" (core table $table))
  (core instance $fixed
    (export "t" (table $table))
{fixed}  )
  (core instance (instantiate $fix (with "" (instance $fixed))))
{rest}
  (func (export "handle") (param "input" $message) (result (result $reply (error $failure)))
    (canon lift (core func {handler} "handle") (memory $memory) (realloc $realloc) string-encoding={encoding}))
)"#
    );
    text
}

/// Puts a module in the place of the component's one empty core module.
pub(crate) fn splice(component: &[u8], module: &[u8]) -> Option<Vec<u8>> {
    let empty = b"\x01\x08\0asm\x01\0\0\0";
    let at = component.windows(empty.len()).position(|window| window == empty)?;
    let mut spliced = component[..at].to_vec();
    spliced.push(empty[0]);
    module.encode(&mut spliced);
    spliced.extend_from_slice(&component[at + empty.len()..]);
    Some(spliced)
}
