//! Whole pages, and what stands in docs and in the page's programs.

mod bundle;
mod examples;
mod html;
mod redact;
