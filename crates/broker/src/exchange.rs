//! Exchanges: who gets a message, by kind.

use std::collections::HashMap;

use wire::amqp091::{FieldTable, Table, Value};
use wire::topic::TopicPatterns;

use crate::slots::Key;

measure::named! {
    /// How an exchange chooses among its bindings.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Kind {
        Direct = "direct",
        Fanout = "fanout",
        Topic = "topic",
        Headers = "headers",
    }
}

impl Kind {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Where a binding leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Queue(Key),
    Exchange(Key),
}

/// One binding, seen from its source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binding {
    pub(crate) key: Box<str>,
    pub(crate) destination: Destination,
    pub(crate) arguments: FieldTable,
}

#[derive(Debug)]
enum Bindings {
    Direct(HashMap<Box<str>, Vec<Binding>>),
    /// Fanout and headers exchanges look at all of them.
    All(Vec<Binding>),
    Topic(TopicPatterns<Binding>),
}

/// One exchange. The default exchange is none: it routes by queue name.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) name: Box<str>,
    pub(crate) kind: Kind,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) internal: bool,
    /// Takes what finds no binding here.
    pub(crate) alternate: Option<Box<str>>,
    bindings: Bindings,
    /// Bindings that lead here, by source, for cleaning up.
    pub(crate) inbound: Vec<(Key, Binding)>,
}

impl Exchange {
    pub(crate) fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
            durable: true,
            auto_delete: false,
            internal: false,
            alternate: None,
            bindings: match kind {
                Kind::Direct => Bindings::Direct(HashMap::new()),
                Kind::Fanout | Kind::Headers => Bindings::All(Vec::new()),
                Kind::Topic => Bindings::Topic(TopicPatterns::default()),
            },
            inbound: Vec::new(),
        }
    }

    /// Adds a binding; `false` when it is there already.
    pub(crate) fn bind(&mut self, binding: &Binding) -> bool {
        let same = match &self.bindings {
            Bindings::Direct(map) => map.get(&binding.key).map_or(&[][..], Vec::as_slice),
            Bindings::All(all) => all,
            Bindings::Topic(patterns) => patterns.exact(&binding.key),
        };
        if same.contains(binding) {
            return false;
        }
        let new = binding.clone();
        match &mut self.bindings {
            Bindings::Direct(map) => map.entry(binding.key.clone()).or_default().push(new),
            Bindings::All(all) => all.push(new),
            Bindings::Topic(patterns) => patterns.insert(&binding.key, new),
        }
        true
    }

    /// Removes a binding; `false` when there is none such.
    pub(crate) fn unbind(&mut self, binding: &Binding) -> bool {
        match &mut self.bindings {
            Bindings::Direct(map) => {
                let Some(same) = map.get_mut(&binding.key) else { return false };
                let removed = remove_from(same, binding);
                if same.is_empty() {
                    map.remove(&binding.key);
                }
                removed
            }
            Bindings::All(all) => remove_from(all, binding),
            Bindings::Topic(patterns) => patterns.remove(&binding.key, |b| b == binding) > 0,
        }
    }

    /// All bindings that start here.
    pub(crate) fn bindings(&self) -> Vec<&Binding> {
        match &self.bindings {
            Bindings::Direct(map) => map.values().flatten().collect(),
            Bindings::All(all) => all.iter().collect(),
            Bindings::Topic(patterns) => patterns.iter().collect(),
        }
    }

    /// Whether nothing is bound here.
    pub(crate) fn is_unused(&self) -> bool {
        match &self.bindings {
            Bindings::Direct(map) => map.is_empty(),
            Bindings::All(all) => all.is_empty(),
            Bindings::Topic(patterns) => patterns.iter().next().is_none(),
        }
    }

    /// Calls `found` with the destination of every binding that this key (and, for a headers
    /// exchange, these headers) fits.
    pub(crate) fn route(&self, key: &str, headers: Table<'_>, mut found: impl FnMut(Destination)) {
        match &self.bindings {
            Bindings::Direct(map) => {
                map.get(key).into_iter().flatten().for_each(|b| found(b.destination));
            }
            Bindings::All(all) if self.kind == Kind::Fanout => {
                all.iter().for_each(|b| found(b.destination));
            }
            Bindings::All(all) => {
                all.iter().filter(|b| headers_match(b.arguments.view(), headers)).for_each(|b| found(b.destination));
            }
            Bindings::Topic(patterns) => patterns.matching(key, |b| found(b.destination)),
        }
    }
}

