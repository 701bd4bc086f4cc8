//! The embedded program and style sheet are the ones that the sources in `ui/` give.
//!
//! `npm run build` writes a hash over all its sources into the head of both files; here it is
//! computed again, without Node. `npm run verify` builds again and compares byte for byte.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

fn ui() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui")
}

fn files_below(folder: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(ui().join(folder)).expect("the folder is there") {
        let entry = entry.expect("readable");
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().expect("a type").is_dir() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// `stamp()` of `ui/scripts/build.mjs`: SHA-256 over path, NUL, length, NUL, content of all sources by path.
fn stamp() -> String {
    let mut paths: Vec<String> =
        ["package.json", "package-lock.json", "tsconfig.json", "scripts/build.mjs"].map(String::from).into();
    files_below("src", &mut paths);
    paths.sort();
    let mut hash = Sha256::new();
    for path in paths {
        let content = fs::read(ui().join(&path)).expect("readable");
        hash.update(format!("{path}\0{}\0", content.len()));
        hash.update(content);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_embedded_bundle_is_the_sources_own() {
    let stamp = stamp();
    for name in ["report.js", "report.css"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets").join(name);
        let text = fs::read_to_string(path).expect("readable");
        let first = text.lines().next().unwrap_or_default();
        assert!(
            first.contains(&stamp),
            "{name} was built from other sources than those in ui/: run `make ui` and commit \
             crates/report/assets\n  found    {first}\n  expected {stamp}"
        );
    }
}

#[test]
fn the_lock_files_name_no_download_addresses() {
    for folder in [ui(), ui().join("../scripts/node")] {
        let lock = fs::read_to_string(folder.join("package-lock.json")).expect("readable");
        assert!(lock.contains("\"integrity\""), "nothing is pinned");
        for line in lock.lines() {
            assert!(!line.contains("\"resolved\""), "{line}");
        }
    }
}
