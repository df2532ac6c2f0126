//! Keeps the map and the glossary true: the files that they name exist, and the glossary stays short.

use std::fs::read_to_string;
use std::io;
use std::path::{Path, PathBuf};

/// Lines of the glossary at most: a longer list would mean too many concepts.
const MOST_LINES: usize = 45;

/// Folders that paths on the pages start from.
const STARTS: [&str; 3] = ["", "gateway/src", "runtime/src"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn missing(page: &str) -> Vec<&str> {
    let paths = page.split('`').filter(|text| text.ends_with(".rs"));
    let exists = |path: &&str| {
        STARTS
            .iter()
            .any(|start| root().join(start).join(path).is_file())
    };
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
