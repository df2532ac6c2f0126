//! A loaded AOTInductor package: code for the processor, with its weights, and the structure of its inputs and outputs.

use std::path::Path;
use std::ptr;

use parking_lot::Mutex;
use weir_protocol::Batching;
use weir_runtime::backend::Device;
use weir_runtime::model_file::aotinductor::{self, UnpackedLibrary};

use super::raw::{c_path, text};
use super::run::{Metering, Run, Values, raw_run, raw_value, take_run};
use super::{Argument, ArgumentKind, Returned};
use crate::libtorch::fault::Fault;
use crate::libtorch::ffi::{self, RawCompiled, RawValue};
use crate::libtorch::process;
use crate::settings::RunOptions;

/// An empty library with the name `libtorch.so`, which the packages' libraries need.
const STUB: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stub.so"));

/// True once the stub is open, which it stays.
static STUB_IS_OPEN: Mutex<bool> = Mutex::new(false);

/// The runs that a server makes of compiled code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompiledRuns {
    /// Number of runs at once, one for each instance.
    pub(crate) at_once: usize,
    /// The configured batch dimension of inputs and outputs.
    pub(crate) batching: Batching,
}

/// Compiled code on the processor.
#[derive(Debug)]
pub(super) struct Compiled {
    raw: *mut RawCompiled,
    pub(super) runs: CompiledRuns,
    /// Bytes of the library, which has the weights in it.
    pub(super) bytes: u64,
    inputs: Vec<String>,
    outputs: Vec<String>,
}

impl Compiled {
    /// Unpacks and opens the library of a package that was compiled for this machine. The directory of the library is
    /// deleted once it is open.
    pub(super) fn load(file: &Path, device: Device, runs: CompiledRuns) -> Result<Self, Fault> {
        if device != Device::Cpu {
            return Err(Fault::Refused(
                "its code runs on the CPU only: configure instance_group with KIND_CPU".to_owned(),
            ));
        }
        let unpacked = aotinductor::unpack(file).map_err(Fault::Refused)?;
        open_stub(&unpacked)?;
        let mut raw = ptr::null_mut();
        let library = c_path(&unpacked.library)?;
        // SAFETY: the path is NUL-terminated, and both results are valid for writes.
        Fault::check(|error| unsafe { ffi::weir_compiled_load(library.as_ptr(), runs.at_once, &mut raw, error) })?;
        let bytes = unpacked.bytes;
        let mut compiled = Self { raw, runs, bytes, inputs: Vec::new(), outputs: Vec::new() };
        // SAFETY: the model is alive, and its texts are copied at once.
        let (inputs, outputs) =
            unsafe { (text(ffi::weir_compiled_inputs(raw)), text(ffi::weir_compiled_outputs(raw))) };
        compiled.inputs = paths(inputs)?;
        compiled.outputs = paths(outputs)?;
        Ok(compiled)
    }

    /// Runs the code. It checks datatypes and sizes itself, before it reads memory.
    pub(super) fn run(&self, values: &Values, options: RunOptions) -> Result<Run, Fault> {
        let Values::Positional(values) = values else {
            return Err(Fault::Raised("the model takes tensors, not a dict".to_owned()));
        };
        if values.len() != self.inputs.len() {
            return Err(Fault::Refused(format!("the model takes {} inputs, not {}", self.inputs.len(), values.len())));
        }
        let raw_values: Vec<RawValue> = values.iter().map(|value| raw_value(None, value)).collect();
        let mut answer = ptr::null_mut();
        let batched = i32::from(self.runs.batching == Batching::FirstDimension);
        // SAFETY: the values outlive the call, which keeps only counted references to the tensors.
        Fault::check(|error| unsafe {
            ffi::weir_compiled_run(
                self.raw,
                raw_values.as_ptr(),
                raw_values.len(),
                batched,
                raw_run(options, Metering::Off, None),
                &mut answer,
                error,
            )
        })?;
        Ok(take_run(answer))
    }

    pub(super) fn arguments(&self) -> Vec<Argument> {
        let argument = |(index, path): (usize, &String)| Argument {
            name: input_name(path).unwrap_or_else(|| format!("INPUT__{index}")),
            type_text: "Tensor".to_owned(),
            kind: ArgumentKind::Tensor,
            optional: false,
            mutated: true,
            example: None,
        };
        self.inputs.iter().enumerate().map(argument).collect()
    }

    pub(super) fn returned(&self) -> Returned {
        let path = |path: &String| if path.is_empty() { "#0".to_owned() } else { path.clone() };
        Returned::Fixed(self.outputs.iter().map(path).collect())
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        // SAFETY: `self` owns the model, and nothing uses it afterwards.
        unsafe { ffi::weir_compiled_free(self.raw) }
    }
}

/// Opens the stub once per process.
fn open_stub(unpacked: &UnpackedLibrary) -> Result<(), Fault> {
    let mut is_open = STUB_IS_OPEN.lock();
    if *is_open {
        return Ok(());
    }
    let path = unpacked.library.with_file_name("libtorch.so");
    std::fs::write(&path, STUB).map_err(|error| Fault::Raised(format!("{}: {error}", path.display())))?;
    process::open_library(&path.to_string_lossy()).map_err(Fault::Raised)?;
    *is_open = true;
    Ok(())
}

fn paths(tree: Option<String>) -> Result<Vec<String>, Fault> {
    weir_exported::paths(&tree.unwrap_or_default()).map_err(|error| Fault::Raised(format!("its structure {error}")))
}

/// Returns the name of an input at a path, from its first key on; `None` for a positional argument. The path begins with
/// `#0` for positional arguments, and with `#1` for keyword arguments.
fn input_name(path: &str) -> Option<String> {
    let steps: Vec<&str> = path.split('.').skip(1).skip_while(|step| step.starts_with('#')).collect();
    (!steps.is_empty()).then(|| steps.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_named_by_their_keys() {
        for (path, name) in [("#0.#0", None), ("#1.mask", Some("mask")), ("#0.#1.user", Some("user"))] {
            assert_eq!(input_name(path).as_deref(), name, "{path}");
        }
    }
}
