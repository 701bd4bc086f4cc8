//! Processes that are sampled, and what readers make of the corpus of fuzzing.

mod corpus;
mod kernel_programs;
mod sampling;
