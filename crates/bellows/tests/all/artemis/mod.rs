//! `bellows artemis perf`: its command lines, its output compared with Artemis' own, and faults of the original that it
//! lacks.

use crate::common;
mod faults;
mod formats;
mod options;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Broker, Ended, folder, run};
use serde_json::Value;

/// Artemis' own output; see the README there.
fn recorded(name: &str) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/artemis");
    fs::read_to_string(dir.join(name)).expect("fixture")
}

struct Bench {
    dir: common::Folder,
    broker: Broker,
}

impl Bench {
    fn new() -> Self {
        let dir = folder();
        let broker = Broker::start(dir.path());
        Self { dir, broker }
    }

    fn args<'a>(&'a self, tool: &'a str, options: &[&'a str]) -> Vec<&'a str> {
        let mut args = vec!["artemis", "perf", tool, "--url", &self.broker.url];
        args.extend(options);
        args
    }

    fn perf(&self, tool: &str, options: &[&str]) -> Ended {
        run(self.dir.path(), &self.args(tool, options))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn samples(&self, name: &str) -> Vec<Value> {
        common::read_json(&self.file(name)).as_array().expect("an array of samples").clone()
    }

    /// The last of the samples.
    fn summary(&self, name: &str) -> Value {
        self.samples(name).pop().expect("summary")
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}
