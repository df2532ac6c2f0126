//! Reads from messages of the scheduler and of quotas which resources a pod waits for.

use std::sync::Arc;

/// Text before the name of a resource that nodes have too little of, in the scheduler's message.
const INSUFFICIENT: &str = "Insufficient ";

/// Text before the resources that a refused pod requests, in the message of a quota.
const REQUESTED: &str = "requested: ";

/// Other messages of the scheduler about a shortage, each with the resource that is short.
const OTHERS: [(&str, &str); 2] = [("Too many pods", "pods"), ("cannot allocate all claims", "devices")];

/// Returns the sorted names of the resources that are short; `None` if the message names another cause.
pub(crate) fn lacking(message: &str) -> Option<Arc<str>> {
    let of_nodes = message.split(INSUFFICIENT).skip(1).map(first_word);
    let others = OTHERS.iter().filter(|(words, _)| message.contains(words)).map(|(_, resource)| *resource);
    let mut resources: Vec<&str> = of_nodes.chain(others).chain(of_quota(message)).collect();
    resources.sort_unstable();
    resources.dedup();
    (!resources.is_empty()).then(|| resources.join(", ").into())
}

/// Returns the resources for which a pod would exceed a quota. The message is `exceeded quota: NAME, requested:
/// RESOURCE=1,RESOURCE=2, used: …`.
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
