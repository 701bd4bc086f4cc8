//! Commands: what is not known to be harmless is hidden wherever it stands, and ordinary ones stay readable.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use testkit::Random;

use super::{flags, script, secret_variables, words};

/// Ways in which commands are given secrets, a line each; in each of them stands `SECRET`.
const LOGINS: &str = include_str!("../../tests/data/redact/logins.txt");

/// Those of several lines, a blank line between two.
const LONG_LOGINS: &str = include_str!("../../tests/data/redact/long_logins.txt");

/// Ways in which a secret follows its name, a line each; it is hidden there also where it is a number or a known word.
const TOLD: &str = include_str!("../../tests/data/redact/told.txt");

/// Beginning and end of every secret, so that none is hidden by half.
const ENDS: [&str; 2] = ["s3cret", "z9tail"];

fn secret(random: &mut Random) -> String {
    const WITHIN: &str = "x|'|\"|\\|$|$(|${|`|;|&|#|(|)|ä|=|/|@|:|-|%|://|,12,| |\t| 12 |;echo |<<";
    let all: Vec<&str> = WITHIN.split('|').chain(["", "|"]).collect();
    let within = [(); 3].map(|()| random.of(&all));
    format!("{}{}{}", ENDS[0], within.concat(), ENDS[1])
}

/// A script among others, in quotes or lists or none.
fn within(login: &str, depth: u64, random: &mut Random) -> String {
    const BEFORE: &str = "set -e\n|echo fine ;|cd /srv && ls -l; |# it isn't\n|x 2>&1 >y &|don't; |x \\\n  |x <<E\n\
        |while :; do |{ |if a; then |x=$(|echo \"it's $(date +%s)\" ; |";
    const AFTER: &str = "|\necho fine| &|;|'|\"|\nE|)";
    let of = |random: &mut Random, all: &str| {
        let all: Vec<String> = all.split('|').map(str::to_owned).collect();
        all[random.below(all.len() as u64) as usize].clone()
    };
    let (before, after) = (of(random, BEFORE), of(random, AFTER));
    let script = match random.below(6) {
        0 => format!("({login})"),
        1 => format!("\"$({login})\""),
        2 => format!("sh -ec '{login}'"),
        3 => format!("`{login}`"),
        4 => format!("x | {login} | y"),
        _ => login.to_owned(),
    };
    let script = format!("{before}{script}{after}");
    match depth {
        0 => script,
        _ => within(&script, depth - 1, random),
    }
}

#[test]
fn secrets_survive_in_no_command_whatever_stands_around_them() {
    let logins: Vec<&str> = LOGINS.lines().chain(LONG_LOGINS.trim().split("\n\n")).collect();
    for seed in testkit::seeds(1_400) {
        let mut random = Random::new(seed);
        let secret = secret(&mut random);
        let login = random.of(&logins).replace("SECRET", &secret);
        let command: Vec<String> = match random.below(3) {
            0 => login.split(' ').map(str::to_owned).collect(),
            1 => vec![login],
            _ => {
                let script = within(&login, random.below(3), &mut random);
                ["timeout", "5", "bash", "-ec", &script].map(str::to_owned).into()
            }
        };
        let shown = words(&command).0.join(" ") + &script(&command.join(" "));
        assert_eq!(ENDS.into_iter().find(|end| shown.contains(end)), None, "seed {seed}: {command:?}\n{shown}");
    }
}

#[test]
fn known_words_and_numbers_are_hidden_behind_the_name_of_a_secret() {
    let told: Vec<&str> = TOLD.lines().collect();
    for seed in testkit::seeds(700) {
        let mut random = Random::new(seed);
        let login = random.of(&told).replace("SECRET", "90817263");
        let depth = random.below(3);
        // What stands in other quotes is in none of its own there.
        let command = match login.contains('\'') {
            true => format!("set -e; {login}; seq 3"),
            false => within(&login, depth, &mut random),
        };
        let list = ["sh", "-c", &command].map(str::to_owned);
        let shown = words(&list).0.join(" ") + &script(&command);
        assert!(!shown.contains("90817263"), "seed {seed}: {command:?}\n{shown}");
    }
}

