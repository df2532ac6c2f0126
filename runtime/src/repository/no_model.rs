//! The sentence about a path that should be a model and holds none: what was found, and which name would do.

use std::fmt::Write as _;
use std::path::Path;

use super::layout::{self, BARE_FILE, Child};
use super::versions;

/// Most entries that are named: what still fits a line of a terminal.
const NAMED: usize = 5;

/// Extensions under which TorchScript is saved.
const TORCH_EXTENSIONS: [&str; 5] = ["pt", "pth", "ts", "jit", "torchscript"];

/// Extensions of models that other servers take.
const OTHER_EXTENSIONS: [&str; 14] = [
    "bst",
    "ckpt",
    "engine",
    "gguf",
    "h5",
    "joblib",
    "keras",
    "mar",
    "onnx",
    "pb",
    "pkl",
    "plan",
    "pt2",
    "safetensors",
];

/// Says what the directory holds instead of a model, and how to name one.
///
/// # Errors
/// Like [`layout::detect`].
pub(super) fn sentence(directory: &Path) -> Result<String, String> {
    let entries = entries(directory)?;
    let shown = directory.display().to_string();
    let no_file = entries.iter().find(|entry| is_no_file(directory, entry));
    let advice = match no_file {
        Some(entry) => {
            format!("{entry} has the name of a model, but is no file or a link that leads to none")
        }
        None => advice(&shown, &entries),
    };
    Ok(format!("no model in '{shown}': {}; {advice}", found(&entries)))
}

/// The sentence about a directory that is no model, but holds a file that looks like one; `None` for all others, which
/// may lie beside models.
pub(super) fn misplaced(directory: &Path) -> Option<String> {
    let holds_model = entries(directory).ok()?.iter().any(|entry| is_model(entry));
    holds_model.then(|| sentence(directory).ok())?
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
        entries.extend(within.iter().map(|file| format!("{name}/{}", shown_name(file))));
    }
    Ok(entries)
}

/// Checks for what has the name that a model needs, and would be served if it were a file.
fn is_no_file(directory: &Path, entry: &str) -> bool {
    let (entry, path) = (Path::new(entry), directory.join(entry));
    entry.file_name().is_some_and(|name| name == BARE_FILE) && !path.is_file()
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
    let candidates: Vec<&str> = entries.iter().map(String::as_str).filter(|entry| is_torch(entry)).collect();
    match candidates[..] {
        [] => format!("put a TorchScript file there as {BARE_FILE}, or as 1/{BARE_FILE} for version 1"),
        [only] => {
            format!("rename {only} to {}, or let the path lead to the file itself: {directory}/{only}", renamed(only))
        }
        [first, ..] if first.contains('/') => {
            format!("name the one to serve {}, or let the path lead to it: {directory}/{first}", renamed(first))
        }
        [first, ..] => format!(
            "give each model a directory of its own, as {}/{BARE_FILE}, or let the path lead to the one to serve: \
             {directory}/{first}",
            stem(first)
        ),
    }
}

fn is_torch(entry: &str) -> bool {
    has_extension(entry, &TORCH_EXTENSIONS)
}

fn is_model(entry: &str) -> bool {
    is_torch(entry) || has_extension(entry, &OTHER_EXTENSIONS)
}

fn has_extension(entry: &str, known: &[&str]) -> bool {
    let extension = Path::new(entry).extension();
    let extension = extension.and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| known.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

/// The name that a model of this file would have.
fn stem(file: &str) -> &str {
    Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or(file)
}

/// The name under which the file would be found, in the directory that it is in if that is a version's.
fn renamed(entry: &str) -> String {
    match entry.rsplit_once('/') {
        Some((version, _)) if versions::number(version).is_some() => {
            format!("{version}/{BARE_FILE}")
        }
        Some(_) => format!("1/{BARE_FILE}"),
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
            "no model in '/m': found a.pt, b.pt; give each model a directory of its own, as a/model.pt, or let the path \
             lead to the one to serve: /m/a.pt"
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
    fn a_model_in_a_directory_that_is_no_version_is_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("01")).unwrap();
        assert_eq!(misplaced(folder.path()), None);
        fs::write(folder.path().join("01/model.pt"), "").unwrap();
        let said = misplaced(folder.path()).unwrap();
        assert!(said.contains("; rename 01/model.pt to 1/model.pt, or let"), "{said}");
    }

    #[test]
    fn what_has_a_models_name_and_is_no_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let version = folder.path().join("1");
        fs::create_dir(&version).unwrap();
        let said = || sentence(folder.path()).unwrap();
        let words = "; 1/model.pt has the name of a model, but is no file or a link that leads to none";
        std::os::unix::fs::symlink("/nowhere", version.join("model.pt")).unwrap();
        assert!(said().ends_with(words), "{}", said());
        fs::remove_file(version.join("model.pt")).unwrap();
        fs::create_dir(version.join("model.pt")).unwrap();
        assert!(said().ends_with(words), "{}", said());
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
