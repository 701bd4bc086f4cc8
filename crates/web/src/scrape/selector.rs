//! Which series of a page are wanted, as people write it: `sum by (vhost) (rabbitmq_queue_*{queue=~"q-.*"})`.

use std::fmt;
use std::str::FromStr;

use glob::Pattern;
use measure::Refused;
use regex::{Regex, RegexBuilder};
use wire::openmetrics::{Labels, unescape};

const EXAMPLE: &str = "write rabbitmq_queue_messages, rabbitmq_queue_*{vhost=\"/\",queue=~\"q-.*\"} or \
                       sum by (vhost) (rabbitmq_queue_messages)";
/// Bytes that a compiled regular expression may take.
const MOST_REGEX: usize = 1 << 20;

/// A name pattern, conditions on labels, and whether what they find is added up.
#[derive(Clone, Debug)]
pub struct Selector {
    text: String,
    name: Pattern,
    conditions: Vec<Condition>,
    sum: Option<Vec<String>>,
}

/// A condition on a label; an absent label is empty.
#[derive(Clone, Debug)]
struct Condition {
    label: String,
    /// One of [`OPERATORS`].
    operator: &'static str,
    value: String,
    /// The value, where it is an expression.
    regex: Option<Regex>,
}

/// Signs between a label and its value.
const OPERATORS: [&str; 4] = ["=~", "!~", "!=", "="];

impl Selector {
    /// Whether series of this name may be wanted.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.name.matches(name)
    }

    /// The pattern of names, as it was written.
    pub(super) fn pattern(&self) -> &str {
        self.name.as_str()
    }

    /// Whether a series of a wanted name has the labels that are wanted.
    pub(super) fn has_labels(&self, labels: &Labels<'_>) -> bool {
        self.conditions.iter().all(|condition| {
            let label = labels.get(&condition.label);
            let value = label.map(|label| label.value()).unwrap_or_default();
            let is_it = condition.regex.as_ref().map_or_else(|| value == condition.value, |it| it.is_match(&value));
            is_it != condition.operator.starts_with('!')
        })
    }

    /// The labels that stay where series are added up; `None` where each stays one.
    pub(super) fn sum_by(&self) -> Option<&[String]> {
        self.sum.as_deref()
    }

    /// How a series of this name is written that it selects: a sum with its conditions, any other by its name alone.
    pub(super) fn written(&self, name: &str) -> String {
        let Some(by) = &self.sum else { return name.to_owned() };
        let by = match by.as_slice() {
            [] => "sum".to_owned(),
            labels => format!("sum by ({})", labels.join(", ")),
        };
        let conditions = self.text.find('{').and_then(|begin| {
            let end = self.text.rfind('}')?;
            self.text.get(begin..=end)
        });
        format!("{by} ({name}{})", conditions.unwrap_or_default())
    }

    /// The labels of a sum that its conditions give it, so that sums of other conditions are other series.
    pub(super) fn fixed(&self) -> impl Iterator<Item = (&str, String)> {
        self.conditions.iter().filter(|_| self.sum.is_some()).map(|condition| {
            let operator = if condition.operator == "=" { "" } else { condition.operator };
            (condition.label.as_str(), format!("{operator}{}", condition.value))
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

measure::kept_as_text!(Selector);

impl FromStr for Selector {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let text = text.trim();
        let mut rest = Unparsed { text, whole: text };
        let sum = rest.sum()?;
        let name = rest.take(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '*' | '?'));
        let conditions = rest.conditions()?;
        if name.is_empty() && conditions.is_empty() {
            return Err(rest.refused("has neither a name nor a label"));
        }
        if rest.text.starts_with('(') && conditions.is_empty() && name != "sum" {
            return Err(
                rest.refused("uses a function other than sum, the only one (counters become rates by themselves)")
            );
        }
        if sum.is_some() {
            rest.expect(")")?;
        }
        if !rest.text.is_empty() {
            return Err(rest.refused("goes on where it should end"));
        }
        let name = if name.is_empty() { "*" } else { name };
        let pattern = Pattern::new(name).map_err(|_| rest.refused("has an invalid pattern as name"))?;
        Ok(Self { text: text.to_owned(), name: pattern, conditions, sum })
    }
}

/// A selector's text that is not parsed yet.
struct Unparsed<'a> {
    text: &'a str,
    whole: &'a str,
}

