//! A set of sequence numbers that is nearly whole.

use std::collections::BTreeMap;

use super::shard::Chunk;
use super::{BLOCK, Bits, CHUNK, CHUNK_WORDS, MOST_BYTES, MOST_MESSAGES, WORDS, below, fill};
use crate::leb128::{put_number, take_number, take_numbers};

/// Blocks whose numbers come and go so often or less are kept as a list of where.
const FEW_EDGES: usize = 160;
const FULL: Bits = [u64::MAX; WORDS];
const CHUNKS: u64 = BLOCK / CHUNK;

/// Own size of an entry, bytes.
const ENTRY_BYTES: usize = 48;

#[derive(Clone, Debug)]
enum Content {
    Full,
    /// Where its numbers begin, end, begin again, and so on.
    Edges(Box<[u16]>),
    Map(Box<Bits>),
}

/// Bits that differ from the one before them, the first one from 0.
fn edges(bits: &Bits) -> impl Iterator<Item = u64> {
    let mut before = 0;
    bits.iter().map(move |word| {
        let edges = word ^ (word << 1 | before);
        before = word >> 63;
        edges
    })
}

impl Content {
    fn of(bits: &Bits) -> Self {
        if *bits == FULL {
            return Self::Full;
        }
        let count = edges(bits).map(u64::count_ones).sum::<u32>() as usize;
        if count > FEW_EDGES {
            return Self::Map(Box::new(*bits));
        }
        let mut list = Vec::with_capacity(count);
        for (at, mut word) in edges(bits).enumerate() {
            while word != 0 {
                list.push((at * 64) as u16 + word.trailing_zeros() as u16);
                word &= word - 1;
            }
        }
        Self::Edges(list.into())
    }

    fn bits(&self) -> Bits {
        match self {
            Self::Full => FULL,
            Self::Map(bits) => **bits,
            Self::Edges(edges) => {
                let mut bits = [0; WORDS];
                for run in edges.chunks(2) {
                    let end = run.get(1).copied().unwrap_or(BLOCK as u16);
                    fill(&mut bits, usize::from(run[0]), usize::from(end));
                }
                bits
            }
        }
    }

    /// Writes where its numbers begin and end, each as its distance from the one before; a map after a 0.
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Full => [1, 0].into_iter().for_each(|number| put_number(out, number)),
            Self::Edges(edges) => {
                put_number(out, edges.len() as u64);
                let mut before = 0;
                for edge in edges {
                    put_number(out, u64::from(edge - before));
                    before = *edge;
                }
            }
            Self::Map(bits) => {
                put_number(out, 0);
                bits.iter().for_each(|word| out.extend(word.to_le_bytes()));
            }
        }
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let count = take_number(bytes)?;
        let mut bits: Bits = [0; WORDS];
        if count == 0 {
            for word in &mut bits {
                let (own, rest) = bytes.split_first_chunk()?;
                (*word, *bytes) = (u64::from_le_bytes(*own), rest);
            }
        }
        let (mut at, mut begun) = (0, None);
        for _ in 0..count {
            at = take_number(bytes)?.checked_add(at).filter(|at| *at < BLOCK)?;
            match begun.take() {
                None => begun = Some(at),
                Some(from) => fill(&mut bits, from as usize, at as usize),
            }
        }
        if let Some(from) = begun {
            fill(&mut bits, from as usize, BLOCK as usize);
        }
        Some(Self::of(&bits))
    }

    const fn bytes(&self) -> usize {
        ENTRY_BYTES
            + match self {
                Self::Full => 0,
                Self::Edges(edges) => 2 * edges.len(),
                Self::Map(_) => 8 * WORDS,
            }
    }
}

/// A set of sequence numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct DeliveryBitmap {
    /// Blocks below hold all their numbers, or are settled: the first block that it may not hold as a whole.
    pub(super) full_below: u64,
    /// The block that was written last. Most sets have no other, and then need no tree.
    latest: Option<(u64, Content)>,
    others: BTreeMap<u64, Content>,
    pub(super) bytes: usize,
    /// Numbers in it, also of blocks that are settled.
    pub(super) count: u64,
}

impl DeliveryBitmap {
    /// Adds a chunk's numbers.
    pub(super) fn insert(&mut self, chunk: &Chunk) {
        let end = chunk.index.saturating_add(u64::from(chunk.run));
        let mut at = chunk.index;
        if chunk.run > 1 {
            at = self.insert_whole(at, end);
        }
        while at < end {
            let (block, within) = (at / CHUNKS, (at % CHUNKS) as usize);
            let n = (CHUNKS - at % CHUNKS).min(end - at);
            let mut bits: Bits = [0; WORDS];
            for place in bits.chunks_mut(CHUNK_WORDS).skip(within).take(n as usize) {
                place.copy_from_slice(&chunk.bits);
            }
            self.insert_block(block, &bits);
            at += n;
        }
    }

    /// Adds all chunks up to `end`, as far as they are whole blocks that follow the whole ones; tells where it got to.
    fn insert_whole(&mut self, at: u64, end: u64) -> u64 {
        let first = self.others.keys().next().copied();
        let latest = self.latest.as_ref().map(|(index, _)| *index);
        let next = first.into_iter().chain(latest).min().unwrap_or(u64::MAX);
        let until = (end / CHUNKS).min(next);
        if at > self.full_below * CHUNKS || until <= self.full_below {
            return at;
        }
        self.count += (until - self.full_below) * BLOCK;
        self.full_below = until;
        self.advance();
        until * CHUNKS
    }

