//! Builds the message about a path that should be a model but holds none: its contents, and the name that a model file
//! needs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::repository::on_disk::layout::{self, BARE_FILE, Child, EXPORTED_FILE, ONNX_FILE};
use crate::repository::on_disk::names;

/// Limit on the entries in the message, so that it fits a line of a terminal.
const NAMED: usize = 5;

/// Common extensions of the model files that this runtime serves, and of TorchServe's archives.
const SERVED_EXTENSIONS: [&str; 8] = ["pt", "pth", "ts", "jit", "torchscript", "pt2", "mar", "onnx"];

/// Extensions of models for other servers.
const OTHER_EXTENSIONS: [&str; 11] =
    ["bst", "ckpt", "engine", "gguf", "h5", "joblib", "keras", "pb", "pkl", "plan", "safetensors"];

/// Returns a sentence about what the directory holds instead of a model, and how to name one.
///
/// # Errors
/// The same as for [`layout::detect`].
pub(in crate::repository) fn sentence(directory: &Path) -> Result<String, String> {
    let entries = entries(directory)?;
    let shown = directory.display().to_string();
    let no_file = entries.iter().find(|entry| is_no_file(directory, entry));
    let advice = match no_file {
        Some(entry) => {
            format!("{entry} has the name of a model, but is not a file, or is a link without a target")
        }
        None => advice(&shown, &entries),
    };
    Ok(format!("no model in '{shown}': {}; {advice}", found(&entries)))
}

/// Returns the sentence about a directory that is not a model but holds a file that looks like one; `None` for all
/// other directories, which a repository may hold.
pub(in crate::repository) fn misplaced(directory: &Path) -> Option<String> {
    let holds_model = entries(directory).ok()?.iter().any(|entry| is_model(entry));
    holds_model.then(|| sentence(directory).ok())?
}

/// Returns the sentence about a directory in which no model was found although it holds something; `None` for an empty
/// one. A server of it would be ready without any model.
pub(in crate::repository) fn unused(directory: &Path) -> Option<String> {
    let mut children = layout::children(directory).ok()?.into_iter();
    // A new file system has this directory.
    let holds_something = children.any(|child| !child.is_hidden() && !child.is("lost+found"));
    holds_something.then(|| sentence(directory).ok())?
}

/// Returns the path of a directory's only file if it looks like a model that is served; `None` if the directory holds
/// anything else that is not hidden.
pub(in crate::repository) fn only_file(directory: &Path) -> Option<PathBuf> {
    let mut visible = layout::children(directory).ok()?.into_iter().filter(|child| !child.is_hidden());
    let (only, None) = (visible.next()?, visible.next()) else {
        return None;
    };
    let is_model = only.path.is_file() && is_served(&shown_name(&only));
    is_model.then_some(only.path)
}

/// Returns the entries of a directory and of its directories, as relative paths.
fn entries(directory: &Path) -> Result<Vec<String>, String> {
    let mut entries = Vec::new();
    for child in layout::children(directory)? {
        let name = shown_name(&child);
        if !child.path.is_dir() {
            entries.push(name);
            continue;
        }
        // A directory that cannot be read is listed without its contents.
        let within = layout::children(&child.path).unwrap_or_default();
        if within.is_empty() {
            entries.push(format!("{name}/"));
        }
        entries.extend(within.iter().map(|file| format!("{name}/{}", shown_name(file))));
    }
    Ok(entries)
}

/// Returns true for an entry that has the name of a model file but is not a file.
fn is_no_file(directory: &Path, entry: &str) -> bool {
    let (entry, path) = (Path::new(entry), directory.join(entry));
    let is_model_name = |name| [BARE_FILE, EXPORTED_FILE, ONNX_FILE].into_iter().any(|model| name == model);
    entry.file_name().is_some_and(is_model_name) && !path.is_file()
}

