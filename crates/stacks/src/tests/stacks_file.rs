//! The stacks file: written while a profile is taken, read whole or cut off.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use measure::Time;
use tempfile::TempDir;

use super::{file, small};
use crate::{ErlangProcess, Footer, Frame, Profile, ProfileHeader, Sample, StacksWriter};

/// Writes a profile as a profiler would.
fn write(profile: &Profile, mut writer: StacksWriter) -> io::Result<()> {
    let threads: Vec<_> = profile.threads.iter().map(|t| writer.thread(t)).collect();
    for (i, sample) in profile.samples.iter().enumerate() {
        let mut parent = None;
        for frame in profile.stack(sample.stack) {
            let frame = writer.frame(frame);
            parent = Some(writer.node(parent, frame));
        }
        writer.sample(&Sample { stack: parent.unwrap(), thread: threads[sample.thread as usize], ..*sample });
        if i == 1 {
            writer.flush();
        }
    }
    writer.lost(2);
    writer.lost(3);
    writer.throttled(1);
    writer.note("a \"note\"\nof two lines");
    let (from, to) = profile.span.unwrap();
    let Profile { own_cpu_ns, copied_bytes, cpu_share, .. } = *profile;
    writer.finish(Footer { from, to, own_cpu_ns, copied_bytes, cpu_share, ..Footer::default() })
}

/// A profile that was written, and its file in a folder of its own.
fn written() -> (TempDir, PathBuf, Profile) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cpu.stacks");
    let profile = small();
    let writer = StacksWriter::create(&path, profile.header.clone()).unwrap();
    write(&profile, writer).unwrap();
    (dir, path, profile)
}

#[test]
fn what_was_written_is_read_back() {
    let (_dir, path, mut wanted) = written();
    wanted.lost = 5;
    wanted.throttled = 1;
    wanted.notes = vec!["a \"note\"\nof two lines".into()];
    assert_eq!(Profile::open(&path).unwrap(), wanted);
    // A second profile does not overwrite the first.
    assert!(StacksWriter::create(&path, wanted.header).is_err());
}

#[test]
fn a_file_cut_off_anywhere_is_read_up_to_its_last_whole_line() {
    let (_dir, path, whole) = written();
    let bytes = std::fs::read(&path).unwrap();
    let header = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let mut most = 0;
    for len in header..bytes.len() {
        std::fs::write(&path, &bytes[..len]).unwrap();
        let cut = Profile::open(&path).unwrap();
        assert!(cut.is_consistent());
        assert_eq!(cut.samples, whole.samples[..cut.samples.len()]);
        assert!(cut.samples.len() >= most, "more bytes, fewer samples");
        most = cut.samples.len();
        assert!(cut.notes.iter().any(|note| note.contains("cut off")), "{:?}", cut.notes);
    }
    assert_eq!(most, whole.samples.len());
    for len in 1..header {
        std::fs::write(&path, &bytes[..len]).unwrap();
        let _ = Profile::open(&path);
    }
}

#[test]
fn everything_before_a_damaged_line_is_read() {
    let (_dir, path, whole) = written();
    let text = std::fs::read_to_string(&path).unwrap();
    let at = text.match_indices("{\"sample\"").nth(2).unwrap().0;
    for bad in [
        "garbage\n",
        "{\"sample\":[1,99,0,0,true,1]}\n",
        "{\"sample\":[1,0,99,0,true,1]}\n",
        "{\"sample\":[-1,0,0,0,true,1]}\n",
        "{\"node\":[99,0]}\n",
        "{\"node\":[null,99]}\n",
        "{\"header\":{}}\n",
        "\0\0\0\n",
        "\n",
    ] {
        std::fs::write(&path, format!("{}{bad}{}", &text[..at], &text[at..])).unwrap();
        let read = Profile::open(&path).unwrap();
        assert_eq!(read.samples, whole.samples[..2], "{bad}");
        assert!(read.is_consistent());
        assert!(read.notes[0].contains("cannot be used"), "{:?}", read.notes);
    }
}

/// Takes this many bytes, then refuses.
struct Small(Arc<Mutex<Vec<u8>>>, usize);

impl Write for Small {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap();
        let room = self.1 - kept.len();
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = room.min(bytes.len());
        kept.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_was_written_before_the_disk_was_full_is_readable() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let mut writer = StacksWriter::new(Small(kept.clone(), 900), small().header);
    let frame = writer.frame(&Frame::unknown(""));
    let (stack, thread) = (writer.node(None, frame), writer.thread("t"));
    let sample = Sample { stack, thread, ..small().samples[0] };
    for i in 0..100 {
        writer.sample(&sample);
        if i % 5 == 0 {
            writer.flush();
        }
    }
    assert!(writer.error().is_some());
    assert_eq!(writer.finish(Footer::default()).unwrap_err().kind(), io::ErrorKind::StorageFull);
    let (_dir, path) = file("cpu.stacks", &*kept.lock().unwrap());
    let read = Profile::open(&path).unwrap();
    assert!((5..100).contains(&read.samples.len()), "{}", read.samples.len());
}

