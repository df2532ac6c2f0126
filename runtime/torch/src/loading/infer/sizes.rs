//! Sizes for the dimensions that a signature leaves open, the most likely first.

use weir_protocol::Tensor;
use weir_runtime::backend::{LoadError, ModelSource, Signature, TensorConfig};

use super::candidates;
use crate::execution::binding::{self, Binding, model_dims};
use crate::module::Module;

/// Sizes to try for all open dimensions alike: 4 is enough for most models, convolutions need at least their kernel's
/// size, image models often halve the image five times, and a second of sound has 16 000 samples.
const SIZES: [i64; 17] = [4, 8, 1, 2, 16, 64, 224, 28, 32, 80, 128, 256, 512, 1024, 4096, 16_000, 48_000];

/// Sizes of the first of several open dimensions of an input, which usually counts images, steps or channels.
const LEADING: [i64; 2] = [1, 3];

/// Sizes of the first input with open dimensions, and of all other inputs.
const DIFFERENT: [(i64, i64); 8] = [(8, 1), (1, 8), (64, 8), (8, 64), (224, 8), (8, 224), (1024, 8), (16_000, 8)];

/// Largest number of weight sizes to try, none of them above [`LARGEST_OF_WEIGHTS`].
const OF_WEIGHTS: usize = 16;
const LARGEST_OF_WEIGHTS: i64 = 16_384;

/// Largest number of inferred candidates to compare with the configuration.
const CANDIDATES: usize = 256;

/// Largest number of elements of an input: generating more takes seconds and reveals nothing.
const MOST_ELEMENTS: i64 = 1 << 22;

/// Largest number of sizes to try.
const MOST: usize = 128;

/// An open dimension: the index of its input among the inputs that have open dimensions, its own index among the open
/// dimensions of that input, and how many that input has.
#[derive(Clone, Copy, Debug)]
struct Open {
    input: usize,
    position: usize,
    of: usize,
}

/// Returns the inputs of a signature with sizes to try. `ran` are the inputs that inference ran on, which come first.
pub(crate) fn of_signature(
    source: &ModelSource,
    module: &Module,
    signature: &Signature,
    ran: Option<Vec<TensorConfig>>,
) -> Vec<Vec<TensorConfig>> {
    let ran = ran.map(|ran| merged(&signature.inputs, ran));
    let rows = usize::from(signature.max_batch_size > 0);
    let others = of_inputs(source, module, (&signature.inputs, rows)).unwrap_or_default();
    distinct(ran.into_iter().chain(others))
}

/// Returns configured inputs with sizes to try. `rows` is 1 if examples have a leading batch dimension that the inputs
/// leave out, otherwise 0.
///
/// # Errors
/// [`LoadError`] if the inputs do not match the model's arguments.
pub(crate) fn of_inputs(
    source: &ModelSource,
    module: &Module,
    (inputs, rows): (&[TensorConfig], usize),
) -> Result<Vec<Vec<TensorConfig>>, LoadError> {
    let binding = binding::inputs(&source.name, module.arguments(), inputs)?;
    let example = source.example.as_deref();
    let example = example.and_then(|example| of_example(example, inputs, rows));
    let trace = of_trace(module, &binding, (inputs, rows));
    let guesses = of_guesses(source, module, &binding, (inputs, rows));
    let generic = generic(inputs, &weights(module));
    let all = example.into_iter().chain(trace).chain(guesses).chain(generic);
    let mut all = distinct(all.filter(|inputs| inputs.iter().all(is_small)));
    if all.is_empty() {
        // Requests must have the fixed dimensions too, so a large input is tried if there is no other.
        all.push(sized(inputs, |_| 1));
    }
    all.truncate(MOST);
    Ok(all)
}

/// Returns all inputs of the signature: those that ran with their sizes, others with one element.
fn merged(inputs: &[TensorConfig], ran: Vec<TensorConfig>) -> Vec<TensorConfig> {
    let mut merged = sized(inputs, |_| 1);
    for input in ran {
        if let Some(own) = merged.iter_mut().find(|own| own.name == input.name) {
            *own = input;
        }
    }
    merged
}

