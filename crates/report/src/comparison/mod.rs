//! What runs of two sides say, in the forms in which it leaves the program.

pub(crate) mod words;
