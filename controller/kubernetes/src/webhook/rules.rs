//! Rules of the controller, applied to an object that is being written. Pure, except that it reads the latest
//! declaration from a watch channel.

use std::sync::Arc;

use kube::core::DynamicObject;
use tokio::sync::watch;
use weir_cluster::ServiceName;
use weir_controller::{
    Declaration, DeclaredService, FieldError, KeptObject, Platform, Service, Validated, component_field,
    validate_runtime,
};

use super::images::missing_images;
use super::request::{Checked, Request, Written};
use super::storage::storage_errors;
use super::taken_hosts::taken_hosts;
use super::verdict::{Findings, Verdict};
use crate::object;
use crate::runtime::Kind;

/// Rules, with the declaration and the platform on which they depend.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    declaration: watch::Receiver<Arc<Declaration>>,
    platform: Platform,
}

impl Rules {
    pub(crate) fn new(declaration: watch::Receiver<Arc<Declaration>>, platform: Platform) -> Self {
        Self { declaration, platform }
    }

    /// Returns the verdict on the object that is being written; it is empty if the object is not checked.
    pub(crate) fn verdict(&self, request: &Request) -> Verdict {
        let Some(written) = request.written() else {
            return Verdict::default();
        };
        let findings = self.findings(request, &written, written.object);
        match written.before.filter(|old| spec(old) == spec(written.object)) {
            Some(old) => findings.verdict_after(&self.findings(request, &written, old)),
            None => findings.verdict(),
        }
    }

    fn findings(&self, request: &Request, written: &Written<'_>, object: &DynamicObject) -> Findings {
        match written.kind {
            Checked::InferenceService => self.service(request.namespace.as_deref(), object),
            Checked::Runtime(kind) => runtime(kind, object),
        }
    }

    fn service(&self, namespace: Option<&str>, object: &DynamicObject) -> Findings {
        let name = match name(namespace, object) {
            Ok(name) => name,
            Err(error) => return Findings::of_errors([error]),
        };
        let object = match object::service(object) {
            Ok(object) => object,
            Err(errors) => return Findings::of_errors(errors.list),
        };
        let declaration = self.declaration.borrow().clone();
        let service = Service {
            name,
            object: KeptObject::Value(object),
            spans: None,
            claims: None,
            model_stamps: weir_controller::ModelStamps::new(),
        };
        let components = DeclaredService::all(&Arc::new(service), &declaration.runtimes, &self.platform);
        components
            .iter()
            .fold(Findings::default(), |findings, declared| findings.and(of_component(declared, &declaration)))
    }
}

/// Returns the findings about one component of a service.
fn of_component(declared: &DeclaredService, declaration: &Declaration) -> Findings {
    let component = declared.service.name.component();
    let storage =
        storage_errors(&declared.service.object.read(), declaration.runtimes.storage_containers()).into_iter();
    let storage = storage.map(|error| FieldError { field: component_field(component, error.field), ..error }).collect();
    let findings = match &declared.validation {
        Ok(validated) => valid(validated, declaration),
        Err(errors) => Findings::of_errors(errors.list.iter().cloned()),
    };
    findings.with_errors(storage)
}

fn valid(validated: &Validated, declaration: &Declaration) -> Findings {
    let mut findings =
        Findings::default().with_ignored(&validated.ignored_fields).with_errors(missing_images(validated));
    findings.warnings.extend(taken_hosts(validated, declaration));
    findings
}

fn runtime(kind: Kind, object: &DynamicObject) -> Findings {
    match kind.written(object) {
        Ok(spec) => {
            let (errors, ignored) = validate_runtime(&spec);
            Findings::of_errors(errors).with_ignored(&ignored)
        }
        Err(errors) => Findings::of_errors(errors),
    }
}

fn name(namespace: Option<&str>, object: &DynamicObject) -> Result<ServiceName, FieldError> {
    let metadata = &object.metadata;
    let namespace = metadata.namespace.as_deref().or(namespace);
    let name = metadata.name.as_deref().unwrap_or_default();
    let name = ServiceName::new(namespace.unwrap_or_default(), name);
    name.map_err(|error| FieldError::new("metadata.name", error.to_string()))
}

fn spec(object: &DynamicObject) -> Option<&serde_json::Value> {
    object.data.get("spec")
}

#[cfg(test)]
mod tests;
