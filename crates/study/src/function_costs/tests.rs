//! Costs of functions and call paths, from runs that are made up.

use archive::{RunRecord, RunSummary};
use stacks::{Builds, Frame, FrameKind, Profile, ProfileSummary, ShareName, ShareNode, ShareTree};

use super::*;

/// A run that needs so much CPU per message, of which functions have these shares, `root` below all of them.
pub(super) fn run(broker: f64, shares: &[(&str, f64)]) -> FunctionCosts {
    let mut functions: HashMap<Function, Costs> = shares
        .iter()
        .map(|(name, share)| {
            let own = share * broker;
            let costs = Costs { own, total: own, cut: 0.0 };
            (((*name).to_owned(), String::new()), costs)
        })
        .collect();
    let root = Costs { own: 0.0, total: broker, cut: 0.0 };
    functions.insert(("root".to_owned(), String::new()), root);
    FunctionCosts {
        broker,
        of_build: Costed { functions: functions.clone(), stacks: below_root(shares) },
        of_names: Costed { functions, stacks: below_root(shares) },
        summary: ProfileSummary::default(),
        builds: Builds::default(),
    }
}

fn below_root(shares: &[(&str, f64)]) -> ShareTree {
    let name = |function: &str| ShareName {
        function: function.to_owned(),
        module: String::new(),
        kind: Some(FrameKind::Native),
    };
    let root = ShareNode { parent: None, name: 0, share: 1.0 };
    let callees = (1..).zip(shares).map(|(at, (_, share))| ShareNode { parent: Some(0), name: at, share: *share });
    let names = shares.iter().map(|it| name(it.0));
    ShareTree {
        names: std::iter::once(name("root")).chain(names).collect(),
        nodes: std::iter::once(root).chain(callees).collect(),
    }
}

/// Six runs with noise of half a per cent, `turned` the other way round.
fn side(cost: f64, shares: &[(&str, f64)], turned: bool) -> Vec<Option<FunctionCosts>> {
    let mut noise = [0.995, 1.004, 1.001, 0.998, 1.005, 0.997];
    if turned {
        noise.reverse();
    }
    noise.map(|by| Some(run(cost * by, shares))).to_vec()
}

pub(super) fn compared(a: &[Option<FunctionCosts>], b: &[Option<FunctionCosts>], paired: bool) -> Comparison {
    let mut comparison = Comparison { paired, level: 0.05, ..Comparison::default() };
    compare_functions(&mut comparison, a, b);
    comparison
}

#[test]
fn a_function_that_got_dearer_is_named_and_those_whose_share_fell_are_not() {
    // The one costs 300 ns more; the other's share falls from 90 to 69 %, and its cost stays.
    let a = side(1000.0, &[("one", 0.1), ("other", 0.9)], false);
    let of_b = [("one", 400.0 / 1300.0), ("other", 900.0 / 1300.0)];
    let b = side(1300.0, &of_b, true);
    for paired in [true, false] {
        let found = compared(&a, &b, paired);
        let stacks = found.stacks.expect("stacks");
        let is_proven = |name: &str| {
            let of = |it: &&archive::ComparedFrame| stacks.name(it).unwrap().function == name;
            let frame = stacks.frames.iter().find(of).expect("a frame");
            (frame.proven, frame.parent)
        };
        // The root needs 30 % more, too, which is far more than its noise.
        assert_eq!(is_proven("root"), (true, None));
        assert_eq!(is_proven("one"), (true, Some(0)));
        assert_eq!(is_proven("other"), (false, Some(0)));
        let found = found.functions.expect("functions");
        let proven = found.functions.iter().filter(|it| it.own.proven);
        assert_eq!(proven.map(|it| it.function.as_str()).collect::<Vec<&str>>(), ["one"], "{found:#?}");
        let named: Vec<&str> = found.explained.iter().map(|it| it.function.as_str()).collect();
        assert_eq!(named, ["one"], "the root explains nothing");
        assert!((found.explained[0].change - 300.0).abs() < 2.0);
        let told: f64 = found.functions.iter().map(|it| it.own.change()).sum();
        let all = told + found.others;
        assert!((all - found.broker.change()).abs() < 1e-9);
        assert!((found.broker.change() - 300.0).abs() < 1.0);
    }
}

