//! Defaults for what the Pod Security Standard `restricted` requires, where the pod sets nothing else.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext,
    Volume, VolumeMount,
};

use super::{all_containers, weir_runtime};

/// Pod Security Standard that a namespace enforces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Enforced {
    /// The Pod Security Standard `restricted`: a pod must declare that it runs as non-root.
    Restricted,
    /// A weaker standard or none: images may run as root.
    #[default]
    Less,
}

/// Directory that must be writable even if the root filesystem is read-only.
const TEMPORARY: &str = "/tmp";
const TEMPORARY_VOLUME: &str = "tmp";

/// Removes rights that a model server does not need. An image other than Weir's may run as root unless the namespace
/// forbids it.
pub(super) fn restrict(pod: &mut PodSpec, enforced: Enforced) {
    let system = pod.os.as_ref().map(|os| os.name.as_str());
    if system == Some("windows") {
        return;
    }
    let context = pod.security_context.get_or_insert_default();
    context
        .seccomp_profile
        .get_or_insert_with(|| SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None });
    let of_pod = context.clone();
    for container in all_containers(pod) {
        let is_ours = weir_runtime::is_ours(container);
        let context = container.security_context.get_or_insert_default();
        drop_rights(context, enforced);
        if is_ours || enforced == Enforced::Restricted {
            refuse_root(context, &of_pod);
        }
        if is_ours {
            context.read_only_root_filesystem.get_or_insert(true);
        }
    }
    give_temporary_files(pod);
}

fn drop_rights(context: &mut SecurityContext, enforced: Enforced) {
    let all = || Some(vec!["ALL".to_owned()]);
    match (&mut context.capabilities, enforced) {
        (Some(own), Enforced::Restricted) if own.drop.is_none() => own.drop = all(),
        (Some(_), _) => {}
        (none, _) if context.privileged != Some(true) => {
            *none = Some(Capabilities { add: None, drop: all() });
        }
        (None, _) => {}
    }
    // The API server refuses a privileged container that forbids privilege escalation.
    if !is_privileged(context) {
        context.allow_privilege_escalation.get_or_insert(false);
    }
}

fn is_privileged(context: &SecurityContext) -> bool {
    let added = context.capabilities.as_ref();
    let mut added = added.and_then(|c| c.add.as_ref()).into_iter().flatten();
    context.privileged == Some(true) || added.any(|name| ["SYS_ADMIN", "CAP_SYS_ADMIN"].contains(&&**name))
}

/// Sets runAsNonRoot, so that the kubelet refuses to run the image as root, unless the pod sets its user.
fn refuse_root(context: &mut SecurityContext, of_pod: &PodSecurityContext) {
    let user = context.run_as_user.or(of_pod.run_as_user);
    let is_said = context.run_as_non_root.or(of_pod.run_as_non_root).is_some();
    if !is_said && user != Some(0) {
        context.run_as_non_root = Some(true);
    }
}

/// Mounts a temporary directory into Weir's runtime where its root filesystem is read-only.
fn give_temporary_files(pod: &mut PodSpec) {
    let is_there = |v: &Volume| v.name == TEMPORARY_VOLUME;
    if pod.volumes.iter().flatten().any(is_there) {
        return;
    }
    let needs_it = |container: &&mut Container| {
        let context = container.security_context.as_ref();
        let is_read_only = context.and_then(|context| context.read_only_root_filesystem);
        let mut mounts = container.volume_mounts.iter().flatten();
        weir_runtime::is_ours(container)
            && is_read_only == Some(true)
            && !mounts.any(|mount| mount.mount_path == TEMPORARY)
    };
    let needy: Vec<_> = pod.containers.iter_mut().filter(needs_it).collect();
    if needy.is_empty() {
        return;
    }
    for container in needy {
        container.volume_mounts.get_or_insert_default().push(VolumeMount {
            name: TEMPORARY_VOLUME.to_owned(),
            mount_path: TEMPORARY.to_owned(),
            ..VolumeMount::default()
        });
    }
    pod.volumes.get_or_insert_default().push(Volume {
        name: TEMPORARY_VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    });
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn completed(pod: &Value, enforced: Enforced) -> PodSpec {
        let mut pod: PodSpec = serde_json::from_value(pod.clone()).unwrap();
        restrict(&mut pod, enforced);
        pod
    }

    fn context(container: &Value, enforced: Enforced) -> Value {
        let pod = completed(&json!({ "containers": [container] }), enforced);
        json!(pod.containers[0].security_context)
    }

    #[test]
    fn weirs_own_runtime_is_restricted_everywhere() {
        let ours = json!({ "name": "a", "image": "weir-runtime" });
        let pod = completed(&json!({ "containers": [ours] }), Enforced::Less);
        assert_eq!(
            json!(pod.containers[0].security_context),
            json!({
                "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true, "runAsNonRoot": true,
            })
        );
        assert_eq!(json!(pod.security_context), json!({ "seccompProfile": { "type": "RuntimeDefault" } }));
        assert_eq!(pod.containers[0].volume_mounts.as_ref().unwrap()[0].mount_path, "/tmp");
    }

    #[test]
    fn another_image_may_run_as_root_where_the_namespace_allows_it() {
        let other = json!({ "name": "a", "image": "example/server" });
        let dropped = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
        assert_eq!(context(&other, Enforced::Less), dropped);
        assert_eq!(context(&other, Enforced::Restricted)["runAsNonRoot"], true);
        let root = json!({ "name": "a", "securityContext": { "runAsUser": 0 } });
        let root = context(&root, Enforced::Restricted);
        assert_eq!(root["runAsNonRoot"], Value::Null);
    }

    #[test]
    fn fields_that_the_pod_sets_are_kept() {
        let own = json!({
            "allowPrivilegeEscalation": true, "capabilities": { "add": ["SYS_PTRACE"] },
            "readOnlyRootFilesystem": false, "runAsNonRoot": false,
        });
        let ours = json!({ "name": "a", "image": "weir-runtime", "securityContext": own });
        assert_eq!(context(&ours, Enforced::Less), own);
        let privileged = json!({ "privileged": true });
        let container = json!({ "name": "a", "securityContext": privileged });
        assert_eq!(context(&container, Enforced::Less), privileged);
        let added = json!({ "capabilities": { "add": ["SYS_ADMIN"] } });
        let container = json!({ "name": "a", "securityContext": added });
        assert_eq!(context(&container, Enforced::Less), added);
        let of_pod = json!({
            "containers": [{ "name": "a", "image": "weir-runtime" }],
            "securityContext": { "runAsNonRoot": false, "seccompProfile": { "type": "Unconfined" } },
        });
        let pod = completed(&of_pod, Enforced::Less);
        assert_eq!(json!(pod.security_context), of_pod["securityContext"]);
        assert_eq!(pod.containers[0].security_context.as_ref().unwrap().run_as_non_root, None);
    }

    #[test]
    fn windows_pods_are_left_alone() {
        let pod = json!({ "containers": [{ "name": "a" }], "os": { "name": "windows" } });
        assert_eq!(json!(completed(&pod, Enforced::Restricted)), pod);
    }
}
