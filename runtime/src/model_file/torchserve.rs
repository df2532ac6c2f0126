//! TorchServe's archives (`.mar`): a zip archive with a model, a manifest, and often a Python handler. The model is
//! unpacked and served. Python code of the archive never runs.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tempfile::TempDir;
use zip::read::ZipFile;
use zip::result::ZipError;

use super::advice::MAR;
use super::zip_directory::{ENTRY, MANIFEST, Metered, OpenArchive, ZipDirectory, open_archive};
use super::{ModelFormat, START, sentence, shown, signatures};

/// Advice about an archive without a model, or without its manifest.
const UNPACK: &str = "unpack it, and serve the model file inside";

/// Limit on the manifest in bytes; a usual one has 500.
const LONGEST_MANIFEST: u64 = 1 << 20;

/// Limit on unpacked bytes per byte of archive. Weights hardly shrink when they are compressed.
const UNPACKED_PER_BYTE: u64 = 4;
/// Number of unpacked bytes that are allowed in addition.
const UNPACKED_FLOOR: u64 = 64 << 20;

/// Handlers that TorchServe brings, and what each does around the model.
const HANDLERS: [(&str, &str); 4] = [
    ("image_classifier", "decoding, cropping and normalising an image, and naming the five likeliest classes"),
    ("image_segmenter", "decoding, cropping and normalising an image, and choosing a class for each pixel"),
    ("object_detector", "decoding an image, and naming the boxes above a threshold"),
    ("text_classifier", "turning a text into numbers, and naming the likeliest class"),
];

/// The model of an archive, in a directory that is deleted when this value is dropped.
#[derive(Debug)]
pub struct Unpacked {
    /// Path of the unpacked model file.
    pub path: PathBuf,
    /// A sentence about the handler that does not run; `None` if the archive has none.
    pub without: Option<String>,
    _folder: TempDir,
}

#[derive(Deserialize)]
struct Manifest {
    model: ManifestModel,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestModel {
    serialized_file: Option<String>,
    model_file: Option<String>,
    handler: Option<String>,
}

/// Unpacks the model of a TorchServe archive to a temporary directory; `None` for a file of another format.
///
/// # Errors
/// A sentence that names the archive and says why its model cannot be served, or that the disk failed.
pub fn unpack(path: &Path) -> Result<Option<Unpacked>, String> {
    let directory = ZipDirectory::read(path).ok().flatten();
    if !directory.is_some_and(|directory| directory.is_torchserve()) {
        return Ok(None);
    }
    unpack_archive(path).map(Some).map_err(|reason| sentence(path, &reason))
}

/// Returns the format of the model in an archive, by its name and first bytes.
pub(super) fn format(path: &Path) -> Result<ModelFormat, String> {
    let (mut zip, manifest) = open(path)?;
    let name = servable(&manifest)?;
    let mut start = Vec::new();
    entry(&mut zip, name)?.take(START).read_to_end(&mut start).map_err(|error| damaged(&error))?;
    if signatures::is_onnx(&start) {
        return Ok(ModelFormat::Onnx);
    }
    if !start.starts_with(ENTRY) {
        let advice = signatures::advice(&start, u64::MAX);
        return Err(of_model(name, &advice.text()));
    }
    Ok(if is_exported(name) { ModelFormat::Exported } else { ModelFormat::TorchScript })
}

fn unpack_archive(path: &Path) -> Result<Unpacked, String> {
    let (mut zip, manifest) = open(path)?;
    let name = servable(&manifest)?;
    let size = std::fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?.len();
    let most = size.saturating_mul(UNPACKED_PER_BYTE).saturating_add(UNPACKED_FLOOR);
    let entry = entry(&mut zip, name)?;
    let declared = entry.size();
    if declared > most {
        return Err(format!("has {size} bytes but declares {declared} unpacked: refused as a possible zip bomb"));
    }
    let disk = |error: io::Error| format!("cannot be unpacked: {error}");
    let folder = super::private_folder().map_err(disk)?;
    // The name in the archive is never used as a path.
    let model = folder.path().join(own_name(name));
    let written = io::copy(&mut entry.take(declared.saturating_add(1)), &mut File::create(&model).map_err(disk)?);
    if written.map_err(disk)? != declared {
        return Err(format!("is damaged: '{}' has another size than it declares", shown(name)));
    }
    match super::examine(&model).map_err(|reason| of_model(name, &reason))? {
        ModelFormat::TorchScript | ModelFormat::Exported | ModelFormat::Onnx => {}
        ModelFormat::Compiled => {
            return Err(of_model(name, "is an AOTInductor package: unpack it, and serve it by itself"));
        }
    }
    Ok(Unpacked { path: model, without: without(&manifest), _folder: folder })
}

fn open(path: &Path) -> Result<(OpenArchive, ManifestModel), String> {
    let mut zip = open_archive(path).map_err(|error| match error {
        ZipError::Io(error) => format!("cannot be read: {error}"),
        error => damaged(&error),
    })?;
    let mut text = Vec::new();
    entry(&mut zip, MANIFEST)?.take(LONGEST_MANIFEST).read_to_end(&mut text).map_err(|error| damaged(&error))?;
    let manifest: Manifest = serde_json::from_slice(&text)
        .map_err(|error| format!("is a TorchServe archive (.mar) with a wrong {MANIFEST}: {error}; {UNPACK}"))?;
    Ok((zip, manifest.model))
}

fn entry<'a>(zip: &'a mut OpenArchive, name: &str) -> Result<ZipFile<'a, Metered>, String> {
    zip.by_name(name)
        .map_err(|error| format!("is a TorchServe archive (.mar) without '{}': {error}; {UNPACK}", shown(name)))
}

/// Returns the name of the model's entry. A manifest that names a Python file of the model's class has weights without
/// code, which only that class can load.
fn servable(manifest: &ManifestModel) -> Result<&str, String> {
    match (&manifest.serialized_file, &manifest.model_file) {
        (Some(_), Some(class)) => Err(format!(
            "is a TorchServe archive (.mar) of weights for a class in Python ('{}'), which does not run here: {}",
            shown(class),
            MAR.remedy
        )),
        (Some(name), None) if !name.is_empty() => Ok(name),
        (Some(_) | None, _) => {
            Err(format!("is a TorchServe archive (.mar) of Python code without a model file: {}", MAR.remedy))
        }
    }
}

/// Returns a sentence about the handler, which does not run.
fn without(manifest: &ManifestModel) -> Option<String> {
    let handler = shown(manifest.handler.as_deref()?);
    let known = HANDLERS.iter().find(|(name, _)| *name == handler).map(|(_, work)| *work);
    Some(match known {
        Some(work) => format!(
            "the handler {handler} does not run: {work} are left to the client, which sends the model's tensors and gets \
             its outputs"
        ),
        None => format!(
            "the handler '{handler}' does not run: clients send the model's own tensors and get its outputs, and do \
             themselves what it did before and after the model"
        ),
    })
}

fn is_exported(name: &str) -> bool {
    has_extension(name, "pt2")
}

fn has_extension(name: &str, wanted: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

/// Returns the name of the unpacked model file.
fn own_name(name: &str) -> &'static str {
    if is_exported(name) {
        "model.pt2"
    } else if has_extension(name, "onnx") {
        "model.onnx"
    } else {
        "model.pt"
    }
}

fn of_model(name: &str, reason: &str) -> String {
    format!("is a TorchServe archive (.mar) whose model '{}' {reason}", shown(name))
}

fn damaged(error: &dyn std::error::Error) -> String {
    format!("is damaged: {error}")
}

#[cfg(test)]
mod tests;
