//! Words of the API server about what it does not let pass, with what to do.

/// What a message tells of, and what to do about it; the first that fits.
const ADVICE: [(&str, &str); 13] = [
    (
        "exceeded quota",
        "raise the quota of the namespace, or ask for less",
    ),
    (
        "failed quota",
        "write the missing resources into the service, or give the namespace a LimitRange with defaults",
    ),
    (
        "violates PodSecurity",
        "write the securityContext that it names into the predictor, or choose an image that runs with it",
    ),
    (
        "minimum cpu usage per",
        "write resources within the namespace's LimitRange",
    ),
    (
        "usage per Container is",
        "write resources within the namespace's LimitRange",
    ),
    (
        "denied the request",
        "change the service as that webhook's policy asks",
    ),
    (
        "failed calling webhook",
        "repair or remove that webhook; it is tried again",
    ),
    (
        "is being terminated",
        "it is tried again once the namespace is there again",
    ),
    (
        "RuntimeClass",
        "create that RuntimeClass, or correct runtimeClassName",
    ),
    ("namespaces \"", "create that namespace"),
    (
        "no PriorityClass with name",
        "create that PriorityClass, or remove priorityClassName",
    ),
    (
        "error looking up service account",
        "create that ServiceAccount, or name another in serviceAccountName",
    ),
    (
        "is forbidden: User",
        "give Weir's ServiceAccount this right, as its chart does",
    ),
];

/// The message, and what to do about it as far as that is known.
pub(crate) fn advice(message: &str) -> String {
    let known = ADVICE.iter().find(|(what, _)| message.contains(what));
    match known {
        Some((_, advice)) => format!("{message}: {advice}"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_says_what_to_do() {
        for (message, what_to_do) in [
            (
                r#"pods "a" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8"#,
                "raise the quota",
            ),
            (
                r#"pods "a" is forbidden: failed quota: all: must specify limits.cpu for: kserve-container"#,
                "LimitRange",
            ),
            (
                r#"pods "a" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true"#,
                "securityContext",
            ),
            (
                r#"admission webhook "policy.example.com" denied the request: no"#,
                "policy",
            ),
            (
                r#"deployments.apps is forbidden: User "system:serviceaccount:weir-system:weir" cannot list resource"#,
                "chart",
            ),
        ] {
            let told = advice(message);
            assert!(told.starts_with(message), "{told}");
            assert!(told[message.len()..].contains(what_to_do), "{told}");
        }
        assert_eq!(advice("unheard of"), "unheard of");
    }
}
