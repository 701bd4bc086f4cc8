//! A set of sequence numbers that is nearly whole.

use std::collections::BTreeMap;

use super::{BLOCK, Bits, WORDS, ones, place};

/// Blocks with so many holes or fewer are kept as a list of them.
const FEW_HOLES: usize = 96;
const FULL: Bits = [u64::MAX; WORDS];

/// What an entry takes beside what it points to, bytes.
const ENTRY_BYTES: usize = 48;

#[derive(Clone, Debug)]
enum Content {
    Full,
    /// All but these.
    Holes(Box<[u16]>),
    Map(Box<Bits>),
}

impl Content {
    fn of(bits: &Bits) -> Self {
        let holes = BLOCK as usize - ones(bits) as usize;
        if holes == 0 {
            return Self::Full;
        }
        if holes > FEW_HOLES {
            return Self::Map(Box::new(*bits));
        }
        let missing = |at: &u16| {
            let (_, word, bit) = place(u64::from(*at));
            bits[word] & bit == 0
        };
        Self::Holes((0..BLOCK as u16).filter(missing).collect())
    }

    fn bits(&self) -> Bits {
        match self {
            Self::Full => FULL,
            Self::Map(bits) => **bits,
            Self::Holes(holes) => {
                let mut bits = FULL;
                for at in holes {
                    let (_, word, bit) = place(u64::from(*at));
                    bits[word] &= !bit;
                }
                bits
            }
        }
    }

    const fn bytes(&self) -> usize {
        ENTRY_BYTES
            + match self {
                Self::Full => 0,
                Self::Holes(holes) => 2 * holes.len(),
                Self::Map(_) => 8 * WORDS,
            }
    }
}

/// A set of sequence numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    /// Blocks below hold all their numbers, or are settled.
    full_below: u64,
    blocks: BTreeMap<u64, Content>,
    bytes: usize,
    count: u64,
}

impl Set {
    /// Adds a block's numbers; tells how many were in it already.
    pub(super) fn insert(&mut self, index: u64, bits: &Bits) -> u64 {
        if index < self.full_below {
            return ones(bits);
        }
        let before = match self.blocks.remove(&index) {
            Some(content) => {
                self.bytes -= content.bytes();
                content.bits()
            }
            None => [0; WORDS],
        };
        self.count += ones(bits);
        let (mut after, mut overlap) = (before, 0);
        for (word, new) in after.iter_mut().zip(bits) {
            overlap += u64::from((*word & new).count_ones());
            *word |= new;
        }
        self.count -= overlap;
        let content = Content::of(&after);
        self.bytes += content.bytes();
        self.blocks.insert(index, content);
        self.advance();
        overlap
    }

    /// Lets go of full blocks at the low end.
    fn advance(&mut self) {
        while let Some(entry) = self.blocks.first_entry()
            && *entry.key() == self.full_below
            && matches!(entry.get(), Content::Full)
        {
            self.bytes -= entry.remove().bytes();
            self.full_below += 1;
        }
    }

    /// Numbers in it, also of blocks that are settled.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Which of a block's numbers it holds.
    pub(super) fn bits(&self, index: u64) -> Bits {
        if index < self.full_below {
            return FULL;
        }
        self.blocks.get(&index).map_or([0; WORDS], Content::bits)
    }

    /// The first block that it may not hold as a whole, and the first one that it has nothing of.
    pub(super) fn span(&self) -> (u64, u64) {
        let last = self.blocks.last_key_value().map_or(0, |(last, _)| last + 1);
        (self.full_below, last.max(self.full_below))
    }

    /// Bytes that it takes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes all blocks below for whole from now on.
    pub(super) fn settle_below(&mut self, index: u64) {
        if index <= self.full_below {
            return;
        }
        self.full_below = index;
        self.blocks = self.blocks.split_off(&index);
        self.bytes = self.blocks.values().map(Content::bytes).sum();
        self.advance();
    }
}