fn remove_from(bindings: &mut Vec<Binding>, binding: &Binding) -> bool {
    let at = bindings.iter().position(|b| b == binding);
    at.map(|at| bindings.swap_remove(at)).is_some()
}

/// Whether a message with these headers fits a binding with these arguments: all of them, or any
/// with `x-match=any`. Arguments that begin with `x-` count only with `all-with-x` and
/// `any-with-x`; one without a value asks for the header's presence only.
fn headers_match(arguments: Table<'_>, headers: Table<'_>) -> bool {
    let mode = arguments.get("x-match").and_then(Value::as_str).unwrap_or("all");
    let with_x = mode.ends_with("-with-x");
    let mut wanted = arguments.iter().filter(|(name, _)| *name != "x-match" && (with_x || !name.starts_with("x-")));
    let has = |(name, value): (&str, Value<'_>)| {
        headers.get(name).is_some_and(|h| value == Value::Void || same_value(h, value))
    };
    if mode.starts_with("any") { wanted.any(has) } else { wanted.all(has) }
}

/// Whether two values are the same, integers of different widths included.
pub(crate) fn same_value(a: Value<'_>, b: Value<'_>) -> bool {
    a == b || a.as_i64().is_some_and(|a| b.as_i64() == Some(a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Slots;
    use crate::tests::harness::table;

    fn binding(key: &str, queue: Key, arguments: FieldTable) -> Binding {
        Binding { key: key.into(), destination: Destination::Queue(queue), arguments }
    }

    fn routed(exchange: &Exchange, key: &str, headers: &FieldTable) -> Vec<Key> {
        let mut keys = Vec::new();
        exchange.route(key, headers.view(), |d| match d {
            Destination::Queue(q) => keys.push(q),
            Destination::Exchange(_) => panic!("no exchange is bound"),
        });
        keys.sort();
        keys
    }

    #[test]
    fn every_kind_routes_by_its_own_rule() {
        let mut slots = Slots::default();
        let [q1, q2] = [slots.insert(()), slots.insert(())];
        let none = FieldTable::new();
        for (kind, expected) in [(Kind::Direct, vec![q1]), (Kind::Fanout, vec![q1, q2]), (Kind::Topic, vec![q1, q2])] {
            let mut exchange = Exchange::new("x", kind);
            assert!(exchange.is_unused());
            let [one, two] = [binding("a.b", q1, none.clone()), binding("a.*", q2, none.clone())];
            assert!(exchange.bind(&one) && exchange.bind(&two));
            assert!(!exchange.bind(&one), "binding twice is binding once");
            assert_eq!(exchange.bindings().len(), 2);
            assert_eq!(routed(&exchange, "a.b", &none), expected, "{kind:?}");
            assert!(exchange.unbind(&one) && !exchange.unbind(&one));
            assert!(exchange.unbind(&two));
            assert!(exchange.is_unused() && routed(&exchange, "a.b", &none).is_empty());
        }
    }

    #[test]
    fn headers_exchanges_compare_headers() {
        let queue = Slots::default().insert(());
        let yes = |arguments: &[(&str, Value<'static>)], headers: &[(&str, Value<'static>)]| {
            let mut exchange = Exchange::new("x", Kind::Headers);
            exchange.bind(&binding("", queue, table(arguments)));
            !routed(&exchange, "ignored", &table(headers)).is_empty()
        };
        let (one, two) = (("a", Value::I32(1)), ("b", Value::from("2")));
        let any = ("x-match", Value::from("any"));
        assert!(yes(&[one, two], &[two, one]));
        assert!(!yes(&[one, two], &[one]));
        assert!(yes(&[any, one, two], &[two]));
        assert!(!yes(&[any, one, two], &[("a", Value::I32(2))]));
        assert!(yes(&[one], &[("a", Value::I64(1))]), "widths do not matter");
        assert!(yes(&[("a", Value::Void)], &[one]), "no value: presence");
        assert!(yes(&[("x-a", Value::Bool(true))], &[]), "x- does not count");
        let with_x = ("x-match", Value::from("all-with-x"));
        assert!(!yes(&[with_x, ("x-a", Value::Bool(true))], &[]));
        assert!(yes(&[], &[]), "all of nothing");
        assert!(!yes(&[any], &[one]), "any of nothing");
    }
}
