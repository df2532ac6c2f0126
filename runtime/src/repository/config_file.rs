//! Reads a model's configuration file, or does without.

use std::fs;
use std::path::{Path, PathBuf};

use super::layout::{self, BARE_FILE, CONFIG_FILE, Layout};
use super::options::{Autocomplete, Places};
use crate::config::{ModelConfig, Origin};

/// Larger than any configuration, so that a mistaken file is not read into memory.
const LONGEST: u64 = 1 << 20;

/// What a model file without a word about it is: the runtime is libtorch's.
const PYTORCH: &str = "pytorch";

/// Reads the configuration of the model at `path`, or makes one of what is known without.
///
/// # Errors
/// A sentence that names the file.
pub(super) fn read(
    name: &str,
    (path, layout): (&Path, Layout),
    places: &Places,
) -> Result<ModelConfig, String> {
    let file = match layout {
        Layout::Versioned => file(path, places.config_name.as_deref()),
        Layout::File | Layout::Bare => path.with_file_name(CONFIG_FILE),
    };
    let guess = guess_backend(path, layout)?;
    let origin = Origin {
        model: name,
        file: &file.to_string_lossy(),
        backend: guess,
    };
    let config = match (layout, places.autocomplete) {
        (Layout::Versioned, Autocomplete::On) if !file.exists() => given_nothing(origin),
        (Layout::Versioned, _) => ModelConfig::from_text(&text(&file)?, origin),
        (Layout::File | Layout::Bare, Autocomplete::On) => given_nothing(origin),
        (Layout::File | Layout::Bare, Autocomplete::Off) => {
            return Err(format!("'{}' has no {CONFIG_FILE}", path.display()));
        }
    };
    config.map_err(|error| error.to_string())
}

/// Reads the configuration that came with a load call.
///
/// # Errors
/// A sentence that names the field.
pub(super) fn given(
    name: &str,
    (path, layout): (&Path, Layout),
    json: &str,
) -> Result<ModelConfig, String> {
    let backend = guess_backend(path, layout)?;
    let origin = Origin {
        model: name,
        file: "config",
        backend,
    };
    ModelConfig::from_json(json, origin).map_err(|error| error.to_string())
}

/// What the configuration of a single model calls it. What is wrong with it is said when it loads.
pub(super) fn declared_name(
    name: String,
    (path, layout): (&Path, Layout),
    places: &Places,
) -> String {
    match layout {
        Layout::Versioned => read(&name, (path, layout), places).map_or(name, |config| config.name),
        Layout::File | Layout::Bare => name,
    }
}

/// Empty text says as little as no file.
fn given_nothing(origin: Origin<'_>) -> Result<ModelConfig, crate::config::ConfigError> {
    ModelConfig::from_text("", origin)
}

/// `configs/<name>.pbtxt` where asked for and there, else `config.pbtxt`.
fn file(directory: &Path, config_name: Option<&str>) -> PathBuf {
    let named = config_name.map(|name| directory.join("configs").join(format!("{name}.pbtxt")));
    named
        .filter(|path| path.exists())
        .unwrap_or_else(|| directory.join(CONFIG_FILE))
}

/// What the files look like.
fn guess_backend(path: &Path, layout: Layout) -> Result<Option<&'static str>, String> {
    let looks_like_torch = match layout {
        Layout::File | Layout::Bare => true,
        Layout::Versioned => {
            let versions = layout::version_dirs(path)?;
            let mut directories = versions.iter().map(|(_, directory)| directory.as_path());
            path.join(BARE_FILE).is_file()
                || directories.any(|directory| directory.join(BARE_FILE).is_file())
        }
    };
    Ok(looks_like_torch.then_some(PYTORCH))
}

fn text(path: &Path) -> Result<String, String> {
    let unreadable = |error| layout::unreadable(path, &error);
    if fs::metadata(path).map_err(unreadable)?.len() > LONGEST {
        return Err(format!(
            "'{}' is larger than {LONGEST} bytes",
            path.display()
        ));
    }
    fs::read_to_string(path).map_err(unreadable)
}
