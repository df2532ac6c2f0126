//! A loaded program of torch.export: the calls in libtorch, and the contract of the file.

mod code;

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;

use weir_exported::{Archive, ExportedError, Input, Plan, Processor, Program};
use weir_runtime::backend::Device;

use super::run::{Metering, Run, Values, raw_run, raw_value, take_run};
use super::{Argument, ArgumentKind, Example, Returned, index_of};
use crate::libtorch::fault::Fault;
use crate::libtorch::ffi::{self, RawExported, RawTensor, RawValue};
use crate::libtorch::stream::Stream;
use crate::libtorch::tensor::Tensor;
use crate::settings::RunOptions;
use code::PlanCode;

/// A program on one device.
#[derive(Debug)]
pub(super) struct Exported {
    raw: *mut RawExported,
    pub(super) program: Program,
    plan: Plan,
}

impl Exported {
    /// Loads a file that `torch.export.save` wrote.
    pub(super) fn load(file: &Path, device: Device) -> Result<Self, Fault> {
        let mut archive = Archive::open(file).map_err(refused)?;
        let program = archive.program().map_err(refused)?;
        let plan = program.plan(processor(device)).map_err(refused)?;
        Self::of(program, plan, &mut archive, device)
    }

    /// Loads the weights and the calls of a program.
    fn of(program: Program, plan: Plan, archive: &mut Archive, device: Device) -> Result<Self, Fault> {
        let payloads = payloads(&program, archive)?;
        let indices: BTreeMap<&str, usize> = payloads.keys().enumerate().map(|(index, name)| (*name, index)).collect();
        let code = PlanCode::of(&program, &plan, &indices);
        let tensors: Vec<*const RawTensor> = payloads.values().map(Tensor::as_raw).collect();
        let mut raw = ptr::null_mut();
        // SAFETY: code and tensors outlive the call, which keeps counted references to the tensors, and both results are
        // valid for writes.
        Fault::check(|error| unsafe {
            ffi::weir_exported_load(code.as_raw(), tensors.as_ptr(), tensors.len(), index_of(device), &mut raw, error)
        })?;
        drop(payloads);
        let exported = Self { raw, program, plan };
        exported.prepare()?;
        Ok(exported)
    }

    /// Makes the calls on constants, which frees the weights that no run uses.
    fn prepare(&self) -> Result<(), Fault> {
        // SAFETY: the program is alive, and no run uses it yet.
        Fault::check(|error| unsafe { ffi::weir_exported_prepare(self.raw, error) })
    }

    /// Runs the program on the values of its inputs, after a check of their sizes.
    pub(super) fn run(
        &self,
        values: &Values,
        options: RunOptions,
        metering: Metering,
        stream: Option<&Stream>,
    ) -> Result<Run, Fault> {
        let Values::Positional(values) = values else {
            return Err(Fault::Raised("the model takes tensors, not a dict".to_owned()));
        };
        let sizes: Vec<Vec<i64>> = values.iter().map(super::run::Value::sizes).collect();
        self.program.check_sizes(&sizes).map_err(Fault::Refused)?;
        let raw_values: Vec<RawValue> = values.iter().map(|value| raw_value(None, value)).collect();
        let mut answer = ptr::null_mut();
        // SAFETY: the values outlive the call, which keeps only counted references to the tensors.
        Fault::check(|error| unsafe {
            ffi::weir_exported_run(
                self.raw,
                raw_values.as_ptr(),
                raw_values.len(),
                raw_run(options, metering, stream),
                &mut answer,
                error,
            )
        })?;
        Ok(take_run(answer))
    }

    /// Returns the qualified names of the operators that the program calls.
    pub(super) fn operators(&self) -> Vec<String> {
        self.plan.preparation.iter().chain(&self.plan.calls).map(|call| call.name.clone()).collect()
    }

    pub(super) fn arguments(&self) -> Vec<Argument> {
        let inputs = self.program.inputs.iter().zip(&self.plan.written_inputs);
        inputs.map(|(input, written)| argument(input, *written)).collect()
    }

