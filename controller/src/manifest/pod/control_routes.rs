//! Access of clients to `weir-runtime`'s control routes. Other servers ignore the variable.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use weir_cluster::ControlRoutes;

use super::variable;

/// Environment variable for `weir-runtime`'s `--control-routes`. The routes are closed unless the pod sets it.
const VARIABLE: &str = "WEIR_CONTROL_ROUTES";

/// Opens the control routes of the serving container.
pub(crate) fn allow_control(template: PodTemplateSpec, control: ControlRoutes) -> PodTemplateSpec {
    match control {
        ControlRoutes::Open => variable::set(template, VARIABLE, "open"),
        ControlRoutes::Closed => template,
    }
}
