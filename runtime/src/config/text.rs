//! Reading `config.pbtxt`, with errors that say where.

use miette::Diagnostic;
use prost_reflect::DynamicMessage;
use prost_reflect::text_format::ParseError;
use weir_protocol::grpc::proto;

use super::ConfigError;
use super::schema;

/// Real configurations have a few kilobytes; this bounds what a parse can cost.
const MAX_BYTES: usize = 1 << 20;

/// The schema is nine messages deep. The parser recurses per level, so depth must have a bound.
const MAX_DEPTH: usize = 32;

/// Reads protobuf's text format.
pub(super) fn parse(text: &str, file: &str) -> Result<proto::ModelConfig, ConfigError> {
    let fail = |at: Option<usize>, message: String| ConfigError::Syntax {
        file: file.to_owned(),
        at: at.map_or_else(String::new, |offset| position(text, offset)),
        message,
    };
    if text.len() > MAX_BYTES {
        return Err(fail(None, format!("larger than {MAX_BYTES} bytes")));
    }
    if let Some(offset) = too_deep(text) {
        return Err(fail(
            Some(offset),
            format!("nested deeper than {MAX_DEPTH} levels"),
        ));
    }
    let message = DynamicMessage::parse_text_format(schema::model_config(), text)
        .map_err(|error| fail(Some(offset(&error, text)), explain(&error.to_string())))?;
    message
        .transcode_to()
        .map_err(|error| fail(None, error.to_string()))
}

/// Where the parser stopped; the end of the text where it wanted more.
fn offset(error: &ParseError, text: &str) -> usize {
    let label = error.labels().and_then(|mut labels| labels.next());
    label.map_or(text.len(), |label| label.offset())
}

/// Adds what was probably meant to the parser's message about an unknown name.
fn explain(message: &str) -> String {
    // "field 'F' not found for message 'M'" and "value 'V' was not found for enum 'E'": pinned by
    // tests, because only the sentence carries the names.
    let parts: Vec<&str> = message.split('\'').collect();
    let meant = match parts.as_slice() {
        ["field ", field, " not found for message ", message, ""] => {
            schema::nearest_field(message, field)
        }
        ["value ", value, " was not found for enum ", name, ""] => {
            schema::nearest_value(name, value)
        }
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

/// The place of the first bracket beyond [`MAX_DEPTH`], strings and comments aside.
fn too_deep(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut bytes = text.bytes().enumerate();
    while let Some((offset, byte)) = bytes.next() {
        match byte {
            b'{' | b'<' => depth += 1,
            b'}' | b'>' => depth = depth.saturating_sub(1),
            b'#' => {
                bytes.find(|(_, byte)| *byte == b'\n');
            }
            b'"' | b'\'' => skip_string(&mut bytes, byte),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Some(offset);
        }
    }
    None
}

fn skip_string(bytes: &mut impl Iterator<Item = (usize, u8)>, quote: u8) {
    while let Some((_, byte)) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            // A string ends with its line, if only by mistake; brackets after it count again.
            b'\n' => return,
            _ if byte == quote => return,
            _ => {}
        }
    }
}
