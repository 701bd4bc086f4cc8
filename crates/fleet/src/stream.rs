//! Numbered messages of one direction.
