use super::*;

/// `add_sub` on this many floats makes two tensors of as many.
const FLOATS: i64 = 1000;

fn zeros() -> Value {
    let float = 6; // c10::ScalarType::Float
    let tensor = Tensor::filled(float, &[FLOATS], |out| {
        out.fill(std::mem::MaybeUninit::new(0));
    });
    Value::Tensor(tensor.unwrap())
}

/// The processor's allocator reports as a device's does, so the count can be checked without one.
#[test]
fn a_metered_run_tells_the_most_memory_it_had() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/add_sub.pt");
    let module = Module::load(&path, Device::Cpu).unwrap();
    let values = Values::Positional(vec![zeros(), zeros()]);
    let options = RunOptions {
        inference_mode: true,
        optimize: true,
    };
    let peak = |metering| module.run(&values, options, metering, None).unwrap().peak;
    assert_eq!(peak(Metering::Off), 0);
    assert_eq!(peak(Metering::On), 2 * 4 * FLOATS as u64);
    assert_eq!(peak(Metering::On), 2 * 4 * FLOATS as u64, "not the sum");
    assert_eq!(peak(Metering::Off), 0);
}
