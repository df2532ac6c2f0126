//! Recognises model files without loading them. A file other than TorchScript, the programs of torch.export, packages
//! of AOTInductor and ONNX is refused with a message that names its format, before the sizes that it declares cost
//! memory. Only the first bytes, the directory of a zip archive and the start of its pickle are read, and nothing in
//! them is executed. `weir check` prints the same messages.

mod advice;
pub mod aotinductor;
#[cfg(test)]
mod fuzz;
mod pickle;
mod signatures;
pub mod torchserve;
mod zip_directory;

use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use zip_directory::ZipDirectory;

/// Number of first bytes to read: enough for the classes at the start of a pickle.
const START: u64 = 64 << 10;

/// Format of a model file that this runtime serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFormat {
    /// An archive of TorchScript.
    TorchScript,
    /// A program of `torch.export.save`.
    Exported,
    /// A package of AOTInductor with code for this machine's processor.
    Compiled,
    /// A serialised `ModelProto` of ONNX.
    Onnx,
}

/// Returns the format of a file, and refuses a file of another format. A damaged archive may pass.
///
/// # Errors
/// A sentence that names the file and its format, and says what to do.
pub fn format(path: &Path) -> Result<ModelFormat, String> {
    examine(path).map_err(|reason| sentence(path, &reason))
}

/// Refuses a file that libtorch cannot run, and returns the format of others.
///
/// # Errors
/// The same as for [`format()`].
pub fn check_torch(path: &Path) -> Result<ModelFormat, String> {
    match format(path)? {
        format @ (ModelFormat::TorchScript | ModelFormat::Exported | ModelFormat::Compiled) => Ok(format),
        ModelFormat::Onnx => Err(sentence(path, &advice::ONNX.text())),
    }
}

/// Refuses a file that onnxruntime cannot run.
///
/// # Errors
/// The same as for [`format()`].
pub fn check_onnx(path: &Path) -> Result<(), String> {
    match format(path)? {
        ModelFormat::Onnx => Ok(()),
        ModelFormat::TorchScript => Err(sentence(path, NOT_ONNX[0])),
        ModelFormat::Exported => Err(sentence(path, NOT_ONNX[1])),
        ModelFormat::Compiled => Err(sentence(path, NOT_ONNX[2])),
    }
}

/// Messages about files of PyTorch whose configuration names the backend `onnxruntime`.
const NOT_ONNX: [&str; 3] = [
    "is TorchScript, not an ONNX model: write backend: \"pytorch\" in config.pbtxt, or name the file model.pt and \
     leave out config.pbtxt",
    "is a program of torch.export, not an ONNX model: write backend: \"pytorch\" in config.pbtxt, or name the file \
     model.pt2 and leave out config.pbtxt",
    "is an AOTInductor package, not an ONNX model: write backend: \"pytorch\" in config.pbtxt",
];

/// Returns a sentence about a model file that ends with `reason`.
#[must_use]
pub fn sentence(path: &Path, reason: &str) -> String {
    format!("model file '{}' {reason}", path.display())
}

/// Returns a text of a model file without control characters and at most 100 characters long, for a log line.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}

/// The identity of an archive's contents, independent of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    size: u64,
    hash: u64,
}

/// Computes the digest of an archive from its directory alone, which has a checksum of each entry; `None` if the
/// directory cannot be read.
#[must_use]
pub fn digest(path: &Path) -> Option<Digest> {
    let directory = ZipDirectory::read(path).ok()??;
    Some(Digest { size: std::fs::metadata(path).ok()?.len(), hash: directory.hash })
}

/// Creates a temporary directory for an unpacked model, which only this user can enter. It is deleted when the value is
/// dropped.
///
/// # Errors
/// The system's, if the directory of temporary files cannot be written to.
pub fn private_folder() -> std::io::Result<TempDir> {
    tempfile::Builder::new().prefix("weir-model-").permissions(Permissions::from_mode(0o700)).tempdir()
}

fn examine(path: &Path) -> Result<ModelFormat, String> {
    let size = check_size(path)?;
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let start = first_bytes(path).map_err(unreadable)?;
    if signatures::is_onnx(&start) {
        return Ok(ModelFormat::Onnx);
    }
    if !start.starts_with(zip_directory::ENTRY) {
        return Err(signatures::advice(&start, size).text());
    }
    let directory = ZipDirectory::read(path).map_err(unreadable)?;
    let Some(directory) = directory else {
        return Err("is damaged: it begins like a zip archive but does not end like one, as after a copy or \
                    download that was cut off; copy it again"
            .to_owned());
    };
    if directory.is_torchserve() {
        return torchserve::format(path);
    }
    if directory.has_program() {
        return Ok(ModelFormat::Exported);
    }
    if directory.is_compiled() {
        return aotinductor::check(path).map(|()| ModelFormat::Compiled).map_err(|advice| advice.text());
    }
    if let Some(advice) = directory.advice() {
        return Err(advice.text());
    }
    if !directory.has_constants() {
        let pickle = directory.pickle_start(path, START).unwrap_or_default();
        return Err(pickle::advice(&pickle).text());
    }
    Ok(ModelFormat::TorchScript)
}

/// Checks that the path is a file with content, and returns its size in bytes.
fn check_size(path: &Path) -> Result<u64, String> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("cannot be read: {error}"),
    })?;
    if metadata.is_dir() {
        return Err(directory_advice(path));
    }
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    if metadata.len() == 0 {
        return Err("is empty: the copy or download that made it failed; copy the model again".to_owned());
    }
    Ok(metadata.len())
}

fn directory_advice(path: &Path) -> String {
    let holds = |name: &str| path.join(name).is_file();
    if holds("saved_model.pb") {
        return advice::SAVED_MODEL.text();
    }
    if holds("config.json") {
        return "is a directory with a config.json, such as Hugging Face's save_pretrained makes: load it in \
                Python, torch.export.export it with an example, and torch.export.save the result"
            .to_owned();
    }
    "is a directory".to_owned()
}

fn first_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)?.take(START).read_to_end(&mut start)?;
    Ok(start)
}
