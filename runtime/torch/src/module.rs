//! A loaded model: a TorchScript module, a program of torch.export, compiled code or an ONNX model. It has arguments, and runs a method.

#![expect(unsafe_code, reason = "owns libtorch's modules")]

mod archive;
mod compiled;
mod copies;
mod exported;
pub(crate) mod hints;
pub(crate) mod obstacle;
mod onnx;
mod raw;
mod run;
mod signature;

use std::path::{Path, PathBuf};
use std::ptr;

use weir_exported::Program;
use weir_onnx::Session;
use weir_protocol::Batching;
use weir_runtime::backend::Device;
use weir_runtime::model_file::{self, ModelFormat};

use crate::libtorch::fault::Fault;
use crate::libtorch::ffi::{self, RawModule};
use crate::libtorch::process;
use crate::settings::FORWARD;
use crate::startup::TrimWhenDropped;
use compiled::Compiled;
use exported::Exported;
use obstacle::ModelTraits;
use onnx::Onnx;
use raw::{c_path, c_text, slice, text};
use signature::{arguments, example, returned};

pub(crate) use archive::Archive;
pub(crate) use compiled::CompiledRuns;
pub(crate) use copies::SelfWrites;
pub(crate) use run::{Metering, Output, Run, Value, Values};
pub(crate) use signature::{Argument, ArgumentKind, Example, Returned, ScalarKind};

/// Weights and code on one device, shared by the instances on it unless `forward` writes to them.
#[derive(Debug)]
pub(crate) struct Module {
    code: Code,
    device: Device,
    /// The file that the module was loaded from.
    path: PathBuf,
    /// The method that runs call, usually `forward`.
    method: String,
    arguments: Vec<Argument>,
    writes: SelfWrites,
    returned: Returned,
    /// True if runs may draw random numbers of a GPU, which they must not do beside a capture.
    draws: bool,
    /// Dropped after the code, whose weights are free by then.
    _trim: TrimWhenDropped,
}

/// The code of a module, with its weights.
#[derive(Debug)]
enum Code {
    /// A TorchScript module, which this value owns.
    Script(*mut RawModule),
    /// A program of torch.export.
    Exported(Box<Exported>),
    /// Code that AOTInductor compiled.
    Compiled(Box<Compiled>),
    /// A model that onnxruntime runs, without libtorch.
    Onnx(Box<Onnx>),
}

impl Drop for Code {
    fn drop(&mut self) {
        match self {
            // SAFETY: `self` owns the module, and nothing uses it afterwards.
            Self::Script(raw) => unsafe { ffi::weir_module_free(*raw) },
            Self::Exported(_) | Self::Compiled(_) | Self::Onnx(_) => {}
        }
    }
}

// SAFETY: all of the shim's functions on a module except `run` are const, and libtorch supports running a TorchScript
// method from several threads at once: each run has its own interpreter state. A module that writes to itself must not
// run on two threads at once; the compiler does not check this, but `Weights` gives each instance a module of its own. An
// exported program is constant, and each of its runs has its own slots.
unsafe impl Send for Module {}
// SAFETY: as for `Send`.
unsafe impl Sync for Module {}

impl Module {
    /// Loads a file onto a device. Runs call `method`; an exported program has only one.
    pub(crate) fn load(file: &Path, device: Device, method: &str) -> Result<Self, Fault> {
        match model_file::format(file) {
            Ok(ModelFormat::Exported) => Self::load_exported(file, device, method),
            Ok(ModelFormat::Compiled) => {
                Self::load_compiled(file, device, CompiledRuns { at_once: 1, batching: Batching::None })
            }
            Ok(ModelFormat::Onnx) => Self::load_onnx(file, 1),
            Ok(ModelFormat::TorchScript) | Err(_) => Self::load_script(file, device, method),
        }
    }

    /// Loads a program of torch.export, which is data. A file of another format is an error, so no code is loaded.
    pub(crate) fn load_exported(file: &Path, device: Device, method: &str) -> Result<Self, Fault> {
        let exported = Exported::load(file, device)?;
        process::synchronize(device)?;
        Ok(Self {
            device,
            path: file.to_owned(),
            method: method.to_owned(),
            arguments: exported.arguments(),
            writes: SelfWrites::Nothing,
            returned: exported.returned(),
            draws: device != Device::Cpu && obstacle::draws(&exported.operators()),
            _trim: TrimWhenDropped::default(),
            code: Code::Exported(Box::new(exported)),
        })
    }

