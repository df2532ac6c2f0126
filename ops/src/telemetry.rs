//! Logs in text or JSON, to standard error or a file, with levels that can be changed at run time.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Readable text: ISO 8601 time, level, target, message, fields.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Log levels that are written. Errors, warnings and information are switched separately, as in Triton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Writes errors if true.
    pub error: bool,
    /// Writes warnings if true.
    pub warning: bool,
    /// Writes information if true.
    pub info: bool,
    /// Verbosity: 0 writes no debug events. 1 adds Weir's own debug events and the information of libraries. 2 and
    /// above also add Weir's trace events and the debug events of libraries.
    pub verbose: u32,
}

/// Settings that [`install`] takes.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Format of the lines.
    pub format: Format,
    /// Levels that are written.
    pub levels: Levels,
    /// File that lines are appended to; `None` means standard error.
    pub file: Option<PathBuf>,
}

/// Handle that changes the levels at run time. Clones change the same logs.
#[derive(Clone, Debug)]
pub struct Handle(reload::Handle<Levels, Registry>);

/// Error of setting up or changing the logs.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The log file cannot be opened.
    #[error("cannot open log file '{path}': {source}")]
    File {
        /// Path of the file as configured.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The process has already set up its logs.
    #[error("logs are set up already")]
    Installed,
    /// The subscriber has been dropped, so there is nothing to change.
    #[error("logs are no longer set up")]
    Gone,
}

/// Sets up the process's logs as `settings` says. May be called once per process.
///
/// # Errors
/// [`TelemetryError`] if the file cannot be opened or logs were set up before.
pub fn install(settings: &Settings) -> Result<Handle, TelemetryError> {
    let writer = match &settings.file {
        Some(path) => append_to(path)?,
        None => BoxMakeWriter::new(std::io::stderr),
    };
    let (filter, handle) = reload::Layer::new(settings.levels);
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
    let layer = match settings.format {
        Format::Text => layer.boxed(),
        Format::Json => layer.json().flatten_event(true).boxed(),
    };
    let installed = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
    installed.map_err(|_| TelemetryError::Installed)?;
    Ok(Handle(handle))
}

fn append_to(path: &Path) -> Result<BoxMakeWriter, TelemetryError> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|source| TelemetryError::File { path: path.to_owned(), source })?;
    Ok(BoxMakeWriter::new(Mutex::new(file)))
}

impl Handle {
    /// Replaces the levels that are written.
    ///
    /// # Errors
    /// [`TelemetryError::Gone`] if the subscriber has been dropped.
    pub fn set(&self, levels: Levels) -> Result<(), TelemetryError> {
        self.0.reload(levels).map_err(|_| TelemetryError::Gone)
    }
}

impl Levels {
    /// Returns true if an event of this level from this module is written. Libraries' information is written from
    /// verbosity 1 on and their debug events from verbosity 2 on: what libraries log as information is debug output for
    /// Weir.
    fn admit(self, level: Level, target: &str) -> bool {
        let ours = target.starts_with("weir");
        match level {
            Level::ERROR => self.error,
            // The watcher logs a warning for each error, with the whole response. Callers log each error once.
            Level::WARN if target == "kube_runtime::watcher" => self.warning && self.verbose >= 1,
            Level::WARN => self.warning,
            Level::INFO => self.info && (ours || self.verbose >= 1),
            Level::DEBUG => self.verbose >= if ours { 1 } else { 2 },
            Level::TRACE => self.verbose >= 2 && ours,
        }
    }
}

impl Default for Levels {
    fn default() -> Self {
        Self { error: true, warning: true, info: true, verbose: 0 }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Filter<S> for Levels {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.admit(*metadata.level(), metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match self.verbose {
            0 if self.info => LevelFilter::INFO,
            0 if self.warning => LevelFilter::WARN,
            0 if self.error => LevelFilter::ERROR,
            0 => LevelFilter::OFF,
            1 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_its_switch() {
        let levels = Levels { warning: false, ..Levels::default() };
        assert!(levels.admit(Level::ERROR, "h2"));
        assert!(!levels.admit(Level::WARN, "weir_runtime"));
        assert!(levels.admit(Level::INFO, "weir_runtime"));
        assert!(!levels.admit(Level::INFO, "h2"));
        assert!(!levels.admit(Level::DEBUG, "weir_runtime"));
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_reported_with_the_reason() {
        let error = append_to(Path::new("/proc/none/log")).err().unwrap();
        let expected = "cannot open log file '/proc/none/log': No such file or directory (os error 2)";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn verbosity_enables_our_events_before_those_of_libraries() {
        let one = Levels { verbose: 1, ..Levels::default() };
        assert!(one.admit(Level::DEBUG, "weir_ops") && !one.admit(Level::DEBUG, "h2"));
        let two = Levels { verbose: 2, ..Levels::default() };
        assert!(two.admit(Level::DEBUG, "h2") && two.admit(Level::TRACE, "weir_ops"));
    }

    #[test]
    fn levels_change_while_running_and_a_file_takes_the_lines() {
        let path = std::env::temp_dir().join(format!("weir-ops-{}.log", std::process::id()));
        let settings = Settings { file: Some(path.clone()), format: Format::Json, ..Settings::default() };
        let handle = install(&settings).unwrap();
        tracing::info!(target: "weir_ops", "first");
        handle.set(Levels { info: false, ..Levels::default() }).unwrap();
        tracing::info!(target: "weir_ops", "second");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.contains("\"message\":\"first\"") && !text.contains("second"), "{text}");
        assert!(matches!(install(&Settings::default()), Err(TelemetryError::Installed)));
    }
}
