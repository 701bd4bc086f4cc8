//! Function tables, summaries, windows.

use std::collections::{BTreeMap, BTreeSet};

use measure::Time;

use super::super::frames::UNKNOWN;
use super::{profile, row, rows, small};
use crate::{ErlangProcess, EventKind, Frame, FrameKind, Profile, Sample, WorkBy};

/// A process that the node has named.
fn process(id: &str, role: &str, name: &str, vhost: &str, connection: &str) -> ErlangProcess {
    let [id, role, name, vhost, connection] = [id, role, name, vhost, connection].map(str::to_owned);
    ErlangProcess { id, role, name, vhost, connection, from_stacks: false }
}

/// Has samples be of these processes, one after another.
fn run_by(profile: &mut Profile, processes: &[Option<u32>]) {
    for (sample, process) in profile.samples.iter_mut().zip(processes) {
        sample.process = *process;
    }
}

/// Five samples, of which all but the fourth are of these processes, one after another.
fn of_processes(processes: Vec<ErlangProcess>) -> Profile {
    let mut profile = Profile { processes, ..small() };
    run_by(&mut profile, &[Some(0), Some(1), Some(2), None, Some(3)]);
    profile
}

fn times(profile: &Profile) -> Vec<u64> {
    profile.samples.iter().map(|it| it.t).collect()
}

/// Rows of work, each with its number of processes.
fn work(profile: &Profile, by: WorkBy) -> Vec<String> {
    let rows = profile.work(by).into_iter();
    rows.map(|it| format!("{} {} {}", it.of, it.weight, it.processes)).collect()
}

#[test]
fn the_function_table_agrees_with_a_plain_model() {
    // Random stacks of few functions, so that recursion of every shape occurs.
    let mut random = testkit::Random::new(42);
    let mut draw = |n: u64| random.below(n);
    let stacks: Vec<(String, u64)> = (0..500)
        .map(|_| {
            let depth = draw(12) + 1;
            let frames: Vec<_> = (0..depth).map(|_| format!("f{}", draw(5))).collect();
            (format!("t{};{}", draw(3), frames.join(";")), draw(9) + 1)
        })
        .collect();
    let mut model: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (stack, weight) in &stacks {
        let frames: Vec<_> = stack.split(';').skip(1).collect();
        model.entry(frames[frames.len() - 1]).or_default().0 += weight;
        for name in frames.iter().collect::<BTreeSet<_>>() {
            model.entry(name).or_default().1 += weight;
        }
    }
    let borrowed: Vec<_> = stacks.iter().map(|(s, w)| (s.as_str(), *w)).collect();
    let found = rows(&profile(&borrowed));
    let found: BTreeMap<_, _> = found.iter().map(|(n, s, t)| (n.as_str(), (*s, *t))).collect();
    assert_eq!(found, model);
}

#[test]
fn a_stack_a_million_frames_deep_is_no_problem() {
    let mut profile = profile(&[("t;f", 1)]);
    for i in 0..1_000_000 {
        profile.stacks.push(crate::StackNode { parent: Some(i), frame: 0 });
    }
    profile.samples[0].stack = 1_000_000;
    assert_eq!(rows(&profile), [row("f", 1, 1)]);
    assert_eq!(profile.stack(1_000_000).len(), 1_000_001);
}

#[test]
fn the_summary_says_how_far_the_profile_can_be_trusted() {
    let mut profile = small();
    profile.lost = 5;
    let summary = profile.summary(2);
    assert_eq!((summary.event.as_str(), summary.samples, summary.lost), ("cpu", 10, 5));
    assert_eq!((summary.unknown_share, summary.complete_share), (0.3, 0.7));
    assert_eq!(summary.top.len(), 2);
    let first = &summary.top[0];
    assert_eq!((first.function.as_str(), first.module.as_str()), ("$route/2", "[jit]"));
    assert_eq!((first.self_share, first.total), (0.6, 0.6));
    assert_eq!(small().functions()[0].kind, FrameKind::Erlang);
    assert!(rows(&small()).contains(&row(UNKNOWN, 0, 3)));
    let empty = Profile::default().summary(20);
    assert_eq!((empty.samples, empty.unknown_share, empty.complete_share), (0, 0.0, 0.0));
    assert!(empty.top.is_empty());
}

