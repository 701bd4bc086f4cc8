//! Commands: what is not known to be harmless is hidden wherever it stands, and ordinary ones stay readable.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use testkit::Random;

use super::{flags, script, secret_variables, words};

/// Ways in which commands are given secrets, a line each; in each of them stands `SECRET`.
const LOGINS: &str = r#"curl -u me:SECRET h/x
/usr/bin/curl -sSume:SECRET -H X-Signature:SECRET h
http -fa me:SECRET h X-Key:SECRET
sudo -u root mariadb -pSECRET db
mysqldump -pSECRET db
ldapsearch -wSECRET
rabbitmqadmin -qu me -p SECRET list queues
rabbitmqctl -n r add_user me -- -SECRET
rabbitmq-diagnostics authenticate_user me SECRET
redis-cli AUTH SECRET
git clone https://SECRET@h/x.git
PASSWORD=SECRET X=1 java -Dpassword=SECRET -jar x.jar
curl http://h/SECRET/x?a=1&sig=SECRET#SECRET
openssl enc -aes256 -k SECRET -pass pass:SECRET
perf-test --oauth2-client-s SECRET -o2secSECRET
tool SECRET
tool {"q":"a=b","x":"SECRET"} --rate=5
erl -setcookie SECRET -rabbit default_pass <<"SECRET">>
diff <(mysql -pSECRET) >(tee "SECRET")
mysql $'\x2dp' 'SECRET' $'\x2dpSECRET'
echo `x \`mysql -p"SECRET"\``
args=(-x -u "me:SECRET") SECRET+=(SECRET)
[[ x && 'SECRET' != $PASSWORD ]] || test "$TOKEN" -ef 'SECRET' || expr "$TOKEN" : SECRET
for password in a 'SECRET'; do printf -v x SECRET; done
curl -u "me:${P:-SECRET}" ${P:-$(mysql -pSECRET)} mysql${IFS}-pSECRET
kinit me@R <<<SECRET <<< 'SECRET'"#;

/// Those of several lines, a blank line between two.
const LONG_LOGINS: &str = r#"
case $PASSWORD
in
a|'SECRET') x y;; b) z;; esac

mysql -e "alter user a identified with x
by 'SECRET'; select 1"

x <<EOF && y
SECRET
EOF
z

x <<!
SECRET
	!
!

x <<$E | y $(z <<-'E')
	SECRET
E
"#;

