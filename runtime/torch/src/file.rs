//! Checks a model file before libtorch loads it: its format, and whether its declared sizes are plausible.

use std::path::Path;

use weir_runtime::backend::LoadError;
use weir_runtime::model_file::{self, ModelFormat};

use crate::module::Archive;

/// Limit on unpacked bytes per byte of archive. Weights are stored uncompressed, so an archive unpacks to little more
/// than its own size. Code compresses well, but is small.
const MAX_UNPACKED_PER_BYTE: u64 = 4;

/// Unpacked bytes allowed in addition to that ratio, for the code and debug records of small models.
const UNPACKED_FLOOR: u64 = 64 << 20;

/// Refuses a file that is not a plausible TorchScript archive or exported program. The reader of programs limits the
/// sizes that it takes by itself.
pub(crate) fn check(path: &Path) -> Result<(), LoadError> {
    match model_file::check_torch(path).map_err(LoadError::File)? {
        ModelFormat::Exported | ModelFormat::Onnx => Ok(()),
        ModelFormat::TorchScript => {
            check_archive(path).map_err(|reason| LoadError::File(model_file::sentence(path, &reason)))
        }
    }
}

fn check_archive(path: &Path) -> Result<(), String> {
    let archive = Archive::inspect(path).map_err(|fault| format!("is damaged: {fault}"))?;
    if !archive.is_script {
        return Err("is damaged: it has constants but no data, as TorchScript must".to_owned());
    }
    let metadata = std::fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?;
    check_unpacked(archive.unpacked, metadata.len())
}

fn check_unpacked(unpacked: u64, size: u64) -> Result<(), String> {
    let most = size.saturating_mul(MAX_UNPACKED_PER_BYTE).saturating_add(UNPACKED_FLOOR);
    if unpacked > most {
        return Err(format!("has {size} bytes but declares {unpacked} unpacked: refused as a possible zip bomb"));
    }
    Ok(())
}
