//! Finds the dynamic loader of a root directory: its programs need its C library, which other releases of Linux lack.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::Read as _,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Component, Path, PathBuf},
};

use object::{
    Endianness, FileKind,
    elf::{FileHeader32, FileHeader64},
    read::{
        ReadCache, ReadRef,
        elf::{FileHeader, ProgramHeader as _},
    },
};

use super::super::BrokerError;

/// Links that are followed at most, as many as the kernel follows.
const MOST_LINKS: usize = 40;
/// Parts of a path that are looked at while it is resolved.
const MOST_PARTS: usize = 1_000;
/// Bytes that are read of a list of library directories, and how many lists are read.
const MOST_OF_LIST: u64 = 65_536;
const MOST_LISTS: usize = 100;

/// Directories with libraries that every loader knows, behind those of the root's own lists.
const LIBRARIES: [&str; 5] = ["lib64", "usr/lib64", "lib", "usr/lib", "usr/local/lib"];

/// The dynamic loader of a root directory, and where that has its libraries.
#[derive(Debug)]
pub(crate) struct Loader {
    /// A program that takes another and that one's arguments.
    pub(crate) program: PathBuf,
    /// The directories with libraries, as `--library-path` takes them.
    pub(crate) libraries: OsString,
}

impl Loader {
    /// The loader that starts `program`, which is under `root`; `None` where that needs none, or where the root has
    /// none but the machine's. `root` has no links in it.
    pub(crate) fn find(root: &Path, program: &Path) -> Result<Option<Self>, BrokerError> {
        let found = interpreter(program).and_then(|interpreter| {
            let own = resolve(root, &interpreter)?;
            let same =
                |machine: fs::Metadata, own: &fs::Metadata| (machine.dev(), machine.ino()) == (own.dev(), own.ino());
            let metadata = fs::metadata(&own).ok().filter(fs::Metadata::is_file)?;
            let is_machines = fs::metadata(&interpreter).is_ok_and(|it| same(it, &metadata));
            (!is_machines).then_some(own)
        });
        let Some(program) = found else { return Ok(None) };
        let directories = library_directories(root, &program);
        let mut libraries = OsString::new();
        for directory in directories {
            // The loader would take what stands before such a sign for a directory of its own.
            if directory.as_os_str().as_bytes().iter().any(|it| b":;".contains(it)) {
                let cause = "broker.root: its programs cannot be started from a path with : or ; in it";
                let help = "move the directory, or name it through another path";
                return Err(BrokerError::config(cause, directory.display(), help));
            }
            if !libraries.is_empty() {
                libraries.push(":");
            }
            libraries.push(directory);
        }
        Ok(Some(Self { program, libraries }))
    }
}

/// The loader that a dynamically linked program names: `/lib64/ld-linux-x86-64.so.2`.
pub(super) fn interpreter(program: &Path) -> Option<PathBuf> {
    // Reads what it is asked for: a program of 5 MB has its headers in the first page.
    let cache = ReadCache::new(File::open(program).ok()?);
    let name = match FileKind::parse(&cache).ok()? {
        FileKind::Elf64 => interpreter_of::<FileHeader64<Endianness>, _>(&cache),
        FileKind::Elf32 => interpreter_of::<FileHeader32<Endianness>, _>(&cache),
        _ => None,
    }?;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(&name));
    path.is_absolute().then_some(path)
}

fn interpreter_of<'data, H: FileHeader, R: ReadRef<'data>>(data: R) -> Option<Vec<u8>> {
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    segments.iter().find_map(|segment| Some(segment.interpreter(endian, data).ok()??.to_vec()))
}

/// Where `path` leads for a process whose root directory is `root`: links in it, also absolute ones, stay inside.
fn resolve(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut inside = PathBuf::new();
    let mut parts = parts_of(path);
    let (mut links, mut steps) = (0, 0);
    while let Some(part) = parts.pop() {
        steps += 1;
        if steps > MOST_PARTS {
            return None;
        }
        if part == ".." {
            inside.pop();
            continue;
        }
        let next = root.join(&inside).join(&part);
        let Ok(target) = fs::read_link(&next) else {
            inside.push(part);
            continue;
        };
        links += 1;
        if links > MOST_LINKS {
            return None;
        }
        if target.is_absolute() {
            inside = PathBuf::new();
        }
        parts.extend(parts_of(&target));
    }
    Some(root.join(inside)).filter(|path| path.exists())
}

/// The names in a path, the first one last.
fn parts_of(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}

