//! The resources for which a pod waits, from the messages of the scheduler and of quotas.

use std::sync::Arc;

/// Word of the scheduler before a resource of which a node has too little left.
const INSUFFICIENT: &str = "Insufficient ";

/// Words of a quota before the resources that a refused pod asks for.
const REQUESTED: &str = "requested: ";

/// The scheduler's words for want of other things, and the resource that is short.
const OTHERS: [(&str, &str); 2] = [("Too many pods", "pods"), ("cannot allocate all claims", "devices")];

/// Resources that are short, by name; none where the message names another cause.
pub(crate) fn lacking(message: &str) -> Option<Arc<str>> {
    let of_nodes = message.split(INSUFFICIENT).skip(1).map(first_word);
    let others = OTHERS.iter().filter(|(words, _)| message.contains(words)).map(|(_, resource)| *resource);
    let mut resources: Vec<&str> = of_nodes.chain(others).chain(of_quota(message)).collect();
    resources.sort_unstable();
    resources.dedup();
    (!resources.is_empty()).then(|| resources.join(", ").into())
}

/// The resources of a quota that a pod would exceed: `exceeded quota: NAME, requested: RESOURCE=1,RESOURCE=2, used: …`.
fn of_quota(message: &str) -> impl Iterator<Item = &str> {
    let exceeded = message.split_once("exceeded quota").and_then(|(_, rest)| rest.split_once(REQUESTED));
    let requested = exceeded.map_or("", |(_, rest)| rest.split(", ").next().unwrap_or_default());
    requested.split(',').filter_map(|amount| Some(amount.split_once('=')?.0))
}

fn first_word(text: &str) -> &str {
    let end = text.find([' ', ',', ';']).unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resources_that_are_short_are_named() {
        for (message, expected) in [
            ("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", Some("nvidia.com/gpu")),
            (
                "0/3 nodes are available: 1 Insufficient memory, 2 Insufficient cpu. preemption: none",
                Some("cpu, memory"),
            ),
            ("0/2 nodes are available: 2 Insufficient cpu", Some("cpu")),
            ("0/2 nodes are available: 2 Too many pods.", Some("pods")),
            ("0/2 nodes are available: 2 cannot allocate all claims.", Some("devices")),
            (
                r#"pods "a" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1,cpu=2, used: cpu=8, limited: cpu=8"#,
                Some("cpu, requests.nvidia.com/gpu"),
            ),
            ("0/2 nodes are available: 2 node(s) had untolerated taint {a: b}.", None),
            ("", None),
        ] {
            assert_eq!(lacking(message).as_deref(), expected, "{message}");
        }
    }
}
