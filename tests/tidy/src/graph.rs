//! Finds circles of imports: modules of one folder that import each other, directly or through others.
//!
//! Modules are compared level by level: a file and the folder of the same name count as one module, with all imports
//! into and out of them. A file and its own folder may import each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::Module;

/// Finds the circles among sibling modules. Each circle is the set of modules that reach each other.
#[must_use]
pub fn circles(edges: &BTreeSet<(Module, Module)>) -> Vec<BTreeSet<Module>> {
    let mut arrows = BTreeMap::<Module, BTreeSet<Module>>::new();
    for (from, to) in edges.iter().filter_map(|(from, to)| between_neighbours(from, to)) {
        arrows.entry(from).or_default().insert(to);
    }
    let mut found = BTreeSet::new();
    for module in arrows.keys() {
        let ahead = reachable(&arrows, module);
        let circle =
            ahead.iter().filter(|other| reachable(&arrows, other).contains(module)).cloned().collect::<BTreeSet<_>>();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// Returns the two sibling modules that an import connects, at the level where their paths part; `None` for a module
/// and its own folder.
fn between_neighbours(from: &Module, to: &Module) -> Option<(Module, Module)> {
    let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let parted = common < from.len() && common < to.len();
    parted.then(|| (from[..=common].to_vec(), to[..=common].to_vec()))
}

fn reachable(arrows: &BTreeMap<Module, BTreeSet<Module>>, start: &Module) -> BTreeSet<Module> {
    let mut found = BTreeSet::new();
    let mut next = vec![start];
    while let Some(module) = next.pop() {
        for other in arrows.get(module).into_iter().flatten() {
            if found.insert(other.clone()) {
                next.push(other);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::imports::Imports;

    use super::*;

    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let mut imports = Imports::default();
        for (path, text) in files {
            imports.add(path, &syn::parse_str(text).unwrap());
        }
        let circles = circles(&imports.edges());
        let names = |circle: &BTreeSet<Module>| circle.iter().map(|module| module.join("/")).collect();
        circles.iter().map(names).collect()
    }

    #[test]
    fn folders_that_import_each_other_are_a_circle() {
        let found = circles_of(&[
            ("lib.rs", "mod queue; mod server;"),
            ("queue.rs", "mod credits;"),
            ("queue/credits.rs", "use crate::server::Listener;"),
            ("server.rs", "fn serve() { crate::queue::enter(); }"),
        ]);
        assert_eq!(found, [["queue", "server"]]);
    }

    #[test]
    fn a_file_and_its_own_folder_may_import_each_other() {
        let found =
            circles_of(&[("queue.rs", "mod credits; use credits::Credit;"), ("queue/credits.rs", "use super::Queue;")]);
        assert!(found.is_empty());
    }

    #[test]
    fn reexported_names_lead_to_their_definition() {
        let found = circles_of(&[
            ("queue.rs", "mod a; mod b; pub use a::A;"),
            ("queue/a.rs", "use super::b::B;"),
            ("queue/b.rs", "use super::A;"),
        ]);
        assert_eq!(found, [["queue/a", "queue/b"]]);
    }

    #[test]
    fn paths_in_macros_count_and_tests_do_not() {
        let a = ("a.rs", "fn f() { format!(\"{}\", crate::b::name()); }");
        let test = ("b.rs", "#[cfg(test)] mod tests { use crate::a::f; }");
        assert!(circles_of(&[a, test]).is_empty());
        assert_eq!(circles_of(&[a, ("b.rs", "use crate::a::f;")]), [["a", "b"]]);
    }
}
