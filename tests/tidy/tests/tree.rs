//! Holds the workspace to the rules. `TIDY=gateway cargo test -p weir-tidy` looks below one folder only,
//! `TIDY_ROOT` names another workspace.

use std::collections::BTreeSet;
use std::env::var_os;
use std::error::Error;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use weir_tidy::{
    Crate, Imports, Module, SourceFile, circles, crates, duplicate_types, long_functions, missing_features,
    retired_identifiers, retired_path, short_docs, unclear_sentences,
};

type Checked = Result<(), Box<dyn Error>>;

fn root() -> PathBuf {
    var_os("TIDY_ROOT").map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), Into::into)
}

fn workspace() -> std::io::Result<Vec<Crate>> {
    let root = root();
    let folder = var_os("TIDY").unwrap_or_default();
    let folder = folder.to_string_lossy();
    let mut all = crates(&root.canonicalize()?)?;
    all.retain(|unit| unit.root.starts_with(folder.as_ref()));
    assert!(!all.is_empty(), "no crate below {}", root.display());
    Ok(all)
}

fn parse(file: &SourceFile) -> Result<syn::File, String> {
    syn::parse_file(&file.text).map_err(|error| format!("{}: {error}", file.path))
}

fn assert_none(found: &[String]) {
    let count = found.len();
    assert!(found.is_empty(), "{count} places:\n{}", found.join("\n"));
}

#[test]
fn retired_words_name_nothing() -> Checked {
    let mut found = Vec::new();
    for file in workspace()?.iter().flat_map(|unit| &unit.files) {
        let path = &file.path;
        if let Some(better) = retired_path(path) {
            found.push(format!("{path}: the name is retired: {better}"));
        }
        let identifiers = retired_identifiers(&file.text).map_err(|error| error.to_string())?;
        let identifiers = identifiers.into_iter();
        found.extend(identifiers.map(|(line, name, better)| format!("{path}:{line}: `{name}` is retired: {better}")));
    }
    assert_none(&found);
    Ok(())
}

#[test]
fn doc_comments_say_more_than_three_words() -> Checked {
    let mut found = Vec::new();
    for file in workspace()?.iter().flat_map(|unit| &unit.files) {
        let comments = short_docs(&file.text).into_iter();
        found.extend(comments.map(|(line, text)| format!("{}:{line}: /// {text}", file.path)));
    }
    assert_none(&found);
    Ok(())
}

#[test]
fn sentences_of_comments_name_their_subject() -> Checked {
    let mut found = Vec::new();
    for file in workspace()?.iter().flat_map(|unit| &unit.files) {
        let sentences = unclear_sentences(&file.text).into_iter();
        found.extend(sentences.map(|(line, complaint)| format!("{}:{line}: {complaint}", file.path)));
    }
    assert_none(&found);
    Ok(())
}

#[test]
fn a_type_name_is_defined_once_per_crate() -> Checked {
    let mut found = Vec::new();
    for unit in workspace()? {
        let files = unit.files.iter();
        let files = files.map(|file| Ok((file.path.as_str(), parse(file)?)));
        let files = files.collect::<Result<Vec<_>, String>>()?;
        let names = duplicate_types(files.iter().map(|(path, file)| (*path, file)));
        found.extend(names.into_iter().map(|(name, paths)| format!("{name}: {}", paths.join(", "))));
    }
    assert_none(&found);
    Ok(())
}

#[test]
fn functions_have_at_most_sixty_lines() -> Checked {
    let mut found = Vec::new();
    for file in workspace()?.iter().flat_map(|unit| &unit.files) {
        let functions = long_functions(&parse(file)?).into_iter();
        found.extend(functions.map(|(line, name, lines)| format!("{}:{line}: `{name}` has {lines} lines", file.path)));
    }
    assert_none(&found);
    Ok(())
}

#[test]
fn manifests_enable_the_features_that_their_crates_use() -> Checked {
    let all = read_to_string(root().join("Cargo.toml"))?;
    let mut found = Vec::new();
    for unit in workspace()? {
        let folders = Path::new(&unit.root).ancestors().map(|folder| root().join(folder).join("Cargo.toml"));
        let manifest = folders.into_iter().find(|path| path.is_file()).unwrap_or_default();
        let own = read_to_string(&manifest)?;
        // The rule's own table names every use.
        for file in unit.files.iter().filter(|file| !file.path.ends_with("tidy/src/features.rs")) {
            let missing = missing_features(&file.text, &own, &all).into_iter();
            found.extend(missing.map(|feature| format!("{}: {feature} is not in {}", file.path, manifest.display())));
        }
    }
    assert_none(&found);
    Ok(())
}

#[test]
fn modules_import_each_other_in_no_circle() -> Checked {
    let mut found = Vec::new();
    for unit in workspace()? {
        let edges = imports(&unit)?.edges();
        let circles = circles(&edges);
        found.extend(circles.iter().map(|circle| describe(&unit.root, circle, &edges)));
    }
    assert_none(&found);
    Ok(())
}

fn imports(unit: &Crate) -> Result<Imports, String> {
    let mut imports = Imports::default();
    for file in &unit.files {
        let path = file.path.strip_prefix(&unit.root).unwrap_or(&file.path);
        imports.add(path.trim_start_matches('/'), &parse(file)?);
    }
    Ok(imports)
}

/// Lists the modules of a circle, and each import that connects two of them.
fn describe(root: &str, circle: &BTreeSet<Module>, edges: &BTreeSet<(Module, Module)>) -> String {
    let neighbour = |module: &Module| circle.iter().find(|other| module.starts_with(other));
    let ties = edges.iter().filter(|(from, to)| {
        let (from, to) = (neighbour(from), neighbour(to));
        from.is_some() && to.is_some() && from != to
    });
    let ties = ties.map(|(from, to)| format!("\n  {} -> {}", from.join("/"), to.join("/")));
    let names = circle.iter().map(|module| module.join("/"));
    let names = names.collect::<Vec<_>>().join(", ");
    format!("{root}: {names}{}", ties.collect::<String>())
}
