//! Formats an inference response as text.

use bytes::Bytes;
use http::Response;
use serde_json::Value;

/// Number of a tensor's elements that are printed: they fit a screen.
const SHOWN: usize = 64;

/// Format of the printed tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Numbers or strings, one after another.
    Elements,
    /// The best classes, each a string `score:index:label`, from the V2 classification extension.
    Classes,
}

/// Formats a line for each tensor, and one for each of its classes. A body that is not a V2 response is returned
/// unchanged.
pub(super) fn text(response: &Response<Bytes>, format: Format) -> String {
    let tensor = match format {
        Format::Elements => tensor,
        Format::Classes => classes,
    };
    let value: Option<Value> = serde_json::from_slice(response.body()).ok();
    let outputs = value.as_ref().and_then(|value| value["outputs"].as_array());
    let body = match (outputs, &value) {
        (Some(outputs), _) => outputs.iter().map(|output| tensor(output) + "\n").collect(),
        (None, Some(value)) => format!("{value:#}\n"),
        (None, None) => String::from_utf8_lossy(response.body()).into_owned(),
    };
    body + &origin(response)
}

/// Formats a tensor as a line: `digit INT64 [1]: 7`.
fn tensor(output: &Value) -> String {
    let name = output["name"].as_str().unwrap_or("?");
    let datatype = output["datatype"].as_str().unwrap_or("?");
    let shape = &output["shape"];
    let mut elements = Vec::new();
    flatten(&output["data"], &mut elements);
    let more = match elements.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" … and {more} more"),
    };
    elements.truncate(SHOWN);
    format!("{name} {datatype} {shape}: {}{more}", elements.join(" "))
}

/// Formats the classes of an output, a line each: `logits:`, then `11.9412  7  seven`.
fn classes(output: &Value) -> String {
    let name = output["name"].as_str().unwrap_or("?");
    let rows = output["data"].as_array().map_or(&[][..], Vec::as_slice);
    let rows = rows.iter().filter_map(Value::as_str).map(|class| {
        let (score, class) = class.split_once(':').unwrap_or((class, ""));
        let score = score.parse::<f64>().unwrap_or(f64::NAN);
        format!("\n  {score:>9.4}  {}", class.replacen(':', "  ", 1))
    });
    format!("{name}:{}", rows.collect::<String>())
}

/// Appends the elements in order; the data may be nested like the shape.
fn flatten(data: &Value, into: &mut Vec<String>) {
    match data {
        Value::Array(inner) => inner.iter().for_each(|data| flatten(data, into)),
        Value::String(text) => into.push(format!("{text:?}")),
        Value::Number(number) => into.push(short(number)),
        Value::Bool(_) | Value::Object(_) => into.push(data.to_string()),
        Value::Null => {}
    }
}

/// Formats a number with four decimal places, which is enough for a score.
fn short(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() && value.abs() >= 1e-3 => format!("{value:.4}"),
        Some(value) if number.is_f64() && value != 0.0 => format!("{value:.3e}"),
        Some(_) | None => number.to_string(),
    }
}

/// Formats the revision that answered, and the time it took.
fn origin(response: &Response<Bytes>) -> String {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    match (header("weir-revision"), header("server-timing")) {
        (Some(revision), Some(timing)) => format!("from {revision} ({timing})\n"),
        (Some(revision), None) => format!("from {revision}\n"),
        (None, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(body: &str) -> Response<Bytes> {
        let builder = Response::builder().header("weir-revision", "digits-predictor-00001");
        let body = Bytes::copy_from_slice(body.as_bytes());
        builder.body(body).unwrap()
    }

    #[test]
    fn each_tensor_has_a_line() {
        let body = r#"{"model_name": "digits", "outputs": [
            {"name": "scores", "datatype": "FP32", "shape": [1, 3], "data": [[0.25, 0.00001, 0.0]]},
            {"name": "label", "datatype": "BYTES", "shape": [1], "data": ["seven"]}]}"#;
        let expected = "scores FP32 [1,3]: 0.2500 1.000e-5 0.0\nlabel BYTES [1]: \"seven\"\n\
            from digits-predictor-00001\n";
        assert_eq!(text(&response(body), Format::Elements), expected);
    }

    #[test]
    fn each_class_has_a_line() {
        let body = r#"{"outputs": [{"name": "logits", "datatype": "BYTES", "shape": [1, 2],
            "data": ["11.941:7:seven", "-0.25:4"]}]}"#;
        let expected = "logits:\n    11.9410  7  seven\n    -0.2500  4\nfrom digits-predictor-00001\n";
        assert_eq!(text(&response(body), Format::Classes), expected);
    }

    #[test]
    fn long_tensors_are_cut_and_other_answers_shown_as_they_are() {
        let data = vec!["1"; SHOWN + 5].join(",");
        let body = format!(r#"{{"outputs": [{{"name": "x", "data": [{data}]}}]}}"#);
        let text = |body: &str| text(&response(body), Format::Elements);
        assert!(text(&body).contains(" … and 5 more\n"));
        assert!(text("plain").starts_with("plain"));
    }
}
