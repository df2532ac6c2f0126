//! Checks a model file before libtorch loads it: its format, and whether its declared sizes are plausible.

use std::path::Path;

use tempfile::TempDir;
use weir_runtime::backend::{Device, LoadError, ModelSource};
use weir_runtime::model_file::{self, ModelFormat};

use crate::module::Archive;

/// Limit on unpacked bytes per byte of archive. Weights are stored uncompressed, so an archive unpacks to little more
/// than its own size. Code compresses well, but is small.
const MAX_UNPACKED_PER_BYTE: u64 = 4;

/// Unpacked bytes allowed in addition to that ratio, for the code and debug records of small models.
const UNPACKED_FLOOR: u64 = 64 << 20;

/// Phrase about an AOTInductor package without a configuration.
const UNDESCRIBED: &str = "is an AOTInductor package, which does not say the datatypes and sizes of its tensors: write \
     inputs, outputs and max_batch_size in config.pbtxt, or torch.export.save the program that it was compiled from";

/// Phrase about an AOTInductor package for the CPU with instances on a GPU.
const ON_PROCESSOR: &str = "is an AOTInductor package with code for the CPU, and its instances are to run on a GPU: write \
     instance_group [ { kind: KIND_CPU } ] in config.pbtxt";

/// Refuses a file that is not a plausible TorchScript archive or exported program. The reader of programs limits the
/// sizes that it takes by itself.
pub(crate) fn check(path: &Path) -> Result<(), LoadError> {
    match model_file::check_torch(path).map_err(LoadError::File)? {
        ModelFormat::Exported | ModelFormat::Compiled | ModelFormat::Onnx => Ok(()),
        ModelFormat::TorchScript => {
            check_archive(path).map_err(|reason| LoadError::File(model_file::sentence(path, &reason)))
        }
    }
}

/// Refuses an AOTInductor package whose inputs and outputs are not configured, because the package does not describe
/// them, and one that is to run on a GPU.
pub(crate) fn check_compiled(source: &ModelSource) -> Result<(), LoadError> {
    if !is_compiled(&source.path) {
        return Ok(());
    }
    let refused = |reason| LoadError::Config(model_file::sentence(&source.path, reason));
    if source.inputs.is_empty() || source.outputs.is_empty() {
        return Err(refused(UNDESCRIBED));
    }
    let on_processor = source.devices.iter().all(|device| *device == Device::Cpu);
    if on_processor { Ok(()) } else { Err(refused(ON_PROCESSOR)) }
}

/// Refuses an AOTInductor package whose trial ended early, with the way it ended: a run in the server could end that.
/// Models of other formats are served as far as their trials got, because libtorch checks what they do.
pub(crate) fn check_trial(source: &ModelSource, doubt: Option<&str>) -> Result<(), LoadError> {
    match doubt {
        Some(how) if is_compiled(&source.path) => Err(LoadError::File(model_file::sentence(
            &source.path,
            &format!("is an AOTInductor package whose trial {how}: compile it again on a machine like this one"),
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Creates a directory for the files that the trial of an AOTInductor package unpacks; `None` for other formats.
pub(crate) fn scratch(source: &ModelSource) -> Result<Option<TempDir>, LoadError> {
    let created = is_compiled(&source.path).then(model_file::private_folder).transpose();
    created.map_err(|error| LoadError::File(format!("a temporary directory cannot be created: {error}")))
}

fn is_compiled(path: &Path) -> bool {
    match model_file::format(path) {
        Ok(ModelFormat::Compiled) => true,
        Ok(ModelFormat::TorchScript | ModelFormat::Exported | ModelFormat::Onnx) | Err(_) => false,
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
