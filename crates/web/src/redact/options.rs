//! Which words of a command are secrets, as the program has its options.

use super::{BLOT, is_login_header, urls};

/// What stands behind an option of programs, in a word of its own or in the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Behind {
    #[default]
    Anything,
    /// A command for a shell.
    Script,
    /// A password, where it is no number and no option: `-p` has other meanings.
    Password,
    /// The name and the value of a header, `NAME:VALUE`.
    Header,
    /// A user, or both, `USER:PASSWORD`.
    Login,
    /// An address, perhaps with a login and without a scheme.
    Proxy,
    /// Values of cookies, or the name of a file that has some.
    Cookies,
    /// Whatever it begins with.
    Secret,
    /// All words behind it, but options.
    Secrets,
    /// All words behind it.
    Rest,
}

use Behind::{Anything, Cookies, Header, Login, Password, Proxy, Rest, Script, Secret, Secrets};

/// Whether a word is ports, with or without an address before: `127.0.0.1:5672:5672`.
pub(super) fn is_ports(word: &str) -> bool {
    word.contains(':')
        && word
            .split([':', '.'])
            .all(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a word is a variable of the shell, `$PORT`.
pub(super) fn is_variable(word: &str) -> bool {
    let name = word.strip_prefix('$').unwrap_or_default();
    let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_name)
}

impl Behind {
    /// What the next word is; it is that for one word only.
    pub(super) fn next(&mut self) -> Self {
        match *self {
            Secrets | Rest => *self,
            _ => std::mem::take(self),
        }
    }

    /// What is shown of a word, where that is not the whole of it; `is_over` where no more options come.
    pub(super) fn shown(self, word: &str, is_over: bool) -> Option<String> {
        let is_number = || word.bytes().all(|byte| byte.is_ascii_digit());
        let hides = match self {
            Anything | Script => false,
            Password => {
                !word.starts_with('-') && !is_number() && !is_ports(word) && !is_variable(word)
            }
            Header => is_login_header(word, ":"),
            Cookies => word.contains('='),
            Secret | Rest => true,
            Secrets => is_over || !word.starts_with('-'),
            Login => {
                let (user, password) = word.split_once(':')?;
                let is_login = !password.is_empty() && !password.starts_with("//");
                return is_login.then(|| format!("{user}:{BLOT}"));
            }
            Proxy if word.contains("://") => return Some(urls(word)),
            Proxy => {
                let (_, place) = word.rsplit_once('@')?;
                return Some(format!("{BLOT}@{place}"));
            }
        };
        hides.then(|| BLOT.to_owned())
    }
}

/// Options, and what stands behind each; without a name it is what any word may be.
type Table = &'static [(&'static str, Behind)];

/// Options of any program, as curl and the clients of brokers have them.
const ANY: Table = &[
    ("-H", Header),
    ("--header", Header),
    ("--proxy-header", Header),
    ("-u", Login),
    ("-U", Login),
    ("--user", Login),
    ("--proxy-user", Login),
    ("-p", Password),
    ("-P", Password),
    ("--pw", Secret),
];

/// A program whose options mean something else, or more.
struct Program {
    /// What its name is, or begins with before a sign.
    name: &'static str,
    options: Table,
    /// Letters of other options that take a value; empty: its options of one letter are not joined.
    valued: &'static str,
}

/// Options of programs that nobody knows here, whose values may be passwords.
const DOUBTFUL: [&str; 6] = ["-p", "-P", "-k", "-K", "-w", "-W"];

/// Programs whose options are none of passwords.
const ORDINARY: [&str; 63] = [
    "ab",
    "artemis",
    "awk",
    "cat",
    "cd",
    "chmod",
    "chown",
    "cp",
    "cut",
    "date",
    "df",
    "du",
    "echo",
    "erl",
    "false",
    "find",
    "gawk",
    "git",
    "grep",
    "head",
    "install",
    "iperf3",
    "java",
    "k6",
    "kill",
    "ln",
    "ls",
    "make",
    "mkdir",
    "mv",
    "nc",
    "node",
    "omq",
    "perf",
    "perf-test",
    "pgrep",
    "ping",
    "pkill",
    "printf",
    "ps",
    "python",
    "python3",
    "rabbitmq-perf-test",
    "read",
    "rm",
    "runjava",
    "sed",
    "seq",
    "sleep",
    "sort",
    "ss",
    "ssh",
    "stat",
    "strace",
    "tail",
    "tar",
    "tcpdump",
    "tee",
    "test",
    "top",
    "touch",
    "true",
    "wc",
];

