//! Calls of service accounts, read from the API server's audit log.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cluster::kubeconfig;

/// A verb on a resource of an API group, such as `patch` on `apps` and `deployments/scale`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
}

/// Calls of a service account.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Rights that the account used.
    pub(crate) used: BTreeSet<Right>,
    /// Calls that the API server forbade.
    pub(crate) forbidden: Vec<String>,
}

impl Calls {
    /// Reads the calls of `system:serviceaccount:NAMESPACE:NAME` from the audit log.
    pub(crate) fn of(namespace: &str, name: &str) -> Self {
        let account = format!("system:serviceaccount:{namespace}:{name}");
        let log = kubeconfig().with_file_name("audit.log");
        let log = std::fs::read_to_string(log).unwrap();
        let mut calls = Self::default();
        for line in log.lines() {
            // The last line may be incomplete.
            let event: Value = serde_json::from_str(line).unwrap_or_default();
            if event["user"]["username"] == account.as_str() {
                calls.add(&event);
            }
        }
        calls
    }

    fn add(&mut self, event: &Value) {
        let Some(right) = right(event) else { return };
        let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
        if code == 403 {
            self.forbidden.push(format!("{right:?}: {}", event["requestURI"]));
            return;
        }
        if right.verb == "patch" && code == 201 {
            // An apply that creates an object needs both rights.
            self.used.insert(Right { verb: "create".to_owned(), ..right.clone() });
        }
        self.used.insert(right);
    }
}

fn right(event: &Value) -> Option<Right> {
    let object = event.get("objectRef")?;
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let resource = match text("subresource") {
        part if part.is_empty() => text("resource"),
        part => format!("{}/{part}", text("resource")),
    };
    Some(Right { verb: event["verb"].as_str()?.to_owned(), group: text("apiGroup"), resource })
}

/// Returns the rights that a rule grants.
pub(crate) fn rights(rule: &Value) -> Vec<Right> {
    let texts = |field: &str| -> Vec<String> { serde_json::from_value(rule[field].clone()).unwrap_or_default() };
    let mut rights = Vec::new();
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            rights.extend(texts("verbs").into_iter().map(|verb| Right {
                verb,
                group: group.clone(),
                resource: resource.clone(),
            }));
        }
    }
    rights
}
