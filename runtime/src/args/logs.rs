//! Flags for logs and traces.

use std::path::PathBuf;

use super::values;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Logs and traces")]
pub(super) struct LogArgs {
    /// Verbosity of the log: 1 adds Weir's debug events, 2 and above adds everything
    #[arg(long, num_args = 0..=1, default_value = "0", default_missing_value = "1", value_name = "N",
          value_parser = verbosity)]
    pub(super) log_verbose: u32,
    #[arg(long, help = "Log information", num_args = 0..=1, default_value = "true", default_missing_value = "true",
          value_name = "BOOL", value_parser = values::switch, action = clap::ArgAction::Set)]
    pub(super) log_info: bool,
    #[arg(long, help = "Log warnings", num_args = 0..=1, default_value = "true", default_missing_value = "true",
          value_name = "BOOL", value_parser = values::switch, action = clap::ArgAction::Set)]
    pub(super) log_warning: bool,
    #[arg(long, help = "Log errors", num_args = 0..=1, default_value = "true", default_missing_value = "true",
          value_name = "BOOL", value_parser = values::switch, action = clap::ArgAction::Set)]
    pub(super) log_error: bool,
    /// Format of log lines; default and ISO8601 both mean text with ISO 8601 times
    #[arg(long, value_enum, default_value = "default", value_name = "FORMAT")]
    pub(super) log_format: LogFormat,
    /// Append logs to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    pub(super) log_file: Option<PathBuf>,
    /// Requests to trace into the log: level=OFF|TIMESTAMPS|TENSORS, rate=N or count=N; also accepted as
    /// triton,KEY=VALUE. Repeatable
    #[arg(long, value_name = "SETTING", value_parser = trace_setting)]
    pub(super) trace_config: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    Default,
    #[value(name = "ISO8601")]
    Iso8601,
    Json,
}

/// Parses a verbosity; older scripts pass a boolean.
fn verbosity(text: &str) -> Result<u32, String> {
    match values::switch(text) {
        Ok(on) => Ok(on.into()),
        Err(_) => text.parse().map_err(|_| "expected a number from 0".to_owned()),
    }
}

/// Parses a trace setting. `triton,KEY=VALUE` means `KEY=VALUE`; the prefix of any other mode is kept, so that the
/// error names it.
fn trace_setting(text: &str) -> Result<(String, String), String> {
    values::pair(text.strip_prefix("triton,").unwrap_or(text))
}
