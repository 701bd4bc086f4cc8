//! Whole pages, and statements of docs and of the page's programs.

mod bundle;
mod examples;
pub(crate) mod fixtures;
mod html;
mod redact;
