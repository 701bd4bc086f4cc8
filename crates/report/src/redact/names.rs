//! Names that are blotted out, and their pseudonyms.

use std::collections::{BTreeSet, HashMap, HashSet};

use experiment::TextKind;
use measure::percent_encoded;
use serde_json::Value;

use super::visible;

/// Names that a broker or bellows brings along, the same everywhere, so that they identify nobody.
const BUILT_IN: &str = "lo / guest bellows localhost amq.direct amq.fanout amq.headers amq.match amq.topic \
                        amq.rabbitmq.trace amq.rabbitmq.log amq.rabbitmq.event #";

/// Names that are words of every report, one or several a line: blotted where they stand as names, not in sentences.
const ORDINARY: &str = include_str!("ordinary.txt");

/// From this length on a name is blotted within longer words, too, and searched there in the finished page.
pub(super) const DISTINCTIVE: usize = 8;

/// A name that was found.
#[derive(Clone, Debug)]
pub(super) struct Name {
    /// Text in which it was found first.
    pub(super) text: String,
    pub(super) kind: TextKind,
    pseudonym: Option<String>,
    /// A person's name for a part of an experiment, such as a probe.
    is_given: bool,
    /// A word of every report, or a name too short to be told from one.
    pub(super) is_ordinary: bool,
}

/// A name found in a text, by characters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    name: usize,
    /// The first character behind it.
    pub(super) end: usize,
}

/// Known names as a tree of characters; upper and lower case are alike, as in names of hosts.
#[derive(Debug, Default)]
pub(super) struct Names {
    all: Vec<Name>,
    by_text: HashMap<String, usize>,
    /// A tree of characters: from a node and a character to the next node.
    steps: HashMap<(usize, char), usize>,
    /// Name that ends at each node.
    ends: Vec<Option<usize>>,
    counted: HashMap<TextKind, usize>,
    built_in: HashSet<String>,
    /// Names in each built-in experiment, by the experiment's name.
    experiments: HashMap<String, HashSet<String>>,
    /// Names that stay readable, although a run gave them: built-in experiments are called so.
    kept: BTreeSet<String>,
    /// Public names of experiments that were run.
    run: HashSet<String>,
    /// Built-in names of several words, within which no single word is a name.
    phrases: Vec<Vec<char>>,
}

/// Whether a text ends as the name of a run's folder begins: `2026-11-26T08-26-06Z-`, perhaps with `ab-` or `limit-`.
fn is_in_run(before: &[char]) -> bool {
    let text: String = before.iter().rev().take(16).rev().collect();
    let kinds = ["ab-", "limit-"];
    let bare = kinds.iter().find_map(|kind| text.strip_suffix(kind)).unwrap_or(&text);
    bare.ends_with("Z-") || bare.ends_with("z-")
}

/// Parts of paths that every broker's pages have.
const PUBLIC_PARTS: &str = "api bindings channels connections consumers definitions detailed exchanges health \
    healthchecks checks memory-breakdown metrics nodes overview per-object permissions policies proc queues stats sys \
    users vhosts whoami %2F";

/// Whether a part of a path is one that every broker's pages have; an empty one is.
pub(super) fn is_public_part(part: &str) -> bool {
    part.is_empty() || PUBLIC_PARTS.split_whitespace().any(|it| it == part)
}

/// Kinds of brokers and of queues: somebody's queue may be called so, and all else of that name is a kind.
const KINDS: [&str; 6] = ["rabbitmq", "artemis", "embedded", "quorum", "classic", "stream"];

/// Whether this is a name that somebody gave, and no kind of anything.
const fn is_given(kind: TextKind) -> bool {
    use TextKind::{Connection, Exchange, Queue, RoutingKey, User, VirtualHost};
    matches!(kind, Queue | Exchange | RoutingKey | VirtualHost | User | Connection)
}

/// Keys of the texts that a built-in experiment's own file gives.
pub(super) const GIVEN: [&str; 2] = ["name", "description"];

