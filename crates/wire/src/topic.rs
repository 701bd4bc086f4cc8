//! TopicPatterns of topics: words between dots, `*` for one word, `#` for any number of them, also none
//! (AMQP 0.9.1, 3.1.3.3; as RabbitMQ has it, `*` takes an empty word too).
//!
//! The patterns form a trie. A key is matched word by word against the *set* of nodes reached so
//! far, so that no combination of `#` makes it exponential: the work is at most words times nodes.

use std::collections::HashMap;

const ROOT: usize = 0;

/// The words of a key or pattern. As in RabbitMQ the empty one has none, whereas `.` has two empty ones.
fn words(key: &str) -> impl Iterator<Item = &str> {
    key.split('.').take(if key.is_empty() { 0 } else { usize::MAX })
}

/// Whether a pattern matches other keys than itself.
pub fn has_wildcards(pattern: &str) -> bool {
    words(pattern).any(|word| word == "*" || word == "#")
}

#[derive(Debug)]
struct Node<B> {
    words: HashMap<Box<str>, usize>,
    /// The node behind a `*`.
    star: Option<usize>,
    /// The node behind a `#`.
    hash: Option<usize>,
    /// Whether this node stands behind a `#`, and so stays reached whatever word follows.
    is_hash: bool,
    bindings: Vec<B>,
}

impl<B> Node<B> {
    fn new(is_hash: bool) -> Self {
        Self { words: HashMap::new(), star: None, hash: None, is_hash, bindings: Vec::new() }
    }

    fn child(&self, word: &str) -> Option<usize> {
        match word {
            "*" => self.star,
            "#" => self.hash,
            _ => self.words.get(word).copied(),
        }
    }

    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.star.is_none() && self.hash.is_none() && self.bindings.is_empty()
    }
}

/// Bindings of type `B` by topic pattern.
#[derive(Debug)]
pub struct TopicPatterns<B> {
    nodes: Vec<Node<B>>,
    free: Vec<usize>,
}

impl<B> Default for TopicPatterns<B> {
    fn default() -> Self {
        Self { nodes: vec![Node::new(false)], free: Vec::new() }
    }
}

impl<B> TopicPatterns<B> {
    /// Adds a binding.
    pub fn insert(&mut self, pattern: &str, binding: B) {
        let mut at = ROOT;
        for word in words(pattern) {
            at = self.nodes[at].child(word).unwrap_or_else(|| self.grow(at, word));
        }
        self.nodes[at].bindings.push(binding);
    }