#[test]
fn times_that_count_from_a_later_instant_are_earlier() {
    let mut profile = profile(&[("t;a", 1), ("t;b", 1), ("t;c", 1)]);
    let before = times(&profile);
    // Nobody knows when it was taken.
    profile.header.origin = Time(0);
    profile.count_from(Time(7), 7);
    assert_eq!((times(&profile), profile.header.origin), (before.clone(), Time(0)));
    profile.header.origin = Time(5_000);
    profile.span = Some((before[0], before[2]));
    profile.count_from(Time(5_000 + before[1]), 9);
    assert_eq!(times(&profile), [0, 0, before[2] - before[1]]);
    assert_eq!(profile.span, Some((0, before[2] - before[1])));
    assert_eq!(profile.header.origin_unix_ns, 9);
}

#[test]
fn a_window_takes_its_first_moment_and_not_its_end() {
    let window = small().window(1_000_000, 3_000_000);
    assert_eq!(times(&window), [1_000_000, 2_000_000]);
    assert_eq!(window.span, Some((1_000_000, 3_000_000)));
    assert!(window.is_consistent());
    assert_eq!(window.total_weight(), 3);
    assert!(small().window(3, 3).samples.is_empty());
    // Each sample keeps its part of what was copied for all.
    let copied = Profile { copied_bytes: 100 * small().samples.len() as u64, ..small() };
    for part in [copied.window(1_000_000, 3_000_000), copied.split(&[(0, 2_000_000)]).1] {
        assert_eq!((part.copied_bytes, part.summary(0).copied_bytes), (100 * part.samples.len() as u64, 100));
    }
}

#[test]
fn a_time_off_cpu_counts_in_a_window_as_far_as_it_lies_in_it() {
    let mut waits = small();
    waits.header.kind = EventKind::OffCpu;
    waits.header.unit = "nanoseconds".into();
    let samples = waits.samples.clone().into_iter();
    // From 100, 200, 300, … on, each for 250.
    waits.samples = samples.zip(1..).map(|(sample, i)| Sample { t: i * 100, weight: 250, ..sample }).collect();
    let whole = waits.total_weight();
    let part = waits.window(300, 360);
    let parts: Vec<_> = part.samples.iter().map(|s| (s.t, s.weight)).collect();
    assert_eq!(parts, [(300, 50), (300, 60), (300, 60)]);
    let halves = [waits.window(0, 333), waits.window(333, u64::MAX)];
    assert_eq!(halves.map(|half| half.total_weight()).iter().sum::<u64>(), whole);
    let (inside, outside) = waits.split(&[(120, 140), (300, 360)]);
    assert_eq!(inside.total_weight(), 20 + part.total_weight());
    assert_eq!(inside.total_weight() + outside.total_weight(), whole);
}

#[test]
fn every_sample_is_inside_of_some_window_or_outside_of_all() {
    let whole = small();
    // They overlap, one is empty, and one lies beyond the end.
    let windows = [(1_000_000, 3_000_000), (2_000_000, 3_000_000), (0, 0), (u64::MAX - 1, u64::MAX)];
    let (inside, outside) = whole.clone().split(&windows);
    assert_eq!(times(&inside), [1_000_000, 2_000_000]);
    assert_eq!(inside.samples.len() + outside.samples.len(), whole.samples.len());
    assert!(times(&outside).iter().all(|t| !times(&inside).contains(t)));
    assert!(inside.is_consistent() && outside.is_consistent());
    let (none, all) = whole.clone().split(&[]);
    assert!(none.samples.is_empty());
    assert_eq!(all, whole);
}

#[test]
fn tables_that_refer_to_nothing_do_no_harm() {
    let mut broken = small();
    broken.samples[0].stack = 10_000;
    broken.samples[1].thread = 10_000;
    broken.stacks[1].parent = Some(10_000);
    broken.stacks[2].frame = 10_000;
    assert!(!broken.is_consistent());
    let _ = (broken.functions(), broken.folded(), broken.summary(9));
    let _ = (broken.to_pprof().unwrap(), broken.stack(2), broken.stack(u32::MAX));
    // A loop.
    let mut broken = small();
    broken.stacks[0].parent = Some(1);
    assert!(!broken.is_consistent());
    let _ = (broken.functions(), broken.folded(), broken.stack(1));
}

#[test]
fn kinds_are_told_from_names_where_nothing_else_is_known() {
    for [name, module, kind] in testkit::table(include_str!("kinds.txt")) {
        assert_eq!(format!("{:?}", Frame::kind_from_name(name, module)), kind, "{name} in {module}");
    }
}

