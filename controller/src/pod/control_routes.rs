//! What clients may ask of `weir-runtime` beside inference. Other servers ignore the variable.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use weir_cluster::ControlRoutes;

use super::variable;

/// Variable of `weir-runtime`'s `--control-routes`. Where replicas are started, it is closed unless a pod says
/// otherwise.
const VARIABLE: &str = "WEIR_CONTROL_ROUTES";

/// Opens the calls that control a server in the serving container.
pub(crate) fn allow_control(template: PodTemplateSpec, control: ControlRoutes) -> PodTemplateSpec {
    match control {
        ControlRoutes::Open => variable::set(template, VARIABLE, "open"),
        ControlRoutes::Closed => template,
    }
}
