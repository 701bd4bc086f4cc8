//! Names from brokers and networks in sentences that have little room.

use std::borrow::Cow;

/// A scenario's name as people read it, and as its latencies begin: `probe queue-page`.
pub(crate) fn scenario_name(name: &str) -> String {
    match name.split_once('_') {
        Some((kind, own)) => format!("{kind} {}", own.replace('_', "-")),
        None => name.to_owned(),
    }
}

/// The name in at most so many letters: a longer one is cut in the middle, because related names often begin alike and
/// differ at the end. No blank stands beside the cut, where a line could break.
pub(crate) fn shortened(name: &str, most: usize) -> Cow<'_, str> {
    let letters = name.chars().count();
    if letters <= most {
        return Cow::Borrowed(name);
    }
    let kept = most.saturating_sub(1);
    let tail = kept / 2;
    let head: String = name.chars().take(kept - tail).collect();
    let tail: String = name.chars().skip(letters - tail).collect();
    Cow::Owned(format!("{}…{}", head.trim_end(), tail.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_names_apart_stays() {
        assert_eq!(shortened("orders", 6), "orders");
        assert_eq!(
            shortened("orders-of-the-web-shop-eu-1", 16),
            "orders-o…op-eu-1"
        );
        assert_eq!(shortened("ääääöööö", 4), "ää…ö");
        assert_eq!(shortened("abc", 0), "…");
        assert_eq!(shortened("bellows producer 0", 13), "bellow…ucer 0");
        assert_eq!(shortened("bellows 0 of 12", 13), "bellow…of 12");
        assert_eq!(shortened("one and two", 8), "one…two");
    }
}
