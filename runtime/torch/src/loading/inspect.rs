//! Descriptions of model files for `weir-runtime inspect`.

use std::collections::BTreeMap;
use std::fs;

use weir_exported::{Archive, ExportedError, Plan, Processor, Program};
use weir_runtime::backend::{Device, Inspection, LoadError, ModelSource, Signature};
use weir_runtime::model_file::{self, ModelFormat};

use crate::loading::examine::{self, Verdicts};
use crate::loading::infer::exported;
use crate::loading::sandbox::Sandbox;
use crate::loading::weights::Weights;
use crate::module::obstacle::{self, ModelTraits};
use crate::settings::{CudaGraphs, Settings};
use crate::{libtorch::element, libtorch::op_libraries, loading::file};

/// Describes a model file. A program of torch.export is only read if its graph decides on batches; other files are tried
/// in a child process, as before they are served.
///
/// # Errors
/// [`LoadError`] if the model cannot be served.
pub(crate) fn inspect(sandbox: &Sandbox, verdicts: &Verdicts, source: &ModelSource) -> Result<Inspection, LoadError> {
    let format = model_file::format(&source.path).map_err(LoadError::File)?;
    match format {
        ModelFormat::Onnx => inspect_onnx(sandbox, verdicts, source),
        ModelFormat::Exported => inspect_program(sandbox, verdicts, source),
        ModelFormat::Compiled => inspect_compiled(sandbox, verdicts, source),
        ModelFormat::TorchScript => inspect_script(sandbox, verdicts, source),
    }
}

fn inspect_onnx(sandbox: &Sandbox, verdicts: &Verdicts, source: &ModelSource) -> Result<Inspection, LoadError> {
    let (signature, batching, mut notes) = tried(sandbox, verdicts, source)?;
    notes.push("the bytes are those of the file, whose weights are not counted".to_owned());
    let bytes = fs::metadata(&source.path).map_or(0, |file| file.len());
    Ok(Inspection { bytes, notes, ..described("ONNX", &signature, batching) })
}

fn inspect_compiled(sandbox: &Sandbox, verdicts: &Verdicts, source: &ModelSource) -> Result<Inspection, LoadError> {
    file::check_compiled(source)?;
    let (signature, batching, mut notes) = tried(sandbox, verdicts, source)?;
    notes.push("the bytes are those of the file, whose weights are not counted".to_owned());
    let bytes = fs::metadata(&source.path).map_or(0, |file| file.len());
    Ok(Inspection { bytes, is_code: true, notes, ..described("AOTInductor package", &signature, batching) })
}

fn inspect_program(sandbox: &Sandbox, verdicts: &Verdicts, source: &ModelSource) -> Result<Inspection, LoadError> {
    file::check(&source.path)?;
    let (program, plan) = program(source)?;
    let by_file = exported::of_file(source, &program)?;
    let (signature, batching, mut notes) = match by_file {
        Some((signature, reason)) => (signature, reason, Vec::new()),
        None => tried(sandbox, verdicts, source)?,
    };
    let operators: Vec<String> = plan.calls.into_iter().map(|call| call.name).collect();
    let obstacle = obstacle::obstacle(&ModelTraits { operators: &operators, arguments: &[], writes: None });
    notes.extend(graph_note(&Settings::parse(&source.parameters)?, obstacle));
    let elements = program.weights.iter().map(|weight| elements(&weight.sizes)).sum();
    let payloads: BTreeMap<&str, u64> =
        program.weights.iter().map(|weight| (weight.payload.entry.as_str(), weight.payload.bytes)).collect();
    Ok(Inspection {
        torch_version: program.torch_version.clone(),
        parameters: elements,
        bytes: payloads.values().sum(),
        notes,
        ..described("program of torch.export", &signature, batching)
    })
}

/// Returns a program and its calls, as a server makes them of the file.
fn program(source: &ModelSource) -> Result<(Program, Plan), LoadError> {
    let refused = |error: ExportedError| LoadError::File(model_file::sentence(&source.path, &format!("{error}")));
    let program = Archive::open(&source.path).and_then(|mut archive| archive.program()).map_err(refused)?;
    let plan = program.plan(Processor::Gpu).map_err(refused)?;
    Ok((program, plan))
}

fn inspect_script(sandbox: &Sandbox, verdicts: &Verdicts, source: &ModelSource) -> Result<Inspection, LoadError> {
    file::check(&source.path)?;
    let settings = Settings::parse(&source.parameters)?;
    let (signature, batching, mut notes) = tried(sandbox, verdicts, source)?;
    op_libraries::open(&source.name, &source.op_libraries)?;
    let module = Weights::load(source, &settings)?.on(Device::Cpu)?.module;
    notes.extend(graph_note(&settings, module.graph_obstacle()));
    let weights = module.parameters();
    let sizes = weights.iter().map(|weight| elements(&weight.sizes));
    let bytes = weights.iter().map(|weight| elements(&weight.sizes).saturating_mul(element_bytes(weight.element_type)));
    Ok(Inspection {
        parameters: sizes.sum(),
        bytes: bytes.sum(),
        is_code: true,
        notes,
        ..described("TorchScript", &signature, batching)
    })
}

/// Returns a note about a model that is configured to have CUDA graphs and cannot have any.
fn graph_note(settings: &Settings, obstacle: Option<String>) -> Option<String> {
    match settings.graphs {
        CudaGraphs::Off => None,
        CudaGraphs::Auto => obstacle.map(|reason| format!("it runs without CUDA graphs on a GPU: {reason}")),
    }
}

/// Tries the model in a child process. Returns its signature, the reason for its batch size, and further findings.
fn tried(
    sandbox: &Sandbox,
    verdicts: &Verdicts,
    source: &ModelSource,
) -> Result<(Signature, String, Vec<String>), LoadError> {
    let verdict = examine::examine(sandbox, verdicts, source)?;
    let Some(signature) = verdict.signature else {
        let doubt = verdict.doubt.unwrap_or_default();
        return Err(LoadError::Config(format!("the trial {doubt}: inputs and outputs have to be configured")));
    };
    let batching = match (source.max_batch_size, signature.max_batch_size) {
        (Some(_), _) => "as configured".to_owned(),
        (None, 0) => "trial runs did not show that the rows are independent".to_owned(),
        (None, _) => "trial runs gave each row the same outputs alone and beside others".to_owned(),
    };
    let notes = verdict.remarks.into_iter().map(|remark| format!("{} ({})", remark.message, remark.reason));
    Ok((signature, batching, notes.collect()))
}

fn described(format: &'static str, signature: &Signature, batching: String) -> Inspection {
    let rows = signature.max_batch_size;
    Inspection {
        format,
        torch_version: None,
        inputs: Inspection::tensors(signature.inputs.iter().map(|input| input.spec(rows))),
        outputs: Inspection::tensors(signature.outputs.iter().map(|output| output.spec(rows))),
        max_batch_size: rows,
        batching,
        parameters: 0,
        bytes: 0,
        is_code: false,
        notes: Vec::new(),
    }
}

/// Returns the bytes of an element; 0 for a type that V2 does not have.
fn element_bytes(element_type: i32) -> u64 {
    element::datatype(element_type).and_then(|datatype| datatype.size()).map_or(0, |size| size as u64)
}

fn elements(sizes: &[i64]) -> u64 {
    sizes.iter().map(|size| u64::try_from(*size).unwrap_or(0)).fold(1, u64::saturating_mul)
}
