//! Makes WebAssembly components from C, and shows what a component imports.
//!
//! ```text
//! componentize bindings WIT WORLD DIRECTORY   writes WORLD.h, WORLD.c and WORLD_component_type.o
//! componentize component CORE OUTPUT          wraps a core module that was linked with those
//! componentize imports FILE...                prints each component's imports, one per line
//! ```

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use anyhow::{Context as _, Result, bail};
use wasmparser::{Parser, Payload};
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;
use wit_component::ComponentEncoder;

const USAGE: &str = "usage: componentize bindings WIT WORLD DIRECTORY
       componentize component CORE OUTPUT
       componentize imports FILE...";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["bindings", wit, world, directory] => bindings(wit.as_ref(), world, directory.as_ref()),
        ["component", core, output] => component(core.as_ref(), output.as_ref()),
        ["imports", files @ ..] if !files.is_empty() => files.iter().try_for_each(|file| imports(file.as_ref())),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("componentize: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bindings(wit: &Path, world: &str, directory: &Path) -> Result<()> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_path(wit)
        .with_context(|| format!("reading {}", wit.display()))?;
    let world = resolve.select_world(&[package], Some(world))?;
    let mut files = Files::default();
    wit_bindgen_c::Opts::default()
        .build()
        .generate(&mut resolve, world, &mut files)?;
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    for (name, contents) in files.iter() {
        let path = directory.join(name);
        fs::write(&path, contents).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn component(core: &Path, output: &Path) -> Result<()> {
    let module = fs::read(core).with_context(|| format!("reading {}", core.display()))?;
    let bytes = ComponentEncoder::default().validate(true).module(&module)?.encode()?;
    fs::write(output, bytes).with_context(|| format!("writing {}", output.display()))
}

fn imports(file: &Path) -> Result<()> {
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(&bytes) {
        match payload.with_context(|| format!("reading {}", file.display()))? {
            Payload::Version {
                encoding: wasmparser::Encoding::Module,
                ..
            } if depth == 0 => {
                bail!("{} is a core module, not a component", file.display());
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    println!("{}", import?.name.name);
                }
            }
            _ => {}
        }
    }
    Ok(())
}
