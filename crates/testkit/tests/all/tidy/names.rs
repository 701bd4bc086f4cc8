//! Names, sentences and sizes: one type for one name, no doc comment without a subject, no tuple that hides parameters,
//! how long functions and how large types are.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{File, FnArg, Item, Type, Visibility};

/// Declarations of a file that have a rule.
#[derive(Default)]
pub(crate) struct Declared {
    /// Types that others may name.
    pub(crate) types: Vec<String>,
    /// Lines with a parameter that is a tuple taken apart at once.
    pub(crate) tuples: Vec<usize>,
    /// Functions, and lines from the name to the last brace.
    pub(crate) functions: Vec<(String, usize)>,
    /// Structs, and how many fields each has.
    pub(crate) fields: Vec<(String, usize)>,
    /// Types that have methods here, traits' excepted.
    pub(crate) with_methods: BTreeSet<String>,
}

impl Declared {
    pub(crate) fn by(file: &File) -> Self {
        let mut declared = Self::default();
        declared.visit_file(file);
        declared
    }

    fn function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let (first, last) = (signature.fn_token.span.start().line, body.brace_token.span.close().end().line);
        self.functions.push((signature.ident.to_string(), last + 1 - first));
    }

    fn declare(&mut self, visibility: &Visibility, name: &syn::Ident) {
        if !matches!(visibility, Visibility::Inherited) {
            self.types.push(name.to_string());
        }
    }
}

impl<'ast> Visit<'ast> for Declared {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Mod(it) if it.ident == "tests" => return,
            Item::Struct(it) => {
                self.declare(&it.vis, &it.ident);
                self.fields.push((it.ident.to_string(), it.fields.len()));
            }
            Item::Impl(it) if it.trait_.is_none() => {
                if let Type::Path(of) = &*it.self_ty
                    && let Some(last) = of.path.segments.last()
                {
                    self.with_methods.insert(last.ident.to_string());
                }
            }
            Item::Enum(it) => self.declare(&it.vis, &it.ident),
            Item::Trait(it) => self.declare(&it.vis, &it.ident),
            Item::Type(it) => self.declare(&it.vis, &it.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        for input in &signature.inputs {
            if let FnArg::Typed(argument) = input
                && let Type::Tuple(tuple) = &*argument.ty
                && tuple.elems.len() > 1
                && let syn::Pat::Tuple(_) = &*argument.pat
            {
                self.tuples.push(tuple.paren_token.span.open().start().line);
            }
        }
        visit::visit_signature(self, signature);
    }
}

/// Doc comments of one word, or that begin with no subject, with the line that each begins in.
pub(crate) fn riddles(text: &str) -> Vec<(usize, String)> {
    let mut riddles = Vec::new();
    let mut comment: Option<(usize, Vec<&str>)> = None;
    for (number, line) in text.lines().chain([""]).enumerate() {
        let line = line.trim_start();
        let words = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        if let Some(words) = words {
            let (_, all) = comment.get_or_insert((number + 1, Vec::new()));
            all.extend(words.split_whitespace());
        } else if let Some((first, words)) = comment.take() {
            match words[..] {
                [word] | [word @ "What", ..] => riddles.push((first, word.to_owned())),
                ["The", "same", ..] => riddles.push((first, "The same".to_owned())),
                _ => {}
            }
        }
    }
    riddles
}

/// Names of types that stand in more than one file, with these files.
pub(crate) fn doubles<'a>(files: impl Iterator<Item = (&'a str, &'a Declared)>) -> Vec<String> {
    let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, declared) in files {
        for name in &declared.types {
            by_name.entry(name).or_default().push(file);
        }
    }
    let doubled = by_name.into_iter().filter(|(_, files)| files.len() > 1);
    doubled.map(|(name, files)| format!("{name}: {}", files.join(", "))).collect()
}
