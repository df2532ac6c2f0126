//! The modules of a crate and what each imports from the others, as far as paths show it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree};

/// Path of a module in its crate: `["queue", "credits"]` for `queue/credits.rs`, and empty for the root.
pub type Module = Vec<String>;

/// Modules of one crate, except test modules, and the paths that each of them names.
#[derive(Debug, Default)]
pub struct Imports {
    modules: BTreeMap<Module, Names>,
    tests: BTreeSet<Module>,
}

/// The names in one module.
#[derive(Debug, Default)]
struct Names {
    /// Paths from the crate's root, resolved from `crate::` and `super::`.
    paths: Vec<Module>,
    /// The path behind each name that the module imports or re-exports.
    uses: BTreeMap<String, Module>,
}

impl Imports {
    /// Adds a file; `path` is relative to the crate's `src`.
    pub fn add(&mut self, path: &str, file: &syn::File) {
        let module = module_of(path);
        let mut reader = Reader { module: module.clone(), names: Names::default(), tests: Vec::new() };
        reader.visit_file(file);
        self.tests.extend(reader.tests);
        self.modules.insert(module, reader.names);
    }

    /// Returns each pair of modules of which the first imports something that the second defines.
    #[must_use]
    pub fn edges(&self) -> BTreeSet<(Module, Module)> {
        let mut edges = BTreeSet::new();
        let modules = self.modules.iter().filter(|(module, _)| !self.is_test(module));
        for (module, names) in modules {
            let targets = names
                .paths
                .iter()
                .map(|path| self.definition(path, 0))
                .filter(|target| target != module && !self.is_test(target));
            edges.extend(targets.map(|target| (module.clone(), target)));
        }
        edges
    }

    fn is_test(&self, module: &Module) -> bool {
        self.tests.iter().any(|test| module.starts_with(test))
    }

    /// Returns the module that defines the item at `path`, following re-exports.
    fn definition(&self, path: &[String], depth: usize) -> Module {
        let mut at = Module::new();
        for name in path {
            let mut child = at.clone();
            child.push(name.clone());
            if self.modules.contains_key(&child) {
                at = child;
                continue;
            }
            let used = self.modules.get(&at).and_then(|names| names.uses.get(name));
            // Circular re-exports do not compile, and no name is re-exported more than eight times.
            return match used {
                Some(used) if depth < 8 => self.definition(used, depth + 1),
                Some(_) | None => at,
            };
        }
        at
    }
}

/// Returns the module of a file: `queue.rs` and `queue/mod.rs` are `queue`, `lib.rs` and `main.rs` the root.
fn module_of(path: &str) -> Module {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut module = path.split('/').map(str::to_owned).collect::<Module>();
    let root = module.len() == 1 && matches!(module[0].as_str(), "lib" | "main");
    if root || module.last().is_some_and(|name| name == "mod") {
        module.pop();
    }
    module
}

struct Reader {
    module: Module,
    names: Names,
    tests: Vec<Module>,
}

impl Reader {
    /// Returns a path as seen from the crate's root; `None` for paths into other crates.
    fn absolute(&self, segments: &[String]) -> Option<Module> {
        let mut path = self.module.clone();
        let mut rest = segments;
        match segments.first()?.as_str() {
            "crate" => {
                path.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {}
            _ => return None,
        }
        while rest.first().is_some_and(|name| name == "super") {
            path.pop()?;
            rest = &rest[1..];
        }
        path.extend_from_slice(rest);
        Some(path)
    }

    fn use_tree(&mut self, tree: &UseTree, prefix: &[String]) {
        let with = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.use_tree(&path.tree, &with(&path.ident)),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(tree, prefix);
                }
            }
            UseTree::Name(name) if name.ident == "self" => {
                let last = prefix.last().cloned().unwrap_or_default();
                self.import(prefix, last);
            }
            UseTree::Name(name) => self.import(&with(&name.ident), name.ident.to_string()),
            UseTree::Rename(rename) => self.import(&with(&rename.ident), rename.rename.to_string()),
            UseTree::Glob(_) => self.import(prefix, "*".to_owned()),
        }
    }

    fn import(&mut self, segments: &[String], name: String) {
        // `use inner::Thing` names a child of this module.
        let child = [self.module.as_slice(), segments].concat();
        let path = self.absolute(segments).unwrap_or(child);
        self.names.uses.insert(name, path.clone());
        self.names.paths.push(path);
    }

    /// Collects paths in the tokens of a macro, which have no syntax tree.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::<String>::new();
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => path.push(ident.to_string()),
                TokenTree::Punct(punct) if punct.as_char() == ':' => {}
                other => {
                    self.path(&std::mem::take(&mut path));
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.path(&path);
    }

    fn path(&mut self, segments: &[String]) {
        if segments.len() > 1 {
            self.names.paths.extend(self.absolute(segments));
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if !attributes(item).iter().any(is_test) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let mut module = self.module.clone();
        module.push(item.ident.to_string());
        if item.attrs.iter().any(is_test) {
            self.tests.push(module);
        } else if item.content.is_some() {
            // A module within a file counts as a part of the file.
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.use_tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|segment| segment.ident.to_string());
        self.path(&segments.collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Use(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        // Modules are checked in `visit_item_mod`; other items are never compiled for tests only.
        _ => &[],
    }
}

/// Returns true if the attribute is `#[cfg(test)]`.
fn is_test(attribute: &Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    list.path.is_ident("cfg") && list.tokens.to_string() == "test"
}
