//! Finding the program `weir-runtime`.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use weir_cluster::Workload;
use weir_controller::{Declaration, Platform, Validated, validate};

use crate::error::CliError;

/// The program's name, and the last part of the name of its image.
const NAME: &str = "weir-runtime";

/// The program: as given, else the one beside us, else the one in `PATH`; none where there is none and
/// no service needs it.
///
/// # Errors
/// [`CliError::Usage`] when the one given is no program, [`CliError::RuntimeMissing`].
pub(super) fn find(
    given: Option<&Path>,
    declaration: &Declaration,
    platform: &Platform,
) -> Result<Option<PathBuf>, CliError> {
    if let Some(path) = given {
        let usage = |because| CliError::Usage(format!("--runtime {}: {because}", path.display()));
        return match is_program(path) {
            true => std::path::absolute(path)
                .map(Some)
                .map_err(|error| usage(error.to_string())),
            false => Err(usage("there is no such program".to_owned())),
        };
    }
    let weir = std::env::current_exe().map_err(|e| CliError::io("cannot find ourselves", e))?;
    let beside = weir.parent().map(|folder| folder.join(NAME));
    let found = beside.filter(|path| is_program(path)).or_else(in_path);
    match (found, needed_by(declaration, platform)) {
        (None, Some(service)) => Err(CliError::RuntimeMissing { weir, service }),
        (found, _) => Ok(found),
    }
}

fn in_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut all = std::env::split_paths(&path).map(|folder| folder.join(NAME));
    all.find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    let meta = std::fs::metadata(path);
    meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// A service whose pods run it.
fn needed_by(declaration: &Declaration, platform: &Platform) -> Option<String> {
    let mut services = declaration.services.values();
    services.find_map(|service| {
        let valid = validate(service, &declaration.runtimes, platform).ok()?;
        runs_it(&valid).then(|| service.name.to_string())
    })
}

fn runs_it(valid: &Validated) -> bool {
    let canaries = valid.canaries.iter().map(|canary| &canary.variant);
    let mut all = std::iter::once(&valid.predictor).chain(canaries);
    all.any(|variant| container(&variant.template).is_some_and(is_ours))
}

fn container(template: &PodTemplateSpec) -> Option<&Container> {
    let containers = &template.spec.as_ref()?.containers;
    let named = containers.iter().find(|c| c.name == Workload::CONTAINER);
    named.or(containers.first())
}

fn is_ours(container: &Container) -> bool {
    let program = container.command.iter().flatten().next();
    match program {
        Some(program) => Path::new(program).file_name() == Some(OsStr::new(NAME)),
        None => {
            let image = container.image.iter();
            image
                .flat_map(|image| image.split(['/', ':', '@']))
                .any(|part| part == NAME)
        }
    }
}