/// All names and descriptions within an experiment.
fn all_names(of: &Value) -> HashSet<String> {
    match of {
        Value::Object(fields) => {
            let given = GIVEN.iter().filter_map(|key| fields.get(*key)?.as_str());
            let inner = fields.values().flat_map(all_names);
            given.map(str::to_owned).chain(inner).collect()
        }
        Value::Array(items) => items.iter().flat_map(all_names).collect(),
        _ => HashSet::new(),
    }
}

/// A name without the node behind it: each node of a cluster has a page that is called so.
fn of_all_nodes(text: &str) -> &str {
    match text.rsplit_once(" of node ") {
        Some((name, node)) if node.parse::<u32>().is_ok() => name,
        _ => text,
    }
}

impl Names {
    /// Names, and those that are public beside the usual ones.
    pub(super) fn new(public: &[&str]) -> Self {
        let built_in = BUILT_IN.split_whitespace().chain([""]).chain(public.iter().copied()).map(folded);
        let phrases = public.iter().filter(|it| it.contains('-'));
        Self {
            ends: vec![None],
            built_in: built_in.collect(),
            phrases: phrases.map(|it| folded(it).chars().collect()).collect(),
            ..Self::default()
        }
    }

    /// For a page on which the names of these experiments are public, and within them all names that they give.
    pub(super) fn beside(built_in: &[Value]) -> Self {
        let names = built_in.iter().filter_map(|it| it.get("name")?.as_str());
        let within = built_in.iter().map(all_names);
        Self {
            experiments: names.clone().map(str::to_owned).zip(within).collect(),
            ..Self::new(&names.collect::<Vec<_>>())
        }
    }

    /// The names and descriptions that the built-in experiment of this one's name has; none where it is no such.
    pub(super) fn of_built_in(&self, experiment: &Value) -> HashSet<String> {
        let name = experiment.get("name").and_then(Value::as_str);
        self.experiments.get(name.unwrap_or_default()).cloned().unwrap_or_default()
    }

    /// Notes a name; one that is known keeps its kind.
    pub(super) fn add(&mut self, kind: TextKind, text: &str) {
        self.note(kind, text, is_given(kind));
    }

    /// Notes a name that somebody gave in an experiment, whatever else has it.
    pub(super) fn give(&mut self, kind: TextKind, text: &str) {
        self.note(kind, text, true);
        let at = self.by_text.get(&folded(of_all_nodes(text.trim())));
        if let Some(name) = at.and_then(|&at| self.all.get_mut(at)) {
            name.is_given = true;
        }
    }

    fn note(&mut self, kind: TextKind, text: &str, is_given: bool) {
        let text = of_all_nodes(text.trim());
        // Signs alone are nobody's words.
        if !is_given && text.chars().all(|c| c.is_ascii_punctuation()) {
            return;
        }
        let key = folded(text);
        let is_kind = KINDS.contains(&key.as_str());
        if self.is_public(&key) {
            return self.keep(kind, text, key);
        }
        if is_kind && !is_given {
            return;
        }
        // Unnamed pages are called after their path, which every broker has.
        if !is_given && kind == TextKind::Label && key.split('/').all(is_public_part) {
            return;
        }
        let at = match self.by_text.get(&key) {
            Some(&at) => at,
            None => self.add_new(kind, text, &key),
        };
        // Whatever else is called so: runs and their folders are called as the experiment is.
        let spelled = archive::sanitised(&key);
        let is_telling = !is_ordinary(&spelled) && !self.is_public(&spelled);
        if kind == TextKind::Experiment && is_telling {
            self.spell(at, spelled);
        }
    }

    /// Notes a key of somebody's own, unless it is a word of every report.
    pub(super) fn add_key(&mut self, key: &str) {
        if !is_ordinary(&folded(key)) {
            self.add(TextKind::Label, key);
        }
    }

