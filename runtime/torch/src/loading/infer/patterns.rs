//! Shapes that an argument may take, according to the module's code: a first linear layer of 16 inputs needs 16
//! elements in the last dimension. Pure: no module is run.

use weir_protocol::DataType;

use crate::module::hints::{Hint, HintKind};

/// A datatype with dimensions, some of which no weight determines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) datatype: DataType,
    pub(super) dims: Vec<Dim>,
}

/// One dimension of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dim {
    Fixed(i64),
    /// The length of a sequence, the same for all arguments.
    Length,
    /// The side of an image, the same for all arguments.
    Side,
    /// A guessed size of an argument that the model concatenates with others.
    Part(i64),
}

/// Largest number of patterns per argument; the most likely are kept.
const MOST: usize = 12;

/// Shapes to try if the code gives no hint, in this order. An elementwise model accepts all of them, and then the
/// simplest is the right one.
const FLOATS: [&[Dim]; 4] = [
    &[Dim::Fixed(4)],
    &[Dim::Fixed(3), Dim::Fixed(4)],
    &[Dim::Fixed(4), Dim::Fixed(4)],
    &[Dim::Fixed(3), Dim::Fixed(8), Dim::Fixed(8)],
];

/// Shapes of a mask or of integers next to an input of [`FLOATS`]: one value per element, or one per entry of the first
/// dimension.
const BESIDE_FLOATS: [&[Dim]; 3] = [&[Dim::Fixed(4)], &[Dim::Fixed(3)], &[Dim::Fixed(3), Dim::Fixed(4)]];

/// Substrings of argument names that suggest integers.
const INTEGER_NAMES: [&str; 7] = ["ids", "token", "index", "indices", "idx", "length", "categor"];

/// Substrings of argument names that suggest one integer per row.
const LENGTH_NAMES: [&str; 2] = ["length", "lens"];

impl Pattern {
    /// The pattern of a list of strings.
    pub(super) fn strings() -> Self {
        pattern(DataType::Bytes, &[Dim::Fixed(1)])
    }
}

/// Returns the patterns of one argument, by its name and its hints, the most likely first. `other_arguments` are the
/// patterns of the arguments that meet a weight.
pub(super) fn of(name: &str, hints: &[Hint], other_arguments: &[Pattern]) -> Vec<Pattern> {
    let has_kind = |kind| hints.iter().any(|hint| hint.kind == kind);
    let mut patterns: Vec<Pattern> = hints.iter().flat_map(|hint| of_hint(hint, hints)).collect();
    if patterns.is_empty() {
        let datatypes = datatypes(name, has_kind(HintKind::Converted));
        if is_length(name) {
            patterns.push(pattern(DataType::Int64, &[]));
        }
        let like = other_arguments.iter().flat_map(|other| {
            let dims = other.dims.clone();
            datatypes.iter().map(move |datatype| pattern(*datatype, &dims))
        });
        patterns.extend(like);
        patterns.extend(generic(&datatypes));
        let others = datatypes.iter().filter(|other| **other != DataType::Fp32);
        patterns.extend(others.flat_map(|other| beside_floats(*other)));
    } else {
        patterns.extend(generic(&[DataType::Fp32, DataType::Int64]));
    }
    let mut distinct: Vec<Pattern> = Vec::new();
    for pattern in patterns {
        if !distinct.contains(&pattern) {
            distinct.push(pattern);
        }
    }
    distinct.truncate(MOST);
    distinct
}

fn pattern(datatype: DataType, dims: &[Dim]) -> Pattern {
    Pattern { datatype, dims: dims.to_vec() }
}

/// Returns the likely datatypes of an argument that meets no weight, the most likely first.
fn datatypes(name: &str, converted: bool) -> Vec<DataType> {
    let name = name.to_ascii_lowercase();
    let integers = INTEGER_NAMES.iter().any(|part| name.contains(part));
    // A mask that the code multiplies directly is likely FP32. A mask that it compares or converts is likely INT64, as
    // tokenizers produce.
    let mask = name.contains("mask");
    if is_length(&name) {
        vec![DataType::Int64, DataType::Fp32]
    } else if integers || (mask && converted) {
        vec![DataType::Int64, DataType::Fp32, DataType::Bool]
    } else if mask {
        vec![DataType::Fp32, DataType::Bool, DataType::Int64]
    } else {
        vec![DataType::Fp32, DataType::Int64]
    }
}

