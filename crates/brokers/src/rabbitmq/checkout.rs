//! A checkout of RabbitMQ's sources as `make` leaves it: an application per folder of `deps`, each with its compiled
//! modules in `ebin`, and the server's scripts among the sources.
//!
//! `plugins`, which `make dist` makes, is not looked at: after another `make` it is older than what was compiled.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::BrokerError;
use crate::answer::wait_for;

/// A file that only the sources have.
const MARK: &str = "rabbitmq-components.mk";
const APPLICATIONS: &str = "deps";
const SCRIPTS: &str = "deps/rabbit/scripts";
const NEEDED_SCRIPTS: [&str; 3] = ["rabbitmq-server", "rabbitmq-env", "rabbitmq-defaults"];
/// Where these are in a node's own directory.
const OWN_SCRIPTS: &str = "sbin";
/// Variables that name a repository to git, whatever folder it is asked about.
const OF_A_REPOSITORY: [&str; 6] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"];
/// Time that `git` may take: a checkout may lie on a disk of the network.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A checkout of RabbitMQ's sources.
#[derive(Clone, Debug)]
pub(super) struct Checkout {
    root: PathBuf,
}

impl Checkout {
    /// The one at this place; `None` where something else is there.
    pub(super) fn at(root: &Path) -> Option<Self> {
        let root = root.canonicalize().ok()?;
        let is_one = root.join(MARK).is_file() && root.join("deps/rabbit/src").is_dir();
        is_one.then_some(Self { root })
    }

    pub(super) fn scripts(&self) -> PathBuf {
        self.root.join(SCRIPTS)
    }

    pub(super) fn applications(&self) -> PathBuf {
        self.root.join(APPLICATIONS)
    }

    /// The version in the description of `rabbit`.
    pub(super) fn version(&self) -> Result<String, BrokerError> {
        let name = "rabbit";
        let version = described_version(&self.applications().join(name), name);
        version.ok_or_else(|| self.not_made("deps/rabbit/ebin has no rabbit.app"))
    }

    /// A checkout in which `make` was not run, or did not end.
    pub(super) fn not_made(&self, why: impl std::fmt::Display) -> BrokerError {
        let root = self.root.display();
        let help = format!("run `make` in {root}, after `git clean -xfd` if an earlier one failed");
        BrokerError::config(format!("{root} is a RabbitMQ checkout without a build"), why, help)
    }

    /// Its identity in words: commit, whether files were changed since, and letters that identify its compilation.
    pub(super) fn told(&self, module_directories: &[PathBuf]) -> String {
        let commit = match self.commit() {
            Ok(Some(commit)) => format!("at {commit}"),
            Ok(None) => "of unknown commit".to_owned(),
            Err(why) => format!("of unknown commit (git: {why})"),
        };
        let own = module_directories.iter().filter(|it| it.starts_with(&self.root));
        let files = own.flat_map(|directory| modules(directory).unwrap_or_default());
        let code: Vec<Vec<u8>> = files.filter_map(|file| fs::read(file).ok()).collect();
        let letters = letters(code.iter().map(Vec::as_slice));
        format!("from a checkout {commit} (modules {letters})")
    }

    /// The commit, and ` with changes` where tracked files differ from it; `None` where it is no repository.
    fn commit(&self) -> Result<Option<String>, String> {
        if !self.root.join(".git").exists() {
            return Ok(None);
        }
        let commit = self.git(&["rev-parse", "--short=10", "HEAD"])?;
        let changed = self.git(&["status", "--porcelain", "--untracked-files=no"])?;
        let changes = if changed.is_empty() { "" } else { " with changes" };
        Ok(Some(format!("{commit}{changes}")))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut git = Command::new("git");
        git.args(["-c", "core.fsmonitor=false", "-C"])
            .arg(&self.root)
            .args(arguments)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .stdin(std::process::Stdio::null());
        // A hook or a job of another repository sets these, and git would tell that one's commit.
        for variable in OF_A_REPOSITORY {
            git.env_remove(variable);
        }
        git
    }