    /// Loads the code of an AOTInductor package on the CPU.
    pub(crate) fn load_compiled(file: &Path, device: Device, runs: CompiledRuns) -> Result<Self, Fault> {
        let compiled = Compiled::load(file, device, runs)?;
        Ok(Self {
            device,
            path: file.to_owned(),
            method: FORWARD.to_owned(),
            arguments: compiled.arguments(),
            writes: SelfWrites::Nothing,
            returned: compiled.returned(),
            draws: false,
            _trim: TrimWhenDropped::default(),
            code: Code::Compiled(Box::new(compiled)),
        })
    }

    /// Loads an ONNX model on the CPU, whose operators run on `threads` threads.
    pub(crate) fn load_onnx(file: &Path, threads: i32) -> Result<Self, Fault> {
        let onnx = Onnx::load(file, threads)?;
        Ok(Self {
            device: Device::Cpu,
            path: file.to_owned(),
            method: FORWARD.to_owned(),
            arguments: onnx.arguments(),
            writes: SelfWrites::Nothing,
            returned: onnx.returned(),
            draws: false,
            _trim: TrimWhenDropped::default(),
            code: Code::Onnx(Box::new(onnx)),
        })
    }

    fn load_script(file: &Path, device: Device, method: &str) -> Result<Self, Fault> {
        let path = c_path(file)?;
        let c_method = c_text(method)?;
        let mut raw = ptr::null_mut();
        // SAFETY: both texts are NUL-terminated, and both results are valid for writes.
        Fault::check(|error| unsafe {
            ffi::weir_module_load(path.as_ptr(), c_method.as_ptr(), index_of(device), &mut raw, error)
        })?;
        let code = Code::Script(raw);
        process::synchronize(device)?;
        // SAFETY: the module was just loaded.
        let returned = unsafe { returned(ffi::weir_module_result(raw)) };
        Ok(Self {
            code,
            device,
            path: file.to_owned(),
            method: method.to_owned(),
            arguments: arguments(raw),
            writes: copies::self_writes(raw),
            returned,
            draws: device != Device::Cpu && obstacle::draws(&script_operators(raw)),
            _trim: TrimWhenDropped::default(),
        })
    }

    /// Returns the program of torch.export; `None` for TorchScript.
    pub(crate) fn program(&self) -> Option<&Program> {
        match &self.code {
            Code::Exported(exported) => Some(&exported.program),
            Code::Script(_) | Code::Compiled(_) | Code::Onnx(_) => None,
        }
    }

    /// Returns true for the code of an AOTInductor package.
    pub(crate) fn is_compiled(&self) -> bool {
        matches!(self.code, Code::Compiled(_))
    }

    /// Returns onnxruntime's session of an ONNX model; `None` for models of libtorch.
    pub(crate) fn session(&self) -> Option<&Session> {
        match &self.code {
            Code::Onnx(onnx) => Some(&onnx.session),
            Code::Script(_) | Code::Exported(_) | Code::Compiled(_) => None,
        }
    }

    /// Returns true if `forward` calls a convolution whose speed an optimised module may improve.
    pub(crate) fn has_convolution(&self) -> bool {
        match &self.code {
            // SAFETY: the module is alive.
            Code::Script(raw) => unsafe { ffi::weir_module_convolves(*raw) != 0 },
            Code::Exported(_) | Code::Compiled(_) | Code::Onnx(_) => false,
        }
    }

    /// Returns true if the module was saved in training mode and the method's behaviour depends on that mode.
    pub(crate) fn is_in_training(&self) -> bool {
        match &self.code {
            // SAFETY: the module is alive.
            Code::Script(raw) => unsafe { ffi::weir_module_trains(*raw) != 0 },
            Code::Exported(_) | Code::Compiled(_) | Code::Onnx(_) => false,
        }
    }

    /// Loads the same file again, optimised for inference on the CPU: weights become constants of the code, in the
    /// layout that convolutions need. The outputs are the same.
    pub(crate) fn load_optimized(&self, path: &Path) -> Result<Self, Fault> {
        let path = c_path(path)?;
        let mut raw = ptr::null_mut();
        // SAFETY: `path` is NUL-terminated, and both results are valid for writes.
        Fault::check(|error| unsafe { ffi::weir_module_load_optimized(path.as_ptr(), &mut raw, error) })?;
        Ok(self.with_code(Code::Script(raw)))
    }