/// The root of all stacks is the whole broker: two tables never disagree on it.
#[test]
fn a_root_is_decided_as_the_whole_broker_is() {
    let shares = [("f", 0.5), ("g", 0.5)];
    let (a, b) = (side(1_000.0, &shares, false), side(1_300.0, &shares, true));
    for proven in [true, false] {
        let figure = archive::ComparedFigure {
            name: "broker cpu".into(),
            means: (1_000.0, 1_300.0),
            interval: if proven { (0.2, 0.4) } else { (-0.1, 0.7) },
            corrected_p: Some(if proven { 0.01 } else { 0.2 }),
            decision: if proven { archive::Decision::Changed } else { archive::Decision::Undecided },
            ..archive::ComparedFigure::default()
        };
        let mut of = Comparison { paired: true, level: 0.05, figures: vec![figure], ..Comparison::default() };
        compare_functions(&mut of, &a, &b);
        let functions = of.functions.expect("functions");
        let root = functions.functions.iter().find(|it| it.function == "root");
        let root = root.expect("a root").total;
        let told = |it: CostChange| (it.proven, it.interval, it.p);
        assert_eq!(told(root), told(functions.broker));
        assert_eq!(root.proven, proven);
        let frame = &of.stacks.expect("stacks").frames[0];
        assert_eq!((frame.parent, frame.proven), (None, proven));
    }
}

#[test]
fn runs_without_a_profile_and_of_other_frequencies_are_not_compared() {
    let at = |frequency| {
        let mut side = side(1000.0, &[("one", 1.0)], false);
        side.iter_mut().flatten().for_each(|run| run.summary.frequency = frequency);
        side
    };
    testkit::assert_has(compared(&at(4_999), &at(999), true).no_functions.expect("a reason"), ["4,999 Hz and 999 Hz"]);
    let mut lacking = at(999);
    lacking[2] = None;
    let found = compared(&at(999), &lacking, true);
    assert!(found.functions.is_none() && found.no_functions.is_some());
    let nothing = compared(&[None, None], &[None, None], true);
    assert_eq!((nothing.functions, nothing.no_functions), (None, None), "none at all is not told");
    let record = RunRecord { summary: Some(RunSummary::default()), ..RunRecord::default() };
    assert!(FunctionCosts::of(&record, &Profile::default()).is_none(), "no CPU per message");
}

/// A run whose profile has these stacks, folded, as one of RabbitMQ's has.
fn sampled(stacks: &[(&str, u64)]) -> FunctionCosts {
    sampled_in("beam.smp", stacks)
}

/// As [`sampled`], where functions without a name of their own are of a file.
fn sampled_in(file: &str, stacks: &[(&str, u64)]) -> FunctionCosts {
    let mut builder = stacks::Builder::default();
    for (stack, samples) in stacks {
        let mut node = None;
        for name in stack.split(';') {
            let module = if name.starts_with("[near") { file } else { "beam.smp" };
            let frame = builder.frame(&Frame::new(name, module, FrameKind::Runtime));
            node = Some(builder.node(node, frame));
        }
        let thread = builder.thread("1_scheduler");
        let stack = node.expect("a stack");
        for _ in 0..*samples {
            builder.sample(stacks::Sample { weight: 1, stack, thread, complete: true, ..stacks::Sample::default() });
        }
    }
    let mut profile = builder.profile;
    profile.header.event = "cpu".to_owned();
    let mut summary = RunSummary::default();
    summary.messages_mut().cpu_us_each.broker = Some(1.0);
    let record = RunRecord { summary: Some(summary), ..RunRecord::default() };
    FunctionCosts::of(&record, &profile).expect("costs")
}

