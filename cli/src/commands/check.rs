//! `weir check`: reports the errors that `weir up` would report, without running anything.

mod kubernetes;
mod online;

use std::collections::BTreeMap;
use std::path::Path;

use weir_controller::{Declaration, DeclaredService, UrlScheme};

use self::online::Findings;
use crate::args::{CheckArgs, CheckTarget};
use crate::commands::up::{Inspected, Served, Survey, survey};
use crate::error::CliError;
use crate::error::Exit;
use crate::output::print_result;

/// Placeholder for the state directory: a check builds paths in it, but downloads nothing.
const NO_STATE: &str = "/nonexistent";

/// Prints a line for each service, and notes below it.
///
/// # Errors
/// [`CliError::Invalid`] with every error, [`CliError::RuntimeMissing`] when weir-runtime is needed and not found.
pub(crate) async fn run(args: &CheckArgs) -> Result<Exit, CliError> {
    match args.place {
        CheckTarget::Local => on_this_machine(args).await,
        CheckTarget::Kubernetes => kubernetes::run(args).await,
    }
}

async fn on_this_machine(args: &CheckArgs) -> Result<Exit, CliError> {
    let what =
        Served { files: &args.files, domain: &args.domain, scheme: UrlScheme::Http, runtime: args.runtime.as_deref() };
    let survey = survey(&what, Path::new(NO_STATE))?;
    let online = online::look(args, &survey.declaration).await;
    let errors: Vec<_> = errors(&survey).into_iter().chain(online.errors.iter().cloned()).collect();
    if !errors.is_empty() {
        return Err(CliError::Invalid(errors));
    }
    if survey.declaration.services.is_empty() {
        return Err(nothing_found());
    }
    print_result(&lines(&survey, &online).join("\n"))?;
    Ok(Exit::Done)
}

fn nothing_found() -> CliError {
    let nothing = "no InferenceService found in the -f paths; in a folder, only its own .yaml, .yml and .json files are \
                   read, not those in subfolders";
    CliError::Invalid(vec![nothing.to_owned()])
}

/// Returns every error of every file, and of every model that would be loaded here.
fn errors(survey: &Survey) -> Vec<String> {
    let mut errors = survey.errors.clone();
    for inspected in &survey.inspected {
        let inspection = &inspected.inspection;
        let models = inspection.models.iter().flat_map(|path| weir_runtime::check_models(path));
        let all = inspection.missing.iter().cloned().chain(models);
        errors.extend(all.map(|text| inspected.located(&text)));
    }
    errors.extend(port_conflicts(&survey.inspected));
    errors
}

/// Returns an error for each service whose command listens on the port of another one; only the first could start.
fn port_conflicts(all: &[Inspected]) -> Vec<String> {
    let mut first: BTreeMap<u16, &Inspected> = BTreeMap::new();
    let mut conflicts = Vec::new();
    for inspected in all {
        for port in &inspected.inspection.fixed_ports {
            let other = *first.entry(*port).or_insert(inspected);
            if other.service.name != inspected.service.name {
                let text = format!(
                    "it listens on port {port}, like {}: use $(PORT) in one of the commands",
                    other.service.name
                );
                conflicts.push(inspected.located(&text));
            }
        }
    }
    conflicts
}

fn lines(survey: &Survey, online: &Findings) -> Vec<String> {
    let declaration: &Declaration = &survey.declaration;
    let mut lines = Vec::new();
    for (name, declared) in &declaration.services {
        lines.extend(lines_of(declared));
        lines.extend(online.lines_of(name));
        let inspected = survey.inspected.iter();
        for inspected in inspected.filter(|inspected| inspected.service.name == *name) {
            let fields = inspected.inspection.ignored_fields.join(", ");
            if !fields.is_empty() {
                lines.push(format!("  note: no effect on this machine: {fields}"));
            }
        }
    }
    let ignored = declaration.ignored_objects.iter();
    lines.extend(ignored.map(|object| format!("note: no effect: {object}")));
    lines
}

/// Returns the line of a service, and a note for each of its fields without effect.
fn lines_of(declared: &DeclaredService) -> Vec<String> {
    let valid = declared.validated();
    let is_stopped = valid.is_some_and(|valid| valid.is_stopped);
    let state = if is_stopped { "ok, stopped" } else { "ok" };
    let ignored = valid.into_iter().flat_map(|valid| &valid.ignored_fields);
    let notes = ignored.map(|ignored| {
        let note = format!("no effect: {}", ignored.reason);
        format!("  note: {}", declared.service.located(&ignored.field, &note))
    });
    std::iter::once(format!("{}: {state}", declared.service.name)).chain(notes).collect()
}
