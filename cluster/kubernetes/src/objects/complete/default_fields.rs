//! Fields of a pod whose defaults are Kubernetes' past, or the chart's.

use k8s_openapi::api::core::v1::PodSpec;

use super::all_containers;
use crate::Options;

/// Takes the last lines of a container's log for the reason of its end, unless it writes one itself.
const LAST_OUTPUT: &str = "FallbackToLogsOnError";

/// Sets what the pod does not. Variables for each Service of the namespace slow the start of a pod where there are
/// thousands, and a model server without an account of its own has no use for a token.
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
        // So that the revision's failure says why the program ended.
        let policy = &mut container.termination_message_policy;
        policy.get_or_insert_with(|| LAST_OUTPUT.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_pod_says_stays() {
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
    fn no_class_is_named_that_is_not_there() {
        let mut pod = PodSpec::default();
        set(&mut pod, &Options::default());
        assert_eq!(pod.priority_class_name, None);
    }
}
