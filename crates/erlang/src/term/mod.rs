//! Erlang terms: made, read, checked and shown. The types are those of `erl_dist`.

mod build;
mod check;
mod read;
mod show;

pub use build::{atom, charlist, int, list, map, text, tuple};
pub(crate) use check::{MOST_MEMORY, malformed};
pub use check::{TermError, TermSize, check, decode, encode};
pub use erl_dist::term::{
    Atom, BigInteger, Binary, FixInteger, Float, List, Map, Pid, Reference, Term, Tuple,
};
pub use read::{as_atom, as_bytes, as_float, as_int, as_list, as_text, as_tuple, get};
pub use show::show;
