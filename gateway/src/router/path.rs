//! The model that a V1 or V2 path names.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Returns the decoded model name in `/v2/models/{m}…` or `/v1/models/{m}[:verb]`; `None` for every other path.
pub(crate) fn model_of_path(path: &str) -> Option<Cow<'_, str>> {
    if let Some(rest) = path.strip_prefix("/v2/models/") {
        // `stats` alone means the statistics of all models; it is a model's name only if a path segment follows.
        return match rest.split_once('/') {
            Some((model, _)) => decoded(model),
            None if rest == "stats" => None,
            None => decoded(rest),
        };
    }
    let rest = path.strip_prefix("/v1/models/")?;
    without_verb(decoded(rest.split('/').next().unwrap_or(rest))?)
}

/// Returns the model of a V1 path without the verb. Some clients percent-encode the colon before the verb as well.
fn without_verb(named: Cow<'_, str>) -> Option<Cow<'_, str>> {
    let model = match named {
        Cow::Borrowed(named) => {
            let model = named.rsplit_once(':').map_or(named, |(model, _)| model);
            Cow::Borrowed(model)
        }
        Cow::Owned(mut named) => {
            named.truncate(named.rfind(':').unwrap_or(named.len()));
            Cow::Owned(named)
        }
    };
    (!model.is_empty()).then_some(model)
}

fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    let name = percent_decode_str(segment).decode_utf8().ok()?;
    (!name.is_empty()).then_some(name)
}
