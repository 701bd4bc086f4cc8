//! Finds the run that a user's name means.

use std::path::{Path, PathBuf};

use archive::{FolderKind, FolderLock, RunEntry, RunFilter, RunReader};
use measure::{Problem, count, counted, shell_word};
use stacks::{FORMATS, Profile};

use crate::{Failure, output};

pub(super) const LAST: &str = "last";

/// The option that names this folder of runs in a command that follows; empty where commands look by themselves.
pub(super) fn runs_option(runs: &Path) -> String {
    if is_same(runs, &archive::default_runs_dir()) { String::new() } else { format!(" --runs {}", folder_word(runs)) }
}

/// The run's name in a command that follows; `None` for a run in the folder where commands look for the last one.
pub(super) fn next_name(dir: &Path) -> Option<String> {
    let usual = archive::default_runs_dir();
    let is_usual = dir.parent().is_some_and(|runs| is_same(runs, &usual));
    (!is_usual).then(|| folder_word(dir))
}

/// The run's name in a command that follows: the end of its id where that finds it, else its folder.
pub(super) fn shown_name(entry: &RunEntry) -> String {
    let ending = entry.id.rsplit('-').next().unwrap_or(&entry.id);
    match run(ending, &archive::default_runs_dir()) {
        Ok(found) if is_same(&found, &entry.dir) => shell_word(ending),
        _ => folder_word(&entry.dir),
    }
}

/// Whether two paths, relative or not, mean one folder.
fn is_same(a: &Path, b: &Path) -> bool {
    std::path::absolute(a).is_ok_and(|a| std::path::absolute(b).is_ok_and(|b| a == b))
}

/// A folder as a shell reads it back; none is taken for an option.
pub(super) fn folder_word(dir: &Path) -> String {
    let path = dir.display().to_string();
    if path.starts_with('-') { shell_word(&format!("./{path}")) } else { shell_word(&path) }
}

/// The folder of the run that `name` means: a path, an id, a part at either end of an id that no
/// other run has, a filter that no other run matches (`tag=before`), or `last`.
pub(super) fn run(name: &str, runs: &Path) -> Result<PathBuf, Failure> {
    match Path::new(name) {
        path if path.is_dir() => Ok(path.to_owned()),
        _ => among_runs(name, runs),
    }
}

/// The folder of a run as in [`run`], or of several runs: the last one with their experiment's name (`limit-demo`).
pub(super) fn folder(name: &str, runs: &Path) -> Result<PathBuf, Failure> {
    run(name, runs).or_else(|no_run| match folders_of_runs(name, runs)?.as_slice() {
        // It means a run that is in no such folder as well.
        _ if means_runs(name, runs)? => Err(no_run),
        [(one, _)] => Ok(one.clone()),
        [] => {
            let all = all_folders(runs)?.into_iter().map(|it| it.0);
            let called = format!("-{name}-");
            let mut of_experiment = all.filter(|dir| {
                let folder = dir.file_name().unwrap_or_default().to_string_lossy();
                folder.contains(&called)
            });
            of_experiment.next().ok_or(no_run)
        }
        _ => Err(no_run),
    })
}

/// Whether a name means one or several runs that lie in no folder of several.
fn means_runs(name: &str, runs: &Path) -> Result<bool, Failure> {
    let mut alone = list(runs)?;
    alone.retain(|it| it.dir.parent() == Some(runs));
    Ok(choose(name, &alone).map_or_else(|candidates| !candidates.is_empty(), |_| true))
}

/// The folder whose page is drawn, as in [`folder`]; `last` is the last run that has ended, if any has. A run that is
/// still being written is named as such.
pub(super) fn to_draw(name: &str, runs: &Path) -> Result<PathBuf, Failure> {
    let dir = folder(name, runs)?;
    let newest = RunEntry::read(dir.clone());
    if !newest.active {
        return Ok(dir);
    }
    let is_part = newest.is_part();
    let ended = match name == LAST && !Path::new(name).is_dir() {
        true => list(runs)?.into_iter().find(|it| !it.active && it.is_part() == is_part),
        false => None,
    };
    if let Some(ended) = ended {
        output::line_aside("the newest run is still running; this is the last one that has ended");
        return Ok(ended.dir);
    }
    output::line_aside("still running: the page shows only what has been written so far");
    Ok(dir)
}

