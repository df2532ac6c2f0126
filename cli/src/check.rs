//! `weir check`: what `weir up` would say, without running anything.

use std::path::Path;

use weir_controller::{Declaration, UrlScheme};

use crate::args::CheckArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::print_result;
use crate::up::{Prepared, Served, prepare};

/// Directory of downloads in a check, of which only paths are made.
const NO_STATE: &str = "/nonexistent";

/// Prints a line for each service, and notes.
///
/// # Errors
/// [`CliError::Invalid`] with every error, [`CliError::RuntimeMissing`].
pub(crate) fn run(args: &CheckArgs) -> Result<Exit, CliError> {
    let what = Served {
        files: &args.files,
        domain: &args.domain,
        scheme: UrlScheme::Http,
        runtime: args.runtime.as_deref(),
    };
    let prepared = prepare(&what, Path::new(NO_STATE))?;
    let missing = prepared.inspections.iter();
    let missing: Vec<String> = missing
        .flat_map(|(_, inspection)| inspection.missing.clone())
        .collect();
    if !missing.is_empty() {
        return Err(CliError::Invalid(missing));
    }
    if prepared.declaration.services.is_empty() {
        let nothing = "no InferenceService found in the -f paths; of a folder, its own .yaml, .yml and .json files are \
            read, and not those of folders in it"
            .to_owned();
        return Err(CliError::Invalid(vec![nothing]));
    }
    print_result(&lines(&prepared).join("\n"))?;
    Ok(Exit::Done)
}

fn lines(prepared: &Prepared) -> Vec<String> {
    let declaration: &Declaration = &prepared.declaration;
    let mut lines = Vec::new();
    for (name, declared) in &declaration.services {
        let valid = declared.validated();
        let is_stopped = valid.is_some_and(|valid| valid.is_stopped);
        let state = if is_stopped { "ok, stopped" } else { "ok" };
        lines.push(format!("{name}: {state}"));
        let ignored = valid.into_iter().flat_map(|valid| &valid.ignored_fields);
        lines.extend(ignored.map(|ignored| {
            let note = format!("no effect: {}", ignored.reason);
            format!(
                "  note: {}",
                declared.service.located(&ignored.field, &note)
            )
        }));
        for (_, inspection) in prepared.inspections.iter().filter(|(of, _)| of == name) {
            let fields = inspection.ignored_fields.join(", ");
            if !fields.is_empty() {
                lines.push(format!("  note: no effect on this machine: {fields}"));
            }
        }
    }
    let ignored = declaration.ignored_objects.iter();
    lines.extend(ignored.map(|object| format!("note: no effect: {object}")));
    lines
}