#[test]
fn the_headline_is_a_function_that_does_a_part_of_everything() {
    for (stacks, wanted) in [
        (&[("1;$c:d/1", 1), ("1;$c:d/1!", 5), ("1;$a:b/1", 4)][..], Some("$c:d/1")),
        // Most stacks are cut.
        (&[("1;$c:d/1!", 6), ("1;$a:b/1", 4)], None),
        // It does most of everything itself, or its callee does.
        (&[("1;$a:b/1", 7), ("1;$a:b/1;$c:d/1", 1), ("1;$e:f/1", 2)], Some("$a:b/1")),
        (&[("1;$a:b/1", 1), ("1;$a:b/1;$c:d/1", 5), ("1;$e:f/1", 4)], Some("$c:d/1")),
        // Neither the loop of a scheduler nor a library.
        (&[("1;$global::process_main;$erlang:hibernate/3", 5), ("1;$a:b/1", 4), ("1;$lists:map/2", 6)], Some("$a:b/1")),
        // It has a name, and is of the language.
        (&[("1;[near f+0x10]", 6), ("1;g", 4)], Some("g")),
        (&[("1;inflate", 6), ("1;$a:b/1", 4)], Some("$a:b/1")),
    ] {
        let headline = profile(stacks).summary(1).headline.map(|it| it.function);
        assert_eq!(headline.as_deref(), wanted, "{stacks:?}");
    }
}

#[test]
fn what_waits_is_no_headline() {
    let reactor = "1;broker::Reactor::run";
    let select = format!("{reactor};mio::Selector::select;__futex_wait_queue");
    let yields = format!("{reactor};std::yields;__x64_sys_sched_yield");
    let chooses = format!("{reactor};runtime.schedule;__switch_to");
    let write = format!("{reactor};broker::write;__tcp_transmit_skb");
    let stacks = [(&*select, 30), (&*yields, 28), (&*chooses, 22), (&*write, 20)];
    let named = |stacks: &[(&str, u64)]| profile(stacks).summary(1).headline;
    let headline = named(&stacks).expect("a function");
    assert_eq!((&*headline.function, headline.total), ("broker::write", 0.2));
    assert_eq!(named(&stacks[..3]), None, "nothing burns");
}

#[test]
fn work_is_split_by_what_processes_are() {
    let profile = of_processes(vec![
        process("<0.1.0>", "queue", "orders", "/", ""),
        process("<0.2.0>", "queue", "orders", "test", ""),
        process("<0.3.0>", "channel", "c (1)", "/", "c"),
        process("<0.4.0>", "connection", "c", "/", "c"),
        ErlangProcess::unnamed("<0.5.0>"),
    ]);
    let nobody = "no Erlang process 1 0";
    assert_eq!(
        work(&profile, WorkBy::Process),
        ["connection c 3 1", "queue orders 3 1", "channel c (1) 2 1", nobody, "queue orders in test 1 1"]
    );
    assert_eq!(work(&profile, WorkBy::Role), ["queue 4 2", "connection 3 1", "channel 2 1", nobody]);
    assert_eq!(work(&profile, WorkBy::Connection), ["c 5 2", "no connection 4 2", nobody]);
    assert_eq!(work(&profile, WorkBy::VirtualHost), ["/ 8 3", nobody, "test 1 1"]);
    let shares = profile.work_shares(WorkBy::Process, 2);
    assert_eq!((shares.len(), shares[0].role.as_str()), (2, "connection"));
    assert_eq!((shares[0].share * 10.0).round(), 3.0);
    assert!(small().work(WorkBy::Process).is_empty());
    assert_eq!(ErlangProcess::unnamed("<0.5.0>").label(), "<0.5.0>");
}

/// Clients may give any number of connections one name.
#[test]
fn processes_of_connections_with_the_same_name_stay_apart() {
    let profile = of_processes(vec![
        process("<0.1.0>", "connection", "app", "/", "app"),
        process("<0.2.0>", "connection", "app", "/", "app"),
        process("<0.3.0>", "queue", "orders", "/", ""),
        // It was restarted, and is the same queue.
        process("<0.4.0>", "queue", "orders", "/", ""),
    ]);
    let rows = work(&profile, WorkBy::Process);
    for row in ["connection app <0.1.0> 3 1", "connection app <0.2.0> 1 1", "queue orders 5 2"] {
        assert!(rows.iter().any(|it| it == row), "{rows:?}");
    }
}