    fn keep(&mut self, kind: TextKind, text: &str, key: String) {
        if kind == TextKind::Experiment {
            self.run.insert(key);
        } else if self.experiments.keys().any(|it| folded(it) == key) {
            self.kept.insert(text.to_owned());
        }
    }

    /// Names that stay readable since built-in experiments are called so, unless the run is one of that experiment.
    pub(super) fn kept(&self) -> impl Iterator<Item = &String> {
        self.kept.iter().filter(move |it| !self.run.contains(&folded(it)))
    }

    fn add_new(&mut self, kind: TextKind, text: &str, key: &str) -> usize {
        let at = self.all.len();
        self.all.push(Name {
            text: text.to_owned(),
            kind,
            pseudonym: None,
            is_given: false,
            is_ordinary: is_ordinary(key),
        });
        self.spell(at, key.to_owned());
        // Names have percent signs in addresses, symbols on pages for invisible letters, no dashes in metrics.
        self.spell(at, percent_encoded(key).to_lowercase());
        self.spell(at, folded(&visible(text)));
        if kind == TextKind::Label {
            self.spell(at, key.replace('-', "_"));
        }
        at
    }

    /// Makes a name be found by another spelling, where that is no name itself.
    fn spell(&mut self, name: usize, spelled: String) {
        if !self.by_text.contains_key(&spelled) {
            self.lead_to(name, &spelled);
            self.by_text.insert(spelled, name);
        }
    }

    fn lead_to(&mut self, name: usize, spelled: &str) {
        let mut node = 0;
        for c in spelled.chars() {
            let next = self.ends.len();
            node = *self.steps.entry((node, c)).or_insert(next);
            if node == next {
                self.ends.push(None);
            }
        }
        if let Some(end) = self.ends.get_mut(node) {
            *end = Some(name);
        }
    }

    /// Whether a name, or one with a number behind it, is nobody's secret.
    fn is_public(&self, key: &str) -> bool {
        let base = key.trim_end_matches(|c: char| c.is_ascii_digit());
        self.built_in.contains(key) || base == "bellows" || is_loopback(key)
    }

    /// Pseudonym of this whole text, which is a name.
    pub(super) fn stand_in(&mut self, kind: TextKind, text: &str) -> String {
        self.add(kind, text);
        match self.by_text.get(&folded(of_all_nodes(text.trim()))) {
            Some(&at) => self.pseudonym(at),
            None => text.to_owned(),
        }
    }

    /// Pseudonym of this whole text, if it is a known name.
    pub(super) fn known(&mut self, text: &str) -> Option<String> {
        let at = *self.by_text.get(&folded(text.trim()))?;
        Some(self.pseudonym(at))
    }

    /// Whether this whole text is a name that is a word of every report.
    pub(super) fn is_ordinary(&self, text: &str) -> bool {
        self.by_text.get(&folded(text.trim())).and_then(|&at| self.all.get(at)).is_some_and(|it| it.is_ordinary)
    }

    fn pseudonym(&mut self, at: usize) -> String {
        let Some((kind, given)) = self.all.get(at).map(|it| (it.kind, it.pseudonym.clone())) else {
            return String::new();
        };
        if let Some(given) = given {
            return given;
        }
        let free = loop {
            let count = self.counted.entry(kind).or_default();
            *count += 1;
            let next = format!("{}-{count}", kind.name());
            // A name may look like a pseudonym itself.
            if !self.by_text.contains_key(&next) {
                break next;
            }
        };
        if let Some(name) = self.all.get_mut(at) {
            name.pseudonym = Some(free.clone());
        }
        free
    }

    /// The longest name that stands at this place of a text.
    pub(super) fn longest(&self, chars: &[char], from: usize) -> Option<Found> {
        let mut node = 0usize;
        let mut longest = None;
        for (at, &c) in chars.iter().enumerate().skip(from) {
            let Some(&next) = self.steps.get(&(node, fold(c))) else { break };
            node = next;
            let ended = self.ends.get(node).copied().flatten().filter(|&name| self.stands(name, chars, from, at + 1));
            longest = ended.map(|name| Found { name, end: at + 1 }).or(longest);
        }
        longest
    }