/// The directories with libraries of a root directory, each once: the loader's own, whose C library is of its build,
/// those that `/etc/ld.so.conf` lists, and those that every loader knows.
fn library_directories(root: &Path, loader: &Path) -> Vec<PathBuf> {
    let listed = configured_directories(root);
    let known = LIBRARIES.into_iter().map(PathBuf::from);
    let own = loader.parent().map(Path::to_owned);
    let inside = listed.into_iter().chain(known);
    let mut directories = Vec::new();
    for directory in own.into_iter().chain(inside.filter_map(|path| resolve(root, &path))) {
        if directory.is_dir() && !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    directories
}

/// The directories in `/etc/ld.so.conf` and in what lies in `/etc/ld.so.conf.d`, which every distribution's includes.
fn configured_directories(root: &Path) -> Vec<PathBuf> {
    let entries = resolve(root, Path::new("etc/ld.so.conf.d")).and_then(|it| fs::read_dir(it).ok());
    let mut lists: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| Path::new("etc/ld.so.conf.d").join(entry.file_name()))
        .filter(|file| file.extension().is_some_and(|it| it == "conf"))
        .take(MOST_LISTS)
        .collect();
    lists.sort_unstable();
    lists.push("etc/ld.so.conf".into());
    let texts = lists.iter().filter_map(|file| {
        let file = resolve(root, file).filter(|it| it.is_file())?;
        let mut text = Vec::new();
        File::open(file).ok()?.take(MOST_OF_LIST).read_to_end(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    });
    let lines: Vec<String> = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    lines
        .iter()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        // `include` and `hwcap` are no directories.
        .filter(|line| line.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// A program of this machine that every Linux has, dynamically linked: this test.
    fn program() -> PathBuf {
        std::env::current_exe().unwrap()
    }

    /// A root directory whose loader stands where this machine's stands, behind an absolute link as Debian 12 has it.
    fn make_root(prefix: &str) -> (TempDir, PathBuf) {
        let folder = TempDir::with_prefix(prefix).unwrap();
        let root = folder.path().canonicalize().unwrap();
        let named = interpreter(&program()).expect("a dynamically linked test");
        let named = named.strip_prefix("/").unwrap();
        for directory in ["usr/lib/own", "usr/local/lib", "usr/lib/listed", "etc/ld.so.conf.d"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::create_dir_all(root.join(named.parent().unwrap())).unwrap();
        symlink("usr/lib", root.join("lib")).unwrap();
        symlink("/lib/own/loader.so", root.join(named)).unwrap();
        fs::copy("/proc/self/exe", root.join("usr/lib/own/loader.so")).unwrap();
        (folder, root)
    }

    #[test]
    fn a_root_with_its_own_loader_uses_that_and_its_own_libraries() {
        let (_folder, root) = make_root("root");
        let list = "# a list\n/usr/lib/listed # more\ninclude /etc/other\n/usr/lib/missing\n/lib/listed\n";
        fs::write(root.join("etc/ld.so.conf.d/a.conf"), list).unwrap();
        fs::write(root.join("etc/ld.so.conf.d/ignored"), "/usr/lib/ignored\n").unwrap();
        let found = Loader::find(&root, &program()).unwrap().expect("a loader");
        assert_eq!(found.program, root.join("usr/lib/own/loader.so"));
        let named = interpreter(&program()).unwrap();
        let mut wanted: Vec<PathBuf> = ["usr/lib/own", "usr/lib/listed"].map(|it| root.join(it)).into();
        if named.starts_with("/lib64") {
            wanted.push(root.join("lib64"));
        }
        wanted.extend(["usr/lib", "usr/local/lib"].map(|it| root.join(it)));
        let libraries: Vec<PathBuf> = std::env::split_paths(&found.libraries).collect();
        assert_eq!(libraries, wanted);
    }

    #[test]
    fn no_loader_is_used_where_the_machines_own_does() {
        let is_none = |root: &Path, program: &Path| Loader::find(root, program).unwrap().is_none();
        // A prefix such as /opt/rabbitmq has no loader.
        let prefix = TempDir::new().unwrap();
        assert!(is_none(prefix.path(), &program()));
        assert!(is_none(Path::new("/"), &program()));
        // The machine's, behind a link.
        let named = interpreter(&program()).unwrap();
        let at = prefix.path().join(named.strip_prefix("/").unwrap());
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::hard_link(named.canonicalize().unwrap(), &at).or_else(|_| symlink(&named, &at)).unwrap();
        assert!(is_none(prefix.path(), &program()));
        let (_folder, root) = make_root("root");
        for (name, content) in [("script", &b"#!/bin/sh\n"[..]), ("cut", b"\x7fELF\x02\x01\x01"), ("empty", b"")] {
            fs::write(root.join(name), content).unwrap();
            assert!(is_none(&root, &root.join(name)), "{name}");
        }
        assert!(is_none(&root, &root.join("missing")));
    }

    #[test]
    fn links_stay_inside_the_root_directory() {
        let folder = TempDir::new().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("a")).unwrap();
        fs::write(root.join("a/file"), "").unwrap();
        let file = Some(root.join("a/file"));
        for (link, target) in
            [("absolute", "/a/file"), ("relative", "a/file"), ("above", "../../../a/file"), ("twice", "/absolute")]
        {
            symlink(target, root.join(link)).unwrap();
            assert_eq!(resolve(&root, Path::new(link)), file, "{link}");
        }
        // The machine has it, the root directory does not.
        symlink("/etc/passwd", root.join("outside")).unwrap();
        symlink("/circle", root.join("circle")).unwrap();
        symlink("/longer/x", root.join("longer")).unwrap();
        for link in ["outside", "circle", "longer", "../etc/passwd"] {
            assert_eq!(resolve(&root, Path::new(link)), None, "{link}");
        }
    }

    #[test]
    fn a_root_in_a_path_that_separates_directories_is_refused() {
        let (_folder, root) = make_root("a:b");
        let error = Loader::find(&root, &program()).unwrap_err();
        assert!(error.problem().sentence().contains("broker.root"), "{error}");
    }
}