/// Words before the program of a command.
const BEFORE: [&str; 22] = [
    "!", "{", "builtin", "chrt", "command", "do", "elif", "else", "env", "exec", "if", "ionice",
    "nice", "nohup", "setsid", "stdbuf", "sudo", "then", "time", "timeout", "until", "while",
];

const OPENSSL: Table = &[("-key", Anything), ("-k", Secret), ("-K", Secret)];
const SEVEN_ZIP: Table = &[("-p", Secret)];
const ZIP: Table = &[("-P", Secret)];
const HTTPIE: Table = &[
    ("-a", Secret),
    ("--auth", Secret),
    ("-p", Anything),
    ("", Header),
];
const HTTPIE_VALUED: &str = "AoPs";
const MYSQL: Table = &[("-p", Secret), ("-P", Anything)];
const MYSQL_VALUED: &str = "DehSu";

/// Programs that are given a command in one word, behind `-c`.
const SHELLS: [&str; 7] = ["sh", "ash", "bash", "dash", "fish", "ksh", "zsh"];

/// The programs.
const PROGRAMS: [Program; 24] = [
    Program {
        name: "curl",
        options: &[
            ("-u", Login),
            ("-U", Login),
            ("-H", Header),
            ("-E", Login),
            ("--cert", Login),
            ("--proxy-cert", Login),
            ("-x", Proxy),
            ("--proxy", Proxy),
            ("--preproxy", Proxy),
            ("-b", Cookies),
            ("--cookie", Cookies),
            ("-p", Anything),
            ("-P", Anything),
        ],
        valued: "AcCdDeFhKmoPQrtTwXyYz",
    },
    joined(
        "rabbitmqadmin",
        &[("-p", Secret), ("-P", Password)],
        "cNHVuUfSdt",
    ),
    plain(
        "rabbitmqctl",
        &[
            ("add_user", Secrets),
            ("change_password", Secrets),
            ("authenticate_user", Secrets),
            ("-p", Anything),
        ],
    ),
    plain(
        "mosquitto",
        &[("-P", Secret), ("--pw", Secret), ("-p", Anything)],
    ),
    joined("mqttx", &[("-P", Secret), ("-p", Anything)], "Vhkultmqif"),
    plain("mqtt", &[("-pw", Secret), ("-p", Anything)]),
    joined("http", HTTPIE, HTTPIE_VALUED),
    joined("https", HTTPIE, HTTPIE_VALUED),
    joined("httpie", HTTPIE, HTTPIE_VALUED),
    joined("xh", HTTPIE, HTTPIE_VALUED),
    joined("xhs", HTTPIE, HTTPIE_VALUED),
    joined("mysql", MYSQL, MYSQL_VALUED),
    joined("mariadb", MYSQL, MYSQL_VALUED),
    plain("redis", &[("-a", Secret), ("-p", Anything)]),
    joined("mongosh", &[("-p", Secret)], "hu"),
    joined("sshpass", &[("-p", Secret)], "fdPe"),
    plain("7z", SEVEN_ZIP),
    plain("7za", SEVEN_ZIP),
    plain("7zr", SEVEN_ZIP),
    plain("rar", &[("-p", Secret), ("-hp", Secret)]),
    plain("zip", ZIP),
    plain("unzip", ZIP),
    plain("openssl", OPENSSL),
    joined("htpasswd", &[("-b", Secrets)], "C"),
];

const fn plain(name: &'static str, options: Table) -> Program {
    joined(name, options, "")
}

const fn joined(name: &'static str, options: Table, valued: &'static str) -> Program {
    Program {
        name,
        options,
        valued,
    }
}

/// The name of a program that a word may be.
fn program_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_shell(word: &str) -> bool {
    SHELLS.contains(&program_name(word))
}

/// Whether a command is of a program that nobody knows here: of options alone, too.
pub(super) fn is_unknown(words: &[String]) -> bool {
    let is_before = |word: &&String| {
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        is_number || word.starts_with('-') || word.contains('=') || BEFORE.contains(&word.as_str())
    };
    let program = words.iter().find(|word| !is_before(word));
    !program.is_some_and(|it| is_shell(it) || ORDINARY.contains(&program_name(it)))
}

/// Whether a word of a command is a program that may be given secrets.
pub(super) fn is_program(word: &str) -> bool {
    is_shell(word) || PROGRAMS.iter().any(|it| it.is(word))
}

