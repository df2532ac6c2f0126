//! The modules of a crate and what each imports from the others, as far as paths tell.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree};

/// Path of a module in its crate: of `queue/credits.rs`, `["queue", "credits"]`; empty for the root.
pub type Module = Vec<String>;

/// The modules of one crate, without those of tests, and the paths that each names.
#[derive(Debug, Default)]
pub struct Imports {
    modules: BTreeMap<Module, Names>,
    tests: BTreeSet<Module>,
}

/// What one module names.
#[derive(Debug, Default)]
struct Names {
    /// Paths from the crate's root, as `crate::` and `super::` say them.
    paths: Vec<Module>,
    /// What each name that it imports or hands on stands for.
    uses: BTreeMap<String, Module>,
}

impl Imports {
    /// Adds a file: `path` is relative to the crate's `src`.
    pub fn add(&mut self, path: &str, file: &syn::File) {
        let module = module_of(path);
        let mut reader = Reader { module: module.clone(), names: Names::default(), tests: Vec::new() };
        reader.visit_file(file);
        self.tests.extend(reader.tests);
        self.modules.insert(module, reader.names);
    }

    /// Each pair of modules of which the first imports something that the second defines.
    #[must_use]
    pub fn edges(&self) -> BTreeSet<(Module, Module)> {
        let mut edges = BTreeSet::new();
        let modules = self.modules.iter().filter(|(module, _)| !self.is_test(module));
        for (module, names) in modules {
            let targets = names.paths.iter().map(|path| self.definition(path, 0));
            let targets = targets.filter(|target| target != module && !self.is_test(target));
            edges.extend(targets.map(|target| (module.clone(), target)));
        }
        edges
    }

    fn is_test(&self, module: &Module) -> bool {
        self.tests.iter().any(|test| module.starts_with(test))
    }

    /// The module that defines what `path` names. Names that a module hands on are followed.
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
            // Names that are handed on in a circle do not compile; eight hands are more than any has.
            return match used {
                Some(used) if depth < 8 => self.definition(used, depth + 1),
                Some(_) | None => at,
            };
        }
        at
    }
}

/// The module of a file: `queue.rs` and `queue/mod.rs` are `queue`, `lib.rs` and `main.rs` the root.
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
    /// A path as the crate's root sees it; none for other crates' paths.
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

    /// Paths within a macro's tokens, which are no syntax tree.
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
            // A module within the file is a part of the file.
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
        // Modules are judged where they are visited; the rest is never made for tests alone.
        _ => &[],
    }
}

/// Is the item compiled for tests only?
fn is_test(attribute: &Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    list.path.is_ident("cfg") && list.tokens.to_string() == "test"
}
