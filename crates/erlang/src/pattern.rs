//! Which functions and which processes a trace or profile is about.

use std::fmt;
use std::str::FromStr;

use measure::Refused;

use crate::term::{Term, atom, int, list, text, tuple};

/// Functions: `M:F/A`, all arities of `M:F`, or all functions of the module `M`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionPattern {
    /// The module; never all.
    pub module: String,
    /// The function's name; `None` for all.
    pub function: Option<String>,
    /// The number of arguments; `None` for any.
    pub arity: Option<u8>,
}

/// Bytes of an atom's text.
const MOST_BYTES: usize = 255;

impl FromStr for FunctionPattern {
    type Err = Refused;

    fn from_str(given: &str) -> Result<Self, Refused> {
        let wrong = |help: &str| Refused::new(format!("{given:?} is not a function"), help);
        let usual = "write MODULE:FUNCTION/ARITY, such as rabbit_mgmt_wm_queues:to_json/2";
        let (module, rest) = match given.split_once(':') {
            Some((module, rest)) => (module, Some(rest)),
            None => (given, None),
        };
        let (function, arity) = match rest.map(|rest| rest.rsplit_once('/').unwrap_or((rest, ""))) {
            None => (None, ""),
            Some((function, arity)) => (Some(function), arity),
        };
        let names = [Some(module), function];
        if names.iter().flatten().any(|name| matches!(*name, "_" | "*" | "'_'")) {
            return Err(wrong("name a module: tracing all of them stops a node; MODULE alone means all its functions"));
        }
        let is_name = |name: &str| !name.is_empty() && name.len() <= MOST_BYTES;
        if !names.iter().flatten().all(|name| is_name(name)) || rest == Some("") {
            return Err(wrong(usual));
        }
        let has_slash = rest.is_some_and(|rest| rest.contains('/'));
        let arity = if has_slash { Some(arity.parse().map_err(|_| wrong(usual))?) } else { None };
        let unquoted = |name: &str| name.trim_matches('\'').to_owned();
        Ok(Self { module: unquoted(module), function: function.map(unquoted), arity })
    }
}

impl fmt::Display for FunctionPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.module)?;
        if let Some(function) = &self.function {
            write!(f, ":{function}")?;
        }
        self.arity.map_or(Ok(()), |arity| write!(f, "/{arity}"))
    }
}

impl FunctionPattern {
    pub(crate) fn term(&self) -> Term {
        let any = || atom("_");
        let function = self.function.as_deref().map_or_else(any, atom);
        let arity = self.arity.map_or_else(any, |arity| int(arity.into()));
        tuple([atom(&self.module), function, arity])
    }
}

/// Which processes are traced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProcessFilter {
    /// All, also those that start meanwhile.
    #[default]
    All,
    /// Those with a role at the beginning, such as `queue`.
    Role(String),
    /// Some, by pid such as `<0.512.0>` or by registered name.
    Named(Vec<String>),
}

impl ProcessFilter {
    pub(crate) fn term(&self) -> Term {
        match self {
            Self::All => atom("all"),
            Self::Role(role) => tuple([atom("role"), text(role)]),
            Self::Named(names) => {
                let names = names.iter().map(|name| text(name));
                tuple([atom("pids"), list(names)])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_and_wildcards_refused() {
        for (given, function, arity) in [
            ("lists:map/2", Some("map"), Some(2)),
            ("lists:map", Some("map"), None),
            ("lists", None, None),
            ("rabbit_queue:'-f/1-fun-0-'/3", Some("-f/1-fun-0-"), Some(3)),
        ] {
            let read: FunctionPattern = given.parse().unwrap();
            assert_eq!((read.function.as_deref(), read.arity), (function, arity), "{given}");
        }
        for wrong in ["", ":", "lists:", "_", "_:_", "*:*", "lists:map/x", "lists:map/", "lists:map/300", ":map/1"] {
            assert!(wrong.parse::<FunctionPattern>().is_err(), "{wrong}");
        }
        testkit::assert_has("_:_/1".parse::<FunctionPattern>().unwrap_err().to_string(), ["stops a node"]);
    }
}
