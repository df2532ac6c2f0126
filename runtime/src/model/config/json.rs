//! The JSON form of a configuration: parsed from load requests, written by the config endpoint.

use prost_reflect::{DeserializeOptions, DynamicMessage, SerializeOptions};
use weir_protocol::grpc::proto;

use super::ConfigError;
use super::schema;

/// Parses protobuf's JSON form; a field may have either of its names.
pub(super) fn parse(json: &str, file: &str) -> Result<proto::ModelConfig, ConfigError> {
    let fail = |at: String, message: String| ConfigError::Syntax { file: file.to_owned(), at, message };
    let located = |error: serde_json::Error| {
        let at = format!(":{}:{}", error.line(), error.column());
        let suffix = format!(" at line {} column {}", error.line(), error.column());
        let message = error.to_string();
        fail(at, explain(message.strip_suffix(&suffix).unwrap_or(&message)))
    };
    let mut reader = serde_json::Deserializer::from_str(json);
    let options = DeserializeOptions::new();
    let message =
        DynamicMessage::deserialize_with_options(schema::model_config(), &mut reader, &options).map_err(located)?;
    reader.end().map_err(located)?;
    message.transcode_to().map_err(|error| fail(String::new(), error.to_string()))
}

fn explain(message: &str) -> String {
    let parts: Vec<&str> = message.split('\'').collect();
    let meant = match parts.as_slice() {
        ["unrecognized field name ", field, ""] => schema::nearest_field_anywhere(field),
        _ => None,
    };
    match meant {
        Some(meant) => format!("{message}; did you mean '{meant}'?"),
        None => message.to_owned(),
    }
}

/// Writes a configuration like Triton's config endpoint: with the field names of the schema, with defaults, and with
/// 64-bit integers as numbers.
///
/// # Errors
/// Never for a configuration that was parsed.
pub(crate) fn to_json(config: &proto::ModelConfig) -> Result<Vec<u8>, serde_json::Error> {
    let mut message = DynamicMessage::new(schema::model_config());
    message.transcode_from(config).map_err(serde::ser::Error::custom)?;
    let options =
        SerializeOptions::new().stringify_64_bit_integers(false).use_proto_field_name(true).skip_default_fields(false);
    let mut json = Vec::new();
    message.serialize_with_options(&mut serde_json::Serializer::new(&mut json), &options)?;
    Ok(json)
}
