//! Finds the program `weir-runtime`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use weir_cluster::PodTemplate;
use weir_cluster_local::is_program;
use weir_controller::{Declaration, DeclaredService, Validated};

use crate::error::CliError;

/// Name of the program, and last part of its image's name.
const NAME: &str = "weir-runtime";

/// Finds the program: the given one, else the one in the folder of `weir`, else the one in `PATH`. `None` if there is
/// none and no service needs it.
///
/// # Errors
/// [`CliError::Usage`] when the given path is not a program, [`CliError::RuntimeMissing`] when none is found and a
/// service needs it.
pub(super) fn find(given: Option<&Path>, declaration: &Declaration) -> Result<Option<PathBuf>, CliError> {
    if let Some(path) = given {
        let usage = |reason: &str| CliError::Usage(format!("--runtime {}: {reason}", path.display()));
        if !is_program(path) {
            return Err(usage(if path.is_file() {
                "it is not executable: run chmod +x on it, or name another"
            } else {
                "no such program"
            }));
        }
        let path = std::path::absolute(path).map_err(|error| usage(&error.to_string()))?;
        return Ok(Some(path));
    }
    let weir = std::env::current_exe().map_err(|e| CliError::io("cannot find the path of this program", e))?;
    let beside = weir.parent().map(|folder| folder.join(NAME));
    let found = beside.filter(|path| is_program(path)).or_else(in_path);
    match (found, needed_by(declaration)) {
        (None, Some(service)) => Err(CliError::RuntimeMissing { weir, service }),
        (found, _) => Ok(found),
    }
}

fn in_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut all = std::env::split_paths(&path).map(|folder| folder.join(NAME));
    all.find(|path| is_program(path))
}

/// Returns a service whose pods run weir-runtime.
fn needed_by(declaration: &Declaration) -> Option<String> {
    let services = declaration.services.values();
    let mut validated = services.filter_map(DeclaredService::validated);
    let found = validated.find(|validated| runs_it(validated))?;
    Some(found.service.to_string())
}

fn runs_it(valid: &Validated) -> bool {
    let canaries = valid.canaries.iter().map(|canary| &canary.variant);
    let mut all = std::iter::once(&valid.predictor).chain(canaries);
    all.any(|variant| PodTemplate::container(&variant.template.read()).is_some_and(is_ours))
}

fn is_ours(container: &Container) -> bool {
    let program = container.command.iter().flatten().next();
    match program {
        Some(program) => Path::new(program).file_name() == Some(OsStr::new(NAME)),
        None => {
            let image = container.image.iter();
            image.flat_map(|image| image.split(['/', ':', '@'])).any(|part| part == NAME)
        }
    }
}