    /// End of a built-in name of several words that begins here.
    pub(super) fn phrase(&self, chars: &[char], from: usize) -> Option<usize> {
        let fits = |phrase: &&Vec<char>| {
            let there = chars.get(from..from + phrase.len());
            there.is_some_and(|it| it.iter().map(|c| fold(*c)).eq(phrase.iter().copied()))
        };
        // Parts of a longer name, or of a node's, are no built-in ones; those of a run's are.
        let is_run = is_in_run(chars.get(..from).unwrap_or_default());
        let goes_on = |c: Option<char>| is_word(c) || !is_run && matches!(c, Some('-' | '_' | '@'));
        let stands = |end: &usize| !goes_on(before(chars, from)) && !goes_on(chars.get(*end).copied());
        self.phrases.iter().filter(fits).map(|it| from + it.len()).filter(stands).max()
    }

    /// A folded text without built-in names of several words.
    pub(super) fn without_phrases(&self, text: &str) -> String {
        let chars: Vec<char> = text.chars().collect();
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(&c) = chars.get(at) {
            match self.phrase(&chars, at) {
                Some(end) => {
                    out.push('\n');
                    at = end;
                }
                None => {
                    out.push(c);
                    at += 1;
                }
            }
        }
        out
    }

    /// Whether a found name stands as a word of its own.
    fn stands(&self, name: usize, chars: &[char], from: usize, end: usize) -> bool {
        let Some(name) = self.all.get(name) else { return false };
        let word_at = |at: Option<usize>| is_word(at.and_then(|at| chars.get(at)).copied());
        let begins = !is_word(before(chars, from)) || !word_at(Some(from));
        let letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
        let digits = chars.iter().skip(end).take_while(|c| c.is_ascii_digit()).count();
        let ends = !letter(chars.get(end + digits).copied()) || !word_at(end.checked_sub(1));
        if name.is_ordinary {
            let exact = begins && !is_word(chars.get(end).copied());
            let is_scenario = || name.is_given && stands_as_scenario(chars, from, end);
            return exact && (stands_as_name(chars, from, end) || is_scenario());
        }
        begins && ends || end - from >= DISTINCTIVE
    }

    /// Replacement of a found name, and the first character behind it: digits behind a name belong to it.
    pub(super) fn replace(&mut self, found: Found, chars: &[char]) -> (String, usize) {
        let mut end = found.end;
        let is_digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
        if !is_digit(end) {
            return (self.pseudonym(found.name), end);
        }
        while is_digit(end) {
            end += 1;
        }
        let Some(base) = self.all.get(found.name).cloned() else { return (String::new(), end) };
        let digits: String = chars.get(found.end..end).unwrap_or_default().iter().collect();
        let numbered = format!("{}{digits}", base.text);
        (self.stand_in(base.kind, &numbered), end)
    }

    /// How names are spelled that must not be in a page, and the name of each: all but words of every report.
    pub(super) fn spellings(&self) -> impl Iterator<Item = (&str, &Name)> {
        let given = self.pseudonyms();
        let spelled = self.by_text.iter().filter_map(|(spelled, &at)| Some((spelled.as_str(), self.all.get(at)?)));
        spelled.filter(move |(spelled, it)| {
            !it.is_ordinary && !given.contains(it.text.as_str()) && !given.contains(spelled)
        })
    }

    /// All noted names that are not themselves pseudonyms.
    pub(super) fn all(&self) -> impl Iterator<Item = &Name> {
        let given = self.pseudonyms();
        self.all.iter().filter(move |it| !given.contains(it.text.as_str()))
    }

    fn pseudonyms(&self) -> HashSet<&str> {
        self.all.iter().filter_map(|it| it.pseudonym.as_deref()).collect()
    }
}