/// Functions without a name are called after a neighbour, another one in each build: they are not one side's alone.
#[test]
fn functions_without_names_are_one_where_the_builds_differ() {
    let of = |gc: &str, hash: &str, route: u64| {
        let paths =
            [(format!("loop;{gc};{hash}"), 300), (format!("loop;{hash}"), 200), ("loop;route".to_owned(), route)];
        let paths: Vec<(&str, u64)> = paths.iter().map(|(path, n)| (path.as_str(), *n)).collect();
        vec![Some(sampled(&paths)); 6]
    };
    let old = of("[near erts_gc+0x30]", "[near make_hash-0x10]", 500);
    let new = of("[near erts_init-0x70]", "[near driver+0x90]", 500);
    let found = compared(&old, &new, true).functions.expect("functions");
    assert_eq!(found.other_builds, ["beam.smp"]);
    assert!(found.explained.is_empty(), "{found:#?}");
    let unnamed = |it: &&FunctionChange| it.function == "[no symbol in beam.smp]";
    let unnamed = found.functions.iter().find(unnamed).expect("the row");
    // Both functions are on 300 samples, and these count once.
    assert_eq!((unnamed.own.a, unnamed.total.a), (500.0, 500.0));
    assert_eq!(unnamed.own.change(), 0.0);
    let near = |it: &FunctionChange| it.function.starts_with("[near");
    assert!(!found.functions.iter().any(near));

    // Of one build they are functions like others.
    let slower = of("[near erts_gc+0x30]", "[near make_hash-0x10]", 700);
    let found = compared(&old, &slower, true).functions.expect("functions");
    assert!(found.other_builds.is_empty());
    assert!(found.functions.iter().any(near));
}

/// A function that takes another argument in another version is the same one, with all that it calls.
#[test]
fn functions_with_another_number_of_arguments_are_compared_under_their_name_on_b() {
    let of = |paths: &[(&str, u64)]| vec![Some(sampled(paths)); 6];
    let a = of(&[
        ("loop;$m:route/2;copy", 300),
        ("loop;$m:'-each/1-fun-0-'/1", 90),
        ("loop;$m:'-each/1-fun-1-'/3", 10),
        ("loop;$m:one/1", 300),
        ("loop;$m:two/1", 300),
    ]);
    let b = of(&[
        ("loop;$m:route/3;copy", 400),
        ("loop;$m:'-each/2-fun-1-'/2", 100),
        ("loop;$m:one/2", 100),
        ("loop;$m:one/3", 200),
        ("loop;$m:two/1", 100),
        ("loop;$m:two/2", 100),
    ]);
    let compared = compared(&a, &b, true);
    let found = compared.functions.expect("functions");
    let told: Vec<(&str, &str)> = (found.renamed.iter()).map(|it| (it.a.as_str(), it.b.as_str())).collect();
    let route = ("$m:route/2", "$m:route/3");
    let closure = ("$m:'-each/1-fun-0-'/1", "$m:'-each/2-fun-1-'/2");
    // Which of two took the place of one, and whether one that is left took that of a new one, nobody knows.
    assert_eq!(told, [route, closure]);
    let of_name = |name: &str| found.functions.iter().find(|it| it.function == name);
    let route = of_name("$m:route/3").expect("the row");
    assert_eq!((route.total.a, route.total.b), (300.0, 400.0));
    assert!(of_name("$m:route/2").is_none() && of_name("$m:one/1").is_some());
    let stacks = compared.stacks.expect("stacks");
    let copies = (stacks.frames.iter()).filter(|it| stacks.name(it).is_some_and(|it| it.function == "copy"));
    let costs: Vec<(f64, f64)> = copies.map(|it| (it.a, it.b)).collect();
    assert_eq!(costs, [(300.0, 400.0)], "one frame of both sides");
}

/// A library that one side alone has loaded is not another build of itself. One sample of a library says nothing of its
/// build, and must not take the names of all others.
#[test]
fn a_file_that_one_side_alone_runs_or_that_was_hardly_sampled_is_no_other_build() {
    let of = |file: &str, unnamed: &str, samples: u64| {
        let rare = format!("loop;{unnamed}");
        vec![Some(sampled_in(file, &[(&rare, samples), ("loop;route", 999)])); 6]
    };
    let without = vec![Some(sampled(&[("loop;route", 800)])); 6];
    let alone = of("libtcmalloc.so", "[near malloc+0x30]", 300);
    let rare = |unnamed: &str| of("libz.so", unnamed, 1);
    for (a, b) in [(&alone, &without), (&without, &alone), (&rare("[near inflate+0x30]"), &rare("[near deflate+0x90]"))]
    {
        let found = compared(a, b, true).functions.expect("functions");
        assert!(found.other_builds.is_empty(), "{:?}", found.other_builds);
    }
}
