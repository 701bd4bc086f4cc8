//! Lines of source code: kept where a format has them, merged where functions are wanted.

use super::*;
use crate::{FORMATS, SourceLine, StacksWriter};

/// `$m:f/1` at two lines calls `leaf` without a line, and itself.
fn known() -> Profile {
    let mut builder = Builder::default();
    let thread = builder.thread("t");
    let line = |number| SourceLine { file: "src/m.erl".into(), number };
    let function = Frame::new("$m:f/1", "[jit]", FrameKind::Erlang);
    let mut frame = |it: Frame| builder.frame(&it);
    let first = frame(function.clone().at_line(Some(line(3))));
    let second = frame(function.clone().at_line(Some(line(7))));
    let none = frame(function);
    let leaf = frame(Frame::new("leaf", "m.so", FrameKind::Native));
    for (path, weight) in
        [(&[first, leaf][..], 4), (&[second, leaf], 2), (&[second, first, leaf], 1), (&[second], 3), (&[none], 5)]
    {
        let node = |parent, frame: &u32| Some(builder.node(parent, *frame));
        let stack = path.iter().fold(None, node).unwrap();
        builder.sample(Sample { weight, stack, thread, complete: true, ..Sample::default() });
    }
    let mut profile = builder.profile;
    profile.header = ProfileHeader::new(Time(0), 0);
    profile.header.unit = "samples".into();
    profile
}

fn by_line() -> Vec<(String, u64, u64)> {
    vec![row("leaf", 7, 7), row("$m:f/1", 5, 5), row("$m:f/1 m.erl:7", 3, 6), row("$m:f/1 m.erl:3", 0, 5)]
}

#[test]
fn a_function_is_all_of_its_lines() {
    let functions = known().without_lines();
    assert!(functions.is_consistent() && !functions.knows_lines());
    assert_eq!(functions.frames.len(), 2);
    // f, f;leaf, f;f, f;f;leaf
    assert_eq!(functions.stacks.len(), 4);
    let mut found = rows(&functions);
    found.sort();
    assert_eq!(found, [row("$m:f/1", 8, 15), row("leaf", 7, 7)]);
    assert_eq!(functions.folded(), "t;$m:f/1 8\nt;$m:f/1;leaf 6\nt;$m:f/1;$m:f/1;leaf 1\n");
    let again = functions.clone().without_lines();
    assert_eq!(again, functions);
}

#[test]
fn lines_are_rows_also_of_stacks_and_pprof() {
    let known = known();
    assert!(known.knows_lines());
    assert_eq!(rows(&known.by_line()), by_line());
    let (_dir, paths) = stored(&known);
    for path in paths {
        let read = Profile::open_with_lines(&FORMATS, &path, None).unwrap();
        assert_eq!(rows(&read.by_line()), by_line(), "{path:?}");
        let functions = Profile::open(&path).unwrap();
        assert_eq!(functions.folded(), known.clone().without_lines().folded(), "{path:?}");
        let lines = read.frames.iter().filter_map(|it| it.line.as_ref());
        assert!(lines.clone().count() == 2 && lines.clone().all(|it| it.file == "src/m.erl"));
    }
}

#[test]
fn a_file_without_lines_is_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cpu.stacks");
    known().without_lines().write_stacks(&path).unwrap();
    testkit::assert_has(fs::read_to_string(path).unwrap(), ["{\"frame\":[\"leaf\",\"m.so\",\"native\"]}"]);
    let mut writer = StacksWriter::new(std::io::sink(), ProfileHeader::default());
    let frame = Frame::new("f", "", FrameKind::Native);
    assert_eq!(writer.frame(&frame), writer.frame(&frame));
}
