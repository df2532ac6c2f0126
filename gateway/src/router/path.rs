//! The model that a V1 or V2 path names.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The model's name in `/v2/models/{m}…` or `/v1/models/{m}[:verb]`, decoded; `None` for every other path.
pub(crate) fn model_of_path(path: &str) -> Option<Cow<'_, str>> {
    if let Some(rest) = path.strip_prefix("/v2/models/") {
        // `stats` of all models: a name only with something behind it.
        return match rest.split_once('/') {
            Some((model, _)) => decoded(model),
            None if rest == "stats" => None,
            None => decoded(rest),
        };
    }
    let rest = path.strip_prefix("/v1/models/")?;
    let model = rest.split('/').next().unwrap_or(rest);
    decoded(model.rsplit_once(':').map_or(model, |(model, _)| model))
}

fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    let name = percent_decode_str(segment).decode_utf8().ok()?;
    (!name.is_empty()).then_some(name)
}
