//! Leftovers of a guarded broker, and who removes them when. Each broker has a state file,
//! `/tmp/bellows-UID/NAME.json`, from before its directory exists until everything else of it is gone. The place is
//! fixed, so that a bellows with another `TMPDIR`, `HOME` or `XDG_RUNTIME_DIR` finds it; where somebody else has taken
//! that name, it is `/tmp/bellows-UID.RANDOM`, and the clean-up looks into all of them.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

use linux::{ProcessId, machine};
use measure::Problem;
use rustix::process::getuid;
use serde::{Deserialize, Serialize};

use super::members::{self, Started};
use crate::BrokerError;

/// The state file: what is to be removed of a broker, and whose it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Leftovers {
    /// The broker's unique name, which is also its processes' marker.
    pub(super) name: String,
    pub(super) directory: PathBuf,
    /// The bellows that started it.
    owner: ProcessId,
    pub(super) guard: Option<ProcessId>,
    /// Its processes, the running one last. Files of those killed and replaced are kept: a profile may need them.
    #[serde(default)]
    pub(super) started: Vec<Started>,
    /// Pids mean nothing after a reboot.
    boot: String,
    /// The pid namespace of the pids: containers may share a temporary directory, and not see each other's processes.
    #[serde(default)]
    pid_namespace: String,
    #[serde(skip)]
    place: PathBuf,
}

impl Leftovers {
    /// Those of a broker that this process is about to start.
    pub(crate) fn new(name: &str, directory: &Path) -> Result<Self, BrokerError> {
        let owner = ProcessId::of(std::process::id())
            .ok_or_else(|| BrokerError::Guard(Problem::new("cannot read /proc/self/stat", "nothing", "mount /proc")))?;
        Ok(Self {
            name: name.to_owned(),
            directory: directory.to_owned(),
            owner,
            guard: None,
            started: Vec::new(),
            boot: machine::boot_id(),
            pid_namespace: pid_namespace(),
            place: state_directory(Path::new(STATES))?,
        })
    }

    pub(super) fn read(path: &Path) -> Result<Self, BrokerError> {
        let text = fs::read(path).map_err(BrokerError::io("read", path))?;
        let read = serde_json::from_slice::<Self>(&text);
        let read = read.map_err(|error| BrokerError::guard(format!("{}: {error}", path.display())))?;
        Ok(Self { place: path.parent().unwrap_or(Path::new(STATES)).to_owned(), ..read })
    }

    /// The state file's present content, which the guardian keeps up to date.
    pub(crate) fn latest(&self) -> Self {
        Self::read(&self.state_file()).unwrap_or_else(|_| self.clone())
    }

    pub(crate) fn state_file(&self) -> PathBuf {
        self.place.join(format!("{}.json", self.name))
    }

    /// Writes them down, at once or not at all.
    pub(crate) fn save(&self) -> Result<(), BrokerError> {
        let path = self.state_file();
        let draft = path.with_extension("tmp");
        let text = serde_json::to_vec(self);
        let text = text.map_err(|error| BrokerError::guard(format!("{}: {error}", path.display())))?;
        // Another broker's end removes the directory when it is empty, also just now.
        let mut attempt = 0;
        loop {
            private_directory(&self.place)?;
            match write_private(&draft, &text) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < 5 => attempt += 1,
                result => break result.map_err(BrokerError::io("write", &draft))?,
            }
        }
        fs::rename(&draft, &path).map_err(BrokerError::io("write", &path))
    }

    /// Kills and removes everything. `ancestor`: all of its children count as the broker's too.
    pub(crate) fn remove(&self, ancestor: Option<u32>) -> Result<(), BrokerError> {
        let killed = members::kill_members(&self.name, ancestor).map_err(|stuck| {
            let stuck: Vec<u32> = stuck.iter().map(|id| id.pid).collect();
            BrokerError::guard(format!("processes {stuck:?} of {} do not die", self.name))
        })?;
        let visible = self.pid_namespace == pid_namespace() && self.boot == machine::boot_id();
        let killed = killed.into_iter().map(|id| {
            let mut killed = Started::new(id);
            killed.ended = Some(SystemTime::now());
            killed
        });
        for process in killed.chain(self.started.iter().copied()) {
            process.remove_jit_files(visible);
        }
        remove_directory(&self.directory)?;
        let _ = fs::remove_file(self.state_file().with_extension("tmp"));
        let removed = fs::remove_file(self.state_file());
        // Succeeds only where no other broker is written down there.
        let _ = fs::remove_dir(&self.place);
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(BrokerError::io("remove", self.state_file())(error))
            }
            _ => Ok(()),
        }
    }

    /// Nobody is left who would remove them. Those of another pid namespace count as somebody's
    /// until the machine restarts, for who is alive there cannot be seen from here.
    fn abandoned(&self) -> bool {
        let alive = |process: Option<ProcessId>| process.is_some_and(ProcessId::is_alive);
        let visible = self.pid_namespace == pid_namespace();
        self.boot != machine::boot_id() || (visible && !(alive(Some(self.owner)) || alive(self.guard)))
    }
}

