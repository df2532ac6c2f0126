//! Parser of `config.pbtxt`, with line and column in its errors.

use miette::Diagnostic;
use prost_reflect::text_format::ParseError;
use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, Value};
use weir_protocol::grpc::proto;

use super::ConfigError;
use super::brackets::{MAX_DEPTH, TooDeep, prepare};
use super::schema;

/// The byte order mark that some editors write at the start of a file; it has no meaning.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Parses protobuf's text format.
pub(super) fn parse(text: &str, file: &str) -> Result<proto::ModelConfig, ConfigError> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let fail = |at: Option<usize>, message: String| ConfigError::Syntax {
        file: file.to_owned(),
        at: at.map_or_else(String::new, |offset| position(text, offset)),
        message,
    };
    let prepared = prepare(text).map_err(|TooDeep { offset }| {
        let message = format!("nested deeper than {MAX_DEPTH} levels");
        fail(Some(offset), message)
    })?;
    let mut message = DynamicMessage::parse_text_format(schema::model_config(), &prepared.text).map_err(|error| {
        let offset = prepared.original_offset(offset(&error, &prepared.text));
        fail(Some(offset), explain(&error.to_string()))
    })?;
    drop_empty_entries(&mut message);
    message.transcode_to().map_err(|error| fail(None, error.to_string()))
}

/// Removes the entries that `{}` creates in maps. In JSON, which the config endpoint prints, `{}` is a map without
/// entries. In the text format it is an entry with an empty name and an empty value.
fn drop_empty_entries(message: &mut DynamicMessage) {
    for (field, value) in message.fields_mut() {
        match value {
            Value::Map(entries) => {
                entries.retain(|key, value| !is_empty_entry(&field, key, value));
                entries.values_mut().for_each(drop_within);
            }
            Value::List(items) => items.iter_mut().for_each(drop_within),
            other => drop_within(other),
        }
    }
}

fn drop_within(value: &mut Value) {
    if let Value::Message(inner) = value {
        drop_empty_entries(inner);
    }
}

fn is_empty_entry(field: &FieldDescriptor, key: &MapKey, value: &Value) -> bool {
    let kind = field.kind();
    let entry = kind.as_message();
    let is_empty_name = matches!(key, MapKey::String(name) if name.is_empty());
    is_empty_name && entry.is_some_and(|entry| value.is_default(&entry.map_entry_value_field().kind()))
}

/// Returns the offset at which the parser stopped; the end of the text if it expected more.
fn offset(error: &ParseError, text: &str) -> usize {
    let label = error.labels().and_then(|mut labels| labels.next());
    label.map_or(text.len(), |label| label.offset())
}

/// Adds the most similar valid name to the parser's message about an unknown name.
fn explain(message: &str) -> String {
    // The names are only in the parser's sentences "field 'F' not found for message 'M'" and "value 'V' was not found
    // for enum 'E'". Tests ensure that these sentences stay the same.
    let parts: Vec<&str> = message.split('\'').collect();
    let meant = match parts.as_slice() {
        ["field ", field, " not found for message ", message, ""] => schema::nearest_field(message, field),
        ["value ", value, " was not found for enum ", name, ""] => schema::nearest_value(name, value),
        _ => None,
    };
    match meant {
        Some(meant) => format!("{message}; did you mean '{meant}'?"),
        None => message.to_owned(),
    }
}

fn position(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!(":{line}:{column}")
}
