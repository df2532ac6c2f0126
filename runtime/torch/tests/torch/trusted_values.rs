//! Tests libtorch operators that trust a client's values: each must raise an exception for values with which it would
//! access memory out of bounds, end the process or run forever.

use std::collections::BTreeMap;

use weir_protocol::DataType;
use weir_runtime::backend::{Device, Instance, ModelSource};

use crate::fixture::*;

/// A method of `trusting.pt`, with values that it accepts and their result, and values that it must refuse and a part
/// of the reason.
struct Case {
    method: &'static str,
    good: (&'static [f32], &'static [i64], &'static [i64]),
    answer: &'static [f32],
    odd: &'static [Odd],
}

type Odd = (&'static [f32], &'static [i64], &'static [i64], &'static str);

const LEAST: i64 = i64::MIN;
const FAR: i64 = 1 << 40;
const NAN: f32 = f32::NAN;

const CASES: &[Case] = &[
    Case {
        method: "coo_unsafe",
        good: (&[1., 2.], &[1, 2, 3, 0], &[]),
        answer: &[0., 0., 0., 0., 0., 0., 0., 0., 1., 0., 2., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.],
        odd: &[
            (&[1., 2.], &[1, 2, 9, 0], &[], "size is inconsistent with indices"),
            (&[1., 2.], &[1, 2, FAR, 0], &[], "size is inconsistent with indices"),
            (&[1., 2.], &[1, -1, 3, 0], &[], "negative index"),
        ],
    },
    Case {
        method: "coo",
        good: (&[1.], &[0, 1], &[]),
        answer: &[0., 1., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.],
        odd: &[
            (&[1.], &[1, 9], &[], "size is inconsistent with indices"),
            (&[1.], &[1, FAR], &[], "size is inconsistent with indices"),
        ],
    },
    Case {
        method: "csr",
        good: (&[1., 2.], &[0, 1, 2], &[0, 1]),
        answer: &[1., 0., 0., 2.],
        odd: &[
            (&[1., 2.], &[0, FAR, 2], &[0, 1], "is not satisfied"),
            (&[1., 2.], &[0, 1, 2], &[0, FAR], "is not satisfied"),
        ],
    },
    Case {
        method: "bsr",
        good: (&[1., 2., 3., 4.], &[0, 1, 2], &[0, 1]),
        answer: &[],
        odd: &[(&[], &[0, 1, 2], &[0, 1], "is empty")],
    },
    Case {
        method: "csr_to_coo",
        good: (&[], &[0, 1, 2], &[0, 1]),
        answer: &[0., 1., 0., 1.],
        odd: &[(&[], &[0, FAR, 2], &[0, 1], "should ascend"), (&[], &[0, 1, FAR], &[0, 1], "should ascend")],
    },
    Case {
        method: "coo_to_csr",
        good: (&[], &[0, 1, 2], &[]),
        answer: &[0., 1., 2., 3.],
        odd: &[(&[], &[LEAST, 1, 2], &[], "should ascend"), (&[], &[0, 1, FAR], &[], "should ascend")],
    },
    Case {
        method: "eigvals",
        good: (&[2., 0., 0., 3.], &[], &[]),
        answer: &[2., 3.],
        odd: &[
            (&[2., 0., 0., NAN], &[], &[], "infs or NaNs"),
            (&[f32::INFINITY, 0., 0., 1.], &[], &[], "infs or NaNs"),
        ],
    },
    Case {
        method: "ldl_solve",
        good: (&[2., 0., 0., 4.], &[1, 2], &[]),
        answer: &[0.5, 0., 0., 0.25],
        odd: &[
            (&[2., 0., 0., 4.], &[1, -1], &[], "pivots"),
            (&[2., 0., 0., 4.], &[1_000_000, 2], &[], "pivots"),
            (&[2., 0., 0., 4.], &[1], &[], "do not fit"),
        ],
    },
    Case {
        method: "lu_unpack",
        good: (&[2., 0., 0., 4.], &[1, 2], &[]),
        answer: &[1., 0., 0., 1.],
        odd: &[(&[2., 0., 0., 4.], &[], &[], "do not fit"), (&[2., 0., 0., 4.], &[1], &[], "do not fit")],
    },
    Case {
        method: "lstsq",
        good: (&[2., 0., 0., 4.], &[], &[0]),
        answer: &[0.5, 0.25],
        odd: &[(&[2., 0., 0., 4.], &[], &[], "right-hand side")],
    },
    Case {
        method: "lcm",
        good: (&[], &[4, 6], &[6, 9]),
        answer: &[12., 18.],
        odd: &[(&[], &[LEAST], &[i64::MAX], "OverflowError")],
    },
    Case {
        method: "gcd",
        good: (&[0.], &[12], &[18]),
        answer: &[6.],
        odd: &[(&[0.], &[LEAST], &[-1], "OverflowError"), (&[0.], &[-1], &[LEAST], "OverflowError")],
    },
    Case {
        method: "ctc",
        good: (&[0.; 12], &[1, 2], &[2]),
        answer: &[],
        odd: &[(&[0.; 12], &[1, 3], &[2], "between 0 and 2"), (&[0.; 12], &[FAR, 1], &[2], "between 0 and 2")],
    },
    Case {
        method: "segments",
        good: (&[1., 2., 3.], &[0, 1, 3], &[]),
        answer: &[1., 5.],
        odd: &[
            (&[1., 2., 3.], &[0, 1, FAR], &[], "between 0 and 3"),
            (&[1., 2., 3.], &[0, 3, 1], &[], "should ascend"),
            (&[], &[0, 1, 3], &[], "between 0 and 0"),
        ],
    },
    Case {
        method: "lengths",
        good: (&[1., 2., 3.], &[1, 2], &[]),
        answer: &[1., 5.],
        odd: &[(&[1.], &[1, 2], &[], "lengths"), (&[1., 2., 3.], &[1, 1], &[], "sum up to 3")],
    },
    Case {
        method: "bags",
        good: (&[], &[1, 2, 3], &[0, 2]),
        answer: &[2., 2., 1., 1.],
        odd: &[(&[], &[1, 2, 3], &[0, LEAST], "offsets"), (&[], &[1, 2, 3], &[], "no offsets")],
    },
    Case {
        method: "quantized_bags",
        good: (&[], &[1, 2, 3], &[0, 2]),
        answer: &[2., 2., 2., 2., 1., 1., 1., 1.],
        odd: &[(&[], &[1, 2, 3], &[0, FAR], "offsets")],
    },
    Case {
        method: "packed_gru",
        good: (&[1., 2., 3., 4., 5., 6.], &[2, 1], &[]),
        answer: &[],
        odd: &[
            (&[1., 2., 3., 4., 5., 6.], &[], &[], "no sequences"),
            (&[1., 2., 3., 4., 5., 6.], &[2, FAR], &[], "batch_sizes"),
        ],
    },
    Case {
        method: "padded",
        good: (&[1., 2., 3.], &[2, 1], &[]),
        answer: &[1., 2., 3., 0., 0., 0., 0., 0.],
        odd: &[(&[1., 2., 3.], &[2, -9], &[], "batch_sizes"), (&[1., 2., 3.], &[2, 2], &[], "sum up to 3")],
    },
    Case {
        method: "quantized_cell",
        good: (&[1., 2.], &[1, 3], &[]),
        answer: &[],
        odd: &[(&[1., 2.], &[2, 3], &[], "Expected hidden size [1, 3], got [2, 3]")],
    },
    Case {
        method: "attention",
        good: (&[1.; 12], &[], &[]),
        answer: &[1.; 8],
        odd: &[(&[1.; 8], &[], &[], "2 keys, but 3 values"), (&[1.; 16], &[], &[], "4 keys, but 3 values")],
    },
    Case {
        method: "batch_norm",
        good: (&[0., 0.], &[], &[]),
        answer: &[0., 0.],
        odd: &[(&[1.; 4096], &[], &[], "running_mean should have 4096 elements, not 2")],
    },
    Case {
        method: "pooled",
        good: (&[], &[3], &[]),
        answer: &[0., 0., 0., 1.],
        odd: &[(&[], &[4], &[], "between 0 and 3"), (&[], &[FAR], &[], "between 0 and 3")],
    },
    Case { method: "replaces", good: (&[0.], &[1], &[]), answer: &[3.], odd: &[(&[0.], &[0], &[], "empty string")] },
    Case {
        method: "widens",
        good: (&[0.], &[5], &[]),
        answer: &[5.],
        odd: &[(&[0.], &[1 << 62], &[], "OverflowError"), (&[0.], &[-1], &[], "OverflowError")],
    },
    Case {
        method: "four_bits",
        good: (&[1.], &[2], &[]),
        answer: &[],
        odd: &[(&[1.], &[1], &[], "scales of 1 groups, but 2"), (&[1.], &[0], &[], "scales of 0 groups, but 2")],
    },
    Case {
        method: "observer",
        good: (&[0., 1., 0., 1., 0., 1.], &[], &[]),
        answer: &[0., 1., 0., 1., 0., 1.],
        odd: &[(&[1.; 4096], &[], &[], "running_min should have 2048 elements, not 3")],
    },
    Case {
        method: "bins",
        good: (&[0., 1.], &[4], &[]),
        answer: &[],
        odd: &[(&[0., 1.], &[-1], &[], "n_bins > 0"), (&[0., 1.], &[0], &[], "n_bins > 0")],
    },
    Case { method: "heads", good: (&[], &[2], &[]), answer: &[], odd: &[(&[], &[0], &[], "heads above 0, not 0")] },
    Case {
        method: "mask",
        good: (&[1.; 4], &[], &[]),
        answer: &[0.5; 4],
        odd: &[(&[1.; 4096], &[], &[], "a mask of shape [1, 2] does not fit")],
    },
    Case {
        method: "window",
        good: (&[1., 2., 3.], &[3], &[]),
        answer: &[2., 3.],
        odd: &[(&[1., 2., 3.], &[FAR], &[], "kernel_size of 1099511627776 is too large")],
    },
    Case {
        method: "kernel",
        good: (&[], &[2], &[]),
        answer: &[1., 2., 1., 2., 4., 2., 1., 2., 1.],
        odd: &[(&[], &[64], &[], "does not fit weights of shape [1, 1, 2, 2]")],
    },
    Case {
        method: "diagonals",
        good: (&[], &[2], &[]),
        answer: &[1., 0., 0., 1.],
        odd: &[(&[], &[-1], &[], "a matrix has no size -1")],
    },
    Case {
        method: "alias",
        good: (&[1., 2.], &[2], &[]),
        answer: &[1., 2.],
        odd: &[(&[1., 2.], &[1 << 31], &[], "out of bounds")],
    },
    Case {
        method: "resized",
        good: (&[0.5, 0.5], &[], &[]),
        answer: &[1.; 4],
        odd: &[(&[0.5, 1e-9], &[], &[], "a scales_w of"), (&[0.1, 0.5], &[], &[], "from 4 to 2 elements")],
    },
    Case {
        method: "resized_smoothly",
        good: (&[0.6, 0.], &[], &[]),
        answer: &[],
        odd: &[(&[1e-9, 0.5], &[], &[], "a scales_h of")],
    },
    Case {
        method: "reordered",
        good: (&[], &[1], &[]),
        answer: &[1.],
        odd: &[(&[], &[0], &[], "non-positive stride"), (&[], &[-1], &[], "non-positive stride")],
    },
    Case {
        method: "summed",
        good: (&[1., 2., 3., 4.], &[], &[]),
        answer: &[2., 3., 4., 5.],
        odd: &[(&[1., 2.], &[], &[], "cannot be added"), (&[], &[], &[], "cannot be added")],
    },
];

fn source(method: &str) -> ModelSource {
    let i = |name| tensor(name, DataType::Int64, &[-1]);
    let f = tensor("f", DataType::Fp32, &[-1]);
    let parameters = BTreeMap::from([("method".to_owned(), method.to_owned())]);
    ModelSource { parameters, ..configured("trusting", 0, vec![f.clone(), i("i"), i("j")], vec![f]) }
}

fn answer(instance: &mut dyn Instance, (f, i, j): (&[f32], &[i64], &[i64])) -> Result<Vec<f32>, String> {
    let numbers = |name, values: &[i64]| whole(name, DataType::Int64, &[values.len() as i64], ints(values));
    let columns = vec![whole("f", DataType::Fp32, &[f.len() as i64], floats(f)), numbers("i", i), numbers("j", j)];
    let outputs = run(instance, columns).map_err(|error| error.to_string())?;
    Ok(as_floats(&outputs[0]))
}

#[test]
fn values_that_an_operator_does_not_check_are_an_exception() {
    for case in CASES {
        let method = case.method;
        let mut instance = load(&source(method)).instance(Device::Cpu).unwrap();
        for (f, i, j, said) in case.odd {
            let error = answer(&mut *instance, (f, i, j)).unwrap_err();
            assert!(error.contains(said), "{method}: {error}");
        }
        let answered = answer(&mut *instance, case.good);
        let answered = answered.unwrap_or_else(|error| panic!("{method}: {error}"));
        assert!(!answered.is_empty(), "{method}");
        if !case.answer.is_empty() {
            assert_eq!(answered, case.answer, "{method}");
        }
    }
}
