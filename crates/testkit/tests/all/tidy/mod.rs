//! Style as a failing test: what the layout promises, held by a check instead of by memory.

mod modules;
mod names;
mod pages;
mod uses;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Which crates of the workspace each crate may use (its own code, not its tests).
const DIRECTIONS: &[(&str, &str)] = &[
    ("measure", ""),
    ("testkit", ""),
    ("compare", ""),
    ("fleet", "measure"),
    ("linux", "measure"),
    ("transport", "measure"),
    ("erlang", "measure transport"),
    ("wire", "measure"),
    ("stacks", "measure"),
    ("archive", "compare measure stacks"),
    ("plan", "measure transport"),
    ("load", "measure plan transport wire"),
    ("broker", "measure transport wire"),
    ("profile", "linux measure stacks"),
    ("web", "archive linux load measure stacks wire"),
    ("experiment", "archive broker erlang load measure profile web"),
    ("brokers", "archive erlang experiment linux load measure profile stacks web"),
    ("session", "archive broker brokers compare erlang experiment fleet linux load measure profile stacks web wire"),
    ("study", "archive compare experiment measure session stacks"),
    ("report", "archive compare experiment measure stacks"),
    ("bellows", "archive broker brokers erlang experiment fleet load measure profile report session stacks study web"),
];

/// Words that must not occur in the sources of a crate (tests excepted), and why.
const BANS: &[(&str, &[&str], &str)] = &[
    (
        "wire",
        &["std::net", "std::thread", "std::fs", "Instant::now", "SystemTime", "Clock", "mio::"],
        "wire is sans-IO: bytes and `now` come in as arguments",
    ),
    ("fleet", &["std::net", "std::fs", "Instant::now", "SystemTime"], "messages and `now` come in as arguments"),
    ("plan", &["TcpStream", "std::thread", "Clock.now", "mio::", "rustix::"], "a plan neither connects nor waits"),
    ("archive", &["std::net", "TcpStream", "UdpSocket"], "the archive knows no network"),
    ("session", &["clap::"], "session knows nothing of the command line"),
    ("brokers", &["clap::"], "brokers know nothing of the command line"),
    ("report", &["TcpStream"], "the report decides nothing and fetches nothing"),
];

/// Lines of a function that can be read at once; …
const MAX_LINES: usize = 70;
/// … and how many in the product are longer. It only falls.
const LONGER: usize = 2;
/// Fields of a struct that fit in one's head; …
const MAX_FIELDS: usize = 20;
/// … and how many structs have more. It only falls.
const LARGER: usize = 8;
/// Files that a type's methods may stand in; …
const MAX_FILES: usize = 3;
/// … and how many types stand in more. It only falls.
const SCATTERED: usize = 6;
/// Product files. It only falls.
const FILES: usize = 687;
/// Lines of Rust with more characters than a page's may have, texts that no formatter cuts. It only falls.
const WIDE: usize = 6;
/// Declarations that only tests use. It only falls.
const ONLY_TESTED: usize = 0;
const MOST_PROGRAMS: usize = 24;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("workspace root")
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if !["target", "node_modules", "dist"].iter().any(|skip| name == *skip) {
                files(&path, extension, found);
            }
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

fn sources_in(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(folder, "rs", &mut found);
    found.into_iter().map(|p: PathBuf| (p.clone(), fs::read_to_string(p).expect("UTF-8 source"))).collect()
}

fn crate_sources() -> BTreeMap<String, Vec<(PathBuf, String)>> {
    let crates = root().join("crates");
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(&crates).expect("crates").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        all.insert(name, sources_in(&entry.path().join("src")));
    }
    all
}

/// All of the workspace's Rust, tests included.
fn all_sources() -> Vec<(PathBuf, String)> {
    ["benches", "crates", "fuzz"].into_iter().flat_map(|folder| sources_in(&root().join(folder))).collect()
}

fn is_of_tests(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name == "tests.rs" || name.ends_with("_tests.rs"))
        || path.components().any(|part| part.as_os_str() == "tests")
}

/// The source without comments and without test modules (everything from `#[cfg(test)]` on, by
/// this project's habit of keeping them last, and files named `tests.rs` or `…_tests.rs`).
fn product_code<'a>(path: &Path, text: &'a str) -> Vec<(usize, &'a str)> {
    if is_of_tests(path) {
        return Vec::new();
    }
    text.lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line))
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .collect()
}

/// Shows each line of the product, with its crate and where it stands.
fn each_line(mut see: impl FnMut(&str, &Path, usize, &str)) {
    for (name, sources) in crate_sources() {
        for (path, text) in &sources {
            for (number, line) in product_code(path, text) {
                see(&name, path, number, line);
            }
        }
    }
}

