//! What one event loop notes down, without an allocation, a lock or a look at anybody else.

use super::{PIECE, PIECE_WORDS, fill};

/// Pieces that a parcel has room for: what is due, and what one batch can bring in the worst case.
const PARCEL_PIECES: usize = DUE_PIECES + 4_096;
/// Pieces that are worth sending.
const DUE_PIECES: usize = 512;
/// So many pieces are sent however little room they take, so that the ledger knows of all loops what
/// is about equally old.
const DUE_CLOSED: usize = 1_024;
/// Where nobody takes the parcels for long, one grows to this many pieces (8 MiB) and no further.
const MOST_PIECES: usize = 1 << 17;

/// Open pieces in all, where there are few tracks: 64 KiB.
const OPEN: usize = 1_024;
/// Open pieces of a track: two, so that a little disorder at their edge closes nothing, and no more
/// than help against the disorder of many consumers.
const OPEN_OF_TRACK: (usize, usize) = (2, 64);
/// Whole pieces in a range that are not worth to be opened.
const LONG_RANGE: u64 = 64;
/// Open pieces for what is odd, all tracks together. A power of two.
const OPEN_ODD: usize = 256;

/// What may be noted of a message beside the usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Odd {
    /// A delivery without the redelivered flag, to a consumer that had had a newer one without it.
    Late,
    /// A delivery with the redelivered flag.
    Redelivered,
    /// The broker gave it back, as it had no queue for it.
    Returned,
}

/// Some messages of a track.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// The sequence of its first bit is this times [`PIECE`].
    pub(super) index: u64,
    /// Notes taken, repetitions included.
    pub(super) count: u64,
    pub(super) track: u32,
    /// So many pieces with the same bits one after the other; more than one only if all are set.
    pub(super) run: u32,
    /// `None`: confirmed, or delivered in order.
    pub(super) odd: Option<Odd>,
    pub(super) bits: [u64; PIECE_WORDS],
}

const NEVER: u64 = u64::MAX;
const FULL: [u64; PIECE_WORDS] = [u64::MAX; PIECE_WORDS];

impl Piece {
    const fn empty(track: u32, odd: Option<Odd>, index: u64) -> Self {
        Self {
            index,
            count: 0,
            track,
            run: 1,
            odd,
            bits: [0; PIECE_WORDS],
        }
    }

    #[inline]
    fn set(&mut self, sequence: u64) {
        let within = sequence % PIECE;
        self.count += 1;
        self.bits[(within / 64) as usize] |= 1 << (within % 64);
    }
}

/// Pieces on their way to the ledger.
#[derive(Debug)]
pub struct Parcel {
    pub(super) pieces: Vec<Piece>,
    /// Pieces that were closed for it; more than it holds, where they were full.
    closed: usize,
    /// Notes for which there was no room.
    pub(super) dropped: u64,
}

impl Default for Parcel {
    fn default() -> Self {
        Self {
            pieces: Vec::with_capacity(PARCEL_PIECES),
            closed: 0,
            dropped: 0,
        }
    }
}

impl Parcel {
    /// Empties it for reuse.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.pieces.shrink_to(PARCEL_PIECES);
        self.closed = 0;
        self.dropped = 0;
    }

    /// How many pieces it holds.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds a piece. `run` is where the track's last full piece stands, which the next one extends.
    fn push(&mut self, piece: &Piece, run: Option<&mut u32>, most: usize) {
        self.closed += 1;
        if let Some(at) = run.filter(|_| piece.bits == FULL) {
            if let Some(last) = self.pieces.get_mut(*at as usize)
                && (last.track, last.odd, last.bits) == (piece.track, None, FULL)
                && last.index + u64::from(last.run) == piece.index
                && last.run < u32::MAX
            {
                last.run += 1;
                last.count += piece.count;
                return;
            }
            *at = u32::try_from(self.pieces.len()).unwrap_or(u32::MAX);
        }
        if self.pieces.len() < most {
            self.pieces.push(piece.clone());
        } else {
            self.dropped += piece.count;
        }
    }
}

/// The notes of one event loop.
#[derive(Debug)]
pub struct Notes {
    /// Names of the tracks.
    names: Vec<u32>,
    /// By track: where the parcel has its last full piece.
    runs: Vec<u32>,
    /// By track `1 << open_bits` pieces; a piece's index says which of them is its.
    open: Vec<Piece>,
    open_bits: u32,
    /// What is odd; track, kind and index say where.
    odd: Vec<Piece>,
    parcel: Parcel,
}

