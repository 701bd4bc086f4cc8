//! Commands within words: no secret remains, whatever stands around it, and nothing else changes.

use testkit::Random;

use std::cell::RefCell;

use super::super::{BLOT, Place, words};

fn script(text: &str) -> String {
    let (depth, hidden) = (0, &RefCell::default());
    super::script(text, Place { depth, hidden })
}

fn line(text: &str) -> Option<String> {
    let (depth, hidden) = (0, &RefCell::default());
    super::line(text, false, Place { depth, hidden })
}

/// Commands, a line each, with `SECRET` in the place of one.
const LOGINS: &str = "\
curl -u me:SECRET h/x
/usr/bin/curl -sSu me:SECRET -o file:u h
curl --user=me:SECRET h
curl -H X-Signature:SECRET h
http -fa me:SECRET h
xh -vjaSECRET h
https h X-Key:SECRET
mysql -uroot -vpSECRET db
sudo -u root mariadb -pSECRET db
rabbitmqadmin -qu me -p SECRET list queues
rabbitmqctl add_user me SECRET
rabbitmqctl -n r add_user me -- -SECRET
rabbitmqctl change_password -- me --SECRET
mosquitto_pub -u me -P SECRET -t q
redis-cli -a SECRET
sshpass -vp SECRET ssh h
MYSQL_PWD=SECRET mysql
true --rate=5 --password SECRET
HOST=h true --token SECRET
X=1 true -u me -p SECRET
true --host=h --user me --pw SECRET
A=1 PGPASSWORD=SECRET psql
RATE=5 java -Dpassword=SECRET x
curl http://h/x?a=1&sig=SECRET
zip -P SECRET a b
unzip -q -P SECRET a
openssl enc -aes256 -k SECRET -in f
openssl enc -K SECRET
openssl enc -pass pass:SECRET
htpasswd -b f me SECRET
htpasswd -nbB me SECRET
7z a -pSECRET x y
tool -P SECRET x
sudo -E tool -k SECRET
timeout 5s ./tool -w SECRET";

/// Forms that are no plain words, part by a blank line; `SECRET` may hold a blank, and `PLAIN` is a word.
const FORMS: &str = r#"diff <(mysql -pPLAIN) x

tee >(mysql -p'SECRET' db) y

curl -u $'me:it\'s SECRET' h

mysql $'\x2dp' 'SECRET'

mysql $'\x2dpSECRET' db

echo `x \`mysql -pPLAIN\``

echo "`x \`mysql -p\"SECRET\"\``"

PASSWORD=(a 'SECRET' b)

export PASSWORDS+=( PLAIN )

args=(-x -u "me:SECRET")

[ $PASSWORD == "SECRET" ]

[[ x && 'SECRET' != $PASSWORD ]] || exit 1

test "$TOKEN" = 'SECRET'

for password in a PLAIN 'SECRET'; do x; done

case $PASSWORD in
a|'SECRET') x y;; b) z;; esac

mysql -e "ALTER USER a IDENTIFIED BY 'SECRET'"

mysql -e "alter user a identified with x
by 'SECRET'; select 1"

echo CREATE USER a IDENTIFIED BY "'SECRET'" | mysql

curl -u "me:${P:-SECRET}" h

curl -u me:${P:-SECRET} h

echo ${P:-$(mysql -pPLAIN)}

mysql${IFS}-pPLAIN

x <<EOF
SECRET
PLAIN
EOF

x <<-'E' | y
	SECRET
	E

x << E && y
SECRET"#;

/// Beginnings and ends that every secret has, so that none is hidden by half.
const ENDS: [&str; 2] = ["s3cret", "z9tail"];

fn secret(random: &mut Random) -> String {
    let within = [
        "", "x", " ", "'", "\"", "\\", "$", "$(", "`", ";", "&", "|", "#", "(", ")", "ä",
    ];
    let within = [(); 3].map(|()| random.of(&within));
    format!("{}{}{}", ENDS[0], within.concat(), ENDS[1])
}