#[test]
fn crates_depend_only_in_the_directions_of_the_architecture() {
    let crates = root().join("crates");
    let mut wrong = Vec::new();
    for entry in fs::read_dir(&crates).expect("crates").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((_, allowed)) = DIRECTIONS.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!("crate {name} has no row in DIRECTIONS: decide what it may use"));
            continue;
        };
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).expect("manifest");
        let mut in_dependencies = false;
        for line in manifest.lines() {
            if let Some(section) = line.strip_prefix('[') {
                in_dependencies = section.starts_with("dependencies");
            } else if in_dependencies {
                let used = line.split(['.', ' ', '=']).next().unwrap_or_default();
                let ours = DIRECTIONS.iter().any(|(known, _)| *known == used);
                if ours && !allowed.split_whitespace().any(|it| it == used) {
                    wrong.push(format!("{name} must not use {used}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn crates_keep_away_from_what_the_architecture_bans() {
    let mut wrong = Vec::new();
    each_line(|name, path, number, line| {
        for (banned_in, words, why) in BANS {
            if let Some(word) = words.iter().find(|w| *banned_in == name && line.contains(*w)) {
                wrong.push(format!("{}:{number}: `{word}`: {why}", path.display()));
            }
        }
        if name != "bellows" && line.contains("process::exit") {
            wrong.push(format!("{}:{number}: a library must not exit", path.display()));
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Files that may name the process's own streams: the way out itself, what asks for their style, the guardian's
/// pipe to its owner, and the tests' notes of what they skip.
const WAYS_OUT: &[&str] = &[
    "report/src/console/out.rs",
    "bellows/src/output.rs",
    // A whole screen, drawn from texts that are sanitised one by one.
    "bellows/src/cli/erlang/top/screen.rs",
    "brokers/src/guardian/process.rs",
    "testkit/src/lib.rs",
];

/// Files that draw on the terminal by themselves.
const DRAWS: &[&str] = &["report/src/console/live.rs", "bellows/src/prompt.rs"];

#[test]
fn nothing_is_printed_past_the_way_out_that_sanitises() {
    let streams = ["println!", "print!(", "io::stdout", "io::stderr", "error.print()"];
    let terminals = ["ProgressDrawTarget", "ProgressBar", "/dev/tty"];
    let mut wrong = Vec::new();
    let mut seen = 0;
    each_line(|_, path, number, line| {
        let is_one_of = |files: &[&str]| files.iter().any(|file| path.ends_with(file));
        let names = |words: &[&str]| words.iter().any(|word| line.contains(word));
        let (streams, draws) = (names(&streams), names(&terminals));
        seen += usize::from(streams || draws);
        if streams && !is_one_of(WAYS_OUT) || draws && !is_one_of(DRAWS) {
            wrong.push(format!("{}:{number}: {}", path.display(), line.trim()));
        }
    });
    assert!(seen > 5, "the search found no output, so this test checks nothing");
    assert!(wrong.is_empty(), "hand it to report::console::out instead:\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_lives_in_profile_alone() {
    let mut wrong = Vec::new();
    for (name, sources) in crate_sources() {
        for (path, text) in &sources {
            let has = |word: &str| text.lines().any(|l| !l.trim_start().starts_with("//") && l.contains(word));
            if name != "profile" && (has("unsafe {") || has("unsafe fn") || has("allow(unsafe_code")) {
                wrong.push(path.display().to_string());
            }
        }
    }
    assert!(wrong.is_empty(), "unsafe outside crate profile:\n{}", wrong.join("\n"));
}

#[test]
fn declarations_can_be_read_at_once() {
    let [mut long, mut large, mut scattered, mut tuples, mut doubles]: [Vec<String>; 5] = Default::default();
    for (name, sources) in crate_sources() {
        let files = parsed(&sources);
        let declared: Vec<_> = files.iter().map(|(path, file)| (path.as_str(), names::Declared::by(file))).collect();
        let mut in_files: BTreeMap<&str, usize> = BTreeMap::new();
        for (path, it) in &declared {
            let place = format!("{name}/src/{path}");
            let functions = it.functions.iter().filter(|(_, lines)| *lines > MAX_LINES);
            long.extend(functions.map(|(function, lines)| format!("{lines:5} {place} {function}")));
            let fields = it.fields.iter().filter(|(_, fields)| *fields > MAX_FIELDS);
            large.extend(fields.map(|(of, fields)| format!("{fields:5} {place} {of}")));
            tuples.extend(it.tuples.iter().map(|line| format!("{place}:{line}")));
            for of in &it.with_methods {
                *in_files.entry(of).or_default() += 1;
            }
        }
        let many = in_files.into_iter().filter(|(_, files)| *files > MAX_FILES);
        scattered.extend(many.map(|(of, files)| format!("{files:5} {name} {of}")));
        let doubled = names::doubles(declared.iter().map(|(path, it)| (*path, it)));
        doubles.extend(doubled.into_iter().map(|it| format!("{name}: {it}")));
    }
    ratchet(&format!("functions over {MAX_LINES} lines"), long, LONGER);
    ratchet(&format!("structs with over {MAX_FIELDS} fields"), large, LARGER);
    ratchet(&format!("types with methods in over {MAX_FILES} files"), scattered, SCATTERED);
    ratchet("parameters that are tuples of parameters", tuples, 0);
    ratchet("types of one name in a crate", doubles, 0);
}

#[test]
fn files_are_whole_topics() {
    let files = crate_sources().into_values().flatten().filter(|(path, _)| !is_of_tests(path)).count();
    assert!(
        files == FILES,
        "{files} product files, not {FILES} (fewer: write down how many; more: merge what belongs together)"
    );
}

#[test]
fn lines_can_be_read_at_once_and_docs_are_sentences() {
    let (mut wide, mut riddles) = (Vec::new(), Vec::new());
    for (path, text) in all_sources() {
        let at = |line: usize| format!("{}:{line}", path.display());
        wide.extend(pages::long_lines(&text).into_iter().map(at));
        riddles.extend(names::riddles(&text).into_iter().map(|(line, words)| format!("{}: {words}", at(line))));
    }
    ratchet("lines of over 120 characters", wide, WIDE);
    ratchet("docs of one word, or that begin with What or The same", riddles, 0);
}

#[test]
fn the_product_uses_what_it_declares() {
    let mut uses = uses::Uses::default();
    let mut add = |name: &str, sources: &[(PathBuf, String)]| {
        for (path, file) in parsed(sources) {
            uses.add(format!("{name}/src/{path}"), &file);
        }
    };
    for (name, sources) in crate_sources().iter().filter(|(name, _)| *name != "testkit") {
        add(name, sources);
    }
    add("benches", &sources_in(&root().join("benches/src")));
    add("fuzz", &sources_in(&root().join("fuzz/fuzz_targets")));
    ratchet("declarations that only tests use", uses.unused(), ONLY_TESTED);
}

/// The modules in a folder of tests that its program does not have, so that nobody would run them.
fn undeclared(folder: &Path) -> Vec<PathBuf> {
    let main = fs::read_to_string(folder.join("main.rs")).unwrap_or_default();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let modules = entries
        .map(|entry| entry.path())
        .filter(|path| path.join("mod.rs").exists() || path.extension().is_some_and(|it| it == "rs"));
    let has = |path: &PathBuf| {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        name == "main" || main.contains(&format!("mod {name};\n"))
    };
    modules.filter(|path| !has(path)).collect()
}

/// Each program of tests is linked by itself: a crate has one for its unit tests, and one for those from outside.
#[test]
fn tests_are_few_programs() {
    let crates = fs::read_dir(root().join("crates")).expect("crates").flatten().map(|entry| entry.path());
    let (mut programs, mut wrong) = (0, Vec::new());
    for folder in crates.chain([root().join("benches")]) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        programs += usize::from(!manifest.contains("test = false"));
        for entry in fs::read_dir(folder.join("tests")).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.join("main.rs").exists() || path.extension().is_some_and(|it| it == "rs") {
                programs += 1;
                if !path.ends_with("tests/all") {
                    wrong.push(path);
                }
            }
        }
        wrong.extend(undeclared(&folder.join("tests/all")));
    }
    assert!(wrong.is_empty(), "no module of tests/all: {wrong:?}");
    assert!(programs <= MOST_PROGRAMS, "{programs} programs of tests");
}

#[test]
fn nothing_is_left_for_later() {
    let mut wrong = Vec::new();
    for sources in crate_sources().into_values() {
        for (path, text) in sources {
            for (number, line) in text.lines().enumerate() {
                let marks = ["TODO", "FIXME", "XXX", "HACK", "todo!(", "unimplemented!(", "PLACEHOLDER"];
                if marks.iter().any(|mark| line.contains(mark)) {
                    wrong.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A crate's product sources, by their path below `src`, parsed.
fn parsed(sources: &[(PathBuf, String)]) -> Vec<(String, syn::File)> {
    let mut files = Vec::new();
    for (path, text) in sources.iter().filter(|(path, _)| !is_of_tests(path)) {
        let text_path = path.to_string_lossy();
        let (_, below) = text_path.split_once("/src/").unwrap_or_default();
        let file = syn::parse_file(text).unwrap_or_else(|e| panic!("{text_path}: {e}"));
        files.push((below.to_owned(), file));
    }
    files
}

/// Fails unless as many break a rule as are known, a line for each.
fn ratchet(rule: &str, mut found: Vec<String>, known: usize) {
    found.sort();
    assert!(
        found.len() == known,
        "{rule}: {}, not {known} (fewer: write down how many):\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn modules_of_a_crate_form_a_tree() {
    let circles = |sources: &[(PathBuf, String)]| {
        let files = parsed(sources);
        let modules: Vec<_> = files.iter().map(|(path, file)| modules::Module::new(Path::new(path), file)).collect();
        modules::circles(&modules)
    };
    let crates = crate_sources().into_iter().chain([("benches".to_owned(), sources_in(&root().join("benches/src")))]);
    let found =
        crates.flat_map(|(name, sources)| circles(&sources).into_iter().map(move |circle| format!("{name}: {circle}")));
    ratchet("modules that use each other in circles", found.collect(), 0);
}
