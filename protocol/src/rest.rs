//! The HTTP bodies of V2, V1 and the generate extension, which all decode to the same requests.
//!
//! ```text
//!   Bytes ──split──► JSON head ──► InferRequest ◄── blobs (slices of the same Bytes)
//!                    └ data ──► one typed buffer per input
//!   InferResponse ──► Encoded { JSON head, blobs }
//! ```
//!
//! All functions here are pure: they turn bytes into values, or into an error with a message for the client.

mod binary;
mod bodies;
mod elements;
mod error;
mod generate;
mod json_size;
mod nesting;
mod predict;
mod raw;
mod region;
mod repository;
mod request;
mod response;
mod tensor_data;

use std::borrow::Cow;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};

use crate::{Batching, TensorSpec};

pub use crate::json::{RowLayout, elements, members, rows, widths};
pub use binary::parse_header_length;
pub use bodies::{
    Health, IndexEntry, ModelMetadata, ServerMetadata, alive, error_body, live, model_list, model_metadata,
    model_ready, not_live, not_ready, openai_model_list, ready, repository_index, server_metadata,
};
pub use error::RestError;
pub use generate::{decode_generate, encode_generate, event};
pub use json_size::most_json_bytes;
pub use predict::{decode_predict, encode_predict};
pub use raw::decode_raw;
pub use region::{RegionRequest, decode_region};
pub use repository::{IndexRequest, LoadRequest, UnloadRequest, decode_index, decode_load, decode_unload};
pub use request::decode_request;
pub use response::{Encoded, encode_response};

/// Name of the header with the number of bytes of JSON at the start of a body.
pub const HEADER_LENGTH: &str = "inference-header-content-length";

/// Limits on the size of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of JSON, and of one JSON tensor or raw body: `--http-max-input-size`.
    pub max_json: usize,
    /// Maximum number of inputs, and of outputs.
    pub max_tensors: usize,
}

impl Limits {
    /// Triton's default of 64 MiB of JSON, and ten times as many tensors as any model known to us. The limit on tensors
    /// keeps a small body from causing many allocations.
    pub const DEFAULT: Self = Self { max_json: 1 << 26, max_tensors: 4096 };
}

/// The model that a body is decoded for, if the body itself has no datatypes or shapes.
#[derive(Clone, Copy, Debug)]
pub struct TargetModel<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// Requested version; empty means the newest one.
    pub version: &'a str,
    /// Inputs of the model. With [`Batching::FirstDimension`] the first dimension of each is the batch, -1.
    pub inputs: &'a [TensorSpec],
    /// Layout of the model's tensors.
    pub batching: Batching,
}

/// Decodes base64 in JSON strings, with or without line breaks. Many encoders put a line break after every 72 or 76 characters and at
/// the end, among them that of Triton's C++ client, the program `base64` and Python's `encodebytes`.
///
/// # Errors
/// Fails if the text without its line breaks is not base64; offsets in the error do not count the line breaks.
fn decode_base64(text: Cow<'_, str>) -> Result<Vec<u8>, DecodeError> {
    let is_break = |letter: char| letter.is_ascii_whitespace();
    if !text.contains(is_break) {
        return STANDARD.decode(text.as_bytes());
    }
    // In JSON, line breaks are escapes, so a string that has them is already an owned copy.
    let mut unbroken = text.into_owned();
    unbroken.retain(|letter| !is_break(letter));
    STANDARD.decode(unbroken)
}
