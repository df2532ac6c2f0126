//! Reading one manifest file.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_crds::{Broken, Incomplete, Manifest, Reading, read_all};

use super::file_kind::FileKind;
use super::object_errors;
use super::object_key::ObjectKey;

/// Largest file that is read, in bytes. An object may have 1.5 MiB in etcd, and a file holds a few objects.
const MAX_FILE: u64 = 16 << 20;

/// Path that stands for standard input, as in kubectl.
pub(super) const STDIN: &str = "-";

/// Manifests of one file. Clones share the text.
#[derive(Clone, Debug)]
pub(super) struct ManifestFile {
    /// Text of the file; an equal text is not parsed again.
    text: Arc<str>,
    /// Objects without errors. While the text has errors, it also contains the objects of the previous version that the
    /// text no longer declares, because a broken file must not delete anything.
    pub(super) manifests: Vec<Manifest>,
    /// Objects whose invalid fields were left out; their other fields are still checked.
    pub(super) incomplete: Vec<Incomplete>,
    /// The objects with errors, as far as their text could be separated.
    pub(super) broken: Vec<Broken>,
    /// Every error in the text, one sentence each, with its position.
    pub(super) problems: Vec<String>,
    /// Folder that holds the claims: that of the file, or the working directory for a stream from another program.
    pub(super) folder: PathBuf,
}

impl ManifestFile {
    /// Reads a file. `before` is its previous version, which is returned if the text is the same.
    ///
    /// # Errors
    /// A sentence for each reason why nothing of the file can be used.
    pub(super) fn read(file: &Path, before: Option<&Self>) -> Result<Self, Vec<String>> {
        if file == Path::new(STDIN) {
            return Self::stream("standard input", before, || text_within(io::stdin()));
        }
        let name = file.display().to_string();
        if is_stream(file) {
            return Self::stream(&name, before, || text_of_file(file));
        }
        if let Some(kind) = FileKind::of(file) {
            return Err(vec![format!("{name}: {}", kind.advice(file))]);
        }
        let text = text_of_file(file).map_err(|error| vec![format!("{name}: {error}")])?;
        if let Some(same) = before.filter(|before| *before.text == *text) {
            return Ok(same.clone());
        }
        if text.trim().is_empty() && before.is_some_and(|before| !before.manifests.is_empty()) {
            // Some editors truncate a file before they write the new text.
            let problem = "the file is empty; to remove its services, delete it";
            return Err(vec![format!("{name}: {problem}")]);
        }
        let folder = file.parent().unwrap_or(Path::new(""));
        Ok(Self::parse(&name, folder, text, before))
    }

    /// Reads a stream from another program, which can be read only once.
    fn stream(
        name: &str,
        before: Option<&Self>,
        text: impl FnOnce() -> io::Result<String>,
    ) -> Result<Self, Vec<String>> {
        if let Some(before) = before {
            return Ok(before.clone());
        }
        let text = text().map_err(|error| vec![format!("{name}: {error}")])?;
        Ok(Self::parse(name, Path::new(""), text, before))
    }

    fn parse(name: &str, folder: &Path, text: String, before: Option<&Self>) -> Self {
        let Reading { manifests, incomplete, broken, diagnostics } = read_all(name, &text);
        let mut file = Self {
            text: text.into(),
            manifests: Vec::new(),
            problems: diagnostics.iter().map(ToString::to_string).collect(),
            incomplete,
            broken,
            folder: folder.to_owned(),
        };
        let of_incomplete = file.incomplete.iter().flat_map(object_errors::errors_of_incomplete);
        file.problems.extend(of_incomplete.collect::<Vec<_>>());
        for manifest in manifests {
            let errors = object_errors::errors(&manifest);
            if errors.is_empty() {
                file.manifests.push(manifest);
            } else {
                file.broken.push(Broken::Named(ObjectKey::of(&manifest.object).name().to_owned()));
            }
            file.problems.extend(errors);
        }
        if let Some(before) = before.filter(|_| !file.problems.is_empty()) {
            file.keep(&before.manifests);
        }
        file
    }

    /// Returns true if the file has the same text in both versions.
    pub(super) fn has_text_of(&self, other: &Self) -> bool {
        self.text == other.text
    }

    /// Adds the objects of the previous version that this one does not declare.
    fn keep(&mut self, before: &[Manifest]) {
        let keys = self.manifests.iter().map(|manifest| ObjectKey::of(&manifest.object));
        let declared: BTreeSet<_> = keys.collect();
        let kept = before.iter().filter(|manifest| !declared.contains(&ObjectKey::of(&manifest.object)));
        self.manifests.extend(kept.cloned());
    }
}

/// Returns true if the path leads to a pipe or a similar stream, as from a shell's `<(…)`. Looking at its first bytes
/// would consume them.
fn is_stream(file: &Path) -> bool {
    let metadata = fs::metadata(file);
    metadata.is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

fn text_of_file(file: &Path) -> io::Result<String> {
    text_within(File::open(file)?)
}

/// Reads a text, using no more memory than the largest allowed file.
fn text_within(source: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    source.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
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
