//! Declarations that only tests use: to the compiler a use in a test is a use.

use std::collections::HashMap;

use proc_macro2::TokenStream;
use syn::visit::{self, Visit};
use syn::{Attribute, File, Ident, Item, Visibility};

use super::modules::is_for_tests;

/// Words of product code.
#[derive(Default)]
pub(crate) struct Uses {
    /// How often each stands there, imports and comments excepted.
    counts: HashMap<String, usize>,
    /// Files and names of declarations that are not private.
    declared: Vec<(String, String)>,
    file: String,
}

impl Uses {
    pub(crate) fn add(&mut self, name: String, file: &File) {
        self.file = name;
        self.visit_file(file);
    }

    /// Declarations whose name stands nowhere else.
    pub(crate) fn unused(&self) -> Vec<String> {
        let unused = self.declared.iter().filter(|(_, name)| self.counts.get(name) == Some(&1));
        unused.map(|(file, name)| format!("{file}: {name}")).collect()
    }

    fn declare(&mut self, visibility: &Visibility, name: &Ident) {
        if !matches!(visibility, Visibility::Inherited) {
            self.declared.push((self.file.clone(), name.to_string()));
        }
    }

    fn count(&mut self, text: &str) {
        let words = text.split(|it: char| it != '_' && !it.is_alphanumeric());
        for word in words {
            *self.counts.entry(word.to_owned()).or_default() += 1;
        }
    }
}

type Declared<'a> = Option<(&'a Visibility, &'a Ident)>;

/// Attributes of an item, and what it declares; `None` for imports and other items.
fn declaration(item: &Item) -> Option<(&[Attribute], Declared<'_>)> {
    let (attributes, declared): (&[Attribute], Declared<'_>) = match item {
        Item::Impl(it) => (&it.attrs, None),
        Item::Mod(it) => (&it.attrs, None),
        Item::Macro(it) => (&it.attrs, None),
        Item::Const(it) => (&it.attrs, Some((&it.vis, &it.ident))),
        Item::Enum(it) => (&it.attrs, Some((&it.vis, &it.ident))),
        Item::Fn(it) => (&it.attrs, Some((&it.vis, &it.sig.ident))),
        Item::Static(it) => (&it.attrs, Some((&it.vis, &it.ident))),
        Item::Struct(it) => (&it.attrs, Some((&it.vis, &it.ident))),
        Item::Trait(it) => (&it.attrs, Some((&it.vis, &it.ident))),
        Item::Type(it) => (&it.attrs, Some((&it.vis, &it.ident))),
        _ => return None,
    };
    Some((attributes, declared))
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item(&mut self, item: &'ast Item) {
        let Some((attributes, declared)) = declaration(item) else { return };
        if is_for_tests(attributes) {
            return;
        }
        if let Some((visibility, name)) = declared {
            self.declare(visibility, name);
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            self.declare(&function.vis, &function.sig.ident);
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_ident(&mut self, name: &'ast Ident) {
        self.count(&name.to_string());
    }

    fn visit_token_stream(&mut self, tokens: &'ast TokenStream) {
        self.count(&tokens.to_string());
    }
}
