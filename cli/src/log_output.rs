//! Log output of the commands that run services.

use weir_ops::telemetry::{self, Levels, Settings};

use crate::error::CliError;

/// Installs the process's log output with these levels.
///
/// # Errors
/// [`CliError::Usage`] when the log output cannot be installed.
pub(crate) fn install(levels: Levels) -> Result<(), CliError> {
    let settings = Settings { levels, ..Settings::default() };
    telemetry::install(&settings).map_err(|error| CliError::Usage(error.to_string()))?;
    Ok(())
}