fn is_length(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    LENGTH_NAMES.iter().any(|part| name.contains(part))
}

fn generic(datatypes: &[DataType]) -> Vec<Pattern> {
    let of_type = |&datatype: &DataType| match datatype {
        DataType::Fp32 => FLOATS.iter().map(|dims| pattern(datatype, dims)).collect(),
        _ => vec![pattern(datatype, &[Dim::Length]), pattern(datatype, &[])],
    };
    datatypes.iter().flat_map(of_type).collect::<Vec<Pattern>>()
}

fn beside_floats(datatype: DataType) -> impl Iterator<Item = Pattern> {
    let shapes = BESIDE_FLOATS.into_iter();
    shapes.map(move |dims| pattern(datatype, dims))
}

fn of_hint(hint: &Hint, all: &[Hint]) -> Vec<Pattern> {
    let datatype = datatype(hint, all);
    let make = |shapes: Vec<Vec<Dim>>| -> Vec<Pattern> {
        let shapes = shapes.into_iter();
        shapes.map(|dims| pattern(datatype, &dims)).collect()
    };
    let fixed = || hint.sizes.iter().copied().map(Dim::Fixed).collect::<Vec<_>>();
    let first = Dim::Fixed(hint.sizes.first().copied().unwrap_or(1));
    match hint.kind {
        HintKind::Last => make(vec![fixed(), [vec![Dim::Length], fixed()].concat()]),
        HintKind::Joined => {
            let part = |dim: &i64| Dim::Part(*dim);
            make(vec![hint.sizes.iter().map(part).collect()])
        }
        HintKind::Steps => make(vec![vec![Dim::Length, first], vec![first]]),
        HintKind::Channels => make(vec![spatial(first, hint.sizes.get(1).copied().unwrap_or(2))]),
        HintKind::ChannelsAny => make(vec![vec![first], vec![first, Dim::Length], vec![first, Dim::Side, Dim::Side]]),
        HintKind::Broadcast => make(broadcast(&hint.sizes)),
        HintKind::View => make(viewed(&hint.sizes)),
        // A value that is compared first is not an index: the comparison turns it into a mask.
        HintKind::Index | HintKind::Condition if hint.converted => Vec::new(),
        HintKind::Ids | HintKind::Index => {
            vec![pattern(DataType::Int64, &[Dim::Length]), pattern(DataType::Int64, &[])]
        }
        HintKind::Condition => {
            std::iter::once(pattern(DataType::Bool, &[Dim::Length])).chain(beside_floats(DataType::Bool)).collect()
        }
        HintKind::Converted | HintKind::OfBytes => Vec::new(),
    }
}

/// Returns the weight's datatype, unless the code converts the argument to it: then UINT8 if the code also divides by
/// 255, else FP32.
fn datatype(hint: &Hint, all: &[Hint]) -> DataType {
    let bytes = || all.iter().any(|hint| hint.kind == HintKind::OfBytes && hint.converted);
    match hint.datatype {
        Some(datatype) if !hint.converted => datatype,
        Some(_) if bytes() => DataType::Uint8,
        Some(_) | None => DataType::Fp32,
    }
}

fn spatial(channels: Dim, spatial: i64) -> Vec<Dim> {
    match spatial {
        1 => vec![channels, Dim::Length],
        3 => vec![channels, Dim::Length, Dim::Side, Dim::Side],
        _ => vec![channels, Dim::Side, Dim::Side],
    }
}

/// Returns the shapes to which a weight of these sizes broadcasts; a leading 1 is the batch dimension.
fn broadcast(sizes: &[i64]) -> Vec<Vec<Dim>> {
    let own: &[i64] = match sizes {
        [1, rest @ ..] if !rest.is_empty() => rest,
        whole => whole,
    };
    let open = |rank: usize| if rank > 2 { Dim::Side } else { Dim::Length };
    let dims: Vec<Dim> = own.iter().map(|&size| if size == 1 { open(own.len()) } else { Dim::Fixed(size) }).collect();
    vec![dims.clone(), [vec![Dim::Length], dims].concat()]
}

