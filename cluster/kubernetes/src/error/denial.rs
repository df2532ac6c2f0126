//! Messages of the API server about denied writes, completed by what to do.

/// Part of a denial's message, and advice on what to do about the denial. The first match counts.
const ADVICE: [(&str, &str); 18] = [
    ("exceeded quota", "raise the quota of the namespace, or request less"),
    ("failed quota", "set the missing resources in the service, or give the namespace a LimitRange with defaults"),
    (
        "hostPath volumes (",
        "remove the hostPath volume, which this namespace's PodSecurity level forbids, and put the model on a \
         PersistentVolumeClaim",
    ),
    ("restricted volume types (", "remove the volume of that type, which this namespace's PodSecurity level forbids"),
    ("host namespaces (", "remove hostNetwork, hostPID and hostIPC, which this namespace's PodSecurity level forbids"),
    (
        "hostPort (",
        "remove hostPort, which this namespace's PodSecurity level forbids: requests reach the containerPort",
    ),
    (
        "violates PodSecurity",
        "set the securityContext that it names in the predictor, and choose an image that runs with it",
    ),
    ("usage per ", "set resources within the namespace's LimitRange"),
    ("limit to request ratio per ", "set resources within the namespace's LimitRange"),
    (
        "must be less than or equal to",
        "set both requests and limits in the service: a default request of Weir or of the namespace's LimitRange exceeds \
         the limit",
    ),
    ("denied the request", "change the service to meet that webhook's policy"),
    ("failed calling webhook", "repair or remove that webhook; Weir tries again"),
    ("is being terminated", "Weir tries again once the namespace exists again"),
    ("RuntimeClass", "create that RuntimeClass, or correct runtimeClassName"),
    ("namespaces \"", "create that namespace"),
    ("no PriorityClass with name", "create that PriorityClass, or remove priorityClassName"),
    ("error looking up service account", "create that ServiceAccount, or name another in serviceAccountName"),
    ("is forbidden: User", "give Weir's ServiceAccount this right, as its chart does"),
];

/// Returns the message, followed by what to do where that is known.
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
    fn a_denial_says_what_to_do() {
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
            let advised = advice(message);
            assert!(advised.starts_with(message), "{advised}");
            assert!(advised[message.len()..].contains(what_to_do), "{advised}");
        }
        assert_eq!(advice("unheard of"), "unheard of");
    }
}
