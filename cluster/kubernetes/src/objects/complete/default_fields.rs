//! Defaults for pod fields where Kubernetes' own default is a legacy one, or where the chart sets a default.

use k8s_openapi::api::core::v1::PodSpec;

use super::all_containers;
use crate::Options;

/// Termination message policy: the last lines of the log, unless the container writes a message itself.
const LAST_OUTPUT: &str = "FallbackToLogsOnError";

/// Sets fields that the pod leaves unset. Environment variables for every Service of the namespace slow the start of a
/// pod where there are thousands, and a model server without a service account of its own needs no token.
pub(super) fn set(pod: &mut PodSpec, options: &Options) {
    pod.enable_service_links.get_or_insert(false);
    let has_account = pod.service_account_name.is_some() || pod.service_account.is_some();
    if !has_account {
        pod.automount_service_account_token.get_or_insert(false);
    }
    if pod.priority_class_name.is_none() && pod.priority.is_none() {
        pod.priority_class_name.clone_from(&options.priority_class);
    }
    for container in all_containers(pod) {
        // The termination message lets the revision's failure say why the program ended.
        let policy = &mut container.termination_message_policy;
        policy.get_or_insert_with(|| LAST_OUTPUT.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_the_pod_sets_are_kept() {
        let options = Options { priority_class: Some("weir-serving".to_owned()), ..Options::default() };
        let mut silent = PodSpec::default();
        set(&mut silent, &options);
        assert_eq!(silent.enable_service_links, Some(false));
        assert_eq!(silent.automount_service_account_token, Some(false));
        assert_eq!(silent.priority_class_name.as_deref(), Some("weir-serving"));
        let mut telling = PodSpec {
            enable_service_links: Some(true),
            service_account_name: Some("reader".to_owned()),
            priority_class_name: Some("high".to_owned()),
            ..PodSpec::default()
        };
        let before = telling.clone();
        set(&mut telling, &options);
        assert_eq!(telling, before);
    }

    #[test]
    fn without_a_configured_class_no_priority_class_is_set() {
        let mut pod = PodSpec::default();
        set(&mut pod, &Options::default());
        assert_eq!(pod.priority_class_name, None);
    }
}