#[test]
fn ordinary_scripts_stay_readable() {
    for [given] in testkit::table(include_str!("../../tests/data/redact/readable.txt")) {
        assert_eq!(script(given), given);
        assert_eq!(words(&["sh", "-c", given].map(str::to_owned)).0[2], given);
    }
}

/// Of a line all was hidden to its last bracket.
#[test]
fn what_prints_a_secret_is_hidden_and_what_follows_stays_readable() {
    for [given, shown] in testkit::table(include_str!("../../tests/data/redact/printed.txt")) {
        assert_eq!(script(given), shown);
        assert_eq!(words(&["sh", "-c", given].map(str::to_owned)).0[2], shown);
    }
}

#[test]
fn what_is_not_known_is_hidden_in_scripts() {
    for [given, shown] in testkit::table(include_str!("../../tests/data/redact/script.txt")) {
        assert_eq!(script(given), shown);
    }
    // Whatever it looks like, what is longer than any word is hidden: a form, a word between signs, options.
    for (part, end) in [("%a", ""), (":", "rabbit"), ("a", "")] {
        let long = part.repeat(129) + end;
        assert_eq!(script(&long), "***");
        assert_eq!(script(&format!("--{long} 5")), "*** 5");
        assert_eq!(script(&format!("-XX:{long} 5")), "-X*** 5");
    }
}

/// A word each; `|` is a blank within.
fn split(line: &str) -> Vec<String> {
    line.split(' ').map(|it| it.replace('|', " ")).collect()
}

#[test]
fn what_is_not_known_is_hidden_in_words() {
    for [given, shown] in testkit::table(include_str!("../../tests/data/redact/words.txt")) {
        assert_eq!(words(&split(given)).0, split(shown), "{given}");
    }
}

#[test]
fn flags_of_virtual_machines_are_shown_but_for_secrets() {
    for given in [
        "+MBas aobf +sbt db +stbt ts +C multi_time_warp",
        "-mnesia dump_log_write_threshold 5000 -proto_dist inet_tls -kernel net_ticktime 30",
        "-Xmx4G -XX:+UseZGC -Dio.netty.leakDetection.level=paranoid -javaagent:/srv/x.jar=port=1",
    ] {
        assert_eq!(flags(&split(given)), split(given));
    }
    for [given, shown] in testkit::table(include_str!("../../tests/data/redact/flags.txt")) {
        assert_eq!(flags(&split(given)), split(shown), "{given}");
    }
}

/// Scripts print variables, whose values stand in no word of theirs.
#[test]
fn a_variable_that_is_called_a_secret_is_one() {
    let all =
        [("PASSWORD", "s3cret"), ("API_TOKEN", "t0ken"), ("PASSES", "3"), ("BYPASS", "true"), ("HOME", "/home/me")];
    let all = all.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    assert_eq!(secret_variables(all.into_iter()), ["s3cret", "t0ken"]);
}

/// A script's own output is no secret to its log, but for words that it hands on.
#[test]
fn what_a_script_says_stays_in_its_log() {
    for [given, hidden @ ..] in testkit::table::<3>(include_str!("../../tests/data/redact/hidden.txt")) {
        let hidden: Vec<&str> = hidden.into_iter().filter(|it| !it.is_empty()).collect();
        assert_eq!(words(&["sh", "-c", given].map(str::to_owned)).1, hidden, "{given}");
    }
}

/// Where each letter led to a look at all others, a text of 60,000 took from 25 seconds to hours.
#[test]
fn long_texts_take_no_longer_for_each_letter_than_short_ones() {
    const TEXTS: &str = "'|\\|$(|`|;|a|a |a;|s3 |x://|x://a/|://a@|-a|-b|a=|$a|\"$a\"'$a'|$(a)|${|<<a\n|curl -u a:b |\
        password=|password |echo a|%a|1.|{url}|ä";
    for (text, before) in TEXTS.split('|').flat_map(|text| [(text, ""), (text, "password=")]) {
        let time = |letters: usize| {
            let text = before.to_owned() + &text.repeat(letters / text.len());
            let begin = Instant::now();
            assert!(!script(&text).is_empty());
            begin.elapsed()
        };
        // Another process may take the core for once, but not each time.
        let is_linear = (0..5).any(|_| time(10_000) < time(2_500) * 8 + Duration::from_millis(50));
        assert!(is_linear, "{before}{text}");
    }
}
