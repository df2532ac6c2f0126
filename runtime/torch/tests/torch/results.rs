//! Tests outputs against arithmetic or against PyTorch's own results.

use bytes::Bytes;
use weir_protocol::DataType;
use weir_runtime::backend::{Device, Instance, ModelError};

use crate::fixture::*;

fn near(left: &[f32], right: &[f32]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| (left - right).abs() < 1e-6)
}

fn add_sub() -> weir_runtime::backend::ModelSource {
    let f = |name| tensor(name, DataType::Fp32, &[2]);
    configured("add_sub", 8, vec![f("b"), f("a")], vec![f("OUTPUT__1"), f("OUTPUT__0")])
}

#[test]
fn inputs_by_name_and_outputs_by_index() {
    let mut instance = instance(&add_sub());
    let a = whole("a", DataType::Fp32, &[1, 2], floats(&[5.0, 7.0]));
    let b = whole("b", DataType::Fp32, &[1, 2], floats(&[1.0, 2.0]));
    let outputs = run(&mut *instance, vec![b, a]).unwrap();
    assert_eq!(outputs[0].name(), "OUTPUT__1");
    assert_eq!(as_floats(&outputs[0]), [4.0, 5.0]);
    assert_eq!(as_floats(&outputs[1]), [6.0, 9.0]);
    assert_eq!(outputs[1].shape().dims(), [1, 2]);
}