fn of_example(example: &[Tensor], inputs: &[TensorConfig], rows: usize) -> Option<Vec<TensorConfig>> {
    let of_input = |input: &TensorConfig| {
        let tensor = example.iter().find(|tensor| tensor.name() == input.name);
        let Some(tensor) = tensor else {
            return input.optional.then(|| sized(std::slice::from_ref(input), |_| 1).remove(0));
        };
        let dims: Vec<i64> = tensor.shape().signed().skip(rows).collect();
        (tensor.datatype() == input.datatype).then(|| with_dims(input, &dims))?
    };
    inputs.iter().map(of_input).collect()
}

/// Returns the inputs with the sizes that the module was traced with.
fn of_trace(module: &Module, binding: &Binding, (inputs, rows): (&[TensorConfig], usize)) -> Option<Vec<TensorConfig>> {
    let Binding::Positional { argument_of, .. } = binding else {
        return None;
    };
    let of_input = |(input, argument): (&TensorConfig, &usize)| {
        let example = module.arguments().get(*argument)?.example.as_ref()?;
        with_dims(input, example.sizes.get(rows..)?)
    };
    inputs.iter().zip(argument_of).map(of_input).collect()
}

/// Returns the inputs with the sizes that the weights suggest.
fn of_guesses(
    source: &ModelSource,
    module: &Module,
    binding: &Binding,
    (inputs, rows): (&[TensorConfig], usize),
) -> Vec<Vec<TensorConfig>> {
    let Binding::Positional { argument_of, .. } = binding else {
        return Vec::new();
    };
    let bare = ModelSource { inputs: Vec::new(), example: None, ..source.clone() };
    let guessed = match rows {
        0 => candidates::whole(&bare, module),
        _ => candidates::batched(&bare, module),
    };
    let fitting = |candidate: candidates::Candidate| {
        let of_input = |(input, argument): (&TensorConfig, &usize)| {
            let name = &module.arguments().get(*argument)?.name;
            let guess = candidate.inputs.iter().find(|guess| guess.name == *name)?;
            (guess.datatype == input.datatype).then(|| with_dims(input, model_dims(guess)))?
        };
        inputs.iter().zip(argument_of).map(of_input).collect()
    };
    let guessed = guessed.unwrap_or_default().into_iter().take(CANDIDATES);
    guessed.filter_map(fitting).collect()
}

/// Returns the inputs with sizes that many models accept, and with the sizes of the weights.
fn generic(inputs: &[TensorConfig], weights: &[i64]) -> Vec<Vec<TensorConfig>> {
    let opens = inputs.iter().map(|input| open_dims(input).count());
    let opens: Vec<usize> = opens.filter(|count| *count > 0).collect();
    let several = opens.iter().any(|count| *count > 1);
    let mut all = Vec::new();
    for size in SIZES {
        if several {
            all.extend(LEADING.map(|leading| sized(inputs, |open| led(open, leading, size))));
        }
        all.push(sized(inputs, |_| size));
    }
    for &size in weights {
        all.push(sized(inputs, |_| size));
        if several {
            all.push(sized(inputs, |open| led(open, 8, size)));
        }
    }
    if opens.len() > 1 {
        let different = |(first, others)| sized(inputs, |open| if open.input == 0 { first } else { others });
        all.extend(DIFFERENT.map(different));
    }
    all
}

/// Returns the size of an open dimension; the first of several has a size of its own.
fn led(open: Open, leading: i64, size: i64) -> i64 {
    if open.of > 1 && open.position == 0 { leading } else { size }
}

