//! Analysis of one Rust file: its modules, with the items they define, the names they bind by `use`, and
//! the paths they contain. Tests, and models of lock-free code for loom, are skipped.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

/// Path in the source.
#[derive(Clone, Debug)]
pub struct Use {
    /// Words of the path; the last is `*` for a glob.
    pub path: Vec<String>,
    /// Line of the path in its file.
    pub line: usize,
    /// True if the import is also a re-export.
    pub exported: bool,
}

/// Module, which is a file or a part of one.
#[derive(Debug, Default)]
pub struct Module {
    /// File that contains the module.
    pub file: String,
    /// Names of the items it defines.
    pub items: BTreeSet<String>,
    /// Names of the public types among them.
    pub types: Vec<String>,
    /// Imports by the bound name; `*` for globs.
    pub uses: BTreeMap<String, Vec<Use>>,
    /// Paths in its code.
    pub paths: Vec<Use>,
}

/// Walk through one file.
pub struct Scan {
    file: String,
    at: Vec<String>,
    /// Modules of the file, by path.
    pub modules: BTreeMap<Vec<String>, Module>,
    /// Modules with tests, which may be files of their own.
    pub tests: BTreeSet<Vec<String>>,
}

impl Scan {
    /// Prepares the walk through `file`, which is the module `at`.
    pub fn new(file: &str, at: Vec<String>) -> Scan {
        let module = Module { file: file.to_string(), ..Module::default() };
        let modules = BTreeMap::from([(at.clone(), module)]);
        Scan { file: file.to_string(), at, modules, tests: BTreeSet::new() }
    }

    fn module(&mut self) -> &mut Module {
        self.modules.get_mut(&self.at).expect("every module is entered when the walk comes to it")
    }

    fn bind(&mut self, tree: &UseTree, before: &[String], exported: bool) {
        let line = tree.span().start().line;
        let with = |word: String| before.iter().cloned().chain([word]).collect::<Vec<_>>();
        let (name, path) = match tree {
            UseTree::Path(path) => return self.bind(&path.tree, &with(path.ident.to_string()), exported),
            UseTree::Group(group) => {
                group.items.iter().for_each(|inner| self.bind(inner, before, exported));
                return;
            }
            UseTree::Glob(_) => ("*".to_string(), with("*".to_string())),
            UseTree::Name(name) if name.ident == "self" => {
                (before.last().cloned().unwrap_or_default(), before.to_vec())
            }
            UseTree::Name(name) => (name.ident.to_string(), with(name.ident.to_string())),
            UseTree::Rename(rename) if rename.ident == "self" => (rename.rename.to_string(), before.to_vec()),
            UseTree::Rename(rename) => (rename.rename.to_string(), with(rename.ident.to_string())),
        };
        self.module().uses.entry(name).or_default().push(Use { path, line, exported });
    }

    /// Collects paths in the arguments of a macro, as far as they can be recognised without expanding it.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut line, mut colons) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.named(std::mem::take(&mut path), line);
                        line = ident.span().start().line;
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Group(group) => {
                    self.named(std::mem::take(&mut path), line);
                    self.tokens(group.stream());
                    colons = 0;
                }
                _ => {
                    self.named(std::mem::take(&mut path), line);
                    colons = 0;
                }
            }
        }
        self.named(path, line);
    }

    fn named(&mut self, path: Vec<String>, line: usize) {
        if !path.is_empty() {
            self.module().paths.push(Use { path, line, exported: false });
        }
    }
}

impl<'ast> Visit<'ast> for Scan {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name, public) = facts(item);
        if attributes.iter().any(is_for_tests) {
            if let Item::Mod(module) = item {
                self.tests.insert(self.at.iter().cloned().chain([module.ident.to_string()]).collect());
            }
            return;
        }
        if let Some(name) = name {
            self.module().items.insert(name.clone());
            if public {
                self.module().types.push(name);
            }
        }
        if let Item::Use(item) = item {
            let exported = !matches!(item.vis, Visibility::Inherited);
            return self.bind(&item.tree, &[], exported);
        }
        let Item::Mod(module) = item else { return visit::visit_item(self, item) };
        if let Some((_, items)) = &module.content {
            self.at.push(module.ident.to_string());
            let inner = Module { file: self.file.clone(), ..Module::default() };
            self.modules.insert(self.at.clone(), inner);
            items.iter().for_each(|item| self.visit_item(item));
            self.at.pop();
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !function.attrs.iter().any(is_for_tests) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.named(words, path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.visit_path(&called.path);
        self.tokens(called.tokens.clone());
    }

    /// Skips visibilities: a path in a restricted one is no use.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

/// Returns an item's attributes, its name, and true if it is a type that is visible outside.
fn facts(item: &Item) -> (&[Attribute], Option<String>, bool) {
    let seen = |visibility: &Visibility| match visibility {
        Visibility::Public(_) => true,
        Visibility::Restricted(to) => to.path.is_ident("crate"),
        Visibility::Inherited => false,
    };
    match item {
        Item::Struct(item) => (&item.attrs, Some(item.ident.to_string()), seen(&item.vis)),
        Item::Enum(item) => (&item.attrs, Some(item.ident.to_string()), seen(&item.vis)),
        Item::Union(item) => (&item.attrs, Some(item.ident.to_string()), seen(&item.vis)),
        Item::Trait(item) => (&item.attrs, Some(item.ident.to_string()), seen(&item.vis)),
        Item::Type(item) => (&item.attrs, Some(item.ident.to_string()), seen(&item.vis)),
        Item::Fn(item) => (&item.attrs, Some(item.sig.ident.to_string()), false),
        Item::Const(item) => (&item.attrs, Some(item.ident.to_string()), false),
        Item::Static(item) => (&item.attrs, Some(item.ident.to_string()), false),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref().map(ToString::to_string), false),
        Item::Mod(item) => (&item.attrs, None, false),
        Item::Use(item) => (&item.attrs, None, false),
        Item::Impl(item) => (&item.attrs, None, false),
        _ => (&[], None, false),
    }
}

/// Returns true for `#[test]`, `#[cfg(test)]`, `#[cfg(loom)]` and combinations of them.
fn is_for_tests(attribute: &Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else { return false };
    attribute.path().is_ident("cfg") && asks_for_tests(list.tokens.clone())
}

/// Returns true if a condition names `test` or `loom` outside of `not(...)`.
fn asks_for_tests(tokens: TokenStream) -> bool {
    let mut negated = false;
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => {
            negated = ident == "not";
            ident == "test" || ident == "loom"
        }
        TokenTree::Group(group) => !negated && asks_for_tests(group.stream()),
        _ => false,
    })
}