/// Like [`run`], with the run's entry in the archive.
pub(super) fn entry(name: &str, runs: &Path) -> Result<RunEntry, Failure> {
    run(name, runs).map(RunEntry::read)
}

/// The failure for a run whose record cannot be read; `help` where the command knows better than the record.
pub(super) fn unreadable(entry: &RunEntry, help: Option<&str>) -> Failure {
    let why = entry.record.as_ref().err().map_or("", String::as_str);
    // A report is drawn where the record is missing or cut off, and not of another version's.
    let own = || match RunReader::open(&entry.dir) {
        Ok(_) => format!("`bellows runs report {}` draws what is left of it", folder_word(&entry.dir)),
        Err(error) => error.problem().help,
    };
    let help = help.map_or_else(own, str::to_owned);
    Failure::failed(format!("{} cannot be read", entry.id), help).observed(why)
}

/// The run or file with a profile of an event, or of any. A run is named as in [`run`], where `last` is the last one
/// with any profile, so that it is the same run for every event.
pub(super) fn profile(name: &str, event: Option<&str>, runs: &Path) -> Result<PathBuf, Failure> {
    let path = Path::new(name);
    if path.exists() {
        return Ok(path.to_owned());
    }
    if name != LAST {
        return among_runs(name, runs);
    }
    let entries = list(runs)?;
    if entries.is_empty() {
        return among_runs(name, runs);
    }
    let holds =
        |dir: &Path, event: Option<&str>| Profile::open_as(&FORMATS, dir, event).is_ok_and(|it| !it.samples.is_empty());
    let sampled = |dir: &Path| holds(dir, None) || event.is_some() && holds(dir, event);
    let of = |are_parts: bool| entries.iter().filter(move |it| it.is_part() == are_parts);
    let with_profile = of(false).chain(of(true)).find(|entry| entry.has_profile() && sampled(&entry.dir));
    with_profile.map(|entry| entry.dir.clone()).ok_or_else(|| {
        let all = counted(entries.len() as u64, "run");
        let cause = format!("none of {all} in {} has a profile with samples", runs.display());
        let help = "make one with `bellows demo` or `bellows record`, or name the folder with --runs";
        Failure::failed(cause, help).observed(runs.display())
    })
}

/// The failure for a name of a folder of several runs.
fn is_a_folder_of_runs(name: &str, runs: &Path) -> Option<Failure> {
    let found = folders_of_runs(name, runs).ok()?;
    let (dir, kind) = found.first()?;
    let (what, help) = match kind {
        FolderKind::Pairs => ("runs in turns", "name one of its runs, or let it stand alone: `bellows ab FOLDER`"),
        FolderKind::Limit => ("trials of rates", "name one of its runs, or draw it: `bellows runs report FOLDER`"),
    };
    let failure = Failure::failed(format!("{name:?} is a folder of {what}, and no run"), help);
    Some(failure.observed(dir.display()))
}

fn among_runs(name: &str, runs: &Path) -> Result<PathBuf, Failure> {
    let entries = list(runs)?;
    choose(name, &entries).map(|entry| entry.dir.clone()).map_err(|candidates| {
        if entries.is_empty() && name == LAST {
            let cause = format!("there is no run in {}", runs.display());
            let help = "make one with `bellows demo`, or name the folder with --runs";
            return Failure::failed(cause, help).observed(runs.display());
        }
        if candidates.is_empty()
            && let Some(failure) = is_a_folder_of_runs(name, runs)
        {
            return failure;
        }
        if candidates.is_empty() {
            let all = counted(entries.len() as u64, "run");
            let cause = format!("no run or file is named {name:?} (looked among {all} in {})", runs.display());
            let help = "lists them; a part at either end of the id is enough, the experiment's name or a filter \
                        (tag=before) where it finds one run, or `last`";
            return Failure::failed(cause, format!("`bellows runs{}` {help}", runs_option(runs))).observed(name);
        }
        let help = match name.contains('=') {
            true => "give an id, or compare all of them: `bellows ab FILTER --with FILTER`",
            false => "give more of the id",
        };
        let cause = format!("{name:?} means {}", counted(candidates.len() as u64, "run"));
        Failure::Failed(Problem::new(cause, shown_ids(&candidates), help))
    })
}

