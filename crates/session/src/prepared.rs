//! Data of brokers that was prepared once and is kept: a folder for each, by what filled it.
//!
//! ```text
//! FOLDER/1f2e3d4c5b6a7988/prepared.json   who prepared it, when, from what: PreparedData
//! FOLDER/1f2e3d4c5b6a7988/data/           the node's data
//! FOLDER/1f2e3d4c5b6a7988.lock            held while it is made (alone) or used (with others)
//! FOLDER/1f2e3d4c5b6a7988.part/           while it is being moved here; never used
//! ```

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use measure::Problem;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Error, Observer};
use experiment::{BrokerSpec, Experiment};

/// Changes when data that an earlier bellows prepared must not be used any more.
const FORMAT: u32 = 2;
/// The file that describes a folder's data.
const DESCRIPTION: &str = "prepared.json";
pub(crate) const DATA: &str = "data";
const LARGEST: u64 = 1 << 20;
const DIGITS: usize = 16;
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const TELL_INTERVAL: Duration = Duration::from_secs(1);

/// Description of prepared data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedData {
    /// Name of the data: digits computed from all that filled it.
    pub key: String,
    /// The experiment that prepared it.
    pub experiment: String,
    /// The broker that did: `RabbitMQ 3.10.8 on Erlang/OTP 25`.
    pub broker: String,
    /// When, by the wall clock.
    pub created: String,
    /// The Erlang node that the data is bound to.
    pub node: String,
    /// Queues and messages, as text.
    pub what: String,
    /// Regular files.
    pub files: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Bytes of its files, wherever they are.
    pub length: u64,
    /// The boot in which it was filled: the clock in its messages is that boot's.
    pub(crate) boot: String,
    /// That boot's clock at the filling, seconds.
    pub(crate) clock_s: u64,
    /// Whether messages may have the compact header, which does not tell one run from another.
    pub(crate) has_compact_headers: bool,
}

/// The folder in which prepared data is kept.
#[derive(Clone, Debug)]
pub struct PreparedFolder {
    dir: PathBuf,
}

