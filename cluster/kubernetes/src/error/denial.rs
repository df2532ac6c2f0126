//! Words of the API server about what it does not let pass, with what to do.

/// What a message tells of, and what to do about it; the first that fits.
const ADVICE: [(&str, &str); 18] = [
    ("exceeded quota", "raise the quota of the namespace, or ask for less"),
    ("failed quota", "write the missing resources into the service, or give the namespace a LimitRange with defaults"),
    (
        "hostPath volumes (",
        "remove the hostPath volume: this namespace's PodSecurity level takes none. Put the model on a PersistentVolumeClaim",
    ),
    (
        "restricted volume types (",
        "remove the volume of that type: this namespace's PodSecurity level takes none of it",
    ),
    (
        "host namespaces (",
        "remove hostNetwork, hostPID and hostIPC: this namespace's PodSecurity level takes none of them",
    ),
    ("hostPort (", "remove hostPort: this namespace's PodSecurity level takes none. Requests reach the containerPort"),
    (
        "violates PodSecurity",
        "write the securityContext that it names into the predictor, or choose an image that runs with it",
    ),
    ("usage per ", "write resources within the namespace's LimitRange"),
    ("limit to request ratio per ", "write resources within the namespace's LimitRange"),
    (
        "must be less than or equal to",
        "write requests and limits into the service: what it does not say has defaults, and a LimitRange of the namespace \
         others",
    ),
    ("denied the request", "change the service as that webhook's policy asks"),
    ("failed calling webhook", "repair or remove that webhook; it is tried again"),
    ("is being terminated", "it is tried again once the namespace is there again"),
    ("RuntimeClass", "create that RuntimeClass, or correct runtimeClassName"),
    ("namespaces \"", "create that namespace"),
    ("no PriorityClass with name", "create that PriorityClass, or remove priorityClassName"),
    ("error looking up service account", "create that ServiceAccount, or name another in serviceAccountName"),
    ("is forbidden: User", "give Weir's ServiceAccount this right, as its chart does"),
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
                r#"pods "a" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes (volume "data")"#,
                "remove the hostPath volume",
            ),
            (
                r#"pods "a" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)"#,
                "remove hostNetwork",
            ),
            (
                r#"pods "a" is forbidden: violates PodSecurity "baseline:latest": hostPort (container "a" uses hostPort 80)"#,
                "remove hostPort",
            ),
            (r#"pods "a" is forbidden: maximum memory usage per Pod is 1Gi, but limit is 2Gi"#, "LimitRange"),
            (
                r#"pods "a" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000"#,
                "LimitRange",
            ),
            (
                r#"Pod "a" is invalid: spec.containers[0].resources.requests: Invalid value: "512Mi": must be less than or equal to memory limit of 256Mi"#,
                "LimitRange",
            ),
            (r#"admission webhook "policy.example.com" denied the request: no"#, "policy"),
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
