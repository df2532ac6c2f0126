//! Upper bound on the size of a response as JSON, for callers that limit memory before encoding.

use crate::{DataType, Delivery, InferResponse, Tensor};

/// Size in bytes of a string's length prefix.
const LENGTH: usize = 4;

/// Maximum number of JSON bytes for one byte of a string, as in `\u0000`.
const ESCAPED: usize = 6;

/// Bytes of a list's brackets and the comma after it.
const LIST: usize = 3;

/// Returns the maximum number of bytes that the outputs of a response take as JSON, flat or nested row by row. Binary
/// outputs count as none.
#[must_use]
pub fn most_json_bytes(response: &InferResponse) -> usize {
    let outputs = response.outputs.iter();
    let json = outputs.filter(|(_, delivery)| matches!(delivery, Delivery::Json));
    json.map(|(tensor, _)| most_bytes(tensor)).fold(0, usize::saturating_add)
}

fn most_bytes(tensor: &Tensor) -> usize {
    let elements = tensor.shape().elements();
    let each = elements.saturating_mul(most_each(tensor.datatype()));
    let text = match tensor.datatype().size() {
        Some(_) => 0,
        None => tensor.data().len().saturating_sub(elements * LENGTH),
    };
    each.saturating_add(text.saturating_mul(ESCAPED)).saturating_add(most_nesting(tensor))
}

/// Returns the bytes of the brackets of a tensor that is nested by its shape, and of its name in each row.
fn most_nesting(tensor: &Tensor) -> usize {
    let (mut lists, mut all) = (1_usize, 0_usize);
    for dim in tensor.shape().dims() {
        all = all.saturating_add(lists);
        lists = lists.saturating_mul(*dim);
    }
    let rows = tensor.shape().dims().first().copied().unwrap_or(1);
    // Bytes of quotes, a colon, braces and commas.
    let name = tensor.name().len() * ESCAPED + 8;
    let names = rows.saturating_mul(name);
    all.saturating_mul(LIST).saturating_add(names)
}

/// Returns the maximum bytes of an element and the comma after it. For a string, that is `{"b64":""},` without the text
/// itself.
fn most_each(datatype: DataType) -> usize {
    match datatype {
        DataType::Bool | DataType::Uint16 => 6,
        DataType::Uint8 => 4,
        DataType::Int8 => 5,
        DataType::Int16 => 7,
        DataType::Uint32 => 11,
        DataType::Int32 | DataType::Bytes => 12,
        DataType::Uint64 | DataType::Int64 => 21,
        DataType::Fp16 | DataType::Bf16 | DataType::Fp32 => 20,
        DataType::Fp64 => 26,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::rest::{encode_predict, encode_response};
    use crate::{Parameters, Shape};

    /// Returns a response with one output of these bytes.
    fn response(datatype: DataType, dims: &[i64], data: Vec<u8>) -> InferResponse {
        let shape = Shape::new(dims).unwrap();
        let tensor = Tensor::new("y\"\u{1}".to_owned(), datatype, shape, Bytes::from(data));
        InferResponse {
            model: "m".to_owned(),
            version: "1".to_owned(),
            id: String::new(),
            parameters: Parameters::default(),
            outputs: vec![(tensor.unwrap(), Delivery::Json)],
        }
    }

    /// Bytes around the elements of one output.
    const AROUND: usize = 200;

    #[test]
    fn no_datatype_exceeds_the_bound() {
        for datatype in DataType::ALL {
            let Some(size) = datatype.size() else {
                continue;
            };
            // Elements that begin with each byte value, which include extremes and long fractions.
            let data = (0..=255).flat_map(|byte: u8| (0..size).map(move |i| byte.wrapping_add(7 * i as u8)));
            let response = response(datatype, &[256, 1, 1], data.collect());
            let most = most_json_bytes(&response) + AROUND;
            let nested = encode_predict(&response).unwrap().len();
            assert!(nested <= most, "{datatype}: {nested} of {most}");
            if let Ok(flat) = encode_response(&response) {
                assert!(flat.json.len() <= most, "{datatype}: {} of {most}", flat.json.len());
            }
        }
    }

    proptest! {
        #[test]
        fn strings_do_not_exceed_the_bound(
            strings in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..20),
        ) {
            let prefixed = strings.iter().flat_map(|string| {
                let length = (string.len() as u32).to_le_bytes();
                [&length[..], &string[..]].concat()
            });
            let response = response(DataType::Bytes, &[strings.len() as i64, 1], prefixed.collect());
            let most = most_json_bytes(&response) + AROUND;
            prop_assert!(encode_predict(&response).unwrap().len() <= most);
            if let Ok(flat) = encode_response(&response) {
                prop_assert!(flat.json.len() <= most);
            }
        }

        #[test]
        fn numbers_do_not_exceed_the_bound(bits in any::<u64>()) {
            let bytes = bits.to_le_bytes();
            let double = response(DataType::Fp64, &[1], bytes.to_vec());
            let single = response(DataType::Fp32, &[2], bytes.to_vec());
            for response in [double, single] {
                let most = most_json_bytes(&response) + AROUND;
                prop_assert!(encode_response(&response).unwrap().json.len() <= most);
            }
        }
    }
}