    fn grow(&mut self, parent: usize, word: &str) -> usize {
        let node = Node::new(word == "#");
        let new = match self.free.pop() {
            Some(free) => {
                self.nodes[free] = node;
                free
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        };
        let parent = &mut self.nodes[parent];
        match word {
            "*" => parent.star = Some(new),
            "#" => parent.hash = Some(new),
            _ => {
                parent.words.insert(word.into(), new);
            }
        }
        new
    }

    /// The bindings of exactly this pattern.
    pub fn exact(&self, pattern: &str) -> &[B] {
        let at = words(pattern).try_fold(ROOT, |at, word| self.nodes[at].child(word));
        at.map_or(&[], |at| self.nodes[at].bindings.as_slice())
    }

    /// Removes the bindings of exactly this pattern that `is_it` names, and what only they needed; their number.
    pub fn remove(&mut self, pattern: &str, mut is_it: impl FnMut(&B) -> bool) -> usize {
        let mut path = vec![(ROOT, "")];
        let mut at = ROOT;
        for word in words(pattern) {
            match self.nodes[at].child(word) {
                Some(next) => at = next,
                None => return 0,
            }
            path.push((at, word));
        }
        let before = self.nodes[at].bindings.len();
        self.nodes[at].bindings.retain(|b| !is_it(b));
        let removed = before - self.nodes[at].bindings.len();
        self.prune(&path);
        removed
    }

    fn prune(&mut self, path: &[(usize, &str)]) {
        for pair in path.windows(2).rev() {
            let [(parent, _), (child, word)] = *pair else { return };
            if !self.nodes[child].is_empty() {
                return;
            }
            let parent = &mut self.nodes[parent];
            match word {
                "*" => parent.star = None,
                "#" => parent.hash = None,
                _ => {
                    parent.words.remove(word);
                }
            }
            self.free.push(child);
        }
    }

    /// Calls `found` for every binding whose pattern matches `key`; once per binding.
    pub fn matching<'a>(&'a self, key: &str, mut found: impl FnMut(&'a B)) {
        let mut reached = Vec::new();
        self.reach(ROOT, &mut reached);
        let mut next = Vec::new();
        for word in words(key) {
            for &at in &reached {
                let node = &self.nodes[at];
                if node.is_hash {
                    self.reach(at, &mut next);
                }
                if let Some(&child) = node.words.get(word) {
                    self.reach(child, &mut next);
                }
                if let Some(star) = node.star {
                    self.reach(star, &mut next);
                }
            }
            std::mem::swap(&mut reached, &mut next);
            next.clear();
            if reached.is_empty() {
                return;
            }
        }
        for at in reached {
            self.nodes[at].bindings.iter().for_each(&mut found);
        }
    }

    /// Whether any binding's pattern matches `key`.
    pub fn matches(&self, key: &str) -> bool {
        let mut found = false;
        self.matching(key, |_| found = true);
        found
    }

    /// Adds a node, and those behind `#` that it reaches without a word, once each.
    fn reach(&self, at: usize, set: &mut Vec<usize>) {
        let mut at = Some(at);
        while let Some(node) = at {
            // The sets are small: one node for every way to read the key so far.
            if set.contains(&node) {
                return;
            }
            set.push(node);
            at = self.nodes[node].hash;
        }
    }

    /// All bindings.
    pub fn iter(&self) -> impl Iterator<Item = &B> {
        self.nodes.iter().flat_map(|n| &n.bindings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, word by word.
    fn naive(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, None) => true,
            (Some((&"#", rest)), None) => naive(rest, key),
            (Some((&"#", rest)), Some((_, tail))) => naive(rest, key) || naive(pattern, tail),
            (Some((&"*", rest)), Some((_, tail))) => naive(rest, tail),
            (Some((word, rest)), Some((head, tail))) => word == head && naive(rest, tail),
            _ => false,
        }
    }

    fn found(patterns: &TopicPatterns<String>, key: &str) -> Vec<String> {
        let mut found = Vec::new();
        patterns.matching(key, |b| found.push(b.clone()));
        found.sort();
        found
    }

    /// All strings of up to `n` words from `words`.
    fn all(alphabet: &[&str], n: usize) -> Vec<String> {
        let mut out: Vec<String> = alphabet.iter().map(|w| (*w).to_owned()).collect();
        let mut last = out.clone();
        for _ in 1..n {
            last = last.iter().flat_map(|l| alphabet.iter().map(move |w| format!("{l}.{w}"))).collect();
            out.extend_from_slice(&last);
        }
        out
    }

    #[test]
    fn the_trie_agrees_with_the_definition() {
        let patterns = all(&["a", "b", "", "*", "#"], 4);
        let keys = all(&["a", "b", "", "*", "#"], 4);
        let mut trie = TopicPatterns::default();
        for p in &patterns {
            trie.insert(p, p.clone());
        }
        for key in &keys {
            let split: Vec<&str> = words(key).collect();
            let mut expected: Vec<String> =
                patterns.iter().filter(|p| naive(&words(p).collect::<Vec<_>>(), &split)).cloned().collect();
            expected.sort();
            assert_eq!(found(&trie, key), expected, "key {key:?}");
            assert!(trie.matches(key));
        }
    }

    #[test]
    fn removing_leaves_nothing_behind() {
        let mut trie = TopicPatterns::default();
        let patterns = all(&["a", "*", "#"], 3);
        for p in &patterns {
            trie.insert(p, p.clone());
            trie.insert(p, format!("{p} again"));
        }
        assert_eq!(trie.exact("a.*"), ["a.*", "a.* again"]);
        for p in &patterns {
            assert_eq!(trie.remove(p, |b| b == p), 1);
            assert_eq!(trie.remove(p, |b| b == p), 0);
        }
        assert_eq!(trie.iter().count(), patterns.len());
        for p in &patterns {
            assert_eq!(trie.remove(p, |_| true), 1);
        }
        assert_eq!(trie.remove("never.seen", |_| true), 0);
        assert_eq!(trie.nodes.len(), trie.free.len() + 1, "only the root is left");
        assert!(found(&trie, "a.b").is_empty());
    }

    #[test]
    fn many_hashes_stay_cheap() {
        let mut trie = TopicPatterns::default();
        let pattern = format!("{}x", "#.a.".repeat(30));
        trie.insert(&pattern, pattern.clone());
        // A backtracking matcher would try more ways than there are atoms.
        let key = "a.".repeat(127) + "b";
        assert!(!trie.matches(&key));
        assert_eq!(found(&trie, &("a.".repeat(127) + "x")), [pattern]);
    }

    #[test]
    fn wildcards_are_whole_words() {
        assert!(has_wildcards("a.#") && has_wildcards("*"));
        assert!(!has_wildcards("a*.b#") && !has_wildcards(""));
    }
}
