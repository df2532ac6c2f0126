//! Weir's own settings in a configuration's `parameters`: the lengths to pad requests to.

use std::collections::BTreeMap;

use weir_protocol::DataType;
use weir_protocol::grpc::proto::ModelConfig;

use super::ConfigError;
use crate::backend::TensorConfig;
use crate::model::interface::model_dims;
use crate::model::padding::{Padding, variable_axis};

/// Name of the parameter with the lengths to pad to, ascending, such as `16,32,64`.
const BUCKETS: &str = "PADDING_BUCKETS";

/// Name of the parameter with padding values by input, such as `input_ids=0,attention_mask=0`.
const VALUES: &str = "PADDING_VALUES";

/// Limit in bytes on a padded row of an input: the default limit on a request. Every short request is padded to this
/// size, so a mistyped length could use up all memory.
const MAX_ROW: u64 = 1 << 30;

/// Returns the parameters without Weir's own.
pub(super) fn backend_parameters(config: &ModelConfig) -> BTreeMap<String, String> {
    config
        .parameters
        .iter()
        .filter(|(key, _)| ![BUCKETS, VALUES].contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.string_value.clone()))
        .collect()
}

/// Parses the padding, if it is configured. `inputs` is empty while the inputs are unknown.
pub(super) fn parse(config: &ModelConfig, inputs: &[TensorConfig]) -> Result<Option<Padding>, ConfigError> {
    let given = |key| config.parameters.get(key).map(|value| value.string_value.as_str());
    let fail = |key: &str, what: &str| {
        let model = &config.name;
        ConfigError::Invalid(format!("parameter '{key}' of model '{model}' {what}"))
    };
    let Some(buckets) = given(BUCKETS) else {
        return match given(VALUES) {
            None => Ok(None),
            Some(_) => Err(fail(VALUES, "needs 'PADDING_BUCKETS'")),
        };
    };
    let Some(buckets) = parse_buckets(buckets) else {
        return Err(fail(BUCKETS, "must be ascending lengths, such as '16,32,64'"));
    };
    let values = parse_values(given(VALUES).unwrap_or_default(), inputs).map_err(|what| fail(VALUES, &what))?;
    if !inputs.is_empty() && inputs.iter().all(|input| variable_axis(&input.dims).is_none()) {
        return Err(fail(BUCKETS, "needs an input with a dimension of -1"));
    }
    let is_padded = |input: &&TensorConfig| variable_axis(model_dims(input)).is_some();
    if let Some(text) = inputs.iter().filter(is_padded).find(|input| input.datatype == DataType::Bytes) {
        let what = format!("applies to numbers only, but input '{}' has TYPE_STRING", text.name);
        return Err(fail(BUCKETS, &what));
    }
    let longest = buckets.last().copied().unwrap_or(0);
    if inputs.iter().any(|input| row_bytes(input, longest) > MAX_ROW) {
        let what = format!("has the length {longest}, which makes a row larger than {MAX_ROW} bytes");
        return Err(fail(BUCKETS, &what));
    }
    Ok(Some(Padding { buckets, values }))
}

/// Returns the bytes of a row of an input that is padded to this length; 0 for an input that is not padded.
fn row_bytes(input: &TensorConfig, length: usize) -> u64 {
    if variable_axis(&input.dims).is_none() {
        return 0;
    }
    let fixed = input.dims.iter().filter(|dim| **dim > 0);
    let size = input.datatype.size().unwrap_or(4) as u64;
    fixed.fold(size.saturating_mul(length as u64), |bytes, dim| bytes.saturating_mul(dim.unsigned_abs()))
}

fn parse_buckets(text: &str) -> Option<Vec<usize>> {
    let lengths = text.split(',').map(|length| length.trim().parse().ok());
    let lengths: Vec<usize> = lengths.collect::<Option<_>>()?;
    let ascending = lengths.is_sorted_by(|a, b| a < b);
    let in_range = |length: &usize| (1..=weir_protocol::Shape::MAX_ELEMENTS).contains(length);
    (ascending && lengths.iter().all(in_range)).then_some(lengths)
}

fn parse_values(text: &str, inputs: &[TensorConfig]) -> Result<BTreeMap<String, f64>, String> {
    let mut values = BTreeMap::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(|| format!("has '{pair}', expected INPUT=NUMBER"))?;
        let name = name.trim();
        let value: f64 = value
            .trim()
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite())
            .ok_or_else(|| format!("has '{pair}', expected INPUT=NUMBER"))?;
        if !inputs.is_empty() && inputs.iter().all(|input| input.name != name) {
            return Err(format!("names unknown input '{name}'"));
        }
        if values.insert(name.to_owned(), value).is_some() {
            return Err(format!("names input '{name}' twice"));
        }
    }
    Ok(values)
}
