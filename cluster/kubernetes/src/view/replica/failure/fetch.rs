//! Sentence about a model that an init container could not fetch, with the credentials that it had. Pure.

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::objects::{CREDENTIALS, DISK_REQUEST};

/// Words of a message about a store that refuses access.
const DENIED: [&str; 8] =
    ["401", "403", "accessdenied", "credentials", "denied", "forbidden", "unauthenticated", "unauthorized"];

/// ServiceAccount of pods that name none.
const DEFAULT: &str = "default";

/// Words of `weir fetch` about a file system that is too small, before the size of the model.
const NO_ROOM: &str = " has no room for the model";

/// Returns the sentence, with what to do. Names of Secrets are in it, never their values.
pub(super) fn sentence(message: &str, pod: &Pod, container: Option<&Container>) -> String {
    if let Some((_, size)) = message.split_once(NO_ROOM) {
        return format!("the model cannot be fetched, {message}: {}", request_disk(size));
    }
    let lower = message.to_lowercase();
    let is_denied = lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| DENIED.contains(&word));
    let what_to_do = match (is_denied, secrets(container)) {
        (false, _) => "correct the storageUri, or what it leads to".to_owned(),
        (true, secrets) if secrets.is_empty() => format!(
            "no Secret was used, as the ServiceAccount {} named none: add one to its `secrets` or, for a registry, to its \
             imagePullSecrets, and change the service's predictor, so that a new revision uses it; or correct the \
             storageUri",
            account(pod)
        ),
        (true, secrets) => format!(
            "the credentials are those of the Secret {}: see that it exists in this namespace and may read the model, or \
             correct the storageUri",
            secrets.join(" or ")
        ),
    };
    format!("the model cannot be fetched, {message}: {what_to_do}")
}

/// Returns the advice about a node without room. The text after [`NO_ROOM`] begins with the size, if that is known.
fn request_disk(text: &str) -> String {
    let amount = text.strip_prefix(" of ").and_then(|text| text.split_once(';')).and_then(|(size, _)| quantity(size));
    let (least, shown) = match amount {
        Some(amount) => ("at least", amount),
        None => ("the size of the archive and its files, such as", "50G".to_owned()),
    };
    format!("let a node with that room take the pod, by the annotation {DISK_REQUEST} of {least} {shown}")
}

/// Returns a size such as `41.9 MB` as a quantity that is larger, because the size is rounded.
fn quantity(size: &str) -> Option<String> {
    let (number, unit) = size.split_once(' ')?;
    let number = number.parse::<f64>().ok()?.floor() + 1.0;
    let suffix = match unit {
        "B" => "",
        "kB" => "k",
        "MB" => "M",
        "GB" => "G",
        "TB" => "T",
        _ => return None,
    };
    Some(format!("{number}{suffix}"))
}

/// Returns the names of the Secrets that a container gets as files or variables, each once.
fn secrets(container: Option<&Container>) -> Vec<&str> {
    let mounts = container.into_iter().flat_map(|container| container.volume_mounts.iter().flatten());
    let mounted = mounts.filter_map(|mount| mount.mount_path.strip_prefix(CREDENTIALS)?.strip_prefix('/'));
    let variables = container.into_iter().flat_map(|container| container.env.iter().flatten());
    let referenced = variables.filter_map(|variable| {
        let source = variable.value_from.as_ref()?;
        Some(&*source.secret_key_ref.as_ref()?.name)
    });
    let mut all = Vec::new();
    for name in referenced.chain(mounted) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

fn account(pod: &Pod) -> &str {
    let named = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    named.filter(|name| !name.is_empty()).unwrap_or(DEFAULT)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(message: &str, account: &str, container: &Value) -> String {
        let pod = json!({ "spec": { "containers": [], "serviceAccountName": account } });
        let container = serde_json::from_value(container.clone()).unwrap();
        sentence(message, &serde_json::from_value(pod).unwrap(), Some(&container))
    }

    #[test]
    fn a_node_without_room_is_avoided_by_an_annotation() {
        let container = json!({ "name": "storage-initializer" });
        let full = "/mnt/models/.weir-fetch has no room for the model";
        let known =
            of(&format!("{full} of 41.9 MB; free some space, or use a larger volume: 4.2 MB are free"), "", &container);
        assert!(known.contains("4.2 MB are free: let a node with that room take the pod"), "{known}");
        assert!(known.ends_with("weir.dev/storage-initializer-ephemeral-storage of at least 42M"), "{known}");
        let unpacked = of(&format!("{full}; free some space, or use a larger volume"), "", &container);
        assert!(unpacked.ends_with("of the size of the archive and its files, such as 50G"), "{unpacked}");
        assert_eq!(quantity("12.0 GB").as_deref(), Some("13G"));
        assert_eq!(quantity("much"), None);
    }

    #[test]
    fn a_denied_fetch_names_its_secrets() {
        let container = json!({
            "name": "storage-initializer",
            "env": [{ "name": "STORAGE_CONFIG", "valueFrom": { "secretKeyRef": { "name": "storage-config", "key": "a" } } }],
            "volumeMounts": [
                { "name": "files", "mountPath": "/mnt/models" },
                { "name": "a", "mountPath": "/var/run/weir/credentials/s3-reader" },
            ],
        });
        let denied = of("s3://private/model answered 403", "reader", &container);
        assert!(denied.contains("of the Secret storage-config or s3-reader: see that it exists"), "{denied}");
        let missing = of("s3://private/model answered 404", "reader", &container);
        assert!(missing.ends_with("answered 404: correct the storageUri, or what it leads to"), "{missing}");
    }

    #[test]
    fn a_denied_fetch_without_secrets_names_the_account() {
        let container = json!({ "name": "storage-initializer" });
        let anonymous = of("s3://private/model: access denied", "", &container);
        assert!(anonymous.contains("the ServiceAccount default named none"), "{anonymous}");
        let of_account = of("https://a.blob.core.windows.net/c/m answered 401", "reader", &container);
        assert!(of_account.contains("the ServiceAccount reader named none"), "{of_account}");
    }
}
