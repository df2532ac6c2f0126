//! The sentence about a path that should be a model and holds none: what was found, and which name would do.

use std::fmt::Write as _;
use std::path::Path;

use super::layout::{self, BARE_FILE, Child};

/// Most entries that are named: what still fits a line of a terminal.
const NAMED: usize = 5;

/// Extensions under which TorchScript is saved.
const TORCH_EXTENSIONS: [&str; 5] = ["pt", "pth", "ts", "jit", "torchscript"];

/// Says what the directory holds instead of a model, and how to name one.
///
/// # Errors
/// Like [`layout::detect`].
pub(super) fn sentence(directory: &Path) -> Result<String, String> {
    let entries = entries(directory)?;
    let shown = directory.display().to_string();
    Ok(format!(
        "no model in '{shown}': {}; {}",
        found(&entries),
        advice(&shown, &entries)
    ))
}

/// The entries of a directory and, behind each directory's name, its own, as relative paths.
fn entries(directory: &Path) -> Result<Vec<String>, String> {
    let mut entries = Vec::new();
    for child in layout::children(directory)? {
        let name = shown_name(&child);
        if !child.path.is_dir() {
            entries.push(name);
            continue;
        }
        // What cannot be read is named without its contents.
        let within = layout::children(&child.path).unwrap_or_default();
        if within.is_empty() {
            entries.push(format!("{name}/"));
        }
        entries.extend(
            within
                .iter()
                .map(|file| format!("{name}/{}", shown_name(file))),
        );
    }
    Ok(entries)
}

fn shown_name(child: &Child) -> String {
    let name = child.path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn found(entries: &[String]) -> String {
    if entries.is_empty() {
        return "it is empty".to_owned();
    }
    let named = &entries[..entries.len().min(NAMED)];
    let mut text = format!("found {}", named.join(", "));
    if entries.len() > NAMED {
        let _ = write!(text, " and {} more", entries.len() - NAMED);
    }
    text
}

/// What to do about it. A file that looks like a model is the one that is meant.
fn advice(directory: &str, entries: &[String]) -> String {
    let candidates: Vec<&str> = entries
        .iter()
        .map(String::as_str)
        .filter(|entry| is_torch(entry))
        .collect();
    match candidates[..] {
        [] => format!(
            "put a TorchScript file there as {BARE_FILE}, or as 1/{BARE_FILE} for version 1"
        ),
        [only] => format!(
            "rename {only} to {}, or let the path lead to the file itself: {directory}/{only}",
            renamed(only)
        ),
        [first, ..] => format!(
            "name the one to serve {}, or let the path lead to it: {directory}/{first}",
            renamed(first)
        ),
    }
}

fn is_torch(entry: &str) -> bool {
    let extension = Path::new(entry).extension();
    let extension = extension.and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        TORCH_EXTENSIONS
            .iter()
            .any(|known| extension.eq_ignore_ascii_case(known))
    })
}

/// The name under which the file would be found, in the directory that it is in.
fn renamed(entry: &str) -> String {
    match entry.rsplit_once('/') {
        Some((directory, _)) => format!("{directory}/{BARE_FILE}"),
        None => BARE_FILE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn said(files: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let text = sentence(folder.path()).unwrap();
        text.replace(&folder.path().display().to_string(), "/m")
    }

    #[test]
    fn it_says_what_is_there_and_which_name_would_do() {
        assert_eq!(
            said(&[]),
            "no model in '/m': it is empty; put a TorchScript file there as model.pt, or as 1/model.pt for version 1"
        );
        assert_eq!(
            said(&["a.pt", "b.pt"]),
            "no model in '/m': found a.pt, b.pt; name the one to serve model.pt, or let the path lead to it: /m/a.pt"
        );
        assert_eq!(
            said(&["1/mymodel.pt"]),
            "no model in '/m': found 1/mymodel.pt; rename 1/mymodel.pt to 1/model.pt, or let the path lead to \
             the file itself: /m/1/mymodel.pt"
        );
        assert_eq!(
            said(&["model.onnx", "notes.txt"]),
            "no model in '/m': found model.onnx, notes.txt; put a TorchScript file there as model.pt, or as \
             1/model.pt for version 1"
        );
    }

    #[test]
    fn a_folder_of_many_files_is_named_in_part() {
        let names: Vec<String> = (0..12).map(|i| format!("{i:02}.bin")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(said(&names).contains("00.bin, 01.bin, 02.bin, 03.bin, 04.bin and 7 more; "));
    }

    proptest! {
        #[test]
        fn every_folder_gets_a_sentence_of_bounded_length(names in proptest::collection::hash_set("[a-z]{1,8}(\\.pt)?", 0..20)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let text = said(&names);
            prop_assert!(text.starts_with("no model in '/m': ") && text.len() < 300, "{}", text);
        }
    }
}