    fn git(&self, arguments: &[&str]) -> Result<String, String> {
        let mut git = self.command(arguments);
        let output = wait_for(GIT_TIMEOUT, &|| false, move || git.output());
        let output = match output {
            Ok(output) => output.map_err(|error| error.to_string())?,
            Err(_) => return Err(format!("no answer in {} s", GIT_TIMEOUT.as_secs())),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => {
                let said = text(&output.stderr);
                Err(without_paths(said.lines().next().unwrap_or("it failed")))
            }
        }
    }

    /// Gives a node its scripts beside the applications, as an installation has them, and not those of `make dist`.
    pub(super) fn furnish(&self, node: &Path) -> Result<PathBuf, BrokerError> {
        let own = node.join(OWN_SCRIPTS);
        fs::create_dir(&own).map_err(BrokerError::io("create", &own))?;
        for name in NEEDED_SCRIPTS {
            let (from, to) = (self.scripts().join(name), own.join(name));
            fs::copy(&from, &to).map_err(BrokerError::io("copy", &from))?;
        }
        let plugins = node.join("plugins");
        symlink(self.applications(), &plugins).map_err(BrokerError::io("create", &plugins))?;
        Ok(own)
    }
}

/// A sentence without its words that name a place: every report shows it, and places name their owners.
fn without_paths(text: &str) -> String {
    text.split(' ').map(|word| if word.contains('/') { "…" } else { word }).collect::<Vec<_>>().join(" ")
}

fn described_version(application: &Path, name: &str) -> Option<String> {
    let file = application.join("ebin").join(format!("{name}.app"));
    let text = fs::read_to_string(file).ok()?;
    let (_, rest) = text.split_once("{vsn,")?;
    let (version, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    Some(version.to_owned())
}

/// The compiled modules of a directory, by name.
fn modules(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|it| it == "beam")).collect();
    files.sort();
    Ok(files)
}

/// Bytes of a module; the largest of RabbitMQ has one million.
const LARGEST_MODULE: u64 = 16 << 20;
const MOST_MODULES: usize = 5_000;
/// How a compiled module begins, unless it is packed.
const BEGINNINGS: [&[u8]; 2] = [b"FOR1", b"\x1f\x8b"];
const MOST_NAMED: usize = 3;
const MODULE_NAMES: &str = "patched.terms";

/// Modules that were put in place of a node's own.
#[derive(Debug)]
pub(super) struct Patch {
    /// Which, in a few words: `rabbit_exchange (9f2c1a)`. The letters tell one compilation from another.
    pub(super) told: String,
    /// Emulator arguments that load them before RabbitMQ begins, which puts its plugins' folders before all others.
    pub(super) arguments: String,
}

struct Module {
    name: String,
    code: Vec<u8>,
}

/// Copies the modules of a folder to where the node looks first.
pub(super) fn apply_patch(patch: &Path, node: &Path) -> Result<Patch, BrokerError> {
    let modules = read_modules(patch)?;
    for Module { name, code } in &modules {
        let copy = node.join("ebin").join(format!("{name}.beam"));
        fs::write(&copy, code).map_err(BrokerError::io("write", &copy))?;
    }
    let names: Vec<&str> = modules.iter().map(|it| it.name.as_str()).collect();
    let terms: String = names.iter().map(|name| format!("'{name}'.\n")).collect();
    let list = node.join(MODULE_NAMES);
    fs::write(&list, terms).map_err(BrokerError::io("write", &list))?;
    Ok(Patch { told: told(&modules), arguments: format!("-s code ensure_modules_loaded {}", names.join(" ")) })
}

/// Which modules a folder holds, in a few words: `rabbit_exchange (9f2c1a)`.
pub(super) fn described_patch(patch: &Path) -> Result<String, BrokerError> {
    Ok(told(&read_modules(patch)?))
}

fn read_modules(patch: &Path) -> Result<Vec<Module>, BrokerError> {
    let wrong = |cause: &str| {
        let help = "name a folder with the .beam files that replace the node's own";
        BrokerError::config(format!("broker.patch: {cause}"), patch.display(), help)
    };
    let files = modules(patch).map_err(BrokerError::io("read", patch))?;
    match files.len() {
        0 => return Err(wrong("it has no .beam file")),
        MOST_MODULES.. => return Err(wrong("it has more modules than a broker")),
        _ => {}
    }
    let mut modules = Vec::with_capacity(files.len());
    for file in &files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@.".contains(c);
        let size = fs::metadata(file).map_err(BrokerError::io("read", file))?;
        if !size.is_file() || size.len() > LARGEST_MODULE || !name.chars().all(is_plain) {
            return Err(wrong(&format!("{name} is not a module")));
        }
        let code = fs::read(file).map_err(BrokerError::io("read", file))?;
        if !BEGINNINGS.iter().any(|it| code.starts_with(it)) {
            return Err(wrong(&format!("{name}.beam is not a compiled module")));
        }
        modules.push(Module { name: name.into_owned(), code });
    }
    Ok(modules)
}

