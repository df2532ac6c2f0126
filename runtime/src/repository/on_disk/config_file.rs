//! Reads a model's configuration file, or derives a configuration without one.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::model::config::{ModelConfig, Origin};
use crate::model_file::{self, ModelFormat};
use crate::repository::on_disk::layout::{self, BARE_FILE, CONFIG_FILE, CONFIGS, Layout, ONNX_FILE};
use crate::repository::on_disk::no_model;
use crate::repository::on_disk::options::{AutoComplete, ScanOptions};
use crate::small_file;

/// Limit in bytes that exceeds every configuration, so that a mistaken file is not read into memory.
const LONGEST: u64 = 1 << 20;

/// Age at which an empty file counts as intentionally empty. A program that rewrites a file in place empties it first,
/// for some tenths of a second on a busy machine. If the file were read then, the model would be served without its
/// configuration, under other names, until the next poll.
const SETTLED: Duration = Duration::from_secs(2);
/// Number of attempts to read the file within that time.
const LOOKS: u32 = 40;
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The backend of TorchScript files and programs of torch.export without a configuration.
const PYTORCH: &str = "pytorch";

/// The backend of ONNX files without a configuration.
const ONNXRUNTIME: &str = "onnxruntime";

/// A configuration with the text that it was parsed from.
#[derive(Debug)]
pub(in crate::repository) struct ReadConfig {
    pub(in crate::repository) config: ModelConfig,
    /// Text of the file; empty without a file.
    pub(in crate::repository) text: String,
}

/// Reads the configuration of the model at `path`, or derives one from its files.
///
/// # Errors
/// A sentence that names the file.
pub(in crate::repository) fn read(
    name: &str,
    (path, layout): (&Path, Layout),
    options: &ScanOptions,
) -> Result<ReadConfig, String> {
    let file = match layout {
        Layout::Versioned => file(path, options.config_name.as_deref()),
        Layout::File | Layout::Bare => path.with_file_name(CONFIG_FILE),
    };
    let guess = guess_backend(path, layout)?;
    let origin = Origin { model: name, file: &file.to_string_lossy(), backend: guess };
    let text = match (layout, options.auto_complete) {
        (Layout::Versioned, AutoComplete::On) if !is_there(&file) && guess.is_none() => {
            return Err(no_model::sentence(path)?);
        }
        (Layout::Versioned, AutoComplete::On) if !is_there(&file) => String::new(),
        (Layout::Versioned, _) => text(&file)?,
        (Layout::File | Layout::Bare, AutoComplete::On) => String::new(),
        (Layout::File | Layout::Bare, AutoComplete::Off) => {
            return Err(format!("'{}' has no {CONFIG_FILE}", path.display()));
        }
    };
    let config = ModelConfig::from_text(&text, origin).map_err(|error| error.to_string())?;
    Ok(ReadConfig { config, text })
}

/// Parses the configuration in a load call.
///
/// # Errors
/// A sentence that names the wrong field.
pub(in crate::repository) fn given(
    name: &str,
    (path, layout): (&Path, Layout),
    json: &str,
) -> Result<ModelConfig, String> {
    let backend = guess_backend(path, layout)?;
    let origin = Origin { model: name, file: "config", backend };
    ModelConfig::from_json(json, origin).map_err(|error| error.to_string())
}

/// Returns the name in the configuration of a single model, or `name`. Errors in the configuration are reported when
/// the model loads.
pub(in crate::repository) fn declared_name(
    name: String,
    (path, layout): (&Path, Layout),
    options: &ScanOptions,
) -> String {
    match layout {
        Layout::Versioned => read(&name, (path, layout), options).map_or(name, |read| read.config.name),
        Layout::File | Layout::Bare => name,
    }
}

/// Returns `configs/<name>.pbtxt` if a name was given and the file exists, otherwise `config.pbtxt`.
fn file(directory: &Path, config_name: Option<&str>) -> PathBuf {
    let named = config_name.map(|name| directory.join(CONFIGS).join(format!("{name}.pbtxt")));
    named.filter(|path| is_there(path)).unwrap_or_else(|| directory.join(CONFIG_FILE))
}

/// Returns true if there is an entry of this name. A dangling link counts too, so that a model is never served without
/// a configuration that it should have.
fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Returns the backend that the names of the files suggest; for a single file, also its contents.
fn guess_backend(path: &Path, layout: Layout) -> Result<Option<&'static str>, String> {
    Ok(match layout {
        Layout::File => Some(backend_of_file(path)),
        Layout::Bare => Some(backend_of_name(&layout::bare_file(path))),
        Layout::Versioned => {
            let versions = layout::version_dirs(path)?;
            let directories = || versions.iter().map(|(_, directory)| directory.as_path()).chain([path]);
            let holds_torch = |directory: &Path| layout::model_file(directory, BARE_FILE).is_file();
            let holds_onnx = |directory: &Path| directory.join(ONNX_FILE).is_file();
            let onnx = || directories().any(holds_onnx).then_some(ONNXRUNTIME);
            directories().any(holds_torch).then_some(PYTORCH).or_else(onnx)
        }
    })
}

fn backend_of_file(path: &Path) -> &'static str {
    match model_file::format(path) {
        Ok(ModelFormat::Onnx) => ONNXRUNTIME,
        Ok(ModelFormat::TorchScript | ModelFormat::Exported | ModelFormat::Compiled) => PYTORCH,
        Err(_) => backend_of_name(path),
    }
}

fn backend_of_name(path: &Path) -> &'static str {
    let is_onnx = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"));
    if is_onnx { ONNXRUNTIME } else { PYTORCH }
}

/// Reads the text of the file. If the file was emptied just now, waits for its new text.
fn text(path: &Path) -> Result<String, String> {
    let read = || small_file::read_text(path, LONGEST).map_err(|error| layout::unreadable(path, &error));
    for _ in 0..LOOKS {
        let text = read()?;
        if !text.is_empty() || is_settled(path) {
            return Ok(text);
        }
        thread::sleep(PAUSE);
    }
    read()
}

/// True if the last change of the file is at least [`SETTLED`] ago, or is in the future, so that its age is unknown.
fn is_settled(path: &Path) -> bool {
    let changed = fs::metadata(path).and_then(|file| file.modified()).ok();
    let age = changed.and_then(|changed| changed.elapsed().ok());
    age.is_none_or(|age| age >= SETTLED)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_file_that_is_being_written_is_read_once_it_has_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(CONFIG_FILE);
        fs::write(&path, "").unwrap();
        let writer = thread::spawn({
            let path = path.clone();
            move || {
                thread::sleep(SETTLED / 4);
                fs::write(path, "max_batch_size: 4").unwrap();
            }
        });
        assert_eq!(text(&path).unwrap(), "max_batch_size: 4");
        writer.join().unwrap();
    }

    #[test]
    fn a_file_that_has_been_empty_for_a_while_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(CONFIG_FILE);
        let file = fs::File::create(&path).unwrap();
        assert!(!is_settled(&path));
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(is_settled(&path));
        assert_eq!(text(&path).unwrap(), "");
    }
}
