//! Looks at a model file before libtorch does: what is no TorchScript is refused in one sentence, and
//! before its claims cost memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use weir_runtime::backend::LoadError;

use crate::module::Archive;

/// Weights are stored uncompressed, so an archive claims hardly more than its own size; code
/// compresses well, but is small.
const MOST_UNPACKED_PER_BYTE: u64 = 4;

/// Room for code and debug records of small models, whatever their ratio.
const UNPACKED_FLOOR: u64 = 64 << 20;

/// What a zip archive starts with.
const ZIP: &[u8] = b"PK\x03\x04";

/// Refuses what cannot be a TorchScript file.
pub(crate) fn check(path: &Path) -> Result<(), LoadError> {
    examine(path)
        .map_err(|reason| LoadError::File(format!("model file '{}' {reason}", path.display())))
}

fn examine(path: &Path) -> Result<(), String> {
    let size = check_kind(path)?;
    let start = first_bytes(path).map_err(|error| format!("cannot be read: {error}"))?;
    if start.first() == Some(&0x80) {
        return Err(
            "is a Python pickle, not TorchScript: save the model with torch.jit.save".to_owned(),
        );
    }
    if start != ZIP {
        return Err("is not TorchScript: it does not start as a zip archive does".to_owned());
    }
    let archive = Archive::inspect(path).map_err(|fault| format!("is damaged: {fault}"))?;
    if !archive.is_script {
        return Err(
            "holds tensors or another kind of model, not TorchScript: save it with torch.jit.save"
                .to_owned(),
        );
    }
    let claimed = archive.claimed;
    if claimed
        > size
            .saturating_mul(MOST_UNPACKED_PER_BYTE)
            .saturating_add(UNPACKED_FLOOR)
    {
        return Err(format!(
            "has {size} bytes and claims to unpack to {claimed}: refused"
        ));
    }
    Ok(())
}

/// Its size in bytes.
fn check_kind(path: &Path) -> Result<u64, String> {
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