#[test]
fn parts_of_several_requests_are_one_batch() {
    let mut instance = instance(&add_sub());
    let column = |name| {
        let parts: [(&[i64], Bytes); 2] = [(&[2, 2], floats(&[1.0, 2.0, 3.0, 4.0])), (&[1, 2], floats(&[5.0, 6.0]))];
        column(name, DataType::Fp32, &[3, 2], &parts)
    };
    let outputs = run(&mut *instance, vec![column("a"), column("b")]).unwrap();
    assert_eq!(as_floats(&outputs[1]), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    assert_eq!(as_floats(&outputs[0]), [0.0; 6]);
}

#[test]
fn every_datatype_goes_through_unchanged() {
    for datatype in DataType::ALL {
        let Some(size) = datatype.size() else {
            continue;
        };
        let t = |name| tensor(name, datatype, &[3]);
        let source = configured("identity", 4, vec![t("x")], vec![t("y")]);
        let data: Vec<u8> = match datatype {
            DataType::Bool => vec![1, 0, 1],
            _ => (0..3 * size as u8).map(|byte| byte * 7).collect(),
        };
        let data = Bytes::from(data);
        let outputs = run(&mut *instance(&source), vec![whole("x", datatype, &[1, 3], data.clone())]);
        let outputs = outputs.unwrap();
        assert_eq!(outputs[0].datatype(), datatype);
        assert_eq!(*outputs[0].data(), data, "{datatype}");
    }
}

#[test]
fn unaligned_data_is_accepted() {
    let t = |name| tensor(name, DataType::Fp32, &[2]);
    let mut instance = instance(&configured("identity", 4, vec![t("x")], vec![t("y")]));
    let data = Bytes::from([&[0][..], &floats(&[1.5, -2.5])].concat());
    for start in [0, 1] {
        let data = data.slice(start..start + 8);
        let outputs = run(&mut *instance, vec![whole("x", DataType::Fp32, &[1, 2], data.clone())]);
        assert_eq!(*outputs.unwrap()[0].data(), data);
    }
}

#[test]
fn outputs_outlive_instance_model_and_request() {
    let t = |name| tensor(name, DataType::Int64, &[2]);
    let source = configured("identity", 4, vec![t("x")], vec![t("y")]);
    let model = load(&source);
    let mut instance = model.instance(Device::Cpu).unwrap();
    let request = whole("x", DataType::Int64, &[1, 2], ints(&[11, 12]));
    let outputs = run(&mut *instance, vec![request]).unwrap();
    drop((instance, model));
    assert_eq!(*outputs[0].data(), ints(&[11, 12]));
}

#[test]
fn a_model_that_writes_to_its_input_does_not_write_to_the_request() {
    let t = |name| tensor(name, DataType::Fp32, &[2]);
    let mut instance = instance(&configured("in_place", 4, vec![t("x")], vec![t("y")]));
    let data = floats(&[1.0, 2.0]);
    for _ in 0..2 {
        let request = whole("x", DataType::Fp32, &[1, 2], data.clone());
        let outputs = run(&mut *instance, vec![request]).unwrap();
        assert_eq!(as_floats(&outputs[0]), [2.0, 3.0]);
    }
    assert_eq!(data, floats(&[1.0, 2.0]));
}

#[test]
fn padding_reaches_the_model() {
    let x = tensor("x", DataType::Fp32, &[-1]);
    let mask = tensor("mask", DataType::Int64, &[-1]);
    let y = tensor("y", DataType::Fp32, &[1]);
    let mut instance = instance(&configured("masked_mean", 8, vec![x, mask], vec![y]));
    let mut x = column("x", DataType::Fp32, &[2, 4], &[(&[1, 3], floats(&[1.0, 2.0, 6.0])), (&[1, 1], floats(&[5.0]))]);
    x.pad = 1e30; // any value: the mask hides it
    let mask = column("mask", DataType::Int64, &[2, 4], &[(&[1, 3], ints(&[1, 1, 1])), (&[1, 1], ints(&[1]))]);
    let outputs = run(&mut *instance, vec![x, mask]).unwrap();
    assert_eq!(as_floats(&outputs[0]), [3.0, 5.0]);
}

#[test]
fn dict_and_optional_arguments() {
    let t = |name| tensor(name, DataType::Fp32, &[1]);
    let source = configured("dict_input", 4, vec![t("right"), t("left")], vec![t("y")]);
    let value = |name, value| whole(name, DataType::Fp32, &[1, 1], floats(&[value]));
    let outputs = run(&mut *instance(&source), vec![value("right", 3.0), value("left", 2.0)]);
    assert_eq!(as_floats(&outputs.unwrap()[0]), [23.0]);

    let mut bias = t("bias");
    bias.optional = true;
    let mut instance = instance(&configured("optional_bias", 4, vec![t("x"), bias], vec![t("y")]));
    let outputs = run(&mut *instance, vec![value("x", 1.0)]).unwrap();
    assert_eq!(as_floats(&outputs[0]), [1.0]);
    let outputs = run(&mut *instance, vec![value("x", 1.0), value("bias", 4.0)]).unwrap();
    assert_eq!(as_floats(&outputs[0]), [5.0]);
}

#[test]
fn outputs_with_other_strides_are_made_row_major() {
    let x = tensor("x", DataType::Fp32, &[2, 3]);
    let y = tensor("y", DataType::Fp32, &[3, 2]);
    let mut instance = instance(&configured("transpose", 4, vec![x], vec![y]));
    let data = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let outputs = run(&mut *instance, vec![whole("x", DataType::Fp32, &[1, 2, 3], data)]).unwrap();
    assert_eq!(outputs[0].shape().dims(), [1, 3, 2]);
    assert_eq!(as_floats(&outputs[0]), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
}

#[test]
fn nan_and_infinity_come_back() {
    let source =
        configured("nan_inf", 4, vec![tensor("x", DataType::Fp32, &[1])], vec![tensor("y", DataType::Fp32, &[3])]);
    let outputs = run(&mut *instance(&source), vec![whole("x", DataType::Fp32, &[1, 1], floats(&[1.0]))]);
    let values = as_floats(&outputs.unwrap()[0]);
    assert!(values[0].is_nan());
    assert_eq!(values[1..], [f32::INFINITY, f32::NEG_INFINITY]);
}

/// The expected numbers are PyTorch's own, printed by `tests/models/generate.py`.
#[test]
fn scripted_and_traced_networks_have_pytorchs_outputs() {
    let mlp =
        configured("mlp", 4, vec![tensor("input", DataType::Fp32, &[16])], vec![tensor("y", DataType::Fp32, &[4])]);
    let data: Vec<f32> = (0..32_u8).map(|value| f32::from(value) / 32.0).collect();
    let outputs = run(&mut *instance(&mlp), vec![whole("input", DataType::Fp32, &[2, 16], floats(&data))]);
    let expected = [0.1665102, -0.2445094, 0.1133792, 0.0630690, 0.1434132, -0.2733301, 0.0269409, 0.0419620];
    assert!(near(&as_floats(&outputs.unwrap()[0]), &expected));

    let mut conv = instance(&bare("conv_traced"));
    let ones = whole("input", DataType::Fp32, &[1, 1, 8, 8], floats(&[1.0; 64]));
    let outputs = run(&mut *conv, vec![ones]).unwrap();
    let expected = [
        0.5616558, 0.3885842, 0.1176627, 0.4184573, 0.2909151, 0.3020396, -0.2711661, -0.3031678, -0.0361580,
        -0.5469727,
    ];
    assert!(near(&as_floats(&outputs[0]), &expected));
}

#[test]
fn an_exception_has_its_reason_and_the_next_batch_runs() {
    let t = |name| tensor(name, DataType::Fp32, &[2]);
    let mut instance = instance(&configured("fails", 4, vec![t("x")], vec![t("y")]));
    let request = |first| whole("x", DataType::Fp32, &[1, 2], floats(&[first, 2.0]));
    let error = run(&mut *instance, vec![request(-1.0)]).unwrap_err();
    let ModelError::Failed(text) = error else {
        panic!("{error}");
    };
    assert_eq!(text, "PyTorch execute failure: ValueError: the first element is negative");
    let outputs = run(&mut *instance, vec![request(1.0)]).unwrap();
    assert_eq!(as_floats(&outputs[0]), [2.0, 4.0]);
}

/// The hooks run as in a Python call of the module; the method `forward` alone returns `x * 2`.
#[test]
fn hooks_run_around_forward() {
    let source = bare("hooked");
    let names: Vec<String> = load(&source).signature().outputs.iter().map(|output| output.name.clone()).collect();
    assert_eq!(names, ["OUTPUT__0", "OUTPUT__1"]);
    let mut instance = instance(&source);
    let x = whole("x", DataType::Fp32, &[1, 2], floats(&[1.0, 4.0]));
    let outputs = run(&mut *instance, vec![x]).unwrap();
    assert_eq!(as_floats(&outputs[0]), [12.0, 30.0]);
    assert_eq!(as_floats(&outputs[1]), [7.0]);
}

#[test]
fn integers_without_a_quotient_are_an_exception_and_the_next_batch_runs() {
    let t = |name| tensor(name, DataType::Int64, &[1]);
    let source = configured("divides", 1, vec![t("a"), t("b")], vec![tensor("y", DataType::Int64, &[2])]);
    let mut instance = instance(&source);
    let mut divide = |a, b| {
        let column = |name, value| whole(name, DataType::Int64, &[1, 1], ints(&[value]));
        run(&mut *instance, vec![column("a", a), column("b", b)])
    };
    for (a, b, reason) in [(7, 0, "ZeroDivisionError"), (i64::MIN, -1, "OverflowError")] {
        let error = divide(a, b).unwrap_err();
        assert!(matches!(&error, ModelError::Failed(text) if text.contains(reason)), "{error}");
    }
    for (a, b, expected) in [(-7, 3, [2, -3]), (7, -1, [0, -7]), (i64::MIN, 2, [0, i64::MIN / 2])] {
        assert_eq!(divide(a, b).unwrap()[0].data(), &ints(&expected));
    }
}

/// A trace calls the kernels without the checks that Python makes first.
#[test]
fn a_state_or_input_of_another_shape_is_an_exception_of_a_traced_lstm() {
    let f = |name, dims: &[i64]| tensor(name, DataType::Fp32, dims);
    let (x, h, c) = (f("x", &[-1, -1, -1]), f("h", &[-1, -1, -1]), f("c", &[-1, -1, -1]));
    let outputs = ["y", "hn", "cn"].map(|name| f(name, &[-1, -1, -1]));
    let source = configured("lstm_state", 0, vec![x, h, c], outputs.to_vec());
    let mut instance = instance(&source);
    let mut refused = |shapes: [[i64; 3]; 3]| {
        let column = |(name, shape): (&str, [i64; 3])| {
            let data = floats(&vec![0.5; shape.iter().product::<i64>() as usize]);
            whole(name, DataType::Fp32, &shape, data)
        };
        let columns = ["x", "h", "c"].into_iter().zip(shapes).map(column);
        run(&mut *instance, columns.collect()).err().map(|error| error.to_string())
    };
    assert_eq!(refused([[2, 5, 3], [1, 2, 4], [1, 2, 4]]), None);
    for (shapes, said) in [
        ([[2, 5, 3], [2, 2, 4], [2, 2, 4]], "Expected hidden[0] size [1, 2, 4], got [2, 2, 4]"),
        ([[2, 5, 3], [1, 2, 4], [1, 1, 4]], "Expected hidden[1] size [1, 2, 4], got [1, 1, 4]"),
        ([[2, 5, 3], [1, 2, 1], [1, 2, 1]], "Expected hidden[0] size [1, 2, 4]"),
        ([[2, 5, 7], [1, 2, 4], [1, 2, 4]], "must be equal to input_size. Expected 3"),
    ] {
        let error = refused(shapes).unwrap();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn integers_that_a_kernel_does_not_check_are_an_exception() {
    let i = |name| tensor(name, DataType::Int64, &[-1]);
    for (name, inputs, values, said) in [
        ("bags", ["ids", "offsets"], [vec![1, 2, 3], vec![0, -9_000_000]], "offsets of embedding_bag"),
        ("bags", ["ids", "offsets"], [vec![1, 2, 3], vec![0, 4]], "offsets of embedding_bag"),
        ("bags", ["ids", "offsets"], [vec![1, 2, 3], vec![]], "no offsets"),
        ("truncates", ["a", "b"], [vec![7, i64::MIN], vec![1, -1]], "OverflowError"),
    ] {
        let output = if name == "bags" { tensor("y", DataType::Fp32, &[-1, 4]) } else { i("y") };
        let source = configured(name, 0, inputs.map(i).to_vec(), vec![output]);
        let mut instance = load(&source).instance(Device::Cpu).unwrap();
        let column =
            |(name, values): (&str, Vec<i64>)| whole(name, DataType::Int64, &[values.len() as i64], ints(&values));
        let columns = inputs.into_iter().zip(values).map(column).collect();
        let error = run(&mut *instance, columns).unwrap_err().to_string();
        assert!(error.contains(said), "{name}: {error}");
    }
}

/// A trial has as many states as sequences, so it must not batch the state.
#[test]
fn a_traced_lstm_that_takes_a_state_is_loaded() {
    let model = load(&bare("lstm_state"));
    assert_eq!(model.signature().max_batch_size, 0);
}

/// In training mode, as in PyTorch, the outputs depend on the whole batch, so requests must not share it.
#[test]
fn a_model_saved_in_training_mode_runs_in_that_mode() {
    let source = bare("saved_in_training");
    assert_eq!(load(&source).signature().max_batch_size, 0);
    let mut instance = instance(&source);
    let x = floats(&[1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0]);
    let outputs = run(&mut *instance, vec![whole("input", DataType::Fp32, &[2, 4], x)]).unwrap();
    let normalised = as_floats(&outputs[0]);
    assert!((normalised[0] + 1.0).abs() < 1e-4 && (normalised[4] - 1.0).abs() < 1e-4, "{normalised:?}");
}

/// Trials use zeros, among other values.
#[test]
fn a_model_that_divides_by_its_input_is_loaded() {
    let model = load(&bare("divides"));
    assert_eq!(model.signature().inputs.len(), 2);
}

#[test]
fn out_of_memory_is_recognised_and_the_next_batch_runs() {
    let t = |name| tensor(name, DataType::Fp32, &[1]);
    let mut instance = instance(&configured("hungry", 4, vec![t("x")], vec![t("y")]));
    let request = |value| vec![whole("x", DataType::Fp32, &[1, 1], floats(&[value]))];
    let error = run(&mut *instance, request(-1.0)).unwrap_err();
    assert!(matches!(error, ModelError::OutOfMemory(_)), "{error}");
    let outputs = run(&mut *instance, request(1.0)).unwrap();
    assert_eq!(as_floats(&outputs[0]), [1.0]);
}

#[test]
fn two_instances_share_a_model_on_two_threads() {
    let model = load(&add_sub());
    let each = || {
        let mut instance = model.instance(Device::Cpu).unwrap();
        for round in 0..200_u8 {
            let value = f32::from(round);
            let column = |name| whole(name, DataType::Fp32, &[1, 2], floats(&[value, 1.0]));
            let outputs = run(&mut *instance, vec![column("a"), column("b")]).unwrap();
            assert_eq!(as_floats(&outputs[1]), [2.0 * value, 2.0]);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(each);
        scope.spawn(each);
    });
}

#[test]
fn timing_covers_the_run() {
    let mut instance = instance(&bare("slow"));
    let request = whole("x", DataType::Fp32, &[1, 4], floats(&[0.0; 4]));
    let timing = instance.run(&batch(vec![request])).unwrap().timing;
    assert!(timing.infer > timing.input && timing.infer > timing.output, "{timing:?}");
}

#[test]
fn a_batch_of_no_elements_runs() {
    let t = |name| tensor(name, DataType::Fp32, &[-1]);
    let mut instance = instance(&configured("identity", 4, vec![t("x")], vec![t("y")]));
    let outputs = run(&mut *instance, vec![whole("x", DataType::Fp32, &[1, 0], Bytes::new())]);
    assert_eq!(outputs.unwrap()[0].shape().dims(), [1, 0]);
}

#[test]
fn memory_is_counted_until_the_warm_up_ends() {
    let t = |name: &str| tensor(name, DataType::Fp32, &[1000]);
    let source = configured("add_sub", 8, vec![t("a"), t("b")], vec![t("s"), t("d")]);
    let model = load(&source);
    assert_eq!(load(&bare("mlp")).weight_bytes(), Some(4 * (16 * 32 + 32 + 32 * 4 + 4)));
    let mut instance = model.instance(Device::Cpu).unwrap();
    assert_eq!(instance.run_memory(), None);
    let run_rows = |instance: &mut dyn Instance, rows: i64| {
        let data = floats(&vec![1.0; rows as usize * 1000]);
        let column = |name| whole(name, DataType::Fp32, &[rows, 1000], data.clone());
        run(instance, vec![column("a"), column("b")]).unwrap();
    };
    for rows in [1, 8, 2] {
        run_rows(instance.as_mut(), rows);
    }
    let largest = instance.run_memory().unwrap();
    assert_eq!(largest.inputs, 2 * 8 * 4000);
    assert!((64_000..70_000).contains(&largest.workspace), "{largest:?} with both outputs");
    instance.finish_warm_up();
    run_rows(instance.as_mut(), 16);
    assert_eq!(instance.run_memory(), Some(largest));
}
