//! Fields of a transformer or an explainer, which are validated like those of a predictor. Pure.

use weir_cluster::ComponentKind;

use crate::manifest::field_error::{FieldError, IgnoredField};

/// Field under which the rules for predictors report errors.
const PREDICTOR: &str = "spec.predictor";

/// Returns an error of a component with the field that the manifest has.
pub(crate) fn renamed_error(component: ComponentKind, error: FieldError) -> FieldError {
    let is_of_forms = error.field == PREDICTOR && error.message.starts_with("Exactly one of ");
    let message = match (is_of_forms, component) {
        (true, ComponentKind::Transformer) => "Exactly one of [containers] must be specified in transformer".to_owned(),
        (true, ComponentKind::Explainer) => {
            "Exactly one of [art, containers] must be specified in explainer".to_owned()
        }
        (true, ComponentKind::Predictor) | (false, _) => error.message,
    };
    FieldError { field: component_field(component, error.field), message, ..error }
}

/// Returns the ignored fields of a component with the fields that the manifest has. Fields of the whole service are
/// left out, because the predictor reports them.
pub(crate) fn renamed_fields(component: ComponentKind, fields: Vec<IgnoredField>) -> Vec<IgnoredField> {
    if component == ComponentKind::Predictor {
        return fields;
    }
    let own = fields.into_iter().filter(|ignored| ignored.field.starts_with(PREDICTOR));
    own.map(|ignored| IgnoredField { field: component_field(component, ignored.field), ..ignored }).collect()
}

/// Returns the field of a component in the manifest, from that of a predictor: `spec.transformer.minReplicas` instead
/// of `spec.predictor.minReplicas`.
#[must_use]
pub fn component_field(component: ComponentKind, field: String) -> String {
    match field.strip_prefix(PREDICTOR) {
        Some(rest) => format!("spec.{component}{rest}"),
        None => field,
    }
}