#[test]
fn the_header_can_be_completed_until_the_first_line() {
    let mut writer = StacksWriter::new(io::sink(), small().header);
    writer.header_mut().unwrap().pid = 1;
    writer.flush();
    assert!(writer.header_mut().is_none());
}

#[test]
fn a_profile_that_was_cut_replaces_its_file() {
    let (dir, path, _) = written();
    let cut = Profile::open(&path).unwrap().window(1_000_000, 3_000_000);
    cut.write_stacks(&path).unwrap();
    let read = Profile::open(&path).unwrap();
    assert_eq!(read.samples.len(), 2);
    assert_eq!(read.folded(), cut.folded());
    assert_eq!(read.header, cut.header);
    assert_eq!((read.lost, read.own_cpu_ns, read.span), (5, 12, cut.span));
    // Names of what was sampled outside the window are gone too.
    assert_eq!((small().frames.len(), read.frames.len()), (7, 4));
    assert!(read.is_consistent());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn processes_and_their_names_survive_the_way_through_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cpu.stacks");
    let mut writer = StacksWriter::create(&path, small().header).unwrap();
    let frame = writer.frame(&Frame::unknown(""));
    let (stack, thread) = (writer.node(None, frame), writer.thread("1_scheduler"));
    let mut ids: Vec<u32> = Vec::new();
    for id in ["<0.1.0>", "<0.2.0>", "<0.1.0>"] {
        ids.push(writer.process(&ErlangProcess::unnamed(id)));
    }
    assert_eq!(ids, [0, 1, 0]);
    for process in [Some(1), None, Some(0), Some(1)] {
        writer.sample(&Sample { stack, thread, process, ..small().samples[0] });
    }
    writer.finish(Footer::default()).unwrap();
    let mut profile = Profile::open(&path).unwrap();
    assert!(profile.is_consistent());
    let [role, name, vhost] = ["queue", "orders", "/"].map(str::to_owned);
    let queue = ErlangProcess { role, name, vhost, ..ErlangProcess::unnamed("<0.2.0>") };
    // The first sample's process goes, and with it its line; the node has said what the other is.
    profile.samples.remove(2);
    profile.name_processes(&[queue.clone(), ErlangProcess::unnamed("<0.3.0>")]);
    profile.write_stacks(&path).unwrap();
    let read = Profile::open(&path).unwrap();
    assert_eq!(read.processes, [queue]);
    let processes: Vec<_> = read.samples.iter().map(|sample| sample.process).collect();
    assert_eq!(processes, [Some(0), None, Some(0)]);
    // A file that names a process that it does not have.
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(",3,0]}", ",3,7]}")).unwrap();
    let read = Profile::open(&path).unwrap();
    assert!(read.is_consistent() && read.notes.iter().any(|note| note.contains("process")));
}

#[test]
fn a_node_of_many_short_processes_takes_bounded_memory() {
    let mut writer = StacksWriter::new(io::sink(), small().header);
    let mut last = 0;
    for i in 0..70_000 {
        last = writer.process(&ErlangProcess::unnamed(format!("<0.{i}.0>")));
    }
    assert_eq!(last, (1 << 16) - 1);
    assert_eq!(writer.process(&ErlangProcess::unnamed("<0.5.0>")), 5);
}

/// A few megabytes of gzip can stand for fifty million samples.
#[test]
fn what_a_packed_file_stands_for_is_bounded_and_a_plain_one_is_not_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, packed) = (dir.path().join("x.stacks"), dir.path().join("x.stacks.gz"));
    let head = b"{\"frame\":[\"f\",\"m\",\"native\"]}\n{\"node\":[null,0]}\n{\"thread\":\"t\"}\n";
    let line = b"{\"sample\":[1,0,0,0,true,1]}\n";
    let count = (256 << 20) / size_of::<Sample>() + 1;
    let put = |out: &mut dyn Write| {
        let header = serde_json::to_string(&ProfileHeader::new(Time(0), 0)).unwrap();
        writeln!(out, "{{\"header\":{header}}}").unwrap();
        out.write_all(head).unwrap();
        let thousand = line.repeat(1_000);
        for _ in 0..count.div_ceil(1_000) {
            out.write_all(&thousand).unwrap();
        }
    };
    let file = File::create(&packed).unwrap();
    put(&mut flate2::write::GzEncoder::new(file, flate2::Compression::fast()));
    testkit::assert_has(Profile::open(&packed).unwrap_err().to_string(), ["more than 256 MiB"]);
    put(&mut io::BufWriter::new(File::create(&plain).unwrap()));
    assert!(Profile::open(&plain).unwrap().samples.len() >= count);
}
