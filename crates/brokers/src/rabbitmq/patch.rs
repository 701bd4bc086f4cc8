//! Modules that a node takes in place of its own: what somebody has just compiled.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::super::BrokerError;

/// Bytes of a module; the largest of RabbitMQ has one million.
const LARGEST: u64 = 16 << 20;
/// Modules of a patch.
const MOST: usize = 5_000;
/// How a compiled module begins, unless it is packed.
const BEGINNINGS: [&[u8]; 2] = [b"FOR1", b"\x1f\x8b"];
/// Modules that are named one by one.
const MOST_NAMED: usize = 3;
/// The file with the modules' names, as Erlang terms.
const NAMES: &str = "patched.terms";

/// Modules that were put in place of a node's own.
#[derive(Debug)]
pub(super) struct Patch {
    /// Which, in a few words: `rabbit_exchange (9f2c1a)`. The letters tell one compilation from another.
    pub(super) told: String,
    /// Arguments of the emulator that have them loaded before RabbitMQ begins: it puts the folders of its plugins, of
    /// which it is one itself, before all others.
    pub(super) arguments: String,
}

/// A compiled module of a patch.
struct Module {
    name: String,
    code: Vec<u8>,
}

/// Copies the modules of a folder to where the node looks first.
pub(super) fn apply(patch: &Path, node: &Path) -> Result<Patch, BrokerError> {
    let modules = read(patch)?;
    for Module { name, code } in &modules {
        let copy = node.join("ebin").join(format!("{name}.beam"));
        fs::write(&copy, code).map_err(BrokerError::io("write", &copy))?;
    }
    let names: Vec<&str> = modules.iter().map(|it| it.name.as_str()).collect();
    let terms: String = names.iter().map(|name| format!("'{name}'.\n")).collect();
    let list = node.join(NAMES);
    fs::write(&list, terms).map_err(BrokerError::io("write", &list))?;
    Ok(Patch {
        told: told(&modules),
        arguments: format!("-s code ensure_modules_loaded {}", names.join(" ")),
    })
}

/// Which modules a folder holds, in a few words: `rabbit_exchange (9f2c1a)`.
pub(super) fn described(patch: &Path) -> Result<String, BrokerError> {
    Ok(told(&read(patch)?))
}

fn read(patch: &Path) -> Result<Vec<Module>, BrokerError> {
    let wrong = |cause: &str| {
        let help = "name a folder with the .beam files that are to come before the node's own";
        BrokerError::config(format!("broker.patch: {cause}"), patch.display(), help)
    };
    let found = fs::read_dir(patch).map_err(BrokerError::io("read", patch))?;
    let mut files: Vec<_> = found
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "beam"))
        .collect();
    files.sort();
    match files.len() {
        0 => return Err(wrong("it holds no .beam file")),
        MOST.. => return Err(wrong("it holds more modules than a broker has")),
        _ => {}
    }
    let mut modules = Vec::new();
    for file in &files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@.".contains(c);
        let size = fs::metadata(file).map_err(BrokerError::io("read", file))?;
        if !size.is_file() || size.len() > LARGEST || !name.chars().all(is_plain) {
            return Err(wrong(&format!("{name} is no module")));
        }
        let code = fs::read(file).map_err(BrokerError::io("read", file))?;
        if !BEGINNINGS.iter().any(|it| code.starts_with(it)) {
            return Err(wrong(&format!("{name}.beam is no compiled module")));
        }
        modules.push(Module {
            name: name.into_owned(),
            code,
        });
    }
    Ok(modules)
}

fn told(modules: &[Module]) -> String {
    let named: Vec<&str> = modules
        .iter()
        .map(|it| it.name.as_str())
        .take(MOST_NAMED)
        .collect();
    let named = named.join(", ");
    let letters = letters(modules.iter().map(|it| it.code.as_slice()));
    match modules.len() {
        ..=MOST_NAMED => format!("{named} ({letters})"),
        many => format!("{named} and {} more ({letters})", many - MOST_NAMED),
    }
}

/// Six letters that tell these modules from others.
pub(super) fn letters<'a>(modules: impl Iterator<Item = &'a [u8]>) -> String {
    let mut digest = Sha256::new();
    modules.for_each(|code| digest.update(code));
    let digest = digest.finalize();
    digest.iter().take(3).fold(String::new(), |mut all, byte| {
        let _ = write!(all, "{byte:02x}");
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_copied_and_what_is_none_is_refused() {
        let (patch, node) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(node.path().join("ebin")).unwrap();
        let apply = || apply(patch.path(), node.path());
        assert!(apply().unwrap_err().to_string().contains("no .beam file"));
        let write = |name: &str, text: &[u8]| fs::write(patch.path().join(name), text).unwrap();
        write("b.beam", b"FOR1 b");
        write("a.beam", b"FOR1 a");
        write("readme.txt", b"no module");
        let applied = apply().unwrap();
        assert_eq!(applied.arguments, "-s code ensure_modules_loaded a b");
        let told = applied.told;
        assert!(told.starts_with("a, b ("), "{told}");
        let copied = fs::read(node.path().join("ebin/b.beam")).unwrap();
        assert_eq!(copied, b"FOR1 b");
        let names = fs::read_to_string(node.path().join(NAMES)).unwrap();
        assert_eq!(names, "'a'.\n'b'.\n");
        write("b.beam", b"FOR1 another");
        assert_ne!(apply().unwrap().told, told, "another compilation");
        for n in 0..4 {
            write(&format!("m{n}.beam"), b"FOR1");
        }
        assert!(apply().unwrap().told.starts_with("a, b, m0 and 3 more ("));
        write("b.beam", b"#!/bin/sh");
        assert!(
            apply()
                .unwrap_err()
                .to_string()
                .contains("b.beam is no compiled module")
        );
        write("b.beam", b"FOR1");
        write("it's.beam", b"FOR1");
        assert!(apply().unwrap_err().to_string().contains("is no module"));
    }
}
