//! A node from a checkout of RabbitMQ's sources as `make` leaves it: here with the modules of the installed one.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use brokers::BrokerError;
use brokers::rabbitmq::{Config, RabbitMq};
use tempfile::TempDir;

fn installed() -> PathBuf {
    let script = Path::new("/usr/lib/rabbitmq/bin/rabbitmq-server");
    script.canonicalize().unwrap().parent().unwrap().parent().unwrap().to_owned()
}

/// Folders without versions below `deps`, sources beside the modules, scripts among the sources.
fn make_checkout(root: &Path) {
    let installed = installed();
    for entry in fs::read_dir(installed.join("plugins")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let Some((name, _)) = name.split_once('-') else { continue };
        let application = root.join("deps").join(name);
        fs::create_dir_all(&application).unwrap();
        for part in fs::read_dir(entry.path()).unwrap().flatten() {
            symlink(part.path(), application.join(part.file_name())).unwrap();
        }
    }
    fs::create_dir(root.join("deps/rabbit/src")).unwrap();
    symlink(installed.join("sbin"), root.join("deps/rabbit/scripts")).unwrap();
    fs::write(root.join("rabbitmq-components.mk"), "# sources\n").unwrap();
    // What an earlier `make dist` may have left, and is not to be used.
    fs::create_dir_all(root.join("plugins/rabbit-0.0.0/ebin")).unwrap();
}

fn git(root: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(identity).args(arguments);
    assert!(git.output().unwrap().status.success(), "{arguments:?}");
}

fn start(root: &Path, parent: &Path) -> Result<RabbitMq, BrokerError> {
    let config = Config {
        root: Some(root.to_owned()),
        plugins: vec!["rabbitmq_consistent_hash_exchange".to_owned()],
        ..crate::managed::config(parent)
    };
    RabbitMq::start(&config, &mut |_| {}, &|| false)
}

#[test]
#[ignore = "a start of its own: make prove"]
fn a_node_starts_from_what_make_left_among_the_sources() {
    testkit::needs_rabbitmq!();
    let (root, parent) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let root = root.path();
    make_checkout(root);
    git(root, &["init", "--quiet"]);
    git(root, &["add", "rabbitmq-components.mk"]);
    git(root, &["commit", "--quiet", "-m", "sources"]);
    let node = start(root, parent.path()).unwrap();
    assert!(installed().ends_with(format!("rabbitmq_server-{}", node.version())));
    let clean = node.origin();
    assert!(clean.starts_with(" from a checkout at "), "{clean}");
    assert!(!clean.contains("with changes"), "{clean}");
    fs::write(root.join("rabbitmq-components.mk"), "# changed\n").unwrap();
    let changed = node.origin();
    assert!(changed.contains(" with changes (modules "), "{changed}");

    // Its own code comes from the checkout, also that of its plugins.
    let question = "iolist_to_binary(lists:join($,, [filename:absname(P) || P <- [code:priv_dir(rabbit), \
                    code:which(rabbit_exchange_type_consistent_hash)]])).";
    let said = crate::managed::said_by(&node, question);
    let root_text = root.canonicalize().unwrap().display().to_string();
    let node_text = parent.path().canonicalize().unwrap().display().to_string();
    for place in said.split(',') {
        let is_own = place.starts_with(&root_text) || place.starts_with(&node_text);
        assert!(is_own && !place.contains("0.0.0"), "{said}");
    }
    node.stop().unwrap();
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn a_checkout_that_is_not_built_or_half_built_says_what_is_missing() {
    testkit::needs_rabbitmq!();
    let (root, parent) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let root = root.path();
    make_checkout(root);
    let refused = |missing: &str| {
        let problem = start(root, parent.path()).unwrap_err().problem();
        assert!(problem.cause.contains("without a build"), "{problem:?}");
        assert!(problem.value.contains(missing), "{problem:?}");
        assert!(problem.help.contains("run `make`"), "{problem:?}");
    };
    fs::remove_file(root.join("deps/ra/ebin")).unwrap();
    refused("deps/ra/ebin");
    fs::remove_file(root.join("deps/rabbit/ebin")).unwrap();
    refused("deps/rabbit/ebin");
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}
