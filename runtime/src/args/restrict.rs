//! Parsers for the flags that restrict groups of the API.

use crate::incoming::restriction::{ApiGroup, Restriction};

/// Parses a rule of the form `GROUP,…:HEADER=VALUE`.
pub(super) fn http(text: &str) -> Result<Restriction, String> {
    rule(text, "", &[ApiGroup::Reflection])
}

/// Parses a rule of the form `GROUP,…:KEY=VALUE`; the metadata key is `triton-grpc-protocol-KEY`.
pub(super) fn grpc(text: &str) -> Result<Restriction, String> {
    rule(text, "triton-grpc-protocol-", &[ApiGroup::Metrics])
}

/// Parses a rule. `others` are the groups that the front-end does not have.
fn rule(text: &str, prefix: &str, others: &[ApiGroup]) -> Result<Restriction, String> {
    let wrong = || "expected GROUP,…:NAME=VALUE, such as model-repository:X-Key=secret".to_owned();
    let (groups, key) = text.split_once(':').ok_or_else(wrong)?;
    let (name, value) = key.split_once('=').ok_or_else(wrong)?;
    if name.is_empty() {
        return Err(wrong());
    }
    Ok(Restriction {
        groups: groups.split(',').map(|name| group(name, others)).collect::<Result<_, _>>()?,
        header: format!("{prefix}{name}").to_ascii_lowercase(),
        value: value.to_owned(),
    })
}

fn group(name: &str, others: &[ApiGroup]) -> Result<ApiGroup, String> {
    let mut here = ApiGroup::ALL.into_iter().filter(|group| !others.contains(group));
    let known: Vec<_> = here.clone().map(ApiGroup::name).collect();
    here.find(|group| group.name() == name).ok_or_else(|| {
        let known = known.join(", ");
        format!("unknown group '{name}', expected one of {known}")
    })
}

/// Returns the groups with more than one rule. A caller can send only one value of a header, so such rules contradict
/// each other.
pub(super) fn twice(rules: &[Restriction]) -> impl Iterator<Item = ApiGroup> + '_ {
    let closed = |group: &ApiGroup| rules.iter().flat_map(|rule| &rule.groups).filter(|other| *other == group).count();
    ApiGroup::ALL.into_iter().filter(move |group| closed(group) > 1)
}