/// A character as names are compared by it.
pub(super) fn fold(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

/// A text as names are compared by it.
pub(super) fn folded(text: &str) -> String {
    text.chars().map(fold).collect()
}

pub(super) fn before(chars: &[char], at: usize) -> Option<char> {
    at.checked_sub(1).and_then(|at| chars.get(at)).copied()
}

pub(super) fn is_word(c: Option<char>) -> bool {
    c.is_some_and(char::is_alphanumeric)
}

/// An address or name of this very machine.
pub(super) fn is_loopback(key: &str) -> bool {
    key.starts_with("127.") && key.chars().all(|c| c.is_ascii_digit() || c == '.')
        || ["::1", "::", "0.0.0.0", "localhost"].contains(&key)
}

/// Words that give the kind of the name behind them.
const SAYS_KIND: [(&str, TextKind); 12] = [
    ("queue", TextKind::Queue),
    ("stream", TextKind::Queue),
    ("topic", TextKind::Queue),
    ("exchange", TextKind::Exchange),
    ("vhost", TextKind::VirtualHost),
    ("virtual host", TextKind::VirtualHost),
    ("key", TextKind::RoutingKey),
    ("user", TextKind::User),
    ("host", TextKind::Host),
    ("node", TextKind::Node),
    ("connection", TextKind::Connection),
    ("for name", TextKind::Queue),
];

/// Kind of the name that follows this text, by the text's last word.
pub(super) fn said_kind(text: &str) -> Option<TextKind> {
    let ends = |word: &str| text.strip_suffix(word).is_some_and(|left| !is_word(left.chars().next_back()));
    SAYS_KIND.iter().find(|(word, _)| ends(word)).map(|(_, kind)| *kind)
}

/// Whether the neighbours of a place say that a name stands there.
fn stands_as_name(chars: &[char], from: usize, end: usize) -> bool {
    let (left, right) = (before(chars, from), chars.get(end).copied());
    let marks = |c: Option<char>, of: &str| c.is_some_and(|c| of.contains(c));
    if left.is_none() && right.is_none() || marks(left, "'\"`\u{201c}=:/@[{") {
        return true;
    }
    if marks(left, " ") {
        let start = from.saturating_sub(16);
        let text: String = chars.get(start..from).unwrap_or_default().iter().collect();
        let text = folded(text.trim_end());
        return said_kind(&text).is_some();
    }
    false
}

/// Whether neighbours show the name of a probe or page: `probe queues`, `probe_queues_wait`, `queues response p99`.
fn stands_as_scenario(chars: &[char], from: usize, end: usize) -> bool {
    let text = |from: usize, end: usize| chars.iter().take(end).skip(from).map(|c| fold(*c)).collect::<String>();
    let left = text(from.saturating_sub(16), from);
    let right = text(end, end + 16).replace('_', " ");
    let says = ["probe ", "probe_", "scrape ", "page "];
    let latencies = [" response", " from send", " first byte"];
    let parts = [" wait", " body", " connect", " secure", " requests", " failed", " page"];
    let is_part = |it: &&str| right.strip_prefix(*it).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    says.iter().any(|it| left.ends_with(it))
        || latencies.iter().any(|it| right.starts_with(it))
        || left.is_empty() && parts.iter().any(is_part)
}

/// Whether a name is indistinguishable in a report: a number, one or two characters, or a word of every report.
pub(super) fn is_ordinary(key: &str) -> bool {
    let numeric = key.chars().all(|c| c.is_ascii_digit() || ".,:%+-".contains(c));
    let quantity = key.starts_with(|c: char| c.is_ascii_digit())
        && key.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len() <= 3;
    key.chars().count() <= 2
        || numeric
        || quantity
        || KINDS.contains(&key)
        || is_public_part(key)
        || ORDINARY.split_whitespace().any(|it| it == key)
}
