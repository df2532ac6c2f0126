//! Errors that a cluster with Weir would report about the files. No cluster is contacted.

use weir_controller::{Cure, Declaration, DeclaredService, FieldError, component_field};
use weir_controller_kubernetes::storage_errors;

use super::{lines_of, nothing_found, online};
use crate::args::CheckArgs;
use crate::commands::up;
use crate::error::CliError;
use crate::error::Exit;
use crate::output::print_result;

/// Errors of a service, and what it lacks in the files but may find in the cluster, such as a runtime.
#[derive(Debug, Default, PartialEq, Eq)]
struct ServiceFindings {
    errors: Vec<String>,
    lacks: Vec<String>,
}

/// Prints a line for each service, and notes below it.
///
/// # Errors
/// [`CliError::Invalid`] with every error.
pub(super) async fn run(args: &CheckArgs) -> Result<Exit, CliError> {
    let declaration = up::read(&args.files, &args.domain)?;
    let found: Vec<_> =
        declaration.services.values().map(|declared| (declared, found(declared, &declaration))).collect();
    // An error of a whole service is in each of its components.
    let mut of_services: Vec<String> = Vec::new();
    for error in found.iter().flat_map(|(_, found)| &found.errors) {
        if !of_services.contains(error) {
            of_services.push(error.clone());
        }
    }
    let online = online::look(args, &declaration).await;
    let problems = declaration.problems.iter().cloned();
    let errors: Vec<_> = problems.chain(of_services).chain(online.errors.iter().cloned()).collect();
    if !errors.is_empty() {
        return Err(CliError::Invalid(errors));
    }
    if found.is_empty() {
        return Err(nothing_found());
    }
    let lines = found.iter().flat_map(|(declared, found)| {
        let lacks = found.lacks.iter().map(|lacks| format!("  note: unless the cluster has it: {lacks}"));
        let models = online.lines_of(&declared.service.name);
        lines_of(declared).into_iter().chain(models).chain(lacks)
    });
    let ignored = declaration.ignored_objects.iter().map(|object| format!("note: not checked: {object}"));
    print_result(&lines.chain(ignored).collect::<Vec<_>>().join("\n"))?;
    Ok(Exit::Done)
}

fn found(declared: &DeclaredService, declaration: &Declaration) -> ServiceFindings {
    let mut found = ServiceFindings::default();
    let service = &declared.service;
    let known = declared.validation.as_ref().err().map(|errors| errors.list.clone()).unwrap_or_default();
    let storage = storage_errors(&service.object.read(), declaration.runtimes.storage_containers());
    let component = service.name.component();
    let storage =
        storage.into_iter().map(|error| FieldError { field: component_field(component, error.field), ..error });
    let new = storage.filter(|error| known.iter().all(|known| known.field != error.field));
    for error in new.chain(known.iter().cloned()) {
        let sentence = service.located(&error.field, &error.message);
        match error.cure {
            Cure::Manifest => found.errors.push(sentence),
            Cure::Cluster => found.lacks.push(sentence),
        }
    }
    found
}