fn shown_name(child: &Child) -> String {
    child.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
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

/// Returns the next step for the user. A file that looks like a model is assumed to be the intended one.
fn advice(directory: &str, entries: &[String]) -> String {
    let candidates: Vec<&str> = entries.iter().map(String::as_str).filter(|entry| is_served(entry)).collect();
    match candidates[..] {
        [] => format!(
            "put a file of torch.export.save there as {EXPORTED_FILE}, of TorchScript as {BARE_FILE} or of ONNX as \
             {ONNX_FILE}, or in 1/ for version 1"
        ),
        [only] => {
            format!("rename {only} to {}, or use the path of the file itself: {directory}/{only}", renamed(only))
        }
        [first, ..] if first.contains('/') => {
            format!("rename the one to serve to {}, or use its path: {directory}/{first}", renamed(first))
        }
        [first, ..] => format!(
            "give each model its own directory, such as {}/{}, or use the path of the one to serve: \
             {directory}/{first}",
            stem(first),
            file_name(first)
        ),
    }
}

fn is_served(entry: &str) -> bool {
    has_extension(entry, &SERVED_EXTENSIONS)
}

/// Returns true for a name with an extension of model files, of this server or of others.
pub(in crate::repository) fn is_model(entry: &str) -> bool {
    is_served(entry) || has_extension(entry, &OTHER_EXTENSIONS)
}

fn has_extension(entry: &str, known: &[&str]) -> bool {
    let extension = Path::new(entry).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| known.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

/// Returns the name that a model in this file would have.
fn stem(file: &str) -> &str {
    Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or(file)
}

/// Returns the name under which a directory's model file is found.
fn file_name(entry: &str) -> &'static str {
    if has_extension(entry, &["pt2"]) {
        EXPORTED_FILE
    } else if has_extension(entry, &["onnx"]) {
        ONNX_FILE
    } else {
        BARE_FILE
    }
}

/// Returns the path under which the file would be found: in its directory, if that is a version's, otherwise in version
/// 1.
fn renamed(entry: &str) -> String {
    let name = file_name(entry);
    match entry.rsplit_once('/') {
        Some((version, _)) if names::version(version).is_some() => {
            format!("{version}/{name}")
        }
        Some(_) => format!("1/{name}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_counts_as_the_model_only_if_nothing_is_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let only = || only_file(folder.path());
        fs::create_dir(folder.path().join(".weir-fetch")).unwrap();
        assert_eq!(only(), None);
        fs::write(folder.path().join("resnet50.pt"), "").unwrap();
        assert_eq!(only(), Some(folder.path().join("resnet50.pt")));
        fs::write(folder.path().join("README.md"), "").unwrap();
        assert_eq!(only(), None);
    }

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
    fn the_sentence_lists_the_contents_and_names_the_missing_file() {
        assert_eq!(
            said(&[]),
            "no model in '/m': it is empty; put a file of torch.export.save there as model.pt2, of TorchScript as \
             model.pt or of ONNX as model.onnx, or in 1/ for version 1"
        );
        assert_eq!(
            said(&["a.pt", "b.pt"]),
            "no model in '/m': found a.pt, b.pt; give each model its own directory, such as a/model.pt, or use the \
             path of the one to serve: /m/a.pt"
        );
        assert_eq!(
            said(&["mymodel.pt2"]),
            "no model in '/m': found mymodel.pt2; rename mymodel.pt2 to model.pt2, or use the path of the file itself: \
             /m/mymodel.pt2"
        );
        assert_eq!(
            said(&["1/mymodel.pt"]),
            "no model in '/m': found 1/mymodel.pt; rename 1/mymodel.pt to 1/model.pt, or use the path of \
             the file itself: /m/1/mymodel.pt"
        );
        assert_eq!(
            said(&["model.gguf", "notes.txt"]),
            "no model in '/m': found model.gguf, notes.txt; put a file of torch.export.save there as model.pt2, of \
             TorchScript as model.pt or of ONNX as model.onnx, or in 1/ for version 1"
        );
        assert_eq!(
            said(&["1/net.onnx"]),
            "no model in '/m': found 1/net.onnx; rename 1/net.onnx to 1/model.onnx, or use the path of the file itself: \
             /m/1/net.onnx"
        );
    }

    #[test]
    fn a_model_in_a_directory_that_is_not_a_version_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("01")).unwrap();
        assert_eq!(misplaced(folder.path()), None);
        fs::write(folder.path().join("01/model.pt"), "").unwrap();
        let said = misplaced(folder.path()).unwrap();
        assert!(said.contains("; rename 01/model.pt to 1/model.pt, or use"), "{said}");
    }

    #[test]
    fn an_entry_named_like_a_model_that_is_not_a_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let version = folder.path().join("1");
        fs::create_dir(&version).unwrap();
        let said = || sentence(folder.path()).unwrap();
        let words = "; 1/model.pt has the name of a model, but is not a file, or is a link without a target";
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