impl PreparedFolder {
    /// The one that is named, or `prepared` in bellows' own data folder, for which the environment must name a home.
    pub fn of(dir: Option<&Path>) -> Result<Self, Problem> {
        let usual = || Some(archive::data_folder()?.join("prepared"));
        let none = "there is no folder for prepared data";
        let why = "neither XDG_DATA_HOME nor HOME is set";
        let dir = dir.map(Path::to_owned).or_else(usual);
        let dir = dir.ok_or_else(|| Problem::new(none, why, "set one, or broker.data-dir"))?;
        // A broker's guardian works elsewhere.
        let dir = std::path::absolute(&dir).map_err(|error| Problem::io("find", &dir, &error))?;
        Ok(Self { dir })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All complete data there, by age. A folder that is not there holds nothing.
    pub fn list(&self) -> Result<Vec<PreparedData>, Problem> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| Problem::io("read", &self.dir, &error))?,
        };
        let names = entries.flatten().filter_map(|it| it.file_name().into_string().ok());
        let mut found: Vec<_> = names.filter_map(|name| self.find(&name)).collect();
        found.sort_by(|a, b| a.created.cmp(&b.created).then_with(|| a.key.cmp(&b.key)));
        Ok(found)
    }

    /// Removes data, unless it is in use.
    pub fn remove(&self, key: &str) -> Result<(), Problem> {
        let lock = self.open_lock(key)?;
        match lock.try_lock() {
            // Another bellows removed it just now, and whoever makes it anew has another file.
            Ok(()) if !self.is_current(key, &lock) => return Ok(()),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Problem::new(
                    format!("prepared data {key} is in use"),
                    "another bellows prepares it, or runs on a copy of it",
                    "try again when that has ended",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(Problem::io("lock", &self.lock_file(key), &error)),
        }
        self.clear(key)?;
        let _ = fs::remove_file(self.lock_file(key));
        Ok(())
    }

    /// The data in a folder of this name; `None` where incomplete or of another format.
    pub(crate) fn find(&self, key: &str) -> Option<PreparedData> {
        let is_key = key.len() == DIGITS && key.chars().all(|c| c.is_ascii_hexdigit());
        let folder = self.dir.join(key);
        let file = folder.join(DESCRIPTION);
        let size = fs::metadata(&file).ok().filter(|_| is_key)?.len();
        if size > LARGEST || !folder.join(DATA).is_dir() {
            return None;
        }
        let found: PreparedData = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        (found.key == key).then_some(found)
    }

    pub(crate) fn data(&self, key: &str) -> PathBuf {
        self.dir.join(key).join(DATA)
    }

    /// Waits until no other bellows makes this data (`shared`), or makes or uses it. The file holds the lock as long as
    /// it lives; a killed process releases it.
    pub(crate) fn lock(
        &self,
        key: &str,
        shared: bool,
        control: &load::Control,
        observer: &mut dyn Observer,
    ) -> Result<File, Error> {
        let began = Instant::now();
        let mut told = Duration::ZERO;
        loop {
            let file = self.open_lock(key)?;
            let taken = if shared { file.try_lock_shared() } else { file.try_lock() };
            match taken {
                // Whoever removed the data took the file away: nobody else would see this lock.
                Ok(()) if !self.is_current(key, &file) => continue,
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => Err(Problem::io("lock", &self.lock_file(key), &error))?,
                Err(TryLockError::WouldBlock) => {}
            }
            if control.is_stopping() {
                return Err(Error::Stopped { during: "start" });
            }
            if began.elapsed() >= told {
                observer.waiting("waiting for another bellows with the same data", told);
                told += TELL_INTERVAL;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Makes a folder that data is moved to before it is whole. Whoever calls it has the lock alone.
    pub(crate) fn begin(&self, key: &str) -> Result<PathBuf, Problem> {
        self.clear(key)?;
        let part = self.part(key);
        fs::create_dir(&part).map_err(|error| Problem::io("create", &part, &error))?;
        Ok(part)
    }

    /// Completes atomically what [`Self::begin`] began.
    pub(crate) fn finish(&self, data: &PreparedData) -> Result<(), Problem> {
        let (part, whole) = (self.part(&data.key), self.dir.join(&data.key));
        let text = serde_json::to_vec_pretty(data).unwrap_or_default();
        let file = part.join(DESCRIPTION);
        stacks::replace_file(&file, &text).map_err(|error| Problem::io("write", &file, &error))?;
        let renamed = fs::rename(&part, &whole).and_then(|()| File::open(&self.dir)?.sync_all());
        renamed.map_err(|error| Problem::io("create", &whole, &error))
    }

    /// Removes data of this name, complete or not.
    pub(crate) fn clear(&self, key: &str) -> Result<(), Problem> {
        let whole = self.dir.join(key);
        // Without its description it counts as nothing, whatever becomes of the rest.
        let _ = fs::remove_file(whole.join(DESCRIPTION));
        for folder in [whole, self.part(key)] {
            if let Err(error) = fs::remove_dir_all(&folder)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(Problem::io("remove", &folder, &error));
            }
        }
        Ok(())
    }

    fn part(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.part"))
    }

    fn lock_file(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.lock"))
    }

    /// Whether a file is the one that others lock.
    fn is_current(&self, key: &str, file: &File) -> bool {
        let of = |it: fs::Metadata| (it.dev(), it.ino());
        let there = fs::metadata(self.lock_file(key)).map(of).ok();
        there.is_some() && file.metadata().map(of).ok() == there
    }

    /// The damage of data that was copied in part, or of which files were removed; `None` where it is complete.
    pub(crate) fn damage(&self, data: &PreparedData) -> Option<String> {
        let folder = self.data(&data.key);
        let size = match brokers::folder_size(&folder, false) {
            Ok(size) => size,
            Err(error) => return Some(error.to_string()),
        };
        if size.files != data.files {
            return Some(format!("{} of {} exist", size.files, measure::counted(data.files, "file")));
        }
        let is_cut = data.length != 0 && size.bytes != data.length;
        is_cut.then(|| format!("{} of {} bytes exist", measure::count(size.bytes), measure::count(data.length)))
    }

    fn open_lock(&self, key: &str) -> Result<File, Problem> {
        fs::create_dir_all(&self.dir).map_err(|error| Problem::io("create", &self.dir, &error))?;
        let path = self.lock_file(key);
        let opened = File::options().create(true).truncate(false).write(true).open(&path);
        opened.map_err(|error| Problem::io("open", &path, &error))
    }
}

/// The name of the data that this broker makes from an experiment's filling.
pub(crate) fn key_of(filling: &Experiment, broker: &BrokerSpec, described: &str) -> Result<String, Problem> {
    let definitions = match &broker.definitions {
        None => String::new(),
        Some(file) => {
            let text = fs::read(file).map_err(|error| Problem::io("read", file, &error))?;
            measure::hex(&Sha256::digest(text))
        }
    };
    let root = broker.root.as_ref().map(|root| root.canonicalize().unwrap_or_else(|_| root.clone()));
    let filled_by = serde_json::json!({
        "format": FORMAT,
        "loads": filling.load,
        "definitions": definitions,
        "policy": broker.policy,
        "broker": described,
        "root": root,
        "config": broker.config,
        "advanced": broker.advanced,
        "plugins": broker.plugins,
        "env": broker.env,
    });
    let mut key = measure::hex(&Sha256::digest(filled_by.to_string()));
    key.truncate(DIGITS);
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoObserver;

    const KEY: &str = "0123456789abcdef";

    fn folder() -> (tempfile::TempDir, PreparedFolder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = PreparedFolder::of(Some(&dir.path().join("prepared"))).unwrap();
        (dir, folder)
    }

    fn lock(folder: &PreparedFolder, shared: bool) -> File {
        let control = load::Control::new();
        folder.lock(KEY, shared, &control, &mut NoObserver).unwrap()
    }

    #[test]
    fn data_is_there_when_it_is_whole_and_not_before() {
        let (_dir, folder) = folder();
        assert!(folder.list().unwrap().is_empty());
        let alone = lock(&folder, false);
        let part = folder.begin(KEY).unwrap();
        fs::create_dir(part.join(DATA)).unwrap();
        fs::write(part.join(DATA).join("file"), "1").unwrap();
        // A bellows that is killed here leaves this.
        assert_eq!(folder.find(KEY), None);
        assert!(folder.list().unwrap().is_empty());
        let part = folder.begin(KEY).unwrap();
        assert_eq!(fs::read_dir(&part).unwrap().count(), 0, "half of it is gone");
        fs::create_dir(part.join(DATA)).unwrap();
        let data = PreparedData { key: KEY.to_owned(), ..PreparedData::default() };
        folder.finish(&data).unwrap();
        assert_eq!(folder.list().unwrap(), [data]);
        assert!(folder.data(KEY).is_dir() && !part.exists());
        drop(alone);
        let used = [lock(&folder, true), lock(&folder, true)];
        let refused = folder.remove(KEY).unwrap_err();
        assert!(refused.cause.contains("in use"), "{refused:?}");
        drop(used);
        folder.remove(KEY).unwrap();
        assert_eq!(fs::read_dir(folder.dir()).unwrap().count(), 0);
    }

    #[test]
    fn a_lock_of_data_that_was_removed_keeps_nobody_away_and_is_not_taken() {
        let (_dir, folder) = folder();
        // What somebody opened who waits, while another bellows removes the data.
        let waiting = folder.open_lock(KEY).unwrap();
        assert!(folder.is_current(KEY, &waiting));
        folder.remove(KEY).unwrap();
        assert!(!folder.is_current(KEY, &waiting));
        waiting.lock().unwrap();
        let alone = lock(&folder, false);
        assert!(!folder.is_current(KEY, &waiting), "the lock is another file's");
        drop(alone);
        // Two who take and one who removes: never do two hold it.
        let holders = std::sync::atomic::AtomicU32::new(0);
        let relaxed = std::sync::atomic::Ordering::SeqCst;
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..40 {
                        let _alone = lock(&folder, false);
                        assert_eq!(holders.fetch_add(1, relaxed), 0);
                        thread::yield_now();
                        holders.fetch_sub(1, relaxed);
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..2_000 {
                    // Refused while somebody has it.
                    let _ = folder.remove(KEY);
                }
            });
        });
    }

    #[test]
    fn data_of_which_a_part_is_gone_is_told_from_what_was_kept() {
        let (_dir, folder) = folder();
        let data = folder.data(KEY);
        fs::create_dir_all(data.join("msg_stores")).unwrap();
        fs::write(data.join("msg_stores/0.rdq"), [7; 5_000]).unwrap();
        fs::write(data.join("schema.DAT"), [1; 10]).unwrap();
        let kept = PreparedData { key: KEY.to_owned(), files: 2, length: 5_010, ..PreparedData::default() };
        assert_eq!(folder.damage(&kept), None);
        // Holes and compression take other room on another disk.
        let elsewhere = PreparedData { bytes: 1, ..kept.clone() };
        assert_eq!(folder.damage(&elsewhere), None);
        fs::write(data.join("msg_stores/0.rdq"), [7; 4_096]).unwrap();
        assert_eq!(folder.damage(&kept).unwrap(), "4,106 of 5,010 bytes exist");
        let of_before = PreparedData { length: 0, ..kept.clone() };
        assert_eq!(folder.damage(&of_before), None, "nobody counted them");
        fs::remove_file(data.join("schema.DAT")).unwrap();
        assert_eq!(folder.damage(&of_before).unwrap(), "1 of 2 files exist");
        fs::remove_dir_all(&data).unwrap();
        assert!(folder.damage(&kept).is_some());
    }

    #[test]
    fn whoever_waits_for_another_bellows_may_give_up() {
        let (_dir, folder) = folder();
        let _alone = lock(&folder, false);
        let control = load::Control::new();
        control.stop();
        let given_up = folder.lock(KEY, true, &control, &mut NoObserver);
        assert!(matches!(given_up, Err(Error::Stopped { .. })), "{given_up:?}");
    }

    #[test]
    fn a_name_follows_from_what_fills_and_from_nothing_else() {
        let text = "[[prepare]]\ndestination = \"queue://a\"\nfill = 5\n[[load]]\ndestination = \"queue://a\"\n";
        let key = |change: &str, described: &str| {
            let mut experiment = Experiment::from_toml(text, "test").unwrap();
            if !change.is_empty() {
                experiment.set(change).unwrap();
            }
            key_of(&experiment.filling(), &experiment.broker, described).unwrap()
        };
        let usual = key("", "RabbitMQ 3.10.8");
        assert_eq!(usual.len(), DIGITS);
        for same in ["load.0.rate=5", "broker.schedulers=1", "phases.measure=1s", "name=x"] {
            assert_eq!(key(same, "RabbitMQ 3.10.8"), usual, "{same}");
        }
        for other in ["prepare.0.fill=6", "prepare.0.queue-type=quorum", "load.0.fill=1", "broker.config.a=1"] {
            assert_ne!(key(other, "RabbitMQ 3.10.8"), usual, "{other}");
        }
        assert_ne!(key("", "RabbitMQ 3.10.9"), usual);
    }
}