impl Notes {
    /// Notes on these tracks, by the names that the [`super::Ledger`] knows them by; they are
    /// numbered in this order.
    #[must_use]
    pub fn new(tracks: &[u32]) -> Self {
        let (least, most) = OPEN_OF_TRACK;
        let of_track = (OPEN / tracks.len().max(1)).clamp(least, most);
        let open_bits = of_track.ilog2();
        let empty = |name: &u32| {
            let piece = Piece::empty(*name, None, NEVER);
            std::iter::repeat_n(piece, 1 << open_bits)
        };
        Self {
            names: tracks.to_vec(),
            runs: vec![0; tracks.len()],
            open: tracks.iter().flat_map(empty).collect(),
            open_bits,
            odd: vec![Piece::empty(0, None, NEVER); OPEN_ODD],
            parcel: Parcel::default(),
        }
    }

    /// Notes that a message of a track was confirmed, or was delivered in order and without the
    /// redelivered flag. Tracks that do not exist are left alone.
    #[inline]
    pub fn note(&mut self, track: usize, sequence: u64) {
        if let Some(piece) = self.piece(track, sequence / PIECE) {
            piece.set(sequence);
        }
    }

    /// The piece of this index, opened if need be.
    #[inline]
    fn piece(&mut self, track: usize, index: u64) -> Option<&mut Piece> {
        let within = index as usize & ((1 << self.open_bits) - 1);
        let at = (track << self.open_bits) + within;
        if self.open.get(at)?.index != index {
            self.turn(track, at, index);
        }
        self.open.get_mut(at)
    }

    /// Closes the piece that stands where another one belongs.
    #[cold]
    fn turn(&mut self, track: usize, at: usize, index: u64) {
        if let Some(piece) = self.open.get_mut(at) {
            if piece.count > 0 {
                self.parcel
                    .push(piece, self.runs.get_mut(track), MOST_PIECES);
            }
            *piece = Piece::empty(piece.track, None, index);
        }
    }

    /// Notes the same as [`Self::note`] of `count` messages from `first` on.
    #[inline]
    pub fn note_range(&mut self, track: usize, first: u64, count: u64) {
        let (mut at, end) = (first, first.saturating_add(count));
        while at < end {
            let whole = (end - at) / PIECE;
            if whole >= LONG_RANGE && at % PIECE == 0 {
                at += self.note_whole(track, at / PIECE, whole);
                continue;
            }
            let Some(piece) = self.piece(track, at / PIECE) else {
                return;
            };
            let from = at % PIECE;
            let n = (PIECE - from).min(end - at);
            piece.count += n;
            fill(&mut piece.bits, from as usize, (from + n) as usize);
            at += n;
        }
    }

    /// Notes some of so many whole pieces, and tells how many messages those have.
    fn note_whole(&mut self, track: usize, index: u64, pieces: u64) -> u64 {
        let run = u32::try_from(pieces).unwrap_or(u32::MAX);
        let messages = u64::from(run) * PIECE;
        if let Some(name) = self.names.get(track) {
            let piece = Piece {
                count: messages,
                run,
                bits: FULL,
                ..Piece::empty(*name, None, index)
            };
            self.parcel.push(&piece, None, MOST_PIECES);
        }
        messages
    }

    /// Notes something else of a message of a track: of deliveries that they were late or
    /// redelivered, of what a producer sent that it was returned.
    pub fn note_odd(&mut self, track: usize, odd: Odd, sequence: u64) {
        let Some(name) = self.names.get(track).copied() else {
            return;
        };
        let index = sequence / PIECE;
        let key = index ^ u64::from(name) << 32 ^ (odd as u64) << 62;
        // Fibonacci hashing: the high bits of the product depend on all of the key.
        let at = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % OPEN_ODD;
        let Some(piece) = self.odd.get_mut(at) else {
            return;
        };
        if (piece.index, piece.track, piece.odd) != (index, name, Some(odd)) {
            if piece.count > 0 {
                self.parcel.push(piece, None, MOST_PIECES);
            }
            *piece = Piece::empty(name, Some(odd), index);
        }
        piece.set(sequence);
    }

    /// Whether the parcel should go soon.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.parcel.pieces.len() >= DUE_PIECES || self.parcel.closed >= DUE_CLOSED
    }

    /// Takes the parcel for an empty one.
    pub const fn exchange(&mut self, empty: Parcel) -> Parcel {
        std::mem::replace(&mut self.parcel, empty)
    }

    /// Closes all pieces, for the last parcel, which has room for them all.
    pub fn close(&mut self) {
        let most = usize::MAX;
        for (at, piece) in self.open.iter_mut().enumerate() {
            if piece.count > 0 {
                let run = self.runs.get_mut(at >> self.open_bits);
                self.parcel.push(piece, run, most);
            }
            *piece = Piece::empty(piece.track, None, NEVER);
        }
        for piece in &mut self.odd {
            if piece.count > 0 {
                self.parcel.push(piece, None, most);
            }
            *piece = Piece::empty(0, None, NEVER);
        }
    }
}