    fn insert_block(&mut self, index: u64, bits: &Bits) {
        if index < self.full_below {
            return;
        }
        let mut all = [0; WORDS];
        if let Some(content) = self.take(index) {
            self.bytes -= content.bytes();
            all = content.bits();
        }
        for (word, new) in all.iter_mut().zip(bits) {
            self.count += u64::from((new & !*word).count_ones());
            *word |= new;
        }
        let content = Content::of(&all);
        self.bytes += content.bytes();
        self.latest = Some((index, content));
        self.advance();
    }

    /// Takes a block out, and the latest one to the others.
    fn take(&mut self, index: u64) -> Option<Content> {
        if let Some((at, content)) = self.latest.take() {
            if at == index {
                return Some(content);
            }
            self.others.insert(at, content);
        }
        self.others.remove(&index)
    }

    /// Lets go of full blocks at the low end.
    fn advance(&mut self) {
        loop {
            let first = self.full_below;
            let is_full = |(index, content): (&u64, &Content)| *index == first && matches!(content, Content::Full);
            let latest = self.latest.as_ref().map(|(index, content)| (index, content));
            if latest.is_some_and(is_full) {
                self.latest = None;
            } else if self.others.first_key_value().is_some_and(is_full) {
                self.others.pop_first();
            } else {
                return;
            }
            self.bytes -= Content::Full.bytes();
            self.full_below += 1;
        }
    }

    /// Which of a block's numbers it holds.
    pub(super) fn bits(&self, index: u64) -> Bits {
        if index < self.full_below {
            return FULL;
        }
        let content = match &self.latest {
            Some((at, content)) if *at == index => Some(content),
            _ => self.others.get(&index),
        };
        content.map_or([0; WORDS], Content::bits)
    }

    /// The lowest number in it; 0 where blocks are settled.
    pub(super) fn first(&self) -> Option<u64> {
        if self.full_below > 0 {
            return Some(0);
        }
        let latest = self.latest.as_ref().map(|(index, _)| *index);
        let block = self.others.keys().next().copied().into_iter().chain(latest).min()?;
        let bits = self.bits(block);
        let word = bits.iter().position(|word| *word != 0)?;
        Some(block * BLOCK + word as u64 * 64 + u64::from(bits[word].trailing_zeros()))
    }

    /// The first block from which on it has nothing.
    pub(super) fn end(&self) -> u64 {
        let last = self.others.keys().next_back().copied();
        let latest = self.latest.as_ref().map(|(index, _)| *index);
        let end = last.max(latest).map_or(0, |last| last + 1);
        end.max(self.full_below)
    }

    /// Takes all blocks below for whole from now on.
    pub(super) fn settle_below(&mut self, index: u64) {
        if index <= self.full_below {
            return;
        }
        self.full_below = index;
        self.latest.take_if(|(at, _)| *at < index);
        self.others = self.others.split_off(&index);
        let latest = self.latest.iter().map(|(_, content)| content);
        let contents = self.others.values().chain(latest);
        self.bytes = contents.map(Content::bytes).sum();
        self.advance();
    }

    /// Takes the older half of its blocks for whole; whether there were any.
    pub(super) fn settle_half(&mut self) -> bool {
        let blocks = self.end().saturating_sub(self.full_below);
        self.settle_below(self.full_below + blocks.div_ceil(2));
        blocks > 0
    }

    /// Forgets the numbers from `end` on; how many there were.
    pub(super) fn forget_from(&mut self, end: u64) -> u64 {
        let first = (end / BLOCK).max(self.full_below);
        let latest = self.latest.as_ref().map(|(index, _)| *index).filter(|index| *index >= first);
        let indices: Vec<u64> = self.others.range(first..).map(|(index, _)| *index).chain(latest).collect();
        let before = self.count;
        for index in indices {
            let Some(content) = self.take(index) else { continue };
            self.bytes -= content.bytes();
            let mut bits = content.bits();
            for (at, word) in bits.iter_mut().enumerate() {
                self.count -= u64::from(word.count_ones());
                *word &= below(end, index * BLOCK + at as u64 * 64);
            }
            if bits.iter().any(|word| *word != 0) {
                self.insert_block(index, &bits);
            }
        }
        before - self.count
    }

    /// Writes it, for [`Self::read`].
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let latest = self.latest.iter().map(|(index, content)| (index, content));
        let count = self.others.len() + usize::from(self.latest.is_some());
        [self.full_below, self.count, count as u64].into_iter().for_each(|number| put_number(out, number));
        for (index, content) in self.others.iter().chain(latest) {
            put_number(out, *index);
            content.write(out);
        }
    }

    /// Reads what [`Self::write`] wrote; `None` where it is none, or larger than a ledger's sets may be.
    pub(super) fn read(bytes: &mut &[u8]) -> Option<Self> {
        let [full_below, count, blocks] = take_numbers(bytes)?;
        let possible = 0..=MOST_MESSAGES / BLOCK;
        if !possible.contains(&full_below) {
            return None;
        }
        let mut ones = 0;
        let mut set = Self { full_below, count, ..Self::default() };
        for _ in 0..blocks {
            let index = take_number(bytes).filter(|index| possible.contains(index) && *index >= full_below)?;
            let content = Content::read(bytes)?;
            set.bytes += content.bytes();
            ones += content.bits().iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
            if set.bytes > MOST_BYTES || set.others.insert(index, content).is_some() {
                return None;
            }
        }
        set.advance();
        (ones..=full_below * BLOCK + ones).contains(&count).then_some(set)
    }
}
