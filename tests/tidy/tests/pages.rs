//! Checks the documentation pages: the files that they name exist, links lead to files, README leads to every page, and
//! the glossary stays short.

use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string};
use std::io;
use std::path::{Path, PathBuf};

use weir_tidy::crates;

/// Maximum number of lines in the glossary: a longer list would mean too many concepts.
const MOST_LINES: usize = 45;

/// Folders in which paths on the pages may start.
const STARTS: [&str; 3] = ["", "gateway/src", "runtime/src"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn missing(page: &str) -> Vec<&str> {
    let paths = page.split('`').filter(|text| text.ends_with(".rs"));
    let exists = |path: &&str| STARTS.iter().any(|start| root().join(start).join(path).is_file());
    paths.filter(|path| !exists(path)).collect()
}

#[test]
fn the_glossary_is_short_and_each_home_exists() -> io::Result<()> {
    let page = read_to_string(root().join("docs/glossary.md"))?;
    assert!(page.lines().count() <= MOST_LINES);
    assert_eq!(missing(&page), Vec::<&str>::new());
    Ok(())
}

#[test]
fn the_walks_lead_through_files_that_exist() -> io::Result<()> {
    let page = read_to_string(root().join("ARCHITECTURE.md"))?;
    assert_eq!(missing(&page), Vec::<&str>::new());
    Ok(())
}

/// Beginnings of the four walks of ARCHITECTURE.md, each with the most source files that the walk may name. A walk that
/// needs more files is a path through the code that became longer: shorten the path, or raise the number on purpose.
const WALKS: [(&str, usize); 4] = [
    ("**A request through the gateway**", 17),
    ("**A request in the runtime**", 16),
    ("**An InferenceService, from YAML to process**", 15),
    ("**A queue delay, from measurement to decision**", 8),
];

/// Returns the source files that a walk names, from its beginning to the next walk or heading.
fn walk<'a>(page: &'a str, beginning: &str) -> BTreeSet<&'a str> {
    let rest = page.split_once(beginning).map_or("", |(_, rest)| rest);
    let end = [rest.find("\n**"), rest.find("\n## ")].into_iter().flatten().min();
    let text = &rest[..end.unwrap_or(rest.len())];
    text.split('`').filter(|name| name.ends_with(".rs")).collect()
}

#[test]
fn no_walk_becomes_longer_unnoticed() -> io::Result<()> {
    let page = read_to_string(root().join("ARCHITECTURE.md"))?;
    for (beginning, most) in WALKS {
        let files = walk(&page, beginning);
        assert!(!files.is_empty(), "ARCHITECTURE.md has no walk {beginning}");
        assert!(files.len() <= most, "{beginning} names {} files, not {most}: {files:?}", files.len());
    }
    Ok(())
}

/// Returns the paths of the pages in a folder.
fn pages(folder: &str) -> io::Result<Vec<PathBuf>> {
    let entries = read_dir(root().join(folder))?;
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths?;
    paths.retain(|path| path.extension().is_some_and(|suffix| suffix == "md"));
    paths.sort();
    Ok(paths)
}

/// Returns README, ARCHITECTURE.md, and the pages of `docs/`.
fn all_pages() -> io::Result<Vec<PathBuf>> {
    let first = ["README.md", "ARCHITECTURE.md"].map(|page| root().join(page));
    Ok([Vec::from(first), pages("docs")?, pages("docs/decisions")?, pages("docs/history")?].concat())
}

#[test]
fn pages_name_source_files_that_exist() -> io::Result<()> {
    let units = crates(&root().canonicalize()?)?;
    let sources = units.iter().flat_map(|unit| &unit.files);
    let sources: Vec<String> = sources.map(|file| format!("/{}", file.path)).collect();
    let mut missing = Vec::new();
    for page in all_pages()? {
        let text = read_to_string(&page)?;
        let named = text.split('`').filter(|text| text.ends_with(".rs"));
        // A table that names many files of one folder names some of them by the last part of their paths.
        let gone = named.filter(|name| {
            let end = format!("/{name}");
            !sources.iter().any(|source| source.ends_with(&end))
        });
        missing.extend(gone.map(|name| format!("{}: {name}", page.display())));
    }
    assert_eq!(missing, Vec::<String>::new());
    Ok(())
}

#[test]
fn links_between_pages_lead_to_files() -> io::Result<()> {
    let mut broken = Vec::new();
    for page in all_pages()? {
        let text = read_to_string(&page)?;
        let links = text.split("](").skip(1);
        let links = links.filter_map(|rest| rest.split([')', '#']).next());
        let inside = links.filter(|link| !link.is_empty() && !link.contains("://"));
        let folder = page.parent().unwrap_or(Path::new(""));
        let gone = inside.filter(|link| !folder.join(link).exists());
        broken.extend(gone.map(|link| format!("{}: {link}", page.display())));
    }
    assert_eq!(broken, Vec::<String>::new());
    Ok(())
}

#[test]
fn the_readme_leads_to_every_page() -> io::Result<()> {
    let readme = read_to_string(root().join("README.md"))?;
    let names = pages("docs")?.into_iter();
    let names = names.filter_map(|page| Some(page.file_name()?.to_str()?.to_owned()));
    let left_out = names.filter(|name| !readme.contains(&format!("(docs/{name})")));
    assert_eq!(left_out.collect::<Vec<_>>(), Vec::<String>::new());
    Ok(())
}