/// A word as a shell is given it.
fn quoted(word: &str, random: &mut Random) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "-_=:/.".contains(c);
    match random.below(4) {
        0 if word.chars().all(is_bare) => word.to_owned(),
        it if it < 2 || word.contains('\n') => format!("'{}'", word.replace('\'', r"'\''")),
        2 => {
            let escaped = |out: String, c: char| match "\"\\$`".contains(c) {
                true => format!("{out}\\{c}"),
                false => format!("{out}{c}"),
            };
            format!("\"{}\"", word.chars().fold(String::new(), escaped))
        }
        _ => {
            let escaped = |out: String, c: char| match is_bare(c) {
                true => format!("{out}{c}"),
                false => format!("{out}\\{c}"),
            };
            word.chars().fold(String::new(), escaped)
        }
    }
}

/// A command that logs in, within others.
fn within(login: &str, depth: u32, random: &mut Random) -> String {
    let harmless = [
        "set -e",
        "echo fine",
        "cd /srv && ls -l",
        "# it isn't",
        "test -f x || exit 1",
        "x 2>&1 >y",
        "echo \"it's $(date +\"%s\")\"",
    ];
    let between = [
        "\n", " ;", "; ", " & ", "&", " | ", "|", " && ", "||", " \\\n&& ",
    ];
    let mut before = random.of(&harmless).to_owned();
    before.push_str(match before.starts_with('#') {
        true => "\n",
        false => random.of(&between),
    });
    let script = match random.below(9) {
        0 => format!("({login})"),
        1 => format!("{{ {login}; }}"),
        2 => format!("echo \"$({login})\" fine"),
        3 => format!("x=$({login})"),
        4 => format!("if a; then {login}; fi"),
        5 => format!("while read x;do {login};done"),
        6 => format!("sh -ec {}", quoted(login, random)),
        _ => login.to_owned(),
    };
    let after = random.of(&["", "\necho fine", "|cat", " &", ";"]);
    let script = format!("{before}{script}{after}");
    match depth {
        0 => script,
        _ => within(&script, depth - 1, random),
    }
}

#[test]
fn logins_are_hidden_in_whatever_script_they_stand() {
    for seed in 0..5_000 {
        let mut random = Random::new(seed);
        let logins: Vec<&str> = LOGINS.lines().collect();
        let secret = secret(&mut random);
        let login = random.of(&logins).split(' ');
        let login = login.map(|word| match word.contains("SECRET") {
            true if word.contains('?') => word.replace("SECRET", &ENDS.concat()),
            true => quoted(&word.replace("SECRET", &secret), &mut random),
            false => word.to_owned(),
        });
        let login = login.collect::<Vec<_>>().join(" ");
        let depth = random.below(3) as u32;
        let script = within(&login, depth, &mut random);
        let command = match random.below(3) {
            0 => vec!["timeout", "5", &script],
            1 => vec!["bash", "-exc", &script],
            _ => vec![script.as_str()],
        };
        let command: Vec<String> = command.into_iter().map(str::to_owned).collect();
        let shown = words(&command).join(" ");
        let leak = ENDS.into_iter().find(|end| shown.contains(end));
        assert_eq!(leak, None, "seed {seed}: {script}\n{shown}");
        assert!(shown.contains(BLOT), "seed {seed}: {script}\n{shown}");
    }
}

#[test]
fn secrets_are_hidden_in_whatever_form_a_shell_is_given_them() {
    let forms: Vec<&str> = FORMS.split("\n\n").collect();
    for seed in 0..5_000 {
        let mut random = Random::new(seed);
        let form = random.of(&forms);
        let login = form
            .replace("PLAIN", &ENDS.concat())
            .replace("SECRET", &ENDS.join(" "));
        let depth = random.below(3) as u32;
        let script = match random.below(2) {
            0 => login,
            _ => within(&login, depth, &mut random),
        };
        let command = ["bash", "-ec", &script].map(str::to_owned);
        let shown = words(&command).join(" ");
        let leak = ENDS.into_iter().find(|end| shown.contains(end));
        assert_eq!(leak, None, "seed {seed}: {script}\n{shown}");
    }
}

