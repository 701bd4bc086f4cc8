//! The module that bellows carries is what its sources compile to: a source that was changed without `scripts/helper`
//! fails here.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn helper() -> PathBuf {
    root().join("crates/erlang/src/helper")
}

fn printed(command: &mut Command) -> String {
    let output = command.output().expect("run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{failed}");
    text
}

pub(crate) fn evaluate(directory: &Path, source: &str) -> String {
    let arguments = ["-noinput", "-eval", source];
    printed(Command::new("erl").current_dir(directory).args(arguments))
}

/// The release that `scripts/helper` compiles with.
fn oldest() -> String {
    let script = std::fs::read_to_string(root().join("scripts/helper")).expect("the script");
    script.lines().find_map(|it| it.strip_prefix("readonly oldest=")).expect("its release").to_owned()
}

/// Names and checksums of the beams in a folder, without what says when and where they were compiled.
fn checksums(folder: &Path) -> String {
    evaluate(
        folder,
        "[begin {ok, {Module, Sum}} = beam_lib:md5(File), io:format(\"~s ~s ~w~n\", [File, Module, Sum]) end \
          || File <- lists:sort(filelib:wildcard(\"*.beam\"))], halt().",
    )
}

#[test]
fn the_modules_are_what_their_sources_compile_to() {
    if Command::new("erlc").arg("-help").output().is_err() {
        testkit::skip!("erlc is not installed: apt-get install erlang-dev");
    }
    let committed = helper().join("beam");
    let hash = "cat bellows_*.erl ../../../../scripts/helper.escript | sha256sum | cut -c 1-8";
    let hash = printed(Command::new("sh").current_dir(helper()).env("LC_ALL", "C").args(["-c", hash]));
    let name = std::fs::read_to_string(committed.join("module.in")).expect("its name");
    let stale = "run scripts/helper: the modules are not of these sources";
    assert!(name.contains(&format!("\"bellows_{}\"", hash.trim())), "{stale}");
    let folder = tempfile::tempdir().expect("a folder");
    let release = "io:put_chars(erlang:system_info(otp_release)), halt().";
    if evaluate(folder.path(), release) != oldest() {
        eprintln!("another release makes other code: the hash of the sources has to do");
        return;
    }
    printed(Command::new(root().join("scripts/helper")).arg(folder.path()));
    let written = std::fs::read_to_string(folder.path().join("module.in")).expect("a name");
    assert_eq!(name, written, "{stale}");
    let sums = checksums(&committed);
    assert_eq!(sums.lines().count(), 1, "{sums}");
    assert_eq!(sums, checksums(folder.path()), "{stale}");
}
