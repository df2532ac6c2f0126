//! The schema of a configuration, from the descriptors in the protocol crate.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, Kind, MessageDescriptor};
use weir_protocol::grpc::proto;

/// Largest edit distance of a suggestion.
const MAX_EDITS: usize = 3;

#[expect(clippy::expect_used, reason = "the descriptors are built in; any test that reads a configuration proves them")]
static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(proto::FILE_DESCRIPTOR_SET).expect("built-in descriptors decode"));

#[expect(clippy::expect_used, reason = "as above")]
pub(super) fn model_config() -> MessageDescriptor {
    POOL.get_message_by_name("inference.ModelConfig").expect("the schema has ModelConfig")
}

/// Returns the field of a message whose name is most similar to `written`.
pub(super) fn nearest_field(message: &str, written: &str) -> Option<String> {
    let message = POOL.get_message_by_name(message)?;
    nearest(message.fields().map(|field| field.name().to_owned()), written)
}

/// Like [`nearest_field`], but searches all messages of a configuration, because JSON errors do not name the message.
pub(super) fn nearest_field_anywhere(written: &str) -> Option<String> {
    let messages = messages().into_iter();
    let fields =
        messages.filter(|message| !message.is_map_entry()).flat_map(|message| message.fields().collect::<Vec<_>>());
    nearest(fields.map(|field| field.name().to_owned()), written)
}

/// Returns the message type of a configuration, and the types of all messages in it. The pool also has the protocol's
/// other message types.
fn messages() -> Vec<MessageDescriptor> {
    let mut found = vec![model_config()];
    let mut at = 0;
    while let Some(message) = found.get(at).cloned() {
        for field in message.fields() {
            if let Kind::Message(inner) = field.kind()
                && !found.contains(&inner)
            {
                found.push(inner);
            }
        }
        at += 1;
    }
    found
}

/// Returns the value of an enum whose name is most similar to `written`.
pub(super) fn nearest_value(name: &str, written: &str) -> Option<String> {
    let values = POOL.get_enum_by_name(name)?;
    nearest(values.values().map(|value| value.name().to_owned()), written)
}

fn nearest(candidates: impl Iterator<Item = String>, written: &str) -> Option<String> {
    let written = written.to_lowercase();
    candidates
        .filter_map(|candidate| edits(&candidate.to_lowercase(), &written).zip(Some(candidate)))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the edit distance; `None` if it is larger than [`MAX_EDITS`].
fn edits(candidate: &str, written: &str) -> Option<usize> {
    // A name without its prefix, such as `FP32` for `TYPE_FP32`.
    if written.len() >= 4 && candidate.ends_with(written) {
        return Some(0);
    }
    if candidate.len().abs_diff(written.len()) > MAX_EDITS {
        return None;
    }
    let edits = strsim::damerau_levenshtein(candidate, written);
    // A short word that differs in most of its letters is not a misspelling.
    (edits <= MAX_EDITS && 2 * edits <= written.len()).then_some(edits)
}
