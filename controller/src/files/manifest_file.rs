//! Reading one manifest file.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use weir_crds::{Manifest, read};

use super::file_kind::FileKind;

/// Largest file that is read, in bytes: an object may have 1.5 MiB in etcd, and a file holds a few.
const MAX_FILE: u64 = 16 << 20;

/// Path of the standard input, as for kubectl.
pub(super) const STDIN: &str = "-";

/// The manifests of one file. Clones share the text.
#[derive(Clone, Debug)]
pub(super) struct ManifestFile {
    /// The text as read: an equal text is not parsed again.
    text: Arc<str>,
    pub(super) manifests: Vec<Manifest>,
}

impl ManifestFile {
    /// Reads a file. `before` is its last valid version, returned when the text is the same.
    ///
    /// # Errors
    /// Every error in the file, one sentence each, with its position.
    pub(super) fn read(file: &Path, before: Option<&Self>) -> Result<Self, Vec<String>> {
        if file == Path::new(STDIN) {
            return Self::standard_input(before);
        }
        let name = file.display().to_string();
        if let Some(kind) = FileKind::of(file) {
            return Err(vec![format!("{name}: {}", kind.advice(file))]);
        }
        let text = bounded_text(file).map_err(|error| vec![format!("{name}: {error}")])?;
        if let Some(same) = before.filter(|before| *before.text == *text) {
            return Ok(same.clone());
        }
        if text.trim().is_empty() && before.is_some_and(|before| !before.manifests.is_empty()) {
            // An editor empties a file before it writes the new text.
            let problem = "the file is empty; to remove its services, delete it";
            return Err(vec![format!("{name}: {problem}")]);
        }
        Self::parse(&name, text)
    }

    /// Reads the standard input, which can be read once.
    fn standard_input(before: Option<&Self>) -> Result<Self, Vec<String>> {
        if let Some(before) = before {
            return Ok(before.clone());
        }
        let text = text_of_stdin().map_err(|error| vec![format!("standard input: {error}")])?;
        Self::parse("standard input", text)
    }

    fn parse(name: &str, text: String) -> Result<Self, Vec<String>> {
        match read(name, &text) {
            Ok(manifests) => Ok(Self {
                text: text.into(),
                manifests,
            }),
            Err(diagnostics) => Err(diagnostics.iter().map(ToString::to_string).collect()),
        }
    }
}

fn bounded_text(file: &Path) -> io::Result<String> {
    if fs::metadata(file)?.len() > MAX_FILE {
        return Err(too_large());
    }
    text_of(fs::read(file)?)
}

fn text_of_stdin() -> io::Result<String> {
    let mut bytes = Vec::new();
    io::stdin().take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(too_large());
    }
    text_of(bytes)
}

fn too_large() -> io::Error {
    io::Error::other(format!("larger than {MAX_FILE} bytes"))
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    let text = String::from_utf8(bytes);
    text.map_err(|_| io::Error::other("not YAML, as it is no UTF-8 text"))
}