impl Program {
    /// Whether a word of a command is this program.
    fn is(&self, word: &str) -> bool {
        let rest = program_name(word).strip_prefix(self.name);
        rest.is_some_and(|it| it.is_empty() || it.starts_with(['-', '_', '.']))
            && !word.contains("://")
    }

    /// Where the value begins of the last option in a word, and what it is.
    fn find(&self, word: &str) -> Option<(usize, Behind)> {
        let found = find(self.options, word);
        if found.is_some() || self.valued.is_empty() || word.starts_with("--") {
            return found;
        }
        // `-su` is `-s -u`.
        for (at, letter) in word.strip_prefix('-')?.char_indices() {
            let end = 1 + at + letter.len_utf8();
            let option = format!("-{letter}");
            if let Some((_, behind)) = self.options.iter().find(|it| it.0 == option) {
                return Some((end, *behind));
            }
            if self.valued.contains(letter) {
                break;
            }
        }
        Some((word.len(), Anything))
    }
}

/// Where the value begins of the option that a word is or begins with, and what it is.
fn find(table: Table, word: &str) -> Option<(usize, Behind)> {
    let found = |(option, behind): &(&str, Behind)| {
        let rest = word.strip_prefix(option)?;
        let end = match rest.strip_prefix('=') {
            Some(_) if option.starts_with("--") => option.len() + 1,
            _ if option.starts_with('-') && !option.starts_with("--") => option.len(),
            _ if rest.is_empty() => option.len(),
            _ if option.is_empty() && !word.starts_with('-') => 0,
            _ => return None,
        };
        Some((end, *behind))
    };
    table.iter().find_map(found)
}

/// The options of a command.
pub(super) struct Options {
    /// The programs that it names.
    programs: Vec<&'static Program>,
    /// It has a user, wherever.
    has_user: bool,
    /// It names a shell, wherever.
    has_shell: bool,
    /// The first of them is the command itself, and no other word of the same letters.
    is_sure: bool,
    /// It is bellows': many options of PerfTest begin as that of a password.
    is_own: bool,
    /// It is of a program that nobody knows here.
    is_unknown: bool,
}

impl Options {
    pub(super) fn of(words: &[String]) -> Self {
        let is_there = |it: &&Program| words.iter().any(|word| it.is(word));
        let is_own = words.first().is_some_and(|it| plain("bellows", &[]).is(it));
        let is_user = |word: &String| {
            let is_long = word.starts_with("--");
            let name = word.trim_start_matches('-');
            let name = name.split('=').next().unwrap_or(name);
            let is_named = matches!(name, "u" | "U" | "user" | "username");
            word.starts_with('-') && (is_named || !is_long && name.starts_with(['u', 'U']))
        };
        let programs: Vec<&Program> = PROGRAMS.iter().filter(is_there).collect();
        Self {
            is_unknown: programs.is_empty() && !is_own && is_unknown(words),
            programs,
            is_sure: words
                .first()
                .is_some_and(|first| PROGRAMS.iter().any(|it| it.is(first))),
            has_user: words.iter().any(is_user),
            has_shell: words.iter().any(|word| is_shell(word)),
            is_own,
        }
    }

    /// Where the value begins of the option that a word has, and what it is.
    pub(super) fn find(&self, word: &str) -> (usize, Behind) {
        let of_programs = self.programs.iter().filter_map(|it| it.find(word));
        // Of a command within another the more careful one decides.
        let of_programs = of_programs.max_by_key(|(_, behind)| *behind);
        if word.eq_ignore_ascii_case("identified") {
            // SQL: `IDENTIFIED WITH ... BY '...'`.
            return (word.len(), Rest);
        }
        let is_doubtful = self.is_unknown && DOUBTFUL.contains(&word);
        let of_any = match find(ANY, word) {
            _ if is_doubtful => Some((word.len(), Password)),
            Some((at, Password)) if !self.has_user || self.is_own && at < word.len() => None,
            found => found,
        };
        let found = match of_programs.filter(|_| self.is_sure) {
            Some(found) => Some(found),
            None => of_programs.into_iter().chain(of_any).max_by_key(|it| it.1),
        };
        // `-c`, also with other letters before and behind it.
        let letters = word.strip_prefix('-').filter(|_| self.has_shell);
        let is_letters = |it: &str| it.chars().all(|c| c.is_ascii_alphabetic());
        let is_script = letters.is_some_and(|it| it.contains('c') && is_letters(it));
        match found.filter(|it| it.1 != Anything) {
            Some(found) => found,
            None if is_script => (word.len(), Script),
            None => (word.len(), Anything),
        }
    }
}