/// Returns the shapes that can be viewed as these sizes, the first of which is the batch dimension.
fn viewed(sizes: &[i64]) -> Vec<Vec<Dim>> {
    let Some((_, rest)) = sizes.split_first() else {
        return Vec::new();
    };
    if rest.is_empty() || rest.iter().any(|size| *size < 1) {
        return Vec::new();
    }
    let whole = rest.iter().map(|size| Dim::Fixed(*size)).collect();
    let product = rest.iter().product();
    vec![vec![Dim::Fixed(product)], whole]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(kind: HintKind, sizes: &[i64]) -> Hint {
        Hint { argument: 0, kind, sizes: sizes.to_vec(), datatype: Some(DataType::Fp32), converted: false }
    }

    fn first(name: &str, hints: &[Hint]) -> Pattern {
        of(name, hints, &[]).swap_remove(0)
    }

    #[test]
    fn each_layer_says_what_it_takes() {
        use Dim::{Fixed, Length, Side};
        for (kind, sizes, dims) in [
            (HintKind::Last, [16].as_slice(), vec![Fixed(16)]),
            (HintKind::Channels, &[3, 2], vec![Fixed(3), Side, Side]),
            (HintKind::Channels, &[1, 1], vec![Fixed(1), Length]),
            (HintKind::Steps, &[7], vec![Length, Fixed(7)]),
            (HintKind::Broadcast, &[1, 12, 8], vec![Fixed(12), Fixed(8)]),
            (HintKind::Broadcast, &[1, 3, 1, 1], vec![Fixed(3), Side, Side]),
            (HintKind::View, &[-1, 1, 28, 28], vec![Fixed(784)]),
        ] {
            assert_eq!(first("x", &[hint(kind, sizes)]).dims, dims, "{kind:?} {sizes:?}");
        }
        assert_eq!(first("x", &[hint(HintKind::Ids, &[20])]), pattern(DataType::Int64, &[Length]));
    }

    #[test]
    fn the_datatype_is_the_weights_unless_the_code_converts() {
        let mut weight = hint(HintKind::Last, &[8]);
        weight.datatype = Some(DataType::Fp16);
        assert_eq!(first("x", &[weight.clone()]).datatype, DataType::Fp16);
        weight.converted = true;
        assert_eq!(first("x", &[weight.clone()]).datatype, DataType::Fp32);
        let mut bytes = hint(HintKind::OfBytes, &[]);
        bytes.converted = true;
        assert_eq!(first("x", &[bytes, weight]).datatype, DataType::Uint8);
    }

    #[test]
    fn a_name_decides_where_the_code_says_nothing() {
        let converted = [hint(HintKind::Converted, &[])];
        assert_eq!(first("attention_mask", &converted).datatype, DataType::Int64);
        assert_eq!(first("mask", &[]).datatype, DataType::Fp32);
        assert_eq!(first("position_ids", &[]).datatype, DataType::Int64);
        let steps = pattern(DataType::Fp32, &[Dim::Length, Dim::Fixed(4)]);
        let lengths = of("x_lens", &[], std::slice::from_ref(&steps));
        assert_eq!(lengths[0], pattern(DataType::Int64, &[]));
        let ids = pattern(DataType::Int64, &[Dim::Length]);
        let like = of("mask", &[], std::slice::from_ref(&ids));
        assert_eq!(like[0], pattern(DataType::Fp32, &[Dim::Length]));
    }

    #[test]
    fn a_mask_may_have_the_shape_of_floats_that_no_weight_determines() {
        let mask = pattern(DataType::Bool, FLOATS[0]);
        assert!(of("mask", &[], &[]).contains(&mask));
        assert!(of("x", &[hint(HintKind::Condition, &[])], &[]).contains(&mask));
        let steps = pattern(DataType::Int64, &FLOATS[1][..1]);
        let converted = [hint(HintKind::Converted, &[])];
        assert!(of("attention_mask", &converted, &[]).contains(&steps));
    }

    proptest::proptest! {
        #[test]
        fn any_hints_make_some_patterns(
            sizes in proptest::collection::vec(-1_i64..9, 0..5), kind in 0_usize..12, name in "[a-z_]{0,8}",
        ) {
            let kinds = [HintKind::Last, HintKind::Channels, HintKind::Ids, HintKind::Steps, HintKind::ChannelsAny, HintKind::Broadcast,
                HintKind::View, HintKind::Index, HintKind::Condition, HintKind::Converted, HintKind::OfBytes, HintKind::Joined];
            let patterns = of(&name, &[hint(kinds[kind], &sizes)], &[]);
            proptest::prop_assert!(!patterns.is_empty() && patterns.len() <= MOST);
        }
    }
}