impl<'a> Unparsed<'a> {
    fn refused(&self, why: &str) -> Refused {
        let at = self.whole.len() - self.text.len();
        Refused::new(format!("{:?} {why} (byte {at})", self.whole), EXAMPLE)
    }

    /// Takes the characters of this kind, and blanks behind them.
    fn take(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let end = self.text.find(|c| !is(c)).unwrap_or(self.text.len());
        let (taken, rest) = self.text.split_at(end);
        self.text = rest.trim_start();
        taken
    }

    fn accept(&mut self, sign: &str) -> bool {
        let rest = self.text.strip_prefix(sign);
        self.text = rest.map_or(self.text, str::trim_start);
        rest.is_some()
    }

    fn expect(&mut self, sign: &str) -> Result<(), Refused> {
        self.accept(sign).then_some(()).ok_or_else(|| self.refused(&format!("lacks {sign:?}")))
    }

    /// `sum (` or `sum by (a, b) (` at the beginning.
    fn sum(&mut self) -> Result<Option<Vec<String>>, Refused> {
        let behind = self.text.strip_prefix("sum").map(str::trim_start);
        let Some(behind) = behind.filter(|text| text.starts_with('(') || text.starts_with("by")) else {
            return Ok(None);
        };
        self.text = behind;
        let mut by = Vec::new();
        if self.accept("by") {
            self.expect("(")?;
            while !self.accept(")") {
                by.push(self.label()?);
                if !self.accept(",") && !self.text.starts_with(')') {
                    return Err(self.refused("lacks a comma or a closing parenthesis"));
                }
            }
        }
        self.expect("(")?;
        Ok(Some(by))
    }

    fn label(&mut self) -> Result<String, Refused> {
        let name = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() { Err(self.refused("lacks the name of a label")) } else { Ok(name.to_owned()) }
    }

    fn conditions(&mut self) -> Result<Vec<Condition>, Refused> {
        let mut conditions = Vec::new();
        if !self.accept("{") {
            return Ok(conditions);
        }
        while !self.accept("}") {
            let label = self.label()?;
            let Some(operator) = OPERATORS.into_iter().find(|sign| self.accept(sign)) else {
                return Err(self.refused("lacks =, !=, =~ or !~ behind a label"));
            };
            let value = self.quoted()?;
            let regex = operator.ends_with('~').then(|| self.regex(&value)).transpose()?;
            conditions.push(Condition { label, operator, value, regex });
            if !self.accept(",") && !self.text.starts_with('}') {
                return Err(self.refused("lacks a comma or a closing brace"));
            }
        }
        Ok(conditions)
    }

    /// A text in double or single quotes; escapes as on a page, so that a backslash before anything else is itself.
    fn quoted(&mut self) -> Result<String, Refused> {
        let Some(quote) = self.text.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            return Err(self.refused("lacks quotes around a value"));
        };
        let text = self.text.get(1..).unwrap_or_default();
        let mut escaped = false;
        let end = text.find(|c| {
            let is_end = c == quote && !escaped;
            escaped = c == '\\' && !escaped;
            is_end
        });
        let end = end.ok_or_else(|| self.refused("lacks the closing quote of a value"))?;
        let (value, rest) = text.split_at(end);
        self.text = rest.get(1..).unwrap_or_default().trim_start();
        Ok(unescape(value).into_owned())
    }

    /// A regular expression that has to match the whole value, as in Prometheus.
    fn regex(&self, text: &str) -> Result<Regex, Refused> {
        RegexBuilder::new(&format!("^(?:{text})$"))
            .size_limit(MOST_REGEX)
            .dot_matches_new_line(true)
            .build()
            .map_err(|_| self.refused(&format!("has {text:?}, an invalid regular expression")))
    }
}
