//! Checks a model file before libtorch loads it: other files than TorchScript are refused with one message,
//! before the sizes they declare cost memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use weir_runtime::backend::LoadError;

use crate::module::Archive;

/// Limit on unpacked bytes per byte of archive. Weights are stored uncompressed, so that an archive unpacks to
/// hardly more than its own size; code compresses well, but is small.
const MAX_UNPACKED_PER_BYTE: u64 = 4;

/// Unpacked bytes allowed for code and debug records of small models, beside that ratio.
const UNPACKED_FLOOR: u64 = 64 << 20;

/// First bytes of a zip archive.
const ZIP: &[u8] = b"PK\x03\x04";

/// Refuses a file that cannot be TorchScript.
pub(crate) fn check(path: &Path) -> Result<(), LoadError> {
    examine(path)
        .map_err(|reason| LoadError::File(format!("model file '{}' {reason}", path.display())))
}

fn examine(path: &Path) -> Result<(), String> {
    let size = check_size(path)?;
    let start = first_bytes(path).map_err(|error| format!("cannot be read: {error}"))?;
    if start.first() == Some(&0x80) {
        return Err(
            "is a Python pickle, not TorchScript: save the model with torch.jit.save".to_owned(),
        );
    }
    if start != ZIP {
        return Err("is not TorchScript: it is not a zip archive".to_owned());
    }
    let archive = Archive::inspect(path).map_err(|fault| format!("is damaged: {fault}"))?;
    if !archive.is_script {
        return Err(
            "holds tensors or another kind of model, not TorchScript: save it with torch.jit.save"
                .to_owned(),
        );
    }
    let unpacked = archive.unpacked;
    if unpacked
        > size
            .saturating_mul(MAX_UNPACKED_PER_BYTE)
            .saturating_add(UNPACKED_FLOOR)
    {
        return Err(format!(
            "has {size} bytes but declares {unpacked} unpacked: refused as a possible zip bomb"
        ));
    }
    Ok(())
}

/// Checks that the path is a file with content, and returns its size in bytes.
fn check_size(path: &Path) -> Result<u64, String> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("cannot be read: {error}"),
    })?;
    if metadata.is_dir() {
        return Err("is a directory".to_owned());
    }
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    if metadata.len() == 0 {
        return Err("is empty".to_owned());
    }
    Ok(metadata.len())
}

fn first_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)?
        .take(ZIP.len() as u64)
        .read_to_end(&mut start)?;
    Ok(start)
}
