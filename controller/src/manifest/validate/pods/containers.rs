//! Checks of a container's ports, variables, probes and times.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Container, EnvVar};

use super::{ports, probes};
use crate::manifest::field_error::FieldError;

/// Returns the errors in a container, with their fields below it.
pub(super) fn errors(container: &Container) -> Vec<FieldError> {
    let mut errors = ports::errors(container.ports.as_deref().unwrap_or_default());
    errors.extend(same_variables(container.env.as_deref().unwrap_or_default()));
    errors.extend(probes::errors(container));
    errors.extend(pre_stop(container));
    errors
}

/// Returns an error for each variable that is set twice: server-side apply refuses it, and a process would get the last
/// value.
fn same_variables(env: &[EnvVar]) -> Vec<FieldError> {
    let (mut names, mut errors) = (HashSet::new(), Vec::new());
    for (i, variable) in env.iter().enumerate() {
        let name = &variable.name;
        if !names.insert(name) {
            let message = format!("the variable {name} is written twice: remove one");
            errors.push(FieldError::new(format!("env[{i}].name"), message));
        }
    }
    errors
}

fn pre_stop(container: &Container) -> Option<FieldError> {
    let stop = container.lifecycle.as_ref()?.pre_stop.as_ref()?;
    let seconds = stop.sleep.as_ref()?.seconds;
    let message = format!("{seconds} is below 0: write seconds, such as 5");
    (seconds < 0).then(|| FieldError::new("lifecycle.preStop.sleep.seconds", message))
}
