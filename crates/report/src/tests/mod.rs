//! Whole pages, and statements of docs and of the page's programs.

mod bundle;
mod examples;
mod html;
mod redact;
