//! The page's TypeScript types are made from the view model, and `ui/src/core/view.ts` holds them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ts_rs::{Config, TS, TypeVisitor};

use super::{ComparisonView, LimitView, MatrixView, RunView};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ui/src/core/view.ts");
/// Set to write the file in place of comparing it.
const RENEW: &str = "BELLOWS_RENEW_VIEW";

const HEAD: &str = "\
// The types of the page's data, made from the Rust types in crates/report/src/view, which describe them.
// Renew with: make view
";

const WIDTH: usize = 120;

struct Declarations<'a> {
    config: &'a Config,
    found: BTreeMap<String, String>,
}

impl TypeVisitor for Declarations<'_> {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        // Numbers, lists and the like are TypeScript's own.
        if T::output_path().is_none() {
            return;
        }
        let name = T::ident(self.config);
        if self.found.contains_key(&name) {
            return;
        }
        let declared = wrapped(&without_comments(&format!("export {}", T::decl(self.config))));
        self.found.insert(name, declared + "\n");
        T::visit_dependencies(self);
        T::visit_generics(self);
    }
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/**");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once("*/").map_or(part, |(_, rest)| rest));
    first + &rest.collect::<String>()
}

fn wrapped(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut lines: Vec<String> = Vec::new();
    for part in words.join(" ").split_inclusive([',', '|']) {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + part.trim().len() <= WIDTH => {
                line.push(' ');
                line.push_str(part.trim());
            }
            Some(_) => lines.push(format!("  {}", part.trim())),
            None => lines.push(part.to_owned()),
        }
    }
    lines.join("\n")
}

fn declared() -> String {
    let config = Config::new().with_large_int("number");
    let mut all = Declarations { config: &config, found: BTreeMap::new() };
    all.visit::<RunView>();
    all.visit::<ComparisonView>();
    all.visit::<LimitView>();
    all.visit::<MatrixView>();
    format!("{HEAD}\n{}", all.found.into_values().collect::<String>())
}

#[test]
fn the_pages_types_are_the_view_models_own() {
    let wanted = declared();
    if std::env::var_os(RENEW).is_some() {
        fs::write(Path::new(FILE), &wanted).unwrap();
    }
    let found = fs::read_to_string(Path::new(FILE)).unwrap_or_default();
    assert!(found == wanted, "ui/src/core/view.ts is stale: run `make view` and commit it");
}