/// Ways in which a secret follows its name, a line each; it is hidden there also where it is a number or a known word.
const TOLD: &str = r#"curl -sku SECRET h
curl -A perf-test -u SECRET h
curl -fsSu rabbit:SECRET h
mosquitto_pub -h {host} -t perf-test -P SECRET
mosquitto_pub -t curl -rP SECRET
redis-cli -n perf-test -a SECRET
sudo -u perf-test mysql -p SECRET
sudo -E mysql -p SECRET
docker exec x mysql -p SECRET
zip -rP SECRET x
unzip -qP SECRET x
sshpass -vp SECRET ssh
docker run -eRABBITMQ_DEFAULT_PASS=SECRET rabbitmq
java -Dpass=SECRET -DPASS=SECRET -jar perf-test.jar
x {"pass" : SECRET}
x {"otp": SECRET, "pass" :SECRET}
pass = SECRET
pswd=SECRET
PASSWORD=http://SECRET x
x --password=http://SECRET/rabbit
x --password 'rabbit; SECRET'
x -p'rabbit; SECRET'
x --password 'rabbit | --rate SECRET & http://SECRET'
PASSWORD=$(cat x; echo SECRET)
PASSWORD=`cat x; echo SECRET`
x --password "$(cat "a b"; echo SECRET)" 5
x --password 'a (b) SECRET'
PASSWORD=$(case x in a) echo SECRET;; esac)
PASSWORD=$(echo ")"; (true); echo SECRET)
redis-cli AUTH $(cat x; echo SECRET) SECRET
PASSWORD=$(cat x) TOKEN=$(echo SECRET) y
PASSWORD=$(true)$(echo SECRET); seq $(nproc)
PASSWORD=$(seq $(nproc); echo SECRET)
PASSWORD=$(echo "(" SECRET); seq $(nproc)
PASSWORD=$(echo "it's" ; echo SECRET) seq $(nproc)
PASSWORD=$(echo \) SECRET); seq $(nproc)
PASSWORD=$(cat ${X%)} SECRET); seq $(nproc)
PASSWORD=`echo $(true) SECRET` seq $(nproc)
PASSWORD=`true``echo SECRET`
PASSWORD=$(cat x)$(echo SECRET)
PASSWORD="$(cat x) SECRET" y
PASSWORDS=(5 SECRET)"#;

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
    for seed in 0..8_000 {
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
    for seed in 0..4_000 {
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
    for given in [
        "for pass in 1 2 3; do echo \"pass $pass\"; done",
        "for r in 100 200; do bellows client --rate $r --duration=10s --url {url}; done",
        "sleep 1.5; seq 3 | tail -n 1 > /tmp/figures 2>&1",
        "while :; do perf-test -x 1 -y 2 -u orders -z 30 -h {url}; done",
        "curl -s -o /dev/null -w '%{http_code}\\n' http://{host}:15672/api/queues/%2F/q",
        "mkdir -p /tmp/run && cp -r ./load/x.js ../y \"$HOME\"",
        "[ \"$A\" -ge 3 ] && exit 1 || true",
        "[ \"$MAXPASSES\" -eq 3 ] || echo \"rate 3 msg/s\"",
        "date +%Y-%m-%d; k6 run -u 10 -d 30s script.js",
        "LC_ALL=C sort -k 2 <in >out 2>&1; printf \"%5.1f %s\\n\" $a ${b}",
        "python3 load.py --queue orders --rate 5k --body-size 1KiB tcp://$HOST:$PORT",
        "java -Xmx4G -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -Dio.maxDirect=true -jar perf-test.jar --maxRate=500",
        "case $mode in\nfast) k6 run a.js;; *) exit 2;; esac",
        "trap \"sleep 0.3; exit 3\" TERM; echo at {host}:{port} of {url}",
        "rabbitmqctl list_queues -p / name messages",
        "artemis perf client --url tcp://{host}:{port} --max-pending 100 queue://TEST_QUEUE",
        "nc -z 127.0.0.1 5672 && echo $((1 + 2)) $(date) `id`",
        "docker run pivotalrabbitmq/perf-test:2.24.0 --rate 5; docker run rabbitmq:4.1-management",
        "java -cp perf-test.jar com.rabbitmq.perf.PerfTest --queue orders",
        "bellows producer /queues/orders; /opt/tokens/bin/bench 100; ./passthrough 5 rabbit",
        "+MMmcs 0 +sbwt none -kernel inet_dist_listen_min 25000",
        "sleep $((5 * $(nproc)))",
        "xargs -P $(nproc) -n 1 curl -s http://{host}:15672/api/queues",
        "k6 run -u $(nproc) a.js; echo $(date +%s) `id`",
    ] {
        assert_eq!(script(given), given);
        assert_eq!(words(&["sh", "-c", given].map(str::to_owned)).0[2], given);
    }
}

/// Of a line all was hidden to its last bracket.
#[test]
fn what_prints_a_secret_is_hidden_and_what_follows_stays_readable() {
    for (given, shown) in [
        (
            "PASSWORD=$(cat x); for i in $(seq $(nproc)); do perf-test -x 1; done",
            "PASSWORD=$(***); for i in $(seq $(nproc)); do perf-test -x 1; done",
        ),
        // Also in quotes.
        ("PASSWORD=\"$(cat x)\" perf-test -x 1 -u s3cret-queue", "PASSWORD=\"$(***)\" perf-test -x 1 -u s3cret-queue"),
        ("PASSWORD=\"abc\" TOKEN='def' perf-test -x 1 -y 2", "PASSWORD=\"***\" TOKEN='***' perf-test -x 1 -y 2"),
        ("TOKEN=$(<x.txt) perf-test -x $(nproc) -y 2", "TOKEN=$(<***) perf-test -x $(nproc) -y 2"),
        (
            "curl --token $(cat x) --rate $(nproc) http://{host}:{port}",
            "curl --token $(***) --rate $(nproc) http://{host}:{port}",
        ),
        ("PASSWORD=$(cat 'a b'; echo 12); seq $(nproc)", "PASSWORD=$(*** '***'; ***); seq $(nproc)"),
        ("PASSWORD=`cat x` perf-test -x `nproc`", "PASSWORD=`***` perf-test -x `nproc`"),
        ("export TOKEN=`id`; seq `nproc`", "export TOKEN=`***`; seq `nproc`"),
        // Where another reading is possible, all is hidden to the last bracket.
        ("PASSWORD=$(echo ')'; echo 12); seq $(nproc)", "PASSWORD=$(*** ')'; ***); *** $(***)"),
    ] {
        assert_eq!(script(given), shown);
        assert_eq!(words(&["sh", "-c", given].map(str::to_owned)).0[2], shown);
    }
}

#[test]
fn what_is_not_known_is_hidden_in_scripts() {
    for (given, shown) in [
        ("mysqldump -ps3cret db", "mysqldump -p***"),
        ("mysql -p1234; x -w1234", "mysql -p***; x -w***"),
        ("mosquitto_pub -P 1234 -p 1883 -t rooms", "mosquitto_pub -P *** -p 1883 -t rooms"),
        ("rabbitmq-diagnostics authenticate_user me 12", "rabbitmq-diagnostics authenticate_user ***"),
        ("redis-cli AUTH 1234; sleep 5", "redis-cli AUTH ***; sleep 5"),
        ("git clone https://s3cret@h/s3cret", "git clone https://***@h/***"),
        ("curl -u me:1 http://{host}:1/api?x", "curl -u *** http://{host}:1/api?***"),
        ("mytool --token 1234 --rate 5", "*** --token *** --rate 5"),
        ("PASSWORD=1234 x 5 --pw '12 34 5'", "PASSWORD=*** x 5 --pw '***'"),
        ("sshpass -p 1234 ssh h seq 3", "sshpass -p *** ssh h seq 3"),
        ("x --pin \\\n 1234 \\\n --rate 5", "x --pin \\\n *** \\\n --rate 5"),
        ("[ $PASS = 1234 ] && exit 1", "[ $PASS = *** ] && exit 1"),
        ("test \"$PASS\" -eq 1234", "test \"$PASS\" -eq ***"),
        ("echo a 'b c3' | docker login -u me", "echo a 'b ***' | docker login -u ***"),
        ("x <<! >/dev/null\ns3cret\n!", "x <<! >/dev/null\n***\n!"),
        ("x <<< 1234", "x <<< ***"),
        (r"printf '\163\063' '\033'", r"printf '\***' '\033'"),
        // A secret may have a harmless part.
        ("x 12;s3;true;4", "x ***"),
        ("x 1234567890", "x ***"),
        // A value that is called like a program.
        ("curl -A perf-test -d s3cret http://h", "curl -A perf-test -d *** http://h"),
        ("openssl enc -aes256 -in perf-test -k Tr0ub4dor", "openssl *** -a*** -in perf-test -k ***"),
        (
            "mosquitto_pub -h {host} -t perf-test -u s3cret -P 1234",
            "mosquitto_pub -h {host} -t perf-test -u *** -P ***",
        ),
        ("sudo -u perf-test curl -d s3cret", "sudo -u perf-test curl -d ***"),
        ("sudo -E mysql -p 1234; x", "sudo -E mysql -p ***; x"),
        // Bundles, joined assignments, blanks before signs.
        ("curl -sku rabbit:rabbit h", "curl -sku *** h"),
        ("zip -rP 1234 x; unzip -qP1234", "zip -rP *** x; unzip -q***"),
        ("x {\"otp\": 1234", "x {\"***"),
        // Addresses and open quotes behind a name of a secret.
        ("PASSWORD=http://hunter x", "PASSWORD=*** x"),
        ("x --password=http://hunter2 5", "x --password=*** 5"),
        ("TOKEN_URL=https://idp.example.com/login k6 run load.js", "TOKEN_URL=*** k6 run load.js"),
        ("x --password 'a; 1234 --rabbit'; seq 3", "x --password '***; ***'; seq 3"),
        ("x --stream 1234 --stream s3cret", "x --stream 1234 --stream ***"),
        ("x '$word' \"\\$word\" $word", "x '$***' \"\\$***\" $word"),
        // What commands print in the place of a secret, to their end.
        ("PASSWORD=$(cat x; echo 12); seq 3", "PASSWORD=$(***; ***); seq 3"),
        ("PASSWORD=$(\n cat x\n echo 12\n)\nseq 3", "PASSWORD=$(\n ***\n ***\n)\nseq 3"),
        ("PASSWORD=\"$(cat \"a b\"; echo 12)\"; seq 3", "PASSWORD=\"$(*** \"***\"; ***)\"; seq 3"),
        ("PASSWORD=`echo 12` perf-test -x 1", "PASSWORD=`***` perf-test -x 1"),
        ("x sesame= +sesame --host me:sesame", "x ***= *** --host ***"),
    ] {
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
    for (given, shown) in [
        ("./tool --mode fast orders --size=10k {url}", "./tool --mode fast *** --size=10k {url}"),
        ("mysql -p12;|34|rabbit 5", "mysql -p***;|*** 5"),
        ("x --password=12;|34|rabbit 5", "x --password=***;|*** 5"),
        ("x pass : 1234", "x pass : ***"),
        ("env A=b perf-test -u orders", "env A=b perf-test -u orders"),
        ("sudo --user perf-test curl -d s3cret", "sudo --user *** curl -d ***"),
        ("./passthrough 5 orders", "./passthrough 5 ***"),
        ("/opt/tokens/bin/bench 100", "/opt/tokens/bin/bench 100"),
        ("smbpasswd 1234", "smbpasswd ***"),
        ("timeout 5s nice -n 5 mytool -ps3cret", "timeout 5s nice -n 5 mytool -p***"),
        ("rabbitmqctl add_user me -- -s3cret", "rabbitmqctl add_user *** -- ***"),
        ("x --password --s3cret --rate 5", "x --password *** --rate 5"),
        ("x --password=12 5 -p 8", "x --password=*** 5 -p 8"),
        ("curl -H Accept:|text/plain -d @a.json", "curl -H *** -d @a.json"),
        ("sh -c echo|s3cret|12;|seq|3 5", "sh -c echo|***|12;|seq|3 5"),
    ] {
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
    for (given, shown) in [
        ("-setcookie s3cret +sbt db", "-setcookie *** +sbt db"),
        ("-setcookie -s3cret s3cret +sbt", "-setcookie *** *** +sbt"),
        ("-rabbit default_pass <<\"s3cret\">> -kernel x", "-rabbit default_pass *** -kernel x"),
        ("-rabbit x [{default_pass,\"s3cret\"}]", "-rabbit x ***"),
        ("-eval f(\"x\"),|g(s3cret).", "-eval f(\"x\"),|***"),
        (
            "-Djavax.net.ssl.keyStorePassword=1234 -Dx=amqp://u:s3cret@h",
            "-Djavax.net.ssl.keyStorePassword=*** -Dx=amqp://u:***@h",
        ),
    ] {
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
    for (given, hidden) in [
        ("echo begun slowly; x", &[][..]),
        ("if x; then echo slowly >&2; fi", &[]),
        ("echo s3cret | x", &["s3cret"]),
        ("{ echo fine || x; echo s3cret; } | x", &["s3cret"]),
        ("echo s3cret > x", &["s3cret"]),
        ("x $(echo s3cret)", &["s3cret"]),
        ("echo s3cret; x --token s3cret", &["s3cret"]),
        // A variable's name says nothing of the words behind it, and no log can do without some.
        ("PASS=hunter22; echo connecting with $PASS to server77", &["hunter22"]),
        ("x $PASS to server77", &["server77"]),
        ("x --token rabbit; echo rabbit", &[]),
        ("x is s3cret", &["s3cret"]),
        ("x http://me:s3cret@h", &["me:s3cret", "s3cret"]),
        ("x http://h/api/queues/other2", &["other2"]),
    ] {
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
        let is_linear = (0..5).any(|_| time(20_000) < time(5_000) * 8 + Duration::from_millis(100));
        assert!(is_linear, "{before}{text}");
    }
}
