//! Run folders of a fleet's workers over its NATS server: free workers give them, and `fleet collect` fetches them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use archive::is_collected;
use brokers::guardian::private_folder;
use brokers::managed::Workspace;
use fleet::nats::{FileClient, FileOwner, Link, Subscription};
use fleet::{PIECE, Piece, PieceRequest};
use measure::{Problem, counted};
use session::Error;

/// Requests that wait to be answered at most.
const MOST_ASKED: usize = 64;
/// The longest that a worker answers before it looks for a share again, and that it waits for the next request.
const ANSWERING: Duration = Duration::from_millis(500);
const BETWEEN: Duration = Duration::from_millis(20);
/// Bytes of a worker's folder at most.
const MOST_BYTES: u64 = 1 << 30;
/// Files of a worker's folder at most.
const MOST_FILES: usize = 64;
/// How often workers are asked for folders that are known to be there.
const MOST_ROUNDS: usize = 3;

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Gives files of a worker's own run folders to whoever collects a run.
#[derive(Debug)]
pub(super) struct FolderServer {
    owner: u64,
    /// The worker's name.
    name: String,
    runs: PathBuf,
    asked: Receiver<PieceRequest>,
    /// The run that was asked for last, and its folder.
    found: Option<(String, PathBuf)>,
    _heard: [Subscription; 2],
}

impl FolderServer {
    /// Listens to requests, which [`Self::answer`] answers.
    pub(super) fn start(link: &Link, name: &str, runs: &Path) -> Self {
        let owner = random();
        let (tell, asked) = sync_channel(MOST_ASKED);
        let heard = [FileOwner::AllWorkers, FileOwner::Worker(owner)].map(|it| {
            let tell = tell.clone();
            link.hear_requests(it, move |request| drop(tell.try_send(request)))
        });
        Self { owner, name: name.to_owned(), runs: runs.to_owned(), asked, found: None, _heard: heard }
    }

    /// Answers what was asked, and for a moment what follows.
    pub(super) fn answer(&mut self, link: &Link) {
        let until = Instant::now() + ANSWERING;
        let mut wait = Duration::ZERO;
        while Instant::now() < until {
            let Ok(request) = self.asked.recv_timeout(wait) else { return };
            wait = BETWEEN;
            if let Some(piece) = self.piece(&request) {
                link.answer(request.asker, &piece);
            }
        }
    }

    fn piece(&mut self, request: &PieceRequest) -> Option<Piece> {
        let dir = self.folder(&request.run)?;
        let mut piece = Piece::answer(request, self.owner, self.name.clone());
        if request.file.is_empty() {
            let names = fs::read_dir(&dir).ok()?.flatten().filter_map(|it| it.file_name().into_string().ok());
            let size = |name: String| Some((name.clone(), fs::metadata(dir.join(name)).ok()?.len()));
            piece.files = names.filter(|it| is_collected(it)).filter_map(size).take(MOST_FILES).collect();
            return Some(piece);
        }
        let name = Some(&request.file).filter(|it| is_collected(it))?;
        let mut file = stacks::bounded::open(&dir.join(name)).ok()?;
        file.seek(SeekFrom::Start(request.from)).ok()?;
        file.take(PIECE as u64).read_to_end(&mut piece.bytes).ok()?;
        Some(piece)
    }

    fn folder(&mut self, run: &str) -> Option<PathBuf> {
        if let Some((of, dir)) = &self.found
            && of == run
        {
            return Some(dir.clone());
        }
        let dir = archive::find_part(&self.runs, run, &self.name).ok()??;
        self.found = Some((run.to_owned(), dir.clone()));
        Some(dir)
    }
}

/// Folders of workers, which go when this is dropped.
pub(super) struct FetchedFolders {
    pub(super) dirs: Vec<PathBuf>,
    /// Workers whose folders could not be had, with the reasons.
    pub(super) failed: Vec<String>,
    _workspace: Workspace,
}

/// Fetches the folders of a run from all free workers that have one, or from these alone. Errors: there is no room for
/// them.
pub(super) fn fetch(link: &Link, run: &str, wanted: Option<&[String]>) -> Result<FetchedFolders, Error> {
    let client = FileClient::new(link, random(), run);
    let mut folders = client.folders();
    if let Some(wanted) = wanted {
        let mut rounds = 1;
        folders.retain(|_, it| wanted.contains(&it.name));
        // Who has just left the run may answer late.
        while folders.len() < wanted.len() && rounds < MOST_ROUNDS {
            rounds += 1;
            folders = client.folders();
            folders.retain(|_, it| wanted.contains(&it.name));
        }
    }
    let needed = folders.values().filter_map(size_of).fold(0, u64::saturating_add);
    let workspace = Workspace::new("the collected folders", None, needed)?;
    let (mut dirs, mut failed) = (Vec::new(), Vec::new());
    for (owner, folder) in &folders {
        let name: String = folder.name.chars().take(64).collect();
        // What is wrong with it is told by its name.
        let dir = workspace.directory().join(format!("{}-{owner:016x}", archive::sanitised(&name)));
        match fetch_one(&client, *owner, folder, &dir) {
            Ok(()) => dirs.push(dir),
            Err(problem) => {
                failed.push(format!("the folder of worker {name} could not be had: {problem}"));
            }
        }
    }
    Ok(FetchedFolders { dirs, failed, _workspace: workspace })
}

/// Bytes of a worker's files; `None` where they are too many.
fn size_of(folder: &Piece) -> Option<u64> {
    let of = |files: &BTreeMap<String, u64>| files.values().copied().fold(0, u64::saturating_add);
    Some(of(&folder.files)).filter(|it| *it <= MOST_BYTES)
}

fn fetch_one(client: &FileClient<'_>, owner: u64, folder: &Piece, dir: &Path) -> Result<(), Problem> {
    let most = || Problem::new("it is too large", format!("over {}", counted(MOST_BYTES, "byte")), "copy it here");
    size_of(folder).ok_or_else(most)?;
    private_folder(dir).map_err(|error| Problem::io("create", dir, &error))?;
    for (name, size) in folder.files.iter().filter(|(name, _)| is_collected(name)).take(MOST_FILES) {
        let path = dir.join(name);
        let failed = |error: std::io::Error| Problem::io("write", &path, &error);
        let mut file = File::create(&path).map_err(failed)?;
        client.read(FileOwner::Worker(owner), name, *size, |bytes| file.write_all(bytes).map_err(failed))?;
    }
    Ok(())
}
