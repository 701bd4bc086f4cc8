//! What a managed node leaves behind unless somebody removes it, and who removes it when.
//!
//! Each node has a state file, `/tmp/bellows-UID/NODE.json`, from before its directory exists until
//! after everything else of it is gone. The place is fixed: a leftover must be found also by a
//! bellows whose `TMPDIR`, `HOME` or `XDG_RUNTIME_DIR` differ.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rustix::process::getuid;
use serde::{Deserialize, Serialize};

use super::{
    Error,
    process::{self, ProcessId},
};

/// The state file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Remains {
    /// The node's unique name, which is also its processes' marker.
    pub(super) name: String,
    /// All its files.
    pub(super) directory: PathBuf,
    /// The bellows that started it.
    owner: ProcessId,
    /// The guardian, once it runs.
    pub(super) guard: Option<ProcessId>,
    /// The emulator, once it runs.
    pub(super) broker: Option<ProcessId>,
    /// Emulators that were killed and replaced; their files are kept, for a profile may need them.
    #[serde(default)]
    pub(super) replaced: Vec<u32>,
    /// Pids mean nothing after a reboot.
    boot: String,
    /// The pid namespace that the pids belong to: containers may share a directory for temporary
    /// files, and see nothing of each other's processes.
    #[serde(default)]
    pid_namespace: String,
}

impl Remains {
    /// Those of a node that this process is about to start.
    pub(super) fn new(name: &str, directory: &Path) -> Result<Self, Error> {
        let owner = ProcessId::of(std::process::id())
            .ok_or_else(|| Error::Config("cannot read /proc/self/stat; mount /proc".into()))?;
        Ok(Self {
            name: name.to_owned(),
            directory: directory.to_owned(),
            owner,
            guard: None,
            broker: None,
            replaced: Vec::new(),
            boot: boot_id(),
            pid_namespace: pid_namespace(),
        })
    }

    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read(path).map_err(Error::io("read", path))?;
        serde_json::from_slice(&text)
            .map_err(|error| Error::Guard(format!("{}: {error}", path.display())))
    }

    /// Where they are written down.
    pub(super) fn state_file(&self) -> PathBuf {
        state_directory().join(format!("{}.json", self.name))
    }

    /// Writes them down, at once or not at all.
    pub(super) fn save(&self) -> Result<(), Error> {
        let path = self.state_file();
        let draft = path.with_extension("tmp");
        let text = serde_json::to_vec(self)
            .map_err(|error| Error::Guard(format!("{}: {error}", path.display())))?;
        // Another node's end removes the directory when it is empty, also just now.
        let mut attempt = 0;
        loop {
            private_directory(&state_directory())?;
            match private_file(&draft, &text) {
                Err(Error::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && attempt < 5 =>
                {
                    attempt += 1;
                }
                result => break result?,
            }
        }
        fs::rename(&draft, &path).map_err(Error::io("write", &path))
    }

    /// Kills and removes everything. `ancestor`: all of its children count as the node's too.
    pub(super) fn remove(&self, ancestor: Option<u32>) -> Result<(), Error> {
        let mut pids = process::kill_node(&self.name, ancestor).map_err(|stuck| {
            Error::Guard(format!("processes {stuck:?} of {} do not die", self.name))
        })?;
        // The broker may have ended long ago; then its pid may be somebody else's by now. One that
        // was killed just now may still be in the table, waiting to be collected.
        pids.extend(
            self.broker
                .filter(|broker| ProcessId::of(broker.pid).is_none_or(|now| now == *broker))
                .map(|broker| broker.pid),
        );
        pids.extend(&self.replaced);
        for file in pids.into_iter().flat_map(process::jit_files) {
            remove_own_file(&file);
        }
        remove_directory(&self.directory)?;
        let _ = fs::remove_file(self.state_file().with_extension("tmp"));
        let removed = fs::remove_file(self.state_file());
        // Succeeds only where no other node is written down there.
        let _ = fs::remove_dir(state_directory());
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove", self.state_file())(error))
            }
            _ => Ok(()),
        }
    }

    /// Nobody is left who would remove them. Those of another pid namespace count as somebody's
    /// until the machine restarts, for who is alive there cannot be seen from here.
    fn abandoned(&self) -> bool {
        let alive = |process: Option<ProcessId>| process.is_some_and(ProcessId::is_alive);
        let visible = self.pid_namespace == pid_namespace();
        self.boot != boot_id() || (visible && !(alive(Some(self.owner)) || alive(self.guard)))
    }
}

/// Removes what earlier runs left behind: nodes whose owner and guardian are both dead. Called at
/// every start of a node. Returns a sentence for each, also where it could not be removed.
#[must_use]
pub fn clean_leftovers() -> Vec<String> {
    let mut told = Vec::new();
    let directory = state_directory();
    // Somebody else's directory of that name is none of our business here; a start refuses it.
    if !is_own_directory(&directory) {
        return told;
    }
    for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let Ok(remains) = Remains::read(&path) else {
            continue;
        };
        if !remains.abandoned() || remains.state_file() != path {
            continue;
        }
        told.push(match remains.remove(None) {
            Ok(()) => format!(
                "removed {}, which an interrupted run left behind",
                remains.name
            ),
            Err(error) => format!("could not remove {}: {error}", remains.name),
        });
    }
    told
}

fn state_directory() -> PathBuf {
    PathBuf::from(format!("/tmp/bellows-{}", getuid().as_raw()))
}

/// Makes a directory that only this user can look into, or checks that it is one.
fn private_directory(path: &Path) -> Result<(), Error> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::io("create", path)(error))
        }
        _ if is_own_directory(path) => Ok(()),
        _ => Err(Error::Config(format!(
            "{} is not a directory of this user that others cannot write to. Remove it",
            path.display()
        ))),
    }
}

fn is_own_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| {
        metadata.is_dir() && metadata.uid() == getuid().as_raw() && metadata.mode() & 0o022 == 0
    })
}

/// Writes a new file that only this user can read.
pub(super) fn private_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(content))
        .map_err(Error::io("write", path))
}

fn remove_own_file(path: &Path) {
    let own = |metadata: fs::Metadata| metadata.is_file() && metadata.uid() == getuid().as_raw();
    if fs::symlink_metadata(path).is_ok_and(own) {
        let _ = fs::remove_file(path);
    }
}

/// Removes a tree. A file that a process just being killed had still created is met by trying again.
fn remove_directory(path: &Path) -> Result<(), Error> {
    let mut attempt = 0;
    loop {
        match fs::remove_dir_all(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if attempt == 5 => return Err(Error::io("remove", path)(error)),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
        attempt += 1;
    }
}

/// Changes with every boot; empty where the kernel does not tell.
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Empty where the kernel has no pid namespaces.
fn pid_namespace() -> String {
    fs::read_link("/proc/self/ns/pid")
        .map(|link| link.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two containers with one `/tmp`: the second took the first one's running broker for a
    /// leftover, because it saw none of its processes, and deleted its directory.
    #[test]
    fn a_node_of_another_pid_namespace_is_not_taken_for_abandoned() {
        let mut remains = Remains::new("node", Path::new("/nowhere")).unwrap();
        assert!(!remains.abandoned(), "its owner is this test");
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        remains.owner = ProcessId::of(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(remains.abandoned(), "its owner is dead");
        remains.pid_namespace = "pid:[1]".into();
        assert!(!remains.abandoned(), "its owner cannot be seen");
        remains.boot = "before".into();
        assert!(remains.abandoned(), "the machine has restarted");
    }
}
