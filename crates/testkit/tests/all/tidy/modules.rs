//! The modules of a crate use each other in one direction: among the children of a module there is no circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{File, Item, UseTree};

/// The path of a module below its crate; empty for the crate's root.
type ModulePath = Vec<String>;

/// A source file as a module.
pub(crate) struct Module {
    path: ModulePath,
    /// Full paths that its code names, as far as they begin in this crate.
    named: Vec<ModulePath>,
    /// Names that its `use` items introduce, with what they stand for.
    introduced: BTreeMap<String, ModulePath>,
}

impl Module {
    pub(crate) fn new(below_src: &Path, file: &File) -> Self {
        let path = module_path(below_src);
        let mut names = Names { path: path.clone(), named: Vec::new(), introduced: BTreeMap::new() };
        names.visit_file(file);
        Self { path, named: names.named, introduced: names.introduced }
    }
}

fn module_path(below_src: &Path) -> ModulePath {
    let mut path: Vec<String> =
        below_src.with_extension("").components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let is_folder = matches!(path.last().map(String::as_str), Some("mod"));
    let is_root = path.len() == 1 && matches!(path[0].as_str(), "lib" | "main");
    if is_folder || is_root {
        path.pop();
    }
    path
}

/// Collects what a file names.
struct Names {
    path: ModulePath,
    named: Vec<ModulePath>,
    introduced: BTreeMap<String, ModulePath>,
}

impl Names {
    /// The full path behind `crate::…`, `self::…` and `super::…`.
    fn absolute(&self, segments: &[String]) -> Option<ModulePath> {
        let mut base = match segments.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => self.path.clone(),
            _ => return None,
        };
        for segment in segments {
            match segment.as_str() {
                "crate" | "self" => {}
                "super" => {
                    base.pop();
                }
                name => base.push(name.to_owned()),
            }
        }
        Some(base)
    }

    fn walk(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.walk(&path.tree, &with(path.ident.to_string())),
            UseTree::Name(name) => self.introduce(&with(name.ident.to_string()), None),
            UseTree::Rename(rename) => {
                let known_as = rename.rename.to_string();
                self.introduce(&with(rename.ident.to_string()), Some(known_as));
            }
            UseTree::Glob(_) => self.introduce(before, Some("*".into())),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.walk(tree, before);
                }
            }
        }
    }

    fn introduce(&mut self, segments: &[String], known_as: Option<String>) {
        let is_itself = segments.last().is_some_and(|last| last == "self");
        let segments = &segments[..segments.len() - usize::from(is_itself && segments.len() > 1)];
        // A path without `crate`, `self` or `super` may begin with a child's name.
        let child = [&["self".to_owned()], segments].concat();
        let is_relative = self.absolute(segments).is_none();
        let Some(full) = self.absolute(if is_relative { &child } else { segments }) else { return };
        let name = known_as.or_else(|| full.last().cloned());
        self.introduced.extend(name.map(|name| (name, full.clone())));
        if !is_relative {
            self.named.push(full);
        }
    }
}

pub(crate) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let test = |list: &syn::MetaList| list.tokens.to_string() == "test";
        attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(test)
    })
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Use(it) if !is_for_tests(&it.attrs) => self.walk(&it.tree, &[]),
            Item::Mod(it) if it.content.is_some() && !is_for_tests(&it.attrs) => {
                self.path.push(it.ident.to_string());
                visit::visit_item(self, item);
                self.path.pop();
            }
            Item::Use(_) | Item::Mod(_) => {}
            Item::Fn(it) if is_for_tests(&it.attrs) => {}
            Item::Impl(it) if is_for_tests(&it.attrs) => {}
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if !matches!(item, syn::ImplItem::Fn(it) if is_for_tests(&it.attrs)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if segments.len() > 1 {
            let full = self.absolute(&segments);
            self.named.extend(full);
        }
        visit::visit_path(self, path);
    }
}

/// Circles among the children of every module of a crate, each as the names of the children in it.
pub(crate) fn circles(modules: &[Module]) -> Vec<String> {
    let by_path: BTreeMap<&ModulePath, &Module> = modules.iter().map(|m| (&m.path, m)).collect();
    let mut uses: BTreeMap<&[String], BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for module in modules {
        for named in &module.named {
            let Some(target) = resolve(&by_path, named, 0) else { continue };
            let shared = module.path.iter().zip(&target.path).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (module.path.get(shared), target.path.get(shared)) {
                uses.entry(&module.path[..shared]).or_default().entry(from).or_default().insert(to);
            }
        }
    }
    let mut circles = Vec::new();
    for (parent, uses) in &uses {
        let mut seen = BTreeSet::new();
        for child in uses.keys() {
            let circle: BTreeSet<&str> =
                reached(uses, child).into_iter().filter(|other| reached(uses, other).contains(child)).collect();
            if circle.len() > 1 && seen.insert(circle.clone()) {
                let circle: Vec<&str> = circle.into_iter().collect();
                circles.push(format!("{}: {}", parent.join("::"), circle.join(", ")));
            }
        }
    }
    circles
}

/// The module in which a path ends, through what parents re-export.
fn resolve<'a>(by_path: &BTreeMap<&ModulePath, &'a Module>, named: &ModulePath, depth: usize) -> Option<&'a Module> {
    let length = (0..=named.len()).rev().find(|length| by_path.contains_key(&named[..*length].to_vec()))?;
    let module = by_path[&named[..length].to_vec()];
    let behind = named.get(length).and_then(|name| module.introduced.get(name));
    match behind {
        Some(full) if depth < 8 && full != named => resolve(by_path, full, depth + 1),
        _ => Some(module),
    }
}

fn reached<'a>(uses: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = uses.get(from).into_iter().flatten().copied().collect();
    while let Some(child) = next.pop() {
        if reached.insert(child) {
            next.extend(uses.get(child).into_iter().flatten());
        }
    }
    reached
}
