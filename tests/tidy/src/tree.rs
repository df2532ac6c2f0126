//! Reads the workspace: its crates, and the source files of each one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One compilation unit: a library with its binaries, or one integration test.
#[derive(Debug)]
pub struct Crate {
    /// Path of the root folder relative to the workspace, such as `gateway/src` or `cli/tests/platform`.
    pub root: String,
    /// Files of the crate, in the order of their paths.
    pub files: Vec<SourceFile>,
}

/// A Rust file with its text.
#[derive(Debug)]
pub struct SourceFile {
    /// Path relative to the workspace.
    pub path: String,
    /// Content of the file.
    pub text: String,
}

/// Names of folders that contain no source of this project.
const SKIPPED: [&str; 5] = ["target", ".git", ".venv", ".libtorch", ".onnxruntime"];

/// Finds every crate below `workspace`: each `src`, each folder in `tests` with a `main.rs`, and each single
/// file in `tests` and `benches`.
///
/// # Errors
/// Fails if a folder or file cannot be read.
pub fn crates(workspace: &Path) -> io::Result<Vec<Crate>> {
    let mut manifests = Vec::new();
    find(workspace, &mut manifests, &|path| path.ends_with("Cargo.toml"))?;
    manifests.retain(|manifest| manifest.parent() != Some(workspace));
    let mut found = Vec::new();
    for manifest in manifests {
        let package = manifest.parent().unwrap_or(workspace);
        found.extend(unit(workspace, &package.join("src"))?);
        for folder in ["tests", "benches"] {
            for entry in entries(&package.join(folder))? {
                if entry.extension().is_some_and(|suffix| suffix == "rs") || entry.join("main.rs").is_file() {
                    found.extend(unit(workspace, &entry)?);
                }
            }
        }
    }
    Ok(found)
}

fn unit(workspace: &Path, root: &Path) -> io::Result<Option<Crate>> {
    let mut paths = Vec::new();
    if root.is_file() {
        paths.push(root.to_owned());
    } else {
        find(root, &mut paths, &|path| path.extension().is_some_and(|suffix| suffix == "rs"))?;
    }
    let files = paths.iter().map(|path| read(workspace, path)).collect::<io::Result<Vec<_>>>()?;
    let root = relative(workspace, root);
    Ok((!files.is_empty()).then_some(Crate { root, files }))
}

fn find(folder: &Path, found: &mut Vec<PathBuf>, wanted: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    for path in entries(folder)? {
        let name = path.file_name().and_then(|name| name.to_str());
        if path.is_dir() && !name.is_some_and(|name| SKIPPED.contains(&name)) {
            find(&path, found, wanted)?;
        } else if path.is_file() && wanted(&path) {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns the entries of a folder in order; none if the folder does not exist.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn read(workspace: &Path, path: &Path) -> io::Result<SourceFile> {
    Ok(SourceFile { path: relative(workspace, path), text: fs::read_to_string(path)? })
}

fn relative(workspace: &Path, path: &Path) -> String {
    let path = path.strip_prefix(workspace).unwrap_or(path);
    path.to_string_lossy().into_owned()
}
