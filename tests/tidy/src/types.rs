//! Finds type names that one crate defines twice: a search for such a name also finds the wrong type.

use std::collections::BTreeMap;

use syn::Item;
use syn::visit::{self, Visit};

/// Finds names that several types of one crate share, among types that more than one module can use (`pub`,
/// `pub(crate)`, `pub(super)`); each as `(name, paths)`. `files` are paths with their parsed content.
#[must_use]
pub fn duplicate_types<'a>(files: impl IntoIterator<Item = (&'a str, &'a syn::File)>) -> Vec<(String, Vec<String>)> {
    let mut definitions = BTreeMap::<String, Vec<String>>::new();
    for (path, file) in files {
        let mut types = Types::default();
        types.visit_file(file);
        for name in types.0 {
            definitions.entry(name).or_default().push(path.to_owned());
        }
    }
    definitions.retain(|_, paths| paths.len() > 1);
    definitions.into_iter().collect()
}

#[derive(Default)]
struct Types(Vec<String>);

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast Item) {
        let (visibility, name) = match item {
            Item::Struct(item) => (&item.vis, &item.ident),
            Item::Enum(item) => (&item.vis, &item.ident),
            Item::Union(item) => (&item.vis, &item.ident),
            Item::Trait(item) => (&item.vis, &item.ident),
            Item::Type(item) => (&item.vis, &item.ident),
            other => return visit::visit_item(self, other),
        };
        if is_shared(visibility) {
            self.0.push(name.to_string());
        }
    }
}

fn is_shared(visibility: &syn::Visibility) -> bool {
    match visibility {
        syn::Visibility::Public(_) | syn::Visibility::Restricted(_) => true,
        syn::Visibility::Inherited => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_types_of_one_name_count() {
        let first = syn::parse_str("pub struct State; struct Own; pub(super) enum Once {}").unwrap();
        let second = syn::parse_str("mod inner { pub(crate) enum State {} } struct Own;").unwrap();
        let found = duplicate_types([("a.rs", &first), ("b.rs", &second)]);
        let state = ("State".to_owned(), vec!["a.rs".to_owned(), "b.rs".to_owned()]);
        assert_eq!(found, [state]);
    }
}
