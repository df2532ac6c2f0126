//! Triton's log settings, which can be changed at run time.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use weir_ops::telemetry::{Levels, Settings};
use weir_protocol::grpc::proto;

use super::{SettingsError, excerpt, invalid, members};

/// The current log settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogSettings {
    pub levels: Levels,
    /// The format that was set, only for display: both formats look the same here.
    pub format: LogTimeFormat,
    /// The log file; empty for standard error.
    pub file: String,
}

/// Triton's time formats of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogTimeFormat {
    #[default]
    Default,
    Iso8601,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogValue {
    Bool(bool),
    Uint(u32),
    Text(String),
}

pub(crate) type LogUpdate = BTreeMap<String, LogValue>;

/// Applies log levels at run time; the error is a text for the client.
pub(crate) type ApplyLevels = Arc<dyn Fn(Levels) -> Result<(), String> + Send + Sync>;

/// The current settings, and the function that applies changes.
pub(crate) struct LogStore {
    current: Mutex<LogSettings>,
    apply: ApplyLevels,
}

impl LogSettings {
    /// Returns the settings that the flags set at start.
    pub(crate) fn at_start(settings: &Settings) -> Self {
        let file = settings.file.as_ref();
        Self {
            levels: settings.levels,
            format: LogTimeFormat::Default,
            file: file.map_or_else(String::new, |path| path.display().to_string()),
        }
    }

    /// Returns the settings as HTTP reports them.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "log_file": self.file,
            "log_info": self.levels.info,
            "log_warning": self.levels.warning,
            "log_error": self.levels.error,
            "log_verbose_level": self.levels.verbose,
            "log_format": self.format.name(),
        })
    }

    /// Returns the settings as gRPC reports them.
    pub(crate) fn to_proto(&self) -> proto::LogSettingsResponse {
        use proto::log_settings_response::SettingValue;
        use proto::log_settings_response::setting_value::ParameterChoice;
        let settings = [
            ("log_file", ParameterChoice::StringParam(self.file.clone())),
            ("log_info", ParameterChoice::BoolParam(self.levels.info)),
            ("log_warning", ParameterChoice::BoolParam(self.levels.warning)),
            ("log_error", ParameterChoice::BoolParam(self.levels.error)),
            ("log_verbose_level", ParameterChoice::Uint32Param(self.levels.verbose)),
            ("log_format", ParameterChoice::StringParam(self.format.name().to_owned())),
        ];
        let value = |choice| SettingValue { parameter_choice: Some(choice) };
        proto::LogSettingsResponse {
            settings: settings.into_iter().map(|(key, choice)| (key.to_owned(), value(choice))).collect(),
        }
    }

    fn set(&mut self, key: &str, value: &LogValue) -> Result<(), SettingsError> {
        match key {
            "log_info" => self.levels.info = value.switch(key)?,
            "log_warning" => self.levels.warning = value.switch(key)?,
            "log_error" => self.levels.error = value.switch(key)?,
            "log_verbose_level" => self.levels.verbose = value.number(key)?,
            "log_format" => self.format = value.format(key)?,
            "log_file" => return Err(SettingsError::File("log")),
            unknown => {
                return Err(SettingsError::Unknown { kind: "log", key: excerpt(unknown) });
            }
        }
        Ok(())
    }
}

impl LogTimeFormat {
    const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Iso8601 => "ISO8601",
        }
    }
}

impl LogValue {
    fn switch(&self, key: &str) -> Result<bool, SettingsError> {
        match self {
            Self::Bool(on) => Ok(*on),
            Self::Uint(_) | Self::Text(_) => Err(invalid(key, self, "true or false")),
        }
    }

    fn number(&self, key: &str) -> Result<u32, SettingsError> {
        match self {
            Self::Uint(number) => Ok(*number),
            Self::Bool(_) | Self::Text(_) => Err(invalid(key, self, "an integer from 0")),
        }
    }

    fn format(&self, key: &str) -> Result<LogTimeFormat, SettingsError> {
        match self {
            Self::Text(text) if text == "default" => Ok(LogTimeFormat::Default),
            Self::Text(text) if text == "ISO8601" => Ok(LogTimeFormat::Iso8601),
            Self::Bool(_) | Self::Uint(_) | Self::Text(_) => Err(invalid(key, self, "'default' or 'ISO8601'")),
        }
    }
}

impl std::fmt::Display for LogValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(on) => write!(f, "{on}"),
            Self::Uint(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl LogStore {
    /// Creates a store with the settings at start.
    pub(crate) fn new(at_start: LogSettings, apply: ApplyLevels) -> Self {
        Self { current: Mutex::new(at_start), apply }
    }

    /// Returns the current settings.
    pub(crate) fn current(&self) -> LogSettings {
        self.current.lock().clone()
    }

    /// Changes settings, applies them and returns the result.
    ///
    /// # Errors
    /// [`SettingsError`]; nothing is changed then.
    pub(crate) fn update(&self, update: &LogUpdate) -> Result<LogSettings, SettingsError> {
        let mut current = self.current.lock();
        let mut next = current.clone();
        for (key, value) in update {
            next.set(key, value)?;
        }
        (self.apply)(next.levels).map_err(SettingsError::Apply)?;
        current.clone_from(&next);
        Ok(next)
    }
}

/// Parses the body of `POST /v2/logging`.
///
/// # Errors
/// [`SettingsError`] if the body is not JSON or a value has a type that no setting has.
pub(crate) fn update_from_json(body: &[u8]) -> Result<LogUpdate, SettingsError> {
    let mut update = LogUpdate::new();
    for (key, value) in members(body)? {
        let read = match &value {
            Value::Bool(on) => Some(LogValue::Bool(*on)),
            Value::Number(number) => {
                let number = number.as_u64().and_then(|number| u32::try_from(number).ok());
                number.map(LogValue::Uint)
            }
            Value::String(text) => Some(LogValue::Text(text.clone())),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        let read = read.ok_or_else(|| invalid(&key, &value, "a boolean, an integer from 0 or a string"))?;
        update.insert(key, read);
    }
    Ok(update)
}

/// Parses a `LogSettings` request.
///
/// # Errors
/// [`SettingsError::Value`] for a setting without a value.
pub(crate) fn update_from_proto(request: proto::LogSettingsRequest) -> Result<LogUpdate, SettingsError> {
    use proto::log_settings_request::setting_value::ParameterChoice;
    let mut update = LogUpdate::new();
    for (key, setting) in request.settings {
        let value = match setting.parameter_choice {
            Some(ParameterChoice::BoolParam(on)) => LogValue::Bool(on),
            Some(ParameterChoice::Uint32Param(number)) => LogValue::Uint(number),
            Some(ParameterChoice::StringParam(text)) => LogValue::Text(text),
            None => return Err(invalid(&key, "", "a value")),
        };
        update.insert(key, value);
    }
    Ok(update)
}

#[cfg(test)]
mod tests;