    /// Returns a module that is the same but for its code.
    fn with_code(&self, code: Code) -> Self {
        Self {
            code,
            device: self.device,
            path: self.path.clone(),
            method: self.method.clone(),
            arguments: self.arguments.clone(),
            writes: self.writes.clone(),
            returned: self.returned.clone(),
            draws: self.draws,
            _trim: TrimWhenDropped::default(),
        }
    }

    /// Returns the qualified names of the operators that the method may call, such as `aten::add`.
    pub(crate) fn operators(&self) -> Vec<String> {
        match &self.code {
            Code::Script(raw) => script_operators(*raw),
            Code::Exported(exported) => exported.operators(),
            // The operators of compiled code are unknown, and an ONNX model calls none of libtorch's.
            Code::Compiled(_) | Code::Onnx(_) => Vec::new(),
        }
    }

    /// Returns the reason why the model cannot have CUDA graphs, in words that follow "because"; `None` if its code shows
    /// none.
    pub(crate) fn graph_obstacle(&self) -> Option<String> {
        let (operators, writes) = (self.operators(), self.writes.reason());
        match &self.code {
            Code::Script(_) | Code::Exported(_) => {
                obstacle::obstacle(&ModelTraits { operators: &operators, arguments: &self.arguments, writes })
            }
            Code::Compiled(_) | Code::Onnx(_) => Some("it runs on the CPU only".to_owned()),
        }
    }

    /// Returns the arguments of `forward`, without `self`.
    pub(crate) fn arguments(&self) -> &[Argument] {
        &self.arguments
    }

    /// Returns the description of a run's outputs.
    pub(crate) fn returned(&self) -> &Returned {
        &self.returned
    }

    /// Returns the shapes of the parameters in the order of their registration, which is usually the order of their
    /// use.
    pub(crate) fn parameters(&self) -> Vec<Example> {
        let raw = match &self.code {
            Code::Script(raw) => *raw,
            Code::Exported(exported) => return exported.weights(),
            Code::Compiled(_) | Code::Onnx(_) => return Vec::new(),
        };
        let (mut first, mut count) = (ptr::null(), 0);
        // SAFETY: the array lives as long as the module; it is copied at once.
        unsafe {
            ffi::weir_module_parameters(raw, &mut first, &mut count);
            slice(first, count).iter().filter_map(|shape| example(*shape)).collect()
        }
    }

    /// Returns the device that the module was loaded onto.
    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// Returns the bytes of the module's parameters, buffers and constants on its CUDA device; 0 on the CPU.
    pub(crate) fn device_bytes(&self) -> u64 {
        match &self.code {
            // SAFETY: the module is alive.
            Code::Script(raw) => unsafe { ffi::weir_module_device_bytes(*raw) },
            Code::Exported(exported) => exported.device_bytes(),
            Code::Compiled(_) | Code::Onnx(_) => 0,
        }
    }
}

impl Drop for Module {
    /// Returns the model's device memory to the driver, for other uses.
    fn drop(&mut self) {
        // The device's memory is free only when the code is dropped.
        self.code = Code::Script(ptr::null_mut());
        match self.device {
            Device::Cpu => {}
            Device::Cuda(_) => {
                if let Err(fault) = process::empty_cuda_cache() {
                    tracing::warn!(%fault, "cannot free the GPU memory of an unloaded model");
                }
            }
        }
    }
}

/// Returns the qualified names of the operators that a TorchScript method may call.
fn script_operators(raw: *const RawModule) -> Vec<String> {
    let (mut first, mut count) = (ptr::null(), 0);
    // SAFETY: the module is alive; the array and its strings live as long, and are copied here.
    unsafe {
        ffi::weir_module_operators(raw, &mut first, &mut count);
        slice(first, count).iter().filter_map(|name| text(*name)).collect()
    }
}

/// Returns the index of a CUDA device; -1 for the CPU.
fn index_of(device: Device) -> i32 {
    match device {
        Device::Cpu => -1,
        Device::Cuda(index) => i32::try_from(index).unwrap_or(i32::MAX),
    }
}

#[cfg(test)]
mod tests;
