//! All tests of `report` that use it from outside, as one program.

mod bundle;
mod examples;
mod html;
mod redact;
