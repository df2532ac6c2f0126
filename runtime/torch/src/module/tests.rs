use bytes::Bytes;

use super::*;
use crate::libtorch::tensor::Tensor;
use crate::settings::RunOptions;

/// Number of floats in each input of `add_sub`, and in each of its two outputs.
const FLOATS: i64 = 1000;

fn zeros() -> Value {
    let float = 6; // c10::ScalarType::Float
    let tensor = Tensor::filled(float, &[FLOATS], |out| {
        out.fill(std::mem::MaybeUninit::new(0));
    });
    Value::Tensor(tensor.unwrap())
}

/// The CPU allocator reports allocations as a GPU's does, so this test needs no GPU.
#[test]
fn a_metered_run_reports_its_peak_memory() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/add_sub.pt");
    let module = Module::load(&path, Device::Cpu, "forward").unwrap();
    let values = Values::Positional(vec![zeros(), zeros()]);
    let options = RunOptions { inference_mode: true, optimize: true };
    let peak = |metering| module.run(&values, options, metering, None).unwrap().peak;
    assert_eq!(peak(Metering::Off), 0);
    assert_eq!(peak(Metering::On), 2 * 4 * FLOATS as u64);
    assert_eq!(peak(Metering::On), 2 * 4 * FLOATS as u64, "not the sum");
    assert_eq!(peak(Metering::Off), 0);
}

/// The shim must report mismatched values as an error: without its check, it once read a tensor at address 0.
#[test]
fn values_of_the_wrong_kind_fail_the_call() {
    let options = RunOptions { inference_mode: true, optimize: true };
    let failure = |name: &str, value| {
        let values = Values::Positional(vec![value]);
        let run = model(name).run(&values, options, Metering::Off, None);
        run.unwrap_err().to_string()
    };
    for strings in [Bytes::new(), Bytes::from_static(&[1, 0, 0, 0, b'a'])] {
        let error = failure("identity", Value::Strings(strings));
        assert!(error.contains("strings are given"), "{error}");
    }
    let error = failure("strings", zeros());
    assert!(error.contains("a tensor is given"), "{error}");
    let values = Values::Positional(vec![zeros(), zeros(), zeros()]);
    let run = model("add_sub").run(&values, options, Metering::Off, None);
    let error = run.unwrap_err().to_string();
    assert!(error.contains("more values"), "{error}");
}

fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/models/{name}.pt"))
}

fn model(name: &str) -> Module {
    Module::load(&path(name), Device::Cpu, "forward").unwrap()
}

fn ramp(sizes: &[i64]) -> Value {
    let float = 6; // c10::ScalarType::Float
    let tensor = Tensor::filled(float, sizes, |out| {
        for (at, element) in out.chunks_exact_mut(4).enumerate() {
            element.write_copy_of_slice(&(at as f32 / 64.0).to_le_bytes());
        }
    });
    Value::Tensor(tensor.unwrap())
}

fn output(module: &Module, sizes: &[i64]) -> Vec<f32> {
    let values = Values::Positional(vec![ramp(sizes)]);
    let options = RunOptions { inference_mode: true, optimize: true };
    let run = module.run(&values, options, Metering::Off, None).unwrap();
    let Some(Output::Tensor(tensor)) = run.outputs.into_iter().next() else {
        panic!("no tensor");
    };
    let bytes = tensor.into_bytes();
    let (floats, _) = bytes.as_chunks::<4>();
    floats.iter().map(|float| f32::from_le_bytes(*float)).collect()
}

#[test]
fn an_optimised_module_has_the_same_outputs_for_every_shape() {
    let module = model("conv_traced");
    let optimised = module.load_optimized(&path("conv_traced")).unwrap();
    assert_eq!(optimised.arguments(), module.arguments());
    for sizes in [[1, 1, 8, 8], [3, 1, 8, 8], [1, 1, 8, 8]] {
        for _ in 0..3 {
            let pairs = output(&module, &sizes);
            let pairs = pairs.iter().zip(output(&optimised, &sizes));
            assert!(pairs.clone().count() > 0);
            for (one, other) in pairs {
                assert!((one - other).abs() <= 1e-5 * (1.0 + one.abs()), "{one} {other}");
            }
        }
    }
    drop(module);
    assert!(!output(&optimised, &[2, 1, 8, 8]).is_empty());
}