/// What is not known hides more, and these are known.
#[test]
fn ordinary_scripts_stay_readable() {
    for given in [
        "diff <(sort a) <(sort b) > >(tee c)",
        r"printf $'a\tb\n'",
        "files=(a 'b c' d); cp \"${files[@]}\" x",
        "[ \"$A\" == 'b c' ] && [[ $B =~ x ]]",
        "for x in a b; do echo $x; done",
        "case $x in\na) echo b;; *) c;; esac",
        "mkdir -p a/b && cp -P a b; grep -P '\\d+' f | sort -k 2",
        "ssh -p 22 h uptime",
        "ssh -p $PORT h uptime; docker run -p 5672:5672 -p 127.0.0.1:15672:15672 rabbitmq",
        "strace -p $PID; tcpdump -w out.pcap; k6 run -w x.js",
        "sudo nice -n 5 tar -k -xf a.tar",
        "echo ${HOME:-/x y} ${#a}",
        r"echo `date \`x\`` `a \$b`",
        "java -jar perf-test.jar -k key; perf-test -k key",
        "timeout 5s grep -P x",
        "mysql -e \"select 1\" -P 3306",
        "echo $((1 << 2)); cat <<< 'a b'",
        "LC_ALL=C sort -k 2 <in >out 2>&1",
    ] {
        assert_eq!(script(given), given);
    }
    for (given, shown) in [
        (
            "docker login -u me --password-stdin <<< s3cret",
            "docker login -u me --password-stdin <<< ***",
        ),
        ("read -s PASSWORD <<< s3cret", "read -s PASSWORD <<< ***"),
        (
            "kinit me@R <<< s3cret; sudo -S x <<<s3cret",
            "kinit me@R <<< ***; sudo -S x <<<***",
        ),
        ("[ $PASS = s3cret ] && x", "[ *** = *** ] && x"),
        // What is compared with a number of passes is none of a secret.
        (
            "[ \"$MAXPASSES\" -eq 3 ] || echo \"rate 3 msg/s\"",
            "[ *** -eq 3 ] || echo \"rate 3 msg/s\"",
        ),
    ] {
        assert_eq!(script(given), shown);
    }
    // The text of others may hold anything.
    let given = "x <<A; y\nany\nthing\nA\nz -u me";
    assert_eq!(script(given), "x <<A; y\n***\nA\nz -u me");
    assert_eq!(script(r"a $'\x41' b; c d"), "a *** ***; c d");
}