/// Ids of an error at most.
const SHOWN: usize = 10;

fn shown_ids(ids: &[String]) -> String {
    let shown = ids.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {} more", count(more as u64)),
    }
}

/// The runs of a folder, newest first.
pub(super) fn list(runs: &Path) -> Result<Vec<RunEntry>, Failure> {
    archive::list_runs(runs)
        .map_err(|error| Failure::Failed(Problem { help: "name another folder with --runs".into(), ..error.problem() }))
}

/// Leaves out workers' parts of runs, of which the whole ones are the sums; not where there is nothing else.
pub(super) fn leave_parts_out(entries: &mut Vec<RunEntry>) {
    if entries.iter().any(|it| !it.is_part()) {
        entries.retain(|it| !it.is_part());
    }
}

/// The folders of several runs, newest first: their names begin with the time.
pub(super) fn all_folders(runs: &Path) -> Result<Vec<(PathBuf, FolderKind)>, Failure> {
    let mut found = archive::folders_of_runs(runs)?;
    found.sort_by(|(one, _), (other, _)| other.cmp(one));
    Ok(found)
}

/// The folders of several runs whose names begin or end so.
pub(super) fn folders_of_runs(named: &str, runs: &Path) -> Result<Vec<(PathBuf, FolderKind)>, Failure> {
    let mut found = all_folders(runs)?;
    found.retain(|(dir, _)| {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        !named.is_empty() && (name.starts_with(named) || name.ends_with(named))
    });
    Ok(found)
}

/// The folder of stopped runs of a kind that is meant: a path, or a part at either end of its name.
pub(super) fn stopped_folder(named: &str, runs: &Path, kind: FolderKind) -> Result<PathBuf, Failure> {
    let path = Path::new(named);
    if path.is_dir() {
        return Ok(path.to_owned());
    }
    let what = match kind {
        FolderKind::Pairs => "runs in pairs",
        FolderKind::Limit => "trials of rates",
    };
    let found = folders_of_runs(named, runs)?;
    let found = found.into_iter().filter(|it| it.1 == kind);
    match found.map(|it| it.0).collect::<Vec<_>>().as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::failed(
            format!("no folder of {what} is named {named:?}"),
            "it is printed when such runs begin and end; --runs names where it lies",
        )
        .observed(runs.display())),
        some => {
            let names = some.iter().map(|dir| dir.file_name().unwrap_or_default().to_string_lossy());
            let cause = format!("{named:?} means {} folders", some.len());
            Err(Failure::failed(cause, "give more of the name").observed(names.collect::<Vec<_>>().join(", ")))
        }
    }
}

/// Keeps a folder of several runs for this command: two would measure each other, and overwrite each other's account.
pub(super) fn kept(dir: &Path) -> Result<FolderLock, Failure> {
    FolderLock::take(dir).ok_or_else(|| {
        let cause = "another bellows adds runs to this folder just now";
        Failure::failed(cause, "wait until it has ended, or stop it; then go on with --resume").observed(dir.display())
    })
}

/// A folder's name for `--resume`: its end, as no other folder's name is likely to end so.
pub(super) fn resume_word(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    name.rsplit('-').next().unwrap_or_default().to_owned()
}

/// How to resume runs that a signal ended.
pub(super) fn stopped(after: &str, dir: &Path) -> Failure {
    let suffix = resume_word(dir);
    Failure::Stopped(Problem::new(
        after,
        format!("kept in {}; the same command line with --resume {suffix} goes on", dir.display()),
        "",
    ))
}