/// Removes what earlier runs left behind: brokers whose owner and guardian are both dead. Called at
/// every start of one. Returns a sentence for each, also where it could not be removed.
pub fn clean_leftovers() -> Vec<String> {
    clean(Path::new(STATES))
}

/// The directories of this user's brokers that somebody still looks after.
pub(crate) fn guarded_directories() -> Vec<PathBuf> {
    let written = all_in(Path::new(STATES)).into_iter();
    let guarded = written.filter(|it| !it.abandoned() && it.pid_namespace == pid_namespace());
    guarded.map(|it| it.directory).collect()
}

/// The directory of this user's broker of this name, where somebody still looks after it.
pub fn guarded_directory(name: &str) -> Option<PathBuf> {
    let mut named = all_in(Path::new(STATES)).into_iter().filter(|it| it.name == name && !it.abandoned());
    named.next().map(|it| it.directory)
}

/// The content of every state file below `parent`.
fn all_in(parent: &Path) -> Vec<Leftovers> {
    let directories = own_state_directories(parent);
    let entries = directories.iter().flat_map(fs::read_dir).flatten();
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "json"))
        .filter_map(|path| Leftovers::read(&path).ok().filter(|it| it.state_file() == path))
        .collect()
}

/// As [`clean_leftovers`], of all state directories in `parent`.
fn clean(parent: &Path) -> Vec<String> {
    let mut told = Vec::new();
    for leftovers in all_in(parent).into_iter().filter(Leftovers::abandoned) {
        told.push(match leftovers.remove(None) {
            Ok(()) => format!("removed {}, which an interrupted run left behind", leftovers.name),
            Err(error) => format!("could not remove {}: {error}", leftovers.name),
        });
    }
    told
}

const STATES: &str = "/tmp";

/// The usual name of this user's state directory, and the prefix of all others.
fn usual_name() -> String {
    format!("bellows-{}", getuid().as_raw())
}

/// The state directory in `parent` for a new broker: the usual one, one that was made in its stead, or a
/// new one. Anybody may make a directory in `/tmp`, also one with our name.
fn state_directory(parent: &Path) -> Result<PathBuf, BrokerError> {
    let usual = parent.join(usual_name());
    if fs::symlink_metadata(&usual).is_err() || is_own_directory(&usual) {
        return Ok(usual);
    }
    match own_state_directories(parent).into_iter().next() {
        Some(other) => Ok(other),
        None => Ok(parent.join(format!("{}.{}", usual_name(), random_hex(8)?))),
    }
}

/// All state directories of this user in `parent`. Somebody else's of such a name is none of our business.
fn own_state_directories(parent: &Path) -> Vec<PathBuf> {
    let usual = usual_name();
    let is_named = |name: &str| {
        let rest = name.strip_prefix(&usual);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_named))
        .map(|entry| entry.path())
        .filter(|path| is_own_directory(path))
        .collect()
}