fn told(modules: &[Module]) -> String {
    let named: Vec<&str> = modules.iter().map(|it| it.name.as_str()).take(MOST_NAMED).collect();
    let named = named.join(", ");
    let letters = letters(modules.iter().map(|it| it.code.as_slice()));
    match modules.len() {
        ..=MOST_NAMED => format!("{named} ({letters})"),
        many => format!("{named} and {} more ({letters})", many - MOST_NAMED),
    }
}

/// Six letters that tell these modules from others.
fn letters<'a>(modules: impl Iterator<Item = &'a [u8]>) -> String {
    let mut digest = Sha256::new();
    modules.for_each(|code| digest.update(code));
    let mut letters = measure::hex(&digest.finalize());
    letters.truncate(6);
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkout_is_known_by_its_sources_and_refused_until_it_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(Checkout::at(root).is_none());
        fs::write(root.join(MARK), "").unwrap();
        fs::create_dir_all(root.join("deps/rabbit/src")).unwrap();
        let checkout = Checkout::at(root).unwrap();
        let problem = checkout.version().unwrap_err().problem();
        assert!(problem.cause.contains("without a build"), "{problem:?}");
        assert!(problem.help.contains("run `make`"), "{problem:?}");
        let ebin = root.join("deps/rabbit/ebin");
        fs::create_dir(&ebin).unwrap();
        let app = "{application, 'rabbit', [\n\t{vsn, \"4.3.0+rc.1\"},\n]}.";
        fs::write(ebin.join("rabbit.app"), app).unwrap();
        assert_eq!(checkout.version().unwrap(), "4.3.0+rc.1");
        fs::write(ebin.join("rabbit.beam"), "FOR1 one").unwrap();
        let directories = [ebin.clone()];
        let told = checkout.told(&directories);
        assert!(told.starts_with("from a checkout of unknown commit (modules "), "{told}");
        fs::write(ebin.join("rabbit.beam"), "FOR1 two").unwrap();
        assert_ne!(checkout.told(&directories), told, "another compilation");
    }

    #[test]
    fn a_checkout_is_asked_for_its_own_commit_and_names_no_place() {
        let folder = tempfile::tempdir().unwrap();
        let checkout = Checkout { root: folder.path().to_owned() };
        // A worktree that was moved away from its repository.
        fs::write(folder.path().join(".git"), "gitdir: /home/alice/rabbit/.git/worktrees/x").unwrap();
        let told = checkout.told(&[]);
        assert!(told.contains("of unknown commit (git: fatal: not a git repository: …)"), "{told}");
        // In a hook of another repository these are set.
        let git = checkout.command(&["status"]);
        let unset = |name: &str| git.get_envs().any(|it| it.0 == name && it.1.is_none());
        assert!(["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"].into_iter().all(unset));
    }

    #[test]
    fn modules_are_copied_and_what_is_none_is_refused() {
        let (patch, node) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(node.path().join("ebin")).unwrap();
        let apply = || apply_patch(patch.path(), node.path());
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
        let names = fs::read_to_string(node.path().join(MODULE_NAMES)).unwrap();
        assert_eq!(names, "'a'.\n'b'.\n");
        write("b.beam", b"FOR1 another");
        assert_ne!(apply().unwrap().told, told, "another compilation");
        for n in 0..4 {
            write(&format!("m{n}.beam"), b"FOR1");
        }
        assert!(apply().unwrap().told.starts_with("a, b, m0 and 3 more ("));
        write("b.beam", b"#!/bin/sh");
        assert!(apply().unwrap_err().to_string().contains("b.beam is not a compiled module"));
        write("b.beam", b"FOR1");
        write("it's.beam", b"FOR1");
        assert!(apply().unwrap_err().to_string().contains("is not a module"));
    }
}