    pub(super) fn returned(&self) -> Returned {
        Returned::Fixed(self.program.outputs.iter().map(|output| output.path.clone()).collect())
    }

    /// Returns the shapes of the weights.
    pub(super) fn weights(&self) -> Vec<Example> {
        let weights = self.program.weights.iter();
        weights.map(|weight| Example { element_type: weight.element_type, sizes: weight.sizes.clone() }).collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        // SAFETY: the program is alive.
        unsafe { ffi::weir_exported_bytes(self.raw) }
    }

    pub(super) fn device_bytes(&self) -> u64 {
        // SAFETY: the program is alive.
        unsafe { ffi::weir_exported_device_bytes(self.raw) }
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        // SAFETY: `self` owns the program, and nothing uses it afterwards.
        unsafe { ffi::weir_exported_free(self.raw) }
    }
}

fn refused(error: ExportedError) -> Fault {
    Fault::Raised(format!("the program {error}"))
}

fn processor(device: Device) -> Processor {
    match device {
        Device::Cpu => Processor::Cpu,
        Device::Cuda(_) => Processor::Gpu,
    }
}

fn argument(input: &Input, mutated: bool) -> Argument {
    Argument {
        name: input.name.clone(),
        type_text: "Tensor".to_owned(),
        kind: ArgumentKind::Tensor,
        optional: false,
        mutated,
        example: Some(Example { element_type: input.element_type, sizes: input.example.clone() }),
    }
}

/// Reads the payload of each weight once, by the name of its entry. The payloads are copies of the file: a mapping of it
/// would end the process if the file were cut off while the model is served.
fn payloads<'a>(program: &'a Program, archive: &mut Archive) -> Result<BTreeMap<&'a str, Tensor>, Fault> {
    let mut read = BTreeMap::new();
    for weight in &program.weights {
        let entry = weight.payload.entry.as_str();
        if read.contains_key(entry) {
            continue;
        }
        let mut outcome = Ok(());
        let fill = |target: &mut [MaybeUninit<u8>]| {
            let target = zeroed(target);
            outcome = archive.read_payload(&weight.payload, target);
        };
        // 0 is the element type of bytes.
        let bytes = i64::try_from(weight.payload.bytes).unwrap_or(i64::MAX);
        let tensor = Tensor::filled(0, &[bytes], fill)?;
        outcome.map_err(refused)?;
        read.insert(entry, tensor);
    }
    Ok(read)
}

/// Fills the memory with zeros, because a reader takes initialised memory only.
fn zeroed(target: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    target.fill(MaybeUninit::new(0));
    // SAFETY: every byte was just written.
    unsafe { target.assume_init_mut() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads a program in which another operator has the place of its activation.
    fn with(operator: &str) -> String {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/exported/mlp.pt2");
        let mut archive = Archive::open(&file).unwrap();
        let program = archive.program().unwrap();
        let mut plan = program.plan(Processor::Gpu).unwrap();
        let call = plan.calls.iter_mut().find(|call| call.name == "aten::relu").unwrap();
        let (name, overload) = operator.split_once('.').unwrap_or((operator, ""));
        (call.name, call.overload) = (name.to_owned(), overload.to_owned());
        Exported::of(program, plan, &mut archive, Device::Cpu).map_or_else(|fault| fault.to_string(), |_| String::new())
    }

    #[test]
    fn of_torchscripts_own_operators_only_arithmetic_is_called() {
        assert_eq!(with("aten::relu"), "");
        for operator in ["aten::save", "aten::cpu", "aten::warn", "aten::manual_seed"] {
            let text = with(operator);
            assert!(text.contains("which programs of torch.export do not have"), "{operator}: {text}");
        }
        // The operator is found, and takes arguments of other names.
        assert!(with("aten::neg.int").contains("has no argument"), "{}", with("aten::neg.int"));
    }
}
