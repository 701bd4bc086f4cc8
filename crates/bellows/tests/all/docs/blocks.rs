//! The `sh` blocks of README.md, docs/*.md and docs/experiments/*.md.

use std::fs;
use std::path::{Path, PathBuf};

/// A fenced block of commands, which is one script.
pub(crate) struct Block {
    /// Page and line.
    pub(crate) place: String,
    pub(crate) script: String,
    /// Lines that it prints, as the `output` blocks behind it show them.
    pub(crate) shown: Vec<String>,
}

impl Block {
    /// Hash of the script and the shown lines, without their place: the first eight bytes of a SHA-256 sum.
    pub(crate) fn number(&self) -> String {
        use sha2::Digest as _;
        let mut sum = sha2::Sha256::new();
        sum.update(&self.script);
        for line in &self.shown {
            sum.update(line);
            sum.update("\n");
        }
        sum.finalize()[..8].iter().map(|it| format!("{it:02x}")).collect()
    }

    /// A script that is on no page.
    pub(crate) fn of(place: &str, script: &str) -> Self {
        Self { place: place.to_owned(), script: script.to_owned(), shown: Vec::new() }
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("workspace root")
}

pub(crate) fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    for folder in ["docs", "docs/experiments"] {
        let docs = fs::read_dir(root().join(folder)).expect("docs");
        pages.extend(docs.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "md")));
    }
    pages.sort();
    pages
}

pub(crate) fn experiments() -> Vec<PathBuf> {
    let files = fs::read_dir(root().join("experiments")).expect("experiments");
    let files = files.flatten().map(|entry| entry.path());
    files.filter(|it| it.extension().is_some_and(|it| it == "toml")).collect()
}

/// All blocks, without their `make` lines, whose targets are looked up instead.
pub(crate) fn blocks() -> Vec<Block> {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("Makefile");
    let mut blocks: Vec<Block> = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("page");
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut current: Option<Block> = None;
        let mut is_output = false;
        for (index, line) in text.lines().enumerate() {
            match (&mut current, line.trim_end()) {
                (None, "```sh") => {
                    let place = format!("{name}:{}", index + 1);
                    current = Some(Block { place, script: String::new(), shown: Vec::new() });
                }
                (None, "```output") => is_output = true,
                (None, "```") => is_output = false,
                (None, line) if is_output => {
                    let block = blocks.last_mut().expect("a script before its output");
                    block.shown.push(line.to_owned());
                }
                (Some(_), "```") => blocks.extend(current.take()),
                (Some(block), line) => {
                    block.script.push_str(line);
                    block.script.push('\n');
                }
                (None, _) => {}
            }
        }
        assert!(current.is_none(), "{name}: a fenced block is not closed");
    }
    for block in &mut blocks {
        block.script = without_make(block, &makefile);
    }
    assert!(blocks.len() >= 5, "only {} sh blocks found: the search is broken", blocks.len());
    blocks.retain(|block| !block.script.trim().is_empty());
    blocks
}

/// Checks the `make` lines against the Makefile and takes them out of the script.
fn without_make(block: &Block, makefile: &str) -> String {
    let mut script = String::new();
    for line in block.script.lines() {
        let command = line.split('#').next().unwrap_or_default().trim();
        if let Some(targets) = command.strip_prefix("make ") {
            for target in targets.split_whitespace().filter(|word| !word.contains('=')) {
                assert!(
                    makefile.lines().any(|l| l.starts_with(&format!("{target}:"))),
                    "{}: the Makefile has no target `{target}`",
                    block.place
                );
            }
        } else {
            script.push_str(line);
            script.push('\n');
        }
    }
    script
}

/// The numbers of blocks that `make prove` has walked, a line each with the place that it had then.
pub(crate) fn walked() -> PathBuf {
    root().join("docs/walked.txt")
}

/// Blocks that changed since `make prove` walked all.
pub(crate) fn changed_blocks() -> Vec<Block> {
    let walked = fs::read_to_string(walked()).expect("docs/walked.txt");
    let is_known = |block: &Block| {
        let number = block.number();
        walked.lines().any(|line| line.starts_with(&number))
    };
    let mut blocks = blocks();
    blocks.retain(|block| !is_known(block));
    blocks
}
