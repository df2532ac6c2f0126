//! Advice on messages of the scheduler and the kubelet.

/// Part of a message of the scheduler, and what to do about it. The first match counts.
const UNSCHEDULABLE: [(&str, &str); 12] = [
    ("persistentvolumeclaim", "create that PersistentVolumeClaim, or correct the storageUri"),
    ("unbound immediate PersistentVolumeClaims", "give the claim a volume, or a StorageClass that makes one"),
    ("volume node affinity conflict", "let the pod run where its volume is"),
    ("cannot allocate all claims", "no node has such a device free: wait, free one, or change the ResourceClaim"),
    ("resourceclaim", "create that ResourceClaim or ResourceClaimTemplate"),
    ("Insufficient", "add a node, free that resource, or request less"),
    ("were unschedulable", "a node is cordoned: `kubectl uncordon` it once it may be used again, or add one"),
    ("{node.kubernetes.io/", "a node is not ready or short of something, as its taint says: repair it, or add one"),
    ("node affinity/selector", "label a node as nodeSelector and affinity require, or change them"),
    (
        "untolerated taint",
        "add a toleration of that taint, or a node without it; a node that is not ready has such a taint, too",
    ),
    ("topology spread constraints", "add a node, or loosen topologySpreadConstraints"),
    ("Too many pods", "add a node"),
];

/// Part of a kubelet's message about a container that it cannot create, and what to do about it.
const CONTAINER: [(&str, &str); 11] = [
    ("image will run as root", "choose an image with another user, or write securityContext.runAsUser"),
    ("non-numeric user", "write securityContext.runAsUser with that user's number"),
    ("couldn't find key", "add that key to it, or correct the name of the key, such as model.storage.key"),
    ("secret", "create that Secret"),
    ("configmap", "create that ConfigMap"),
    ("subPath", "put the model at the path of the storageUri, or correct the storageUri"),
    ("executable file not found", "correct the container's command"),
    ("no such file or directory", "correct the container's command"),
    ("permission denied", "name an executable program as the container's command"),
    ("pull QPS exceeded", "the kubelet tries again"),
    ("name conflict", "the kubelet tries again"),
];

/// Parts of a registry's message when it refuses a pull.
const PULL_REFUSED: [&str; 6] = ["401", "403", "access denied", "authorization failed", "denied", "unauthorized"];

/// Returns what to do about an image that cannot be pulled; `secrets` are the pod's imagePullSecrets.
pub(super) fn of_image(message: &str, secrets: &[&str]) -> String {
    let message = message.to_lowercase();
    if message.contains("no such host") {
        return "correct the name of its registry".to_owned();
    }
    let is_refused = PULL_REFUSED.iter().any(|words| message.contains(words));
    match (is_refused, secrets) {
        (true, []) => "name a Secret for its registry in imagePullSecrets, or correct its name".to_owned(),
        (false, []) => "correct its name and tag, or name a Secret for its registry in imagePullSecrets".to_owned(),
        (true, secrets) => format!(
            "create the Secret {} of imagePullSecrets in this namespace, if it is missing, or correct its content",
            secrets.join(" and ")
        ),
        (false, secrets) => format!(
            "correct its name and tag, or see that the Secret {} of imagePullSecrets is there",
            secrets.join(" and ")
        ),
    }
}

/// Returns what to do about a pod that fits no node.
pub(super) fn of_scheduler(message: &str) -> &'static str {
    find(&UNSCHEDULABLE, message).unwrap_or("see `kubectl describe pod`")
}

/// Returns what to do about a container that cannot be created.
pub(super) fn of_kubelet(message: &str) -> &'static str {
    find(&CONTAINER, message).unwrap_or("see `kubectl describe pod`")
}

fn find(all: &[(&str, &'static str)], message: &str) -> Option<&'static str> {
    let found = all.iter().find(|(what, _)| message.contains(what));
    found.map(|(_, advice)| *advice)
}
