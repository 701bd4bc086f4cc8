//! Patterns of names and frames, as the files of rules write them.

use super::frames::{Frame, FrameKind};

/// A pattern: `<n>` stands for one or more digits, `<*>` for as little as will do, other characters for themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// Text before, between and behind the `<*>`; never empty.
    parts: Vec<Vec<Token>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Literal(String),
    Digits,
}

impl Pattern {
    pub(super) fn new(pattern: &str) -> Self {
        let parts = pattern.split("<*>").map(part);
        Self { parts: parts.collect() }
    }

    /// Text matched by the first `<*>` (empty where there is none) if the pattern matches the whole name. Takes at most
    /// the product of both lengths: a part is put where it first fits, which is best for those behind it.
    pub(super) fn captured<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (first, others) = self.parts.split_first()?;
        let rest = behind(first, name)?;
        let Some((last, between)) = others.split_last() else { return rest.is_empty().then_some("") };
        let mut at = name.len() - rest.len();
        let mut captured = None;
        for part in between {
            let (from, to) = first_place(part, name, at, |_| true)?;
            captured = captured.or_else(|| name.get(at..from));
            at = to;
        }
        let (from, _) = if last.is_empty() {
            (name.len(), name.len())
        } else {
            first_place(last, name, at, |to| to == name.len())?
        };
        captured.or_else(|| name.get(at..from))
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        self.captured(name).is_some()
    }
}

fn part(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (i, literal) in text.split("<n>").enumerate() {
        if i > 0 {
            tokens.push(Token::Digits);
        }
        if !literal.is_empty() {
            tokens.push(Token::Literal(literal.to_owned()));
        }
    }
    tokens
}

/// Rest of a text behind a part that it begins with.
fn behind<'n>(part: &[Token], text: &'n str) -> Option<&'n str> {
    part.iter().try_fold(text, |text, token| match token {
        Token::Literal(literal) => text.strip_prefix(literal.as_str()),
        Token::Digits => {
            let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
            (rest.len() < text.len()).then_some(rest)
        }
    })
}

/// Where a part first fits at or behind `at`, from its first character to behind its last.
fn first_place(part: &[Token], name: &str, at: usize, fits: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
    let text = name.get(at..)?;
    let starts = text.char_indices().map(|(i, _)| i).chain([text.len()]);
    let mut places = starts.filter_map(|i| {
        let rest = behind(part, text.get(i..)?)?;
        Some((at + i, name.len() - rest.len()))
    });
    places.find(|(_, to)| fits(*to))
}

/// Rules, one a line, without empty lines and those that begin with `//`. The error is the first line that is no rule.
pub(super) fn rules<R>(text: &str, rule: impl Fn(&str) -> Option<R>) -> Result<Vec<R>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.map(|line| rule(line).ok_or_else(|| line.to_owned())).collect()
}

/// Between a function and its module.
const IN: &str = " in ";

/// Pattern of a frame's kind, function and module.
#[derive(Clone, Debug)]
pub(super) struct FramePattern {
    /// `None` for any.
    kind: Option<FrameKind>,
    function: Pattern,
    module: Option<Pattern>,
}

impl FramePattern {
    /// Reads `KIND FUNCTION [in MODULE]`; `None` where the text is not that.
    pub(super) fn new(text: &str) -> Option<Self> {
        let (kind, function) = text.trim().split_once(char::is_whitespace)?;
        let kind = match kind {
            "any" => None,
            name => Some(FrameKind::ALL.into_iter().find(|it| it.name() == name && *it != FrameKind::Unknown)?),
        };
        let (function, module) = match function.split_once(IN) {
            Some((function, module)) => (function, Some(Pattern::new(module.trim()))),
            None => (function, None),
        };
        Some(Self { kind, function: Pattern::new(function.trim()), module })
    }

    pub(super) fn matches(&self, frame: &Frame, symbol: &str) -> bool {
        let module = self.module.as_ref();
        self.kind.is_none_or(|kind| kind == frame.kind)
            && self.function.matches(symbol)
            && module.is_none_or(|it| it.matches(&frame.module))
    }
}

/// A C function's name without what compilers (`.isra.0`) and perf (`_[k]`) append to it.
pub(super) fn symbol(frame: &Frame) -> &str {
    let name = frame.name.as_str();
    match frame.kind {
        FrameKind::Kernel | FrameKind::Runtime | FrameKind::Libc if !frame.is_near() => {
            let name = name.strip_suffix("_[k]").unwrap_or(name);
            name.split_once('.').map_or(name, |(name, _)| name)
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fit_in_their_order() {
        let captured = |pattern: &str, name| Pattern::new(pattern).captured(name).map(str::to_owned);
        for [pattern, name, wanted] in testkit::table(include_str!("tests/patterns.txt")) {
            assert_eq!(captured(pattern, name).as_deref(), Some(wanted), "{pattern} {name}");
        }
        for unlike in
            [["", "a"], ["a<*>b<*>c", "a1c"], ["<n><*>", "x"], ["f<n>g", "fg"], ["a<n>", "a1b"], ["a<n>", "ba1"]]
        {
            assert_eq!(captured(unlike[0], unlike[1]), None, "{unlike:?}");
        }
    }

    #[test]
    fn a_hostile_name_takes_no_time() {
        let name = "ab".repeat(1 << 17);
        let pattern = Pattern::new("<*>a<*>b<*>a<*>c<*>d");
        assert!(!pattern.matches(&name));
    }
}
