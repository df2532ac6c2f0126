//! Model files that lie directly in a repository path, without a configuration: each is a model, named like its file.
//! They count only where the path has no directory of a model: a repository may hold other files beside its models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::repository::{on_disk::layout, on_disk::names, on_disk::no_model};

/// Limit on the files of one path: more than a server can hold in memory, and few enough to list at each poll.
const MOST_FILES: usize = 1000;

/// A model of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::repository) struct LooseFile {
    /// Name of the file without its extension.
    pub(in crate::repository) name: String,
    /// The file, or the reason why it cannot be served.
    pub(in crate::repository) path: Result<PathBuf, String>,
}

/// Returns the models of the files in a directory. Two files of one name, such as `a.pt` and `a.pt2`, are one model
/// with an error, because either could be meant.
///
/// # Errors
/// A sentence if the directory cannot be read or has too many files.
pub(in crate::repository) fn models(directory: &Path) -> Result<Vec<LooseFile>, String> {
    let files = files(directory)?;
    if files.len() > MOST_FILES {
        return Err(format!(
            "'{}' has {} model files, and at most {MOST_FILES} are served without a directory of their own",
            directory.display(),
            files.len()
        ));
    }
    let mut by_name: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        let stem = file.file_stem().unwrap_or_default();
        by_name.entry(stem.to_string_lossy().into_owned()).or_default().push(file);
    }
    Ok(by_name.into_iter().map(|(name, files)| loose_file(name, &files)).collect())
}

/// Returns the files of a directory that look like models, in the order of their names.
fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let children = layout::children(directory)?.into_iter();
    let looks = |child: &layout::Child| {
        let name = child.name.as_deref();
        !child.is_hidden() && name.is_some_and(no_model::is_model) && child.path.is_file()
    };
    Ok(children.filter(looks).map(|child| child.path).collect())
}

fn loose_file(name: String, files: &[PathBuf]) -> LooseFile {
    let path = match (names::check(&name), files) {
        (Err(error), _) => Err(error.to_string()),
        (Ok(()), [path]) => Ok(path.clone()),
        (Ok(()), _) => {
            let shown: Vec<_> = files.iter().map(|path| format!("'{}'", path.display())).collect();
            Err(format!(
                "{} would be served under one name: rename one, or give each model its own directory",
                shown.join(" and ")
            ))
        }
    };
    LooseFile { name, path }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(folder.path().join(name), "").unwrap();
        }
        folder
    }

    #[test]
    fn each_file_is_a_model_with_its_name() {
        let folder = folder(&["a.pt", "b.c.pt2", "served.mar", "notes.txt", ".c.pt", "weights.safetensors"]);
        fs::create_dir(folder.path().join("d.pt")).unwrap();
        let found = models(folder.path()).unwrap();
        let shown: Vec<_> = found.iter().map(|entry| (entry.name.as_str(), entry.path.is_ok())).collect();
        assert_eq!(shown, [("a", true), ("b.c", true), ("served", true), ("weights", true)]);
        assert_eq!(found[1].path, Ok(folder.path().join("b.c.pt2")));
    }

    #[test]
    fn files_of_one_name_are_an_error_that_names_both() {
        let folder = folder(&["a.pt", "a.pt2", "b.pt"]);
        let found = models(folder.path()).unwrap();
        let error = found[0].path.clone().unwrap_err();
        assert!(error.contains("a.pt' and '") && error.contains("a.pt2' would be served under one name"), "{error}");
        assert!(found[1].path.is_ok());
    }

    #[test]
    fn a_folder_of_very_many_files_is_refused() {
        let names: Vec<String> = (0..=MOST_FILES).map(|number| format!("{number}.pt")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let error = models(folder(&names).path()).unwrap_err();
        assert!(error.contains("has 1001 model files"), "{error}");
    }
}
