use archive::profile::*; use std::time::Duration;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let pid: u32 = a[1].parse().unwrap(); let secs: f64 = a[2].parse().unwrap(); let out = std::path::Path::new(&a[3]);
    let freq: u32 = a.get(4).map_or(999, |f| f.parse().unwrap());
    let _ = std::fs::remove_file(out);
    let sink = StacksWriter::create(out, ProfileHeader::cpu(freq, pid, measure::Clock.now(), 0)).unwrap();
    let t = std::time::Instant::now();
    let mut s = match profile::Sampler::attach(pid, &profile::Options { frequency: freq, kernel: true }, sink) { Ok(s) => s, Err(e) => { eprintln!("{e}"); std::process::exit(1) } };
    eprintln!("attach {:?} rss {}", t.elapsed(), std::fs::read_to_string("/proc/self/status").unwrap().lines().find(|l| l.starts_with("VmRSS")).unwrap());
    s.start().unwrap(); std::thread::sleep(Duration::from_secs_f64(secs));
    let o = s.stop().unwrap(); eprintln!("{o:?} own share {:.4}", o.own_cpu.as_secs_f64() / secs);
    eprintln!("rss {}", std::fs::read_to_string("/proc/self/status").unwrap().lines().find(|l| l.starts_with("VmHWM")).unwrap());
    let p = Profile::open(out).unwrap(); let sum = p.summary(25);
    println!("samples {} unknown {:.3} complete {:.3} frames {} nodes {}", sum.samples, sum.unknown_share, sum.complete_share, p.frames.len(), p.stacks.len());
    for f in &sum.top { println!("{:6.2}% {:6.2}%  {} ({})", f.self_share * 100., f.total * 100., f.function, f.module); }
    let f = p.folded(); std::fs::write(out.with_extension("folded"), &f).unwrap();
    std::fs::write(out.with_extension("pb.gz"), p.to_pprof().unwrap()).unwrap();
}