/// The folder of runs in turns that is meant: a path, or a part at either end of its name that no other has.
pub(super) fn paired_folder(named: &str, runs: &Path) -> Result<Option<PathBuf>, Failure> {
    let path = Path::new(named);
    let mut found = match path.is_dir() {
        true => vec![path.to_owned()],
        false => folders_of_runs(named, runs)?.into_iter().map(|it| it.0).collect(),
    };
    found.retain(|dir| FolderKind::of(dir) == Some(FolderKind::Pairs));
    Ok(found.pop().filter(|_| found.is_empty()))
}

/// The one run that is meant, or the ids of those that could be.
fn choose<'a>(name: &str, entries: &'a [RunEntry]) -> Result<&'a RunEntry, Vec<String>> {
    if name == LAST {
        return entries.iter().find(|it| !it.is_part()).or(entries.first()).ok_or_else(Vec::new);
    }
    if let Some(exact) = entries.iter().find(|e| e.id == name) {
        return Ok(exact);
    }
    let of = |is_meant: &dyn Fn(&str) -> bool| -> Vec<&RunEntry> {
        entries.iter().filter(|e| !name.is_empty() && is_meant(&e.id)).collect()
    };
    let mut matching = of(&|id| id.starts_with(name) || id.ends_with(name));
    if matching.is_empty() {
        // What people know by heart is the experiment.
        let experiment = format!("-{name}-");
        matching = of(&|id| id.contains(&experiment));
    }
    if matching.is_empty()
        && let Ok(filter) = name.parse::<RunFilter>()
    {
        matching = entries.iter().filter(|entry| filter.matches(entry)).collect();
    }
    // A worker's part of a run is named by its own id.
    if matching.iter().any(|it| !it.is_part()) {
        matching.retain(|it| !it.is_part());
    }
    match matching.as_slice() {
        [one] => Ok(one),
        some => Err(some.iter().map(|e| e.id.clone()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, tags: &[&str]) -> RunEntry {
        let tags = tags.iter().map(|tag| tag.parse().unwrap()).collect();
        let labels = Ok(archive::Labels { tags, ..archive::Labels::default() });
        let dir = Path::new("runs").join(id);
        RunEntry { dir, id: id.into(), record: Err("not read".into()), labels, bytes: 0, active: false }
    }

    /// `bellows runs report` refuses a run of another version, of which the help said that it draws what is left.
    #[test]
    fn what_helps_with_a_run_that_cannot_be_read_depends_on_why() {
        let dir = tempfile::tempdir().unwrap();
        let help = |record: &str, given| {
            std::fs::write(dir.path().join(archive::file::RECORD), record).unwrap();
            let entry = RunEntry::read(dir.path().to_owned());
            match unreadable(&entry, given) {
                Failure::Failed(problem) => problem.help,
                other => panic!("{other:?}"),
            }
        };
        let old = r#"{"schema": "bellows.run-record/1"}"#;
        assert_eq!(help(old, None), "use the version of bellows that wrote it");
        // Without a name it would be the last one.
        let draws = format!("`bellows runs report {}` draws", dir.path().display());
        assert!(help("{", None).starts_with(&draws));
        // A comparison asked to leave out --resume, which nobody had given.
        assert_eq!(help(old, Some("begin anew")), "begin anew");
    }

    /// `bellows ab` took filters, and `bellows diff` did not.
    #[test]
    fn a_filter_means_the_only_run_that_it_finds() {
        let entries =
            [("x-demo-aaaa", "new"), ("x-demo-bbbb", "old"), ("x-demo-cccc", "old")].map(|(id, tag)| entry(id, &[tag]));
        assert_eq!(choose("tag=new", &entries).map(|it| it.id.as_str()), Ok("x-demo-aaaa"));
        assert_eq!(choose("tag=old", &entries).map_err(|ids| ids.len()).err(), Some(2));
        assert_eq!(choose("tag=none", &entries).err(), Some(Vec::new()));
        assert_eq!(choose("color=new", &entries).err(), Some(Vec::new()));
    }

    #[test]
    fn commands_that_follow_name_what_lies_elsewhere() {
        let [usual, hostile] = [archive::default_runs_dir(), "-a".into()].map(|runs| runs_option(&runs));
        assert_eq!((usual.as_str(), hostile.as_str()), ("", " --runs ./-a"));
        let run = RunEntry { dir: "my runs/x-7k2q".into(), ..entry("x-7k2q", &[]) };
        assert_eq!(shown_name(&run), "'my runs/x-7k2q'");
        assert_eq!(next_name(&run.dir).as_deref(), Some("'my runs/x-7k2q'"));
        assert_eq!(next_name(&archive::default_runs_dir().join("x-7k2q")), None);
    }

    /// The page of a run that was still running said that it was cut off.
    #[test]
    fn the_last_run_to_draw_is_one_that_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let [ended, running] = ["2026-11-21T00-00-00Z-a-x1", "2026-11-22T00-00-00Z-a-x2"].map(|id| dir.path().join(id));
        std::fs::create_dir(&ended).unwrap();
        std::fs::create_dir(&running).unwrap();
        let writer = std::fs::File::open(&running).unwrap();
        writer.lock().unwrap();
        assert_eq!(to_draw(LAST, dir.path()), Ok(ended));
        assert_eq!(to_draw("x2", dir.path()), Ok(running.clone()));
        writer.unlock().unwrap();
        assert_eq!(to_draw(LAST, dir.path()), Ok(running));
    }

    /// `bellows open limit-demo` found nothing.
    #[test]
    fn the_last_folder_of_trials_is_found_by_the_name_of_its_experiment() {
        let dir = tempfile::tempdir().unwrap();
        for id in ["2026-11-21T00-00-00Z-limit-demo-zz9", "2026-11-22T00-00-00Z-limit-demo-aa1"] {
            let of = dir.path().join(id);
            std::fs::create_dir(&of).unwrap();
            archive::LimitTrials::default().write(&of).unwrap();
        }
        let found = |name| {
            let found = folder(name, dir.path()).ok()?;
            Some(found.file_name()?.to_string_lossy().into_owned())
        };
        let newest = Some("2026-11-22T00-00-00Z-limit-demo-aa1");
        for (name, expected) in [("limit-demo", newest), ("aa1", newest), ("", None), ("limit-other", None)] {
            assert_eq!(found(name).as_deref(), expected, "{name}");
        }
        // Where several runs were meant, that folder was shown.
        for id in ["2026-11-20T00-00-00Z-limit-demo-x1", "2026-11-20T00-00-00Z-limit-demo-x2"] {
            std::fs::create_dir(dir.path().join(id)).unwrap();
        }
        assert_eq!((found("limit-demo"), found("aa1").as_deref()), (None, newest));
    }

    #[test]
    fn a_run_is_found_by_either_end_of_its_id() {
        let ids @ [newest, first, _] =
            ["2026-11-22T00-00-00Z-b-x2", "2026-11-21T00-00-00Z-a-x1", "2026-11-21T00-00-00Z-a-y1"];
        let entries = ids.map(|id| entry(id, &[]));
        // Of a fleet's run on one machine, `last` was a worker's part.
        let of_worker = "2026-11-22T00-00-00Z-b-z9";
        let fleet = Some(archive::FleetPart { name: "w1".to_owned(), ..archive::FleetPart::default() });
        let record = Ok(archive::RunRecord { fleet, ..archive::RunRecord::default() });
        let part = RunEntry { record, ..entry(of_worker, &[]) };
        let alone = choose(LAST, std::slice::from_ref(&part)).map(|it| it.id.clone());
        assert_eq!(alone, Ok(of_worker.to_owned()));
        let entries: Vec<RunEntry> = std::iter::once(part).chain(entries).collect();
        for (names, expected) in [
            (&["last", "2026-11-22", "b"][..], Ok(newest)),
            (&["z9"], Ok(of_worker)),
            (&["a-x1"], Ok(first)),
            (&["2026-11-21", "a"], Err(2)),
            (&["zzz", ""], Err(0)),
        ] {
            for name in names {
                let found = choose(name, &entries).map(|it| it.id.as_str()).map_err(|ids| ids.len());
                assert_eq!(found, expected, "{name}");
            }
        }
    }
}