fn weights(module: &Module) -> Vec<i64> {
    let mut sizes: Vec<i64> = Vec::new();
    for size in module.parameters().into_iter().flat_map(|weight| weight.sizes) {
        if (2..=LARGEST_OF_WEIGHTS).contains(&size) && !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    sizes.truncate(OF_WEIGHTS);
    sizes
}

fn open_dims(input: &TensorConfig) -> impl Iterator<Item = &i64> {
    model_dims(input).iter().filter(|dim| **dim < 0)
}

/// Returns the inputs with a size for each open dimension.
fn sized(inputs: &[TensorConfig], size: impl Fn(Open) -> i64) -> Vec<TensorConfig> {
    let mut number = 0;
    let of_input = |input: &TensorConfig| {
        let of = open_dims(input).count();
        let mut position = 0;
        let dims = model_dims(input).iter().map(|&dim| {
            if dim >= 0 {
                return dim;
            }
            let open = Open { input: number, position, of };
            position += 1;
            size(open)
        });
        let dims: Vec<i64> = dims.collect();
        number += usize::from(of > 0);
        put(input, dims)
    };
    inputs.iter().map(of_input).collect()
}

/// Returns the input with these dimensions, if they have its rank and match its fixed dimensions.
fn with_dims(input: &TensorConfig, dims: &[i64]) -> Option<TensorConfig> {
    let own = model_dims(input);
    let fits = |(own, dim): (&i64, &i64)| (*own < 0 && *dim >= 0) || own == dim;
    let fits = own.len() == dims.len() && own.iter().zip(dims).all(fits);
    fits.then(|| put(input, dims.to_vec()))
}

fn put(input: &TensorConfig, dims: Vec<i64>) -> TensorConfig {
    let mut sized = input.clone();
    *sized.reshape.as_mut().unwrap_or(&mut sized.dims) = dims;
    sized
}

fn is_small(input: &TensorConfig) -> bool {
    let elements = model_dims(input).iter().try_fold(1_i64, |all, dim| all.checked_mul(*dim));
    elements.is_some_and(|elements| elements <= MOST_ELEMENTS)
}

fn distinct(all: impl Iterator<Item = Vec<TensorConfig>>) -> Vec<Vec<TensorConfig>> {
    let mut distinct: Vec<Vec<TensorConfig>> = Vec::new();
    for inputs in all {
        if !distinct.contains(&inputs) {
            distinct.push(inputs);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_protocol::DataType;

    use super::*;

    fn input(dims: &[i64]) -> TensorConfig {
        TensorConfig::new("x", DataType::Fp32, dims)
    }

    fn dims(all: &[Vec<TensorConfig>]) -> Vec<Vec<Vec<i64>>> {
        let dims = |inputs: &Vec<TensorConfig>| inputs.iter().map(|input| input.dims.clone()).collect();
        all.iter().map(dims).collect()
    }

    #[test]
    fn the_first_of_several_open_dimensions_stays_small() {
        let tried = dims(&generic(&[input(&[-1, 3, -1, -1])], &[]));
        assert_eq!(tried[..2], [vec![vec![1, 3, 4, 4]], vec![vec![3, 3, 4, 4]]]);
        assert!(tried.contains(&vec![vec![1, 3, 224, 224]]));
    }

    #[test]
    fn sizes_may_differ_by_input() {
        let tried = dims(&generic(&[input(&[-1, 80]), input(&[1]), input(&[-1])], &[]));
        assert_eq!(tried[0], [vec![4, 80], vec![1], vec![4]]);
        assert!(tried.contains(&vec![vec![64, 80], vec![1], vec![8]]));
    }

    #[test]
    fn dimensions_are_those_of_an_example_that_fits() {
        assert_eq!(with_dims(&input(&[-1, 80]), &[7, 80]), Some(input(&[7, 80])));
        assert_eq!(with_dims(&input(&[-1, 80]), &[7, 40]), None);
        assert_eq!(with_dims(&input(&[-1, 80]), &[7]), None);
    }

    proptest! {
        #[test]
        fn no_size_is_open_or_large(dims in proptest::collection::vec(-1..300_i64, 0..5)) {
            let open = [input(&dims)];
            for tried in generic(&open, &[12]) {
                prop_assert!(model_dims(&tried[0]).iter().all(|dim| *dim >= 0));
                prop_assert!(with_dims(&open[0], model_dims(&tried[0])).is_some());
            }
        }
    }
}
