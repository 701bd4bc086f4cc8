//! Every command line in the docs is run: each fenced `sh` block of README.md and docs/*.md is one
//! script, run in an empty folder with this build's `bellows` first on the path. `make` targets
//! are looked up instead (`make demo` and `make test` are what CI itself runs).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const DEFAULT_PORT: &str = "5672";

const LIMIT: Duration = Duration::from_secs(180);

struct Block {
    place: String,
    script: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("workspace root")
}

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let docs = fs::read_dir(root().join("docs")).expect("docs");
    pages.extend(
        docs.flatten()
            .map(|e| e.path())
            .filter(|p| p.extension().is_some_and(|e| e == "md")),
    );
    pages.sort();
    pages
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("page");
        let name = page
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut current: Option<Block> = None;
        for (index, line) in text.lines().enumerate() {
            match (&mut current, line.trim_end()) {
                (None, "```sh") => {
                    let place = format!("{name}:{}", index + 1);
                    current = Some(Block {
                        place,
                        script: String::new(),
                    });
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
    blocks
}

/// Checks the `make` lines against the Makefile and takes them out of the script.
fn without_make(block: &Block, makefile: &str) -> String {
    let mut script = String::new();
    for line in block.script.lines() {
        let command = line.split('#').next().unwrap_or_default().trim();
        if let Some(targets) = command.strip_prefix("make ") {
            for target in targets
                .split_whitespace()
                .filter(|word| !word.contains('='))
            {
                assert!(
                    makefile
                        .lines()
                        .any(|l| l.starts_with(&format!("{target}:"))),
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

fn run(block: &Block, script: &str) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let bellows = Path::new(env!("CARGO_BIN_EXE_bellows"));
    let path = format!(
        "{}:{}",
        bellows.parent().expect("folder of the binary").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let log = folder.path().join("docs-test.log");
    let output = fs::File::create(&log).expect("log");
    let guarded = format!("trap 'set +e; jobs -p | xargs -r kill; wait' EXIT\n{script}");
    let mut child = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &guarded])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("BELLOWS_RUNS", folder.path().join("runs"))
        .env("XDG_DATA_HOME", folder.path().join("data"))
        // The docs show lengths that suit a person; the test only needs the commands to work.
        .env("BELLOWS_SET", "phases.warmup=1s,phases.measure=3s")
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("log"))
        .stderr(output)
        .spawn()
        .expect("bash");
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait") {
            break Some(status);
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            break None;
        }
        thread::sleep(Duration::from_millis(50));
    };
    let said = fs::read_to_string(&log).unwrap_or_default();
    assert!(
        status.is_some_and(|s| s.success()),
        "{}: {}\n--- script\n{script}--- output\n{said}",
        block.place,
        status.map_or_else(
            || format!("still running after {LIMIT:?}"),
            |s| s.to_string()
        ),
    );
}

#[test]
fn every_command_in_the_docs_works() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("Makefile");
    let blocks = blocks();
    assert!(
        blocks.len() >= 5,
        "only {} sh blocks found: the search is broken",
        blocks.len()
    );
    let scripts = blocks
        .iter()
        .map(|block| (block, without_make(block, &makefile)));
    let (on_default_port, others): (Vec<_>, Vec<_>) = scripts
        .filter(|(_, script)| !script.trim().is_empty())
        .partition(|(_, script)| script.contains(DEFAULT_PORT));
    // They mostly wait. Those with a broker on the default port must not meet.
    thread::scope(|scope| {
        for scripts in [on_default_port, others] {
            scope.spawn(move || {
                for (block, script) in scripts {
                    eprintln!("{}", block.place);
                    run(block, &script);
                }
            });
        }
    });
}
