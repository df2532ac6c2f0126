//! Checks the models below a path like the start of a server, without loading them.

use std::path::{Path, PathBuf};

use crate::model::config::ModelConfig;
use crate::model_file;
use crate::repository::on_disk::config_file;
use crate::repository::on_disk::layout::{self, BARE_FILE, Layout, PathContents};
use crate::repository::on_disk::loose_files;
use crate::repository::on_disk::options::{AutoComplete, ScanOptions};
use crate::repository::on_disk::stamp::ChangeDetection;

/// Names of the backends whose files are recognised.
const PYTORCH: [&str; 3] = ["pytorch", "pytorch_libtorch", "weir-libtorch"];
const ONNX: [&str; 2] = ["onnxruntime", "onnxruntime_onnx"];

/// Limit on the models to check: more than a repository has, so that checking a mistaken path ends quickly.
const MAX_MODELS: usize = 10_000;

/// Returns every error for which a start would refuse the models at a repository path, one sentence each:
/// configurations with errors, and files of another format than their backend runs.
#[must_use]
pub fn check_models(path: &Path) -> Vec<String> {
    match layout::detect_repository(path) {
        Ok(PathContents::Model(layout)) => check_model(path, layout),
        Ok(PathContents::Directory) => check_children(path),
        Err(error) => vec![error],
    }
}

fn check_children(directory: &Path) -> Vec<String> {
    // Detection already reported a directory that cannot be read.
    let children = layout::children(directory).unwrap_or_default();
    let children = children.iter().filter(|child| !child.is_hidden() && child.path.is_dir());
    let mut models = children.take(MAX_MODELS).filter_map(|child| match layout::detect(&child.path) {
        Ok(PathContents::Model(layout)) => Some(check_model(&child.path, layout)),
        // A repository may hold directories that are not models.
        Ok(PathContents::Directory) => None,
        Err(error) => Some(vec![error]),
    });
    match models.next() {
        Some(first) => first.into_iter().chain(models.flatten()).collect(),
        None => check_loose_files(directory),
    }
}

fn check_loose_files(directory: &Path) -> Vec<String> {
    let found = match loose_files::models(directory) {
        Ok(found) => found,
        Err(error) => return vec![error],
    };
    let errors = found.into_iter().flat_map(|file| match file.path {
        Ok(path) => check_model(&path, Layout::File),
        Err(error) => vec![error],
    });
    errors.collect()
}

fn check_model(path: &Path, layout: Layout) -> Vec<String> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let config = match config_file::read(&name, (path, layout), &options()) {
        Ok(read) => read.config,
        Err(error) => return vec![error],
    };
    let check: fn(&Path) -> Result<(), String> = match config.backend.as_str() {
        torch if PYTORCH.contains(&torch) => |file| model_file::check_torch(file).map(drop),
        onnx if ONNX.contains(&onnx) => model_file::check_onnx,
        _ => return Vec::new(),
    };
    let files = match model_files(path, layout, &config) {
        Ok(files) => files,
        Err(error) => return vec![error],
    };
    files.iter().filter_map(|file| check(file).err()).collect()
}

/// Returns the model files of every version.
fn model_files(path: &Path, layout: Layout, config: &ModelConfig) -> Result<Vec<PathBuf>, String> {
    let file = match layout {
        Layout::File => return Ok(vec![path.to_owned()]),
        Layout::Bare => return Ok(vec![layout::bare_file(path)]),
        Layout::Versioned => config.default_model_filename.as_deref().unwrap_or(BARE_FILE),
    };
    let versions = layout::version_dirs(path)?;
    if versions.is_empty() {
        return Ok(vec![layout::model_file(path, file)]);
    }
    let files = versions.into_iter().map(|(_, directory)| layout::model_file(&directory, file));
    Ok(files.collect())
}

/// The options of a server that is started without flags.
pub(in crate::repository) fn options() -> ScanOptions {
    ScanOptions {
        paths: Vec::new(),
        model_name: None,
        config_name: None,
        auto_complete: AutoComplete::On,
        change_detection: ChangeDetection::Metadata,
        example: None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ONNX: &[u8] = b"\x08\x0e\x12\x07pytorch:3";

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        folder
    }

    #[test]
    fn files_of_every_layout_are_recognised() {
        for files in [["model.pt"].as_slice(), &["1/model.pt", "2/model.pt"], &["one/model.pt", "other/7/model.pt"]] {
            let all: Vec<_> = files.iter().map(|name| (*name, ONNX)).collect();
            let folder = folder(&all);
            let errors = check_models(folder.path());
            assert_eq!(errors.len(), files.len(), "{errors:?}");
            for (error, file) in errors.iter().zip(files) {
                let begin =
                    format!("model file '{}' is an ONNX model, not TorchScript: ", folder.path().join(file).display());
                assert!(error.starts_with(&begin), "{error}");
            }
        }
    }

    #[test]
    fn the_contents_of_a_single_file_decide_on_its_backend() {
        let folder = folder(&[("net", ONNX), ("net.onnx", ONNX), ("net.pt", ONNX), ("other.onnx", b"GGUF")]);
        for name in ["net", "net.onnx", "net.pt"] {
            assert_eq!(check_models(&folder.path().join(name)), Vec::<String>::new(), "{name}");
        }
        let errors = check_models(&folder.path().join("other.onnx"));
        assert!(errors[0].contains("is a GGUF model"), "{errors:?}");
    }

    #[test]
    fn onnx_models_are_found_in_every_layout() {
        for files in
            [["model.onnx"].as_slice(), &["1/model.onnx", "2/model.onnx"], &["one/model.onnx", "two/7/model.onnx"]]
        {
            let good: Vec<_> = files.iter().map(|name| (*name, ONNX)).collect();
            assert_eq!(check_models(folder(&good).path()), Vec::<String>::new());
            let bad: Vec<_> = files.iter().map(|name| (*name, b"GGUF".as_slice())).collect();
            assert_eq!(check_models(folder(&bad).path()).len(), files.len(), "{files:?}");
        }
        let config = b"platform: 'onnxruntime_onnx'".as_slice();
        let configured = folder(&[("m/config.pbtxt", config), ("m/1/model.onnx", b"GGUF")]);
        assert_eq!(check_models(configured.path()).len(), 1);
    }

    #[test]
    fn a_configuration_with_an_error_is_reported_in_place_of_its_files() {
        let folder = folder(&[("m/config.pbtxt", b"max_batch_sise: 1"), ("m/1/model.pt", ONNX)]);
        let errors = check_models(folder.path());
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("max_batch_sise"), "{errors:?}");
    }

    #[test]
    fn models_of_other_backends_and_files_beside_models_are_ignored() {
        let folder =
            folder(&[("m/config.pbtxt", b"backend: \"echo\""), ("m/1/model.pt", ONNX), ("notes/readme.txt", b"text")]);
        assert_eq!(check_models(folder.path()), Vec::<String>::new());
    }
}