/// Makes a directory that only this user can look into, or checks that it is one.
fn private_directory(path: &Path) -> Result<(), BrokerError> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(BrokerError::io("create", path)(error)),
        _ if is_own_directory(path) => Ok(()),
        _ => {
            let cause = format!("{} is not private", path.display());
            let value = "it is not a directory that this user alone can write to";
            Err(BrokerError::Guard(Problem::new(cause, value, "remove it")))
        }
    }
}

fn is_own_directory(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == getuid().as_raw() && metadata.mode() & 0o022 == 0)
}

/// Makes a folder that only this user can look into, unless it is there.
pub fn private_folder(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Writes a new file that only this user can read.
pub fn private_file(path: &Path, content: &[u8]) -> Result<(), BrokerError> {
    write_private(path, content).map_err(BrokerError::io("write", path))
}

fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(content))
}

/// Removes a tree. A file that a process just being killed had still created is met by trying again.
fn remove_directory(path: &Path) -> Result<(), BrokerError> {
    let mut attempt = 0;
    loop {
        match fs::remove_dir_all(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if attempt == 5 => return Err(BrokerError::io("remove", path)(error)),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
        attempt += 1;
    }
}

/// This number of random bytes, as hexadecimal digits.
pub fn random_hex(bytes: usize) -> Result<String, BrokerError> {
    let mut random = vec![0; bytes];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut random))
        .map_err(BrokerError::io("read", "/dev/urandom"))?;
    Ok(measure::hex(&random))
}

/// Empty where the kernel has no pid namespaces.
fn pid_namespace() -> String {
    fs::read_link("/proc/self/ns/pid").map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Two containers with one `/tmp`: the second took the first one's running broker for a
    /// leftover, because it saw none of its processes, and deleted its directory.
    #[test]
    fn a_broker_of_another_pid_namespace_is_not_taken_for_abandoned() {
        let mut leftovers = Leftovers::new("node", Path::new("/nowhere")).unwrap();
        assert!(!leftovers.abandoned(), "its owner is this test");
        leftovers.owner = ProcessId::of(testkit::ChildGuard::idle().id()).unwrap();
        assert!(leftovers.abandoned(), "its owner is dead");
        leftovers.pid_namespace = "pid:[1]".into();
        assert!(!leftovers.abandoned(), "its owner cannot be seen");
        leftovers.boot = "before".into();
        assert!(leftovers.abandoned(), "the machine has restarted");
    }

    /// Any user could keep root from starting a broker with `mkdir /tmp/bellows-0`.
    #[test]
    fn a_name_that_somebody_has_taken_blocks_nothing_and_leftovers_are_found() {
        let states = tempfile::tempdir().unwrap();
        let usual = states.path().join(usual_name());
        let taken: [&dyn Fn(); 3] = [
            &|| {
                // As good as somebody else's: others may write to it.
                fs::create_dir(&usual).unwrap();
                fs::set_permissions(&usual, PermissionsExt::from_mode(0o777)).unwrap();
            },
            &|| fs::write(&usual, "").unwrap(),
            &|| std::os::unix::fs::symlink("/", &usual).unwrap(),
        ];
        for take in taken {
            take();
            let mut places = Vec::new();
            for name in ["one", "two"] {
                let mut leftovers = Leftovers::new(name, &states.path().join(name)).unwrap();
                leftovers.place = state_directory(states.path()).unwrap();
                leftovers.boot = "before".into();
                leftovers.save().unwrap();
                places.push(leftovers.place.clone());
                assert_eq!(Leftovers::read(&leftovers.state_file()).unwrap().place, leftovers.place);
            }
            assert_ne!(places[0], usual);
            assert_eq!(places[0], places[1], "one is enough");
            let mode = fs::metadata(&places[0]).unwrap().mode();
            assert_eq!(mode & 0o777, 0o700);
            assert_eq!(clean(states.path()).len(), 2);
            assert!(!places[0].exists());
            let gone =
                if usual.is_dir() && !usual.is_symlink() { fs::remove_dir(&usual) } else { fs::remove_file(&usual) };
            gone.unwrap();
        }
        assert_eq!(state_directory(states.path()).unwrap(), usual);
    }
}