#[test]
fn what_people_call_their_things_is_no_row_of_others() {
    let profile = of_processes(vec![
        process("<0.1.0>", "queue", "a in b", "/", ""),
        process("<0.1.0>", "queue", "a", "b", ""),
        process("<0.1.0>", "", "no Erlang process", "no virtual host", "no connection"),
        process("<0.1.0>", "", "no Erlang process", "", "no Erlang process"),
    ]);
    let rows =
        [WorkBy::Process, WorkBy::Role, WorkBy::Connection, WorkBy::VirtualHost].map(|by| profile.work(by).len());
    assert_eq!(rows, [5, 3, 4, 5]);
    // What a connection is called hides nobody.
    assert_eq!(profile.work_shares(WorkBy::Connection, 9).len(), 3);
}

#[test]
fn processes_that_the_node_did_not_name_have_the_role_that_their_stacks_tell() {
    let mut profile = profile(&[
        ("1;$erts_beamasm:normal_exit/0;$proc_lib:init_p_do_apply/3;$rabbit_reader:start_connection/3;$lists:map/2", 1),
        (
            "1;$erts_beamasm:normal_exit/0;$proc_lib:init_p_do_apply/3;$gen_server2:loop/1;$rabbit_channel:f/1;\
             $rabbit_reader:g/1",
            2,
        ),
        ("1;$proc_lib:init_p_do_apply/3;$gen_server2:loop/1;$logger:log/1", 1),
        ("1;$global::process_main;$erlang:hibernate/3", 5),
        ("1;$mnesia_tm:f/1", 1),
        ("1;$rabbit_reader:start_connection/3", 1),
    ]);
    profile.processes = (0..5).map(|i| ErlangProcess::unnamed(format!("<0.{i}.0>"))).collect();
    profile.processes[4].name = "metadata".into();
    run_by(&mut profile, &[Some(0), Some(1), Some(1), Some(2), Some(3), Some(4)]);
    profile.take_roles_from_stacks();
    let roles: Vec<_> = profile.processes.iter().map(|it| (it.role.as_str(), it.from_stacks)).collect();
    // What the node has said, of the last, stays as it is.
    let expected = [("connection", true), ("channel", true), ("", false), ("mnesia_tm", true), ("", false)];
    assert_eq!(roles, expected);
    let rows = profile.work(WorkBy::Role);
    let channel = rows.iter().find(|row| row.of == "channel").unwrap();
    assert_eq!((channel.weight, channel.processes, channel.from_stacks), (3, 1, 1));
    let others = rows.iter().find(|row| row.of == "other processes").unwrap();
    assert_eq!((others.processes, others.from_stacks), (2, 0));
    // Neither connections nor virtual hosts stand in a stack.
    profile.processes[4].name.clear();
    assert!(profile.tells_work(WorkBy::Role) && profile.tells_work(WorkBy::Process));
    assert!(!profile.tells_work(WorkBy::Connection) && !profile.tells_work(WorkBy::VirtualHost));
}

/// A node starts a process for each request: a row for each of them would tell nothing.
#[test]
fn processes_that_the_node_did_not_name_are_one_row_of_their_role() {
    let guessed =
        |id: &str, role: &str| ErlangProcess { role: role.into(), from_stacks: true, ..ErlangProcess::unnamed(id) };
    let mut profile = of_processes(vec![
        guessed("<0.1.0>", "cowboy_http"),
        guessed("<0.2.0>", "cowboy_http"),
        ErlangProcess::unnamed("<0.3.0>"),
        guessed("<0.4.0>", "queue"),
    ]);
    let rows = |profile: &Profile| {
        let work = profile.work(WorkBy::Process).into_iter();
        work.map(|it| format!("{} {} {:?}", it.of, it.processes, it.kind)).collect::<Vec<_>>()
    };
    // A node that was not asked has named none: its numbers are all that there is.
    assert_eq!(rows(&profile).len(), 5);
    profile.processes[3] = ErlangProcess { name: "orders".into(), from_stacks: false, ..profile.processes[3].clone() };
    let mut told = rows(&profile);
    told.sort();
    assert_eq!(
        told,
        [
            "no Erlang process 0 NoProcess",
            "queue orders 1 Processes",
            "unnamed: cowboy_http 2 Unnamed",
            "unnamed: processes 1 Unnamed",
        ]
    );
    // Each of them may have been somebody else.
    let shares = profile.work_shares(WorkBy::Process, 9);
    assert_eq!(shares.len(), 1, "{shares:?}");
    assert_eq!(profile.work(WorkBy::Role).len(), 4);
    let grouped = profile.by_work(WorkBy::Process);
    let names: Vec<&str> = grouped.frames.iter().map(|it| it.name.as_str()).collect();
    assert!(names.contains(&"unnamed: cowboy_http"), "{names:?}");
}
