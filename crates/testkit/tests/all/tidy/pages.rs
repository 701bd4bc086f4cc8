//! Rules for pages of Markdown.

use std::fs;
use std::path::{Path, PathBuf};

/// Characters of a line of prose at most.
const WIDEST: usize = 120;

/// The lines of a page that are longer, tables and blocks of code excepted, by number.
pub(crate) fn long_lines(text: &str) -> Vec<usize> {
    let mut is_code = false;
    let mut long = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        is_code ^= line.trim_start().starts_with("```");
        if !is_code && !line.starts_with('|') && line.chars().count() > WIDEST {
            long.push(number);
        }
    }
    long
}

/// The paths in code of a page that begin with a crate (`load/engine/worker.rs` is below its `src`), and are not there.
fn missing_paths(root: &Path, text: &str) -> Vec<String> {
    let crates = root.join("crates");
    let is_missing = |code: &&str| {
        let named = code.split_once('/').filter(|(name, _)| !name.is_empty() && crates.join(name).exists());
        named
            .is_some_and(|(name, below)| !below.contains("NAME") && !crates.join(name).join("src").join(below).exists())
    };
    text.split('`').skip(1).step_by(2).filter(is_missing).map(ToOwned::to_owned).collect()
}

/// Paths of Rust in code of a page that begin with one of our crates: users know options and keys. Frames of profiles
/// begin with their types.
fn inner_names(root: &Path, text: &str) -> Vec<String> {
    let crates = root.join("crates");
    let is_inner = |code: &&str| {
        code.split_once("::").map(|(name, _)| name).is_some_and(|name| {
            ["crate", "self", "super"].contains(&name) || (!name.is_empty() && crates.join(name).is_dir())
        })
    };
    text.split('`').skip(1).step_by(2).filter(is_inner).map(ToOwned::to_owned).collect()
}

#[test]
fn lines_of_prose_can_be_read_and_paths_exist() {
    let root = super::root();
    let docs = fs::read_dir(root.join("docs")).expect("docs").flatten().map(|entry| entry.path());
    let docs = docs.filter(|path| path.extension().is_some_and(|it| it == "md"));
    let inside = ["ARCHITECTURE.md", "CONTRIBUTING.md"].map(|it| root.join(it));
    let users = ["CHANGELOG.md", "README.md"].map(|it| root.join(it));
    let pages: Vec<PathBuf> = docs.chain(users).chain(inside.clone()).collect();
    let mut wrong = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).expect("a page");
        let long = long_lines(&text).into_iter();
        wrong.extend(long.map(|line| format!("{}:{line}: over {WIDEST} characters", page.display())));
        if inside.contains(page) {
            let missing = missing_paths(&root, &text).into_iter();
            wrong.extend(missing.map(|path| format!("{}: no {path}", page.display())));
        } else {
            let inner = inner_names(&root, &text).into_iter();
            wrong.extend(inner.map(|name| format!("{}: {name} is inside", page.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