#[test]
fn scripts_are_shown_as_they_are_but_for_secrets() {
    for (given, kept) in [
        ("set -e\ncurl -u me:s3cret h", "set -e\ncurl -u me:*** h"),
        ("set -e;curl -u me:s3cret h", "set -e;curl -u me:*** h"),
        (
            "mkdir -p some/folder  && mysql -ps3cret db",
            "mkdir -p some/folder  && mysql -p*** db",
        ),
        ("curl h|mysql -u me -ps3cret", "curl h|mysql -u me -p***"),
        (
            "rabbitmqctl add_user me s3cret\nrabbitmqctl list_queues -p v",
            "rabbitmqctl add_user *** ***\nrabbitmqctl list_queues -p v",
        ),
        ("(curl -u me:s3cret h)", "(curl -u me:*** h)"),
        (
            "echo \"$(curl -u me:s3cret h)\" 'as it is'",
            "echo \"$(curl -u me:*** h)\" 'as it is'",
        ),
        ("echo `curl -u me:s3cret h`", "echo `curl -u me:*** h`"),
        ("curl -u `whoami`:s3cret h", "curl -u ``:*** h"),
        // What an unquoted sign has cut off is hidden, too.
        ("curl -u me:s3;cret h", "curl -u me:***;*** h"),
        (
            "curl http://h/?a=1&sig=s3cret",
            "curl http://h/?a=1&sig=***",
        ),
        ("don't; curl -u me:s3cret h", "don't; curl -u me:*** h"),
        (
            "# isn't\ncurl -u 'me:s3 cret' h",
            "# isn't\ncurl -u me:*** h",
        ),
        ("mysql db 2>&1 -ps3cret", "mysql db 2>&1 -p***"),
        (
            "curl \\\n  -u \\\n me:s3cret h",
            "curl \\\n  -u \\\n me:*** h",
        ),
        ("ssh h 'curl -u me:s3cret h'", "ssh h curl -u me:*** h"),
        (
            "true --rate=5 --password s3cret; x",
            "true --rate=5 --password ***; x",
        ),
        ("HOST=h true --token s3cret", "HOST=h true --token ***"),
        (
            "true --host h --user me --pw s3cret",
            "true --host h --user me --pw ***",
        ),
        ("A=1 PGPASSWORD='my s3cret' true", "A=1 PGPASSWORD=*** true"),
        ("x 'a=1 password: s3cret, s3cret'", "x a=1 password:***"),
        ("x password: s3cret y", "x password: *** y"),
        (
            "echo curl \"'a b'\" $((1 + 2)) ; x &",
            "echo curl \"'a b'\" $((1 + 2)) ; x &",
        ),
    ] {
        assert_eq!(script(given), kept);
    }
    // Whatever a shell is given is a script.
    let command = ["sh", "-ec", "x -u me -p s3cret"].map(str::to_owned);
    assert_eq!(words(&command)[2], "x -u me -p ***");
    for none in [
        "a b",
        "it's",
        "f(x) -> \"y\";",
        "a;b|c & d",
        "$(date)",
        "'a' \\",
    ] {
        assert_eq!(line(none), None, "{none}");
    }
}

#[test]
fn lines_of_any_letters_are_read_to_their_ends() {
    let letters = [
        "'",
        "\"",
        "\\",
        "$",
        "$(",
        "(",
        ")",
        "`",
        ";",
        "&",
        "|",
        "#",
        "\n",
        " ",
        "a",
        "ä",
        "?",
        "://",
        "$'",
        "${",
        "}",
        "<<",
        "<(",
        "=(",
        "identified",
    ];
    for seed in 0..5_000 {
        let mut random = Random::new(seed);
        let length = random.below(20);
        let text: String = (0..length).map(|_| random.of(&letters)).collect();
        let (depth, hidden) = (0, &RefCell::default());
        let pieces = super::pieces(&text, Place { depth, hidden });
        let read: String = pieces.iter().map(|it| it.given.as_str()).collect();
        assert!(read == text || read.contains(BLOT), "{text:?}: {read:?}");
        let shown = script(&text);
        assert!(shown == text || shown.contains(BLOT), "{text:?}: {shown:?}");
    }
}

/// Where each letter led to a look at all others, this would take hours.
#[test]
fn long_lines_take_no_longer_for_each_letter_than_short_ones() {
    for text in [
        "'",
        "\"",
        "\\",
        "$(",
        "(",
        "`",
        ";",
        "#",
        "# '",
        "a ",
        "&a=",
        "?",
        "://",
        "x://?&a=",
        "\"$(",
        "'\"",
        "$(`",
        "\"`",
        "curl -u a:b ",
        "-u",
        "$(curl\n",
        "\"'",
        "a\\\n",
        "<<a\n",
        "<<a b\n",
        "${",
        "${a:-",
        "$'",
        "$'\\x",
        "<(",
        "a=(",
        "password=(",
        "`\\`",
        "identified ",
        "case $password in ",
    ] {
        let long = text.repeat(60_000 / text.len());
        assert!(!script(&long).is_empty());
        assert!(!script(&format!("curl '{long}")).is_empty());
    }
}