#[test]
fn convolutions_are_found() {
    assert!(model("conv_traced").has_convolution());
    assert!(!model("mlp").has_convolution());
}

#[test]
fn modules_that_write_to_themselves_are_found() {
    for (name, said) in [
        ("counter", "aten::add_"),
        ("recurrent", "assigns self.h"),
        ("window", "aten::append"),
        ("cache", "aten::_set_item"),
        ("nested", "aten::add_"),
        ("norm_in_training", "aten::"),
    ] {
        let module = model(name);
        let SelfWrites::Attributes(reason) = module.self_writes() else {
            panic!("{name}: {:?}", module.self_writes());
        };
        assert!(reason.contains(said), "{name}: {reason}");
    }
    let captured = model("captured");
    assert!(matches!(captured.self_writes(), SelfWrites::Constants(_)), "{captured:?}");
}

#[test]
fn what_a_run_makes_or_is_given_is_not_the_modules() {
    for name in ["harmless", "in_place", "dict_in_place", "mlp", "conv_traced", "embedding", "strings"] {
        assert_eq!(*model(name).self_writes(), SelfWrites::Nothing, "{name}");
    }
    for (name, mutated) in [("in_place", true), ("dict_in_place", true), ("harmless", false), ("dict_input", false)] {
        assert_eq!(model(name).arguments()[0].mutated, mutated, "{name}");
    }
}

#[test]
fn a_copy_has_a_state_of_its_own() {
    for name in ["counter", "captured"] {
        let module = model(name);
        let before = output(&module, &[1, 4]);
        let copy = module.copy().unwrap();
        for _ in 0..3 {
            output(&copy, &[1, 4]);
        }
        let after = output(&module, &[1, 4]);
        assert_eq!(after[0] - before[0], 1.0, "{name}");
    }
}

#[test]
fn bytes_are_those_of_the_tensors() {
    assert_eq!(model("mlp").bytes().unwrap(), 4 * (16 * 32 + 32 + 32 * 4 + 4));
    assert_eq!(model("identity").bytes().unwrap(), 0);
}

/// Runs the module and returns its outputs from the memory that libtorch wrote, without a copy.
fn outputs(module: &Module) -> Result<Vec<Bytes>, Fault> {
    let values = Values::Positional(vec![ramp(&[1, 4])]);
    let options = RunOptions { inference_mode: true, optimize: true };
    let run = module.run(&values, options, Metering::Off, None)?;
    let bytes = run.outputs.into_iter().filter_map(|output| match output {
        Output::Tensor(tensor) => Some(tensor.into_bytes()),
        Output::Strings { .. } => None,
    });
    Ok(bytes.collect())
}

#[test]
fn an_answer_stays_as_it_is_when_the_module_writes_what_it_returned() {
    let module = model("counter");
    let first = outputs(&module).unwrap();
    let second = outputs(&module).unwrap();
    assert_eq!(first[1], Bytes::copy_from_slice(&1_f32.to_le_bytes()));
    assert_eq!(second[1], Bytes::copy_from_slice(&2_f32.to_le_bytes()));
}

/// The reader of programs does not know that a reshaped weight is still the weight.
#[test]
fn a_run_that_writes_to_a_weight_in_a_list_is_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/exported/lists.pt2");
    let module = Module::load_exported(&path, Device::Cpu, "forward").unwrap();
    let values = Values::Positional(vec![ramp(&[2, 4])]);
    let options = RunOptions { inference_mode: true, optimize: true };
    let error = module.run(&values, options, Metering::Off, None).unwrap_err().to_string();
    assert!(error.contains("writes to a weight"), "{error}");
}

#[test]
fn a_nested_tensor_is_refused() {
    let error = outputs(&model("nested_tensor")).unwrap_err().to_string();
    assert!(error.contains("nested tensor"), "{error}");
}
