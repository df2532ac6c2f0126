//! Triton's trace settings, for all models and per model; traces are written to the log.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use weir_protocol::grpc::proto;

use super::{SettingsError, excerpt, invalid, members};

/// Limit on the models that have their own settings, so that clients cannot fill memory with invented names.
const MAX_MODELS: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceSettings {
    pub level: TraceLevel,
    /// One of this many requests is traced.
    pub rate: u32,
    /// Limit on the number of traces; `None` means no limit.
    pub count: Option<u32>,
    /// The value that was set, only for display: each trace is logged as soon as its request ends.
    pub log_frequency: u32,
}

/// The parts of a request to trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceLevel {
    Off,
    /// The duration of each stage.
    Timestamps,
    /// Names, types and shapes of tensors.
    Tensors,
    Both,
}

/// Changes by setting. `None` resets a setting: of one model to the value for all models, of all models to the value at
/// start.
pub(crate) type TraceUpdate = BTreeMap<String, Option<Vec<String>>>;

/// The current settings of all models.
#[derive(Debug)]
pub(crate) struct TraceStore {
    at_start: TraceSettings,
    state: Mutex<TraceState>,
    /// True if any request may be traced. Each request checks this first, without a lock.
    tracing: AtomicBool,
}

#[derive(Debug)]
struct TraceState {
    all: TraceSettings,
    /// Number of requests since the common settings changed, of models without their own settings.
    requests: u64,
    models: HashMap<String, OwnSettings>,
}

/// The settings of one model.
#[derive(Clone, Debug, Default)]
struct OwnSettings {
    /// The values as the client sent them, validated before they are stored.
    given: BTreeMap<String, Vec<String>>,
    /// Number of requests since these settings changed.
    requests: u64,
}

impl Default for TraceSettings {
    fn default() -> Self {
        Self { level: TraceLevel::Off, rate: 1000, count: None, log_frequency: 0 }
    }
}

impl TraceSettings {
    /// True if the request with this ordinal is traced; ordinals start at 0 when the settings change.
    pub(crate) fn should_trace(&self, ordinal: u64) -> bool {
        let rate = u64::from(self.rate.max(1));
        let left = self.count.is_none_or(|count| ordinal / rate < u64::from(count));
        self.level != TraceLevel::Off && ordinal.is_multiple_of(rate) && left
    }

    /// Sets one setting by its name in the protocol.
    ///
    /// # Errors
    /// [`SettingsError`] that names the setting; nothing is changed then.
    pub(crate) fn set(&mut self, key: &str, values: &[String]) -> Result<(), SettingsError> {
        if key == "trace_level" {
            self.level = level(values)?;
            return Ok(());
        }
        let expected = "one string";
        let [value] = values else {
            return Err(invalid(key, values.join(","), expected));
        };
        match key {
            "trace_rate" => self.rate = rate(value)?,
            "trace_count" => self.count = count(value)?,
            "log_frequency" => self.log_frequency = frequency(value)?,
            "trace_mode" if value == "triton" => {}
            "trace_mode" => return Err(SettingsError::Mode(excerpt(value))),
            "trace_file" => return Err(SettingsError::File("trace")),
            unknown => {
                return Err(SettingsError::Unknown { kind: "trace", key: excerpt(unknown) });
            }
        }
        Ok(())
    }

    /// Copies one setting from other settings.
    fn reset(&mut self, key: &str, from: &Self) -> Result<(), SettingsError> {
        match key {
            "trace_level" => self.level = from.level,
            "trace_rate" => self.rate = from.rate,
            "trace_count" => self.count = from.count,
            "log_frequency" => self.log_frequency = from.log_frequency,
            "trace_mode" => {}
            "trace_file" => return Err(SettingsError::File("trace")),
            unknown => {
                return Err(SettingsError::Unknown { kind: "trace", key: excerpt(unknown) });
            }
        }
        Ok(())
    }

    fn count_text(&self) -> String {
        self.count.map_or_else(|| "-1".to_owned(), |count| count.to_string())
    }

    /// Returns the settings as HTTP reports them; every value is a string.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "trace_level": self.level.names(),
            "trace_rate": self.rate.to_string(),
            "trace_count": self.count_text(),
            "log_frequency": self.log_frequency.to_string(),
            "trace_file": "",
            "trace_mode": "triton",
        })
    }

    /// Returns the settings as gRPC reports them.
    pub(crate) fn to_proto(self) -> proto::TraceSettingResponse {
        let one = |text: String| vec![text];
        let settings = [
            ("trace_level", self.level.names().iter().map(ToString::to_string).collect()),
            ("trace_rate", one(self.rate.to_string())),
            ("trace_count", one(self.count_text())),
            ("log_frequency", one(self.log_frequency.to_string())),
            ("trace_file", one(String::new())),
            ("trace_mode", one("triton".to_owned())),
        ];
        let value = |value| proto::trace_setting_response::SettingValue { value };
        proto::TraceSettingResponse {
            settings: settings.into_iter().map(|(key, values)| (key.to_owned(), value(values))).collect(),
        }
    }
}

impl TraceLevel {
    /// Returns the names of the level in the protocol.
    pub(crate) const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Off => &["OFF"],
            Self::Timestamps => &["TIMESTAMPS"],
            Self::Tensors => &["TENSORS"],
            Self::Both => &["TIMESTAMPS", "TENSORS"],
        }
    }

    const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Off, level) | (level, Self::Off) => level,
            (Self::Timestamps, Self::Timestamps) => Self::Timestamps,
            (Self::Tensors, Self::Tensors) => Self::Tensors,
            (Self::Timestamps | Self::Both, Self::Tensors | Self::Both)
            | (Self::Tensors | Self::Both, Self::Timestamps)
            | (Self::Tensors, Self::Both) => Self::Both,
        }
    }
}

impl TraceStore {
    /// Creates a store with the settings of the flags.
    pub(crate) fn new(at_start: TraceSettings) -> Self {
        Self {
            at_start,
            state: Mutex::new(TraceState { all: at_start, requests: 0, models: HashMap::new() }),
            tracing: AtomicBool::new(at_start.level != TraceLevel::Off),
        }
    }

    /// Counts a request that a model has just answered, and returns the parts of it to trace.
    pub(crate) fn sample(&self, model: &str) -> TraceLevel {
        if !self.tracing.load(Ordering::Relaxed) {
            return TraceLevel::Off;
        }
        self.state.lock().sample(model)
    }

    /// Returns the settings of a model, or those for all models with `None`. The caller checks that the model exists.
    pub(crate) fn current(&self, model: Option<&str>) -> TraceSettings {
        self.state.lock().current(model)
    }

    /// Changes settings and returns the result.
    ///
    /// # Errors
    /// [`SettingsError`]; nothing is changed then.
    pub(crate) fn update(&self, model: Option<&str>, update: &TraceUpdate) -> Result<TraceSettings, SettingsError> {
        let mut state = self.state.lock();
        match model {
            // An empty update only reads the settings: gRPC has one call for both.
            _ if update.is_empty() => {}
            None => state.update_all(update, &self.at_start)?,
            Some(model) => state.update_model(model, update)?,
        }
        self.tracing.store(state.traces(), Ordering::Relaxed);
        Ok(state.current(model))
    }
}

impl TraceState {
    fn traces(&self) -> bool {
        let own = |model: &String| self.current(Some(model)).level != TraceLevel::Off;
        self.all.level != TraceLevel::Off || self.models.keys().any(own)
    }

    /// Counts a request if its model is traced, in the model's own counter or in the common one.
    fn sample(&mut self, model: &str) -> TraceLevel {
        let trace = self.current(Some(model));
        if trace.level == TraceLevel::Off {
            return TraceLevel::Off;
        }
        let own = self.models.get_mut(model).map(|own| &mut own.requests);
        let requests = own.unwrap_or(&mut self.requests);
        let ordinal = *requests;
        *requests += 1;
        if trace.should_trace(ordinal) { trace.level } else { TraceLevel::Off }
    }

    fn current(&self, model: Option<&str>) -> TraceSettings {
        let mut trace = self.all;
        let own = model.and_then(|model| self.models.get(model));
        for (key, values) in own.into_iter().flat_map(|own| &own.given) {
            // The value was validated before it was stored, so this never fails.
            let _ = trace.set(key, values);
        }
        trace
    }

    fn update_all(&mut self, update: &TraceUpdate, at_start: &TraceSettings) -> Result<(), SettingsError> {
        let mut all = self.all;
        for (key, values) in update {
            match values {
                Some(values) => all.set(key, values)?,
                None => all.reset(key, at_start)?,
            }
        }
        (self.all, self.requests) = (all, 0);
        Ok(())
    }

    fn update_model(&mut self, model: &str, update: &TraceUpdate) -> Result<(), SettingsError> {
        let own = self.models.get(model).cloned().unwrap_or_default();
        let mut own = OwnSettings { requests: 0, ..own };
        let mut trial = self.all;
        for (key, values) in update {
            match values {
                Some(values) => {
                    trial.set(key, values)?;
                    own.given.insert(key.clone(), values.clone());
                }
                None => {
                    trial.reset(key, &self.all)?;
                    own.given.remove(key);
                }
            }
        }
        if own.given.is_empty() {
            self.models.remove(model);
        } else if self.models.len() < MAX_MODELS || self.models.contains_key(model) {
            self.models.insert(model.to_owned(), own);
        } else {
            return Err(invalid("model_name", model, "fewer models with their own settings"));
        }
        Ok(())
    }
}

/// Parses the body of `POST …/trace/setting`: strings, lists of strings, integers, or null to clear a setting.
///
/// # Errors
/// [`SettingsError`] if the body is not JSON or a value has another type.
pub(crate) fn update_from_json(body: &[u8]) -> Result<TraceUpdate, SettingsError> {
    let mut update = TraceUpdate::new();
    for (key, value) in members(body)? {
        let values = match &value {
            Value::Null => None,
            Value::Array(list) => {
                let texts: Result<Vec<_>, _> = list.iter().map(|item| text(&key, item)).collect();
                Some(texts?)
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => Some(vec![text(&key, &value)?]),
        };
        update.insert(key, values);
    }
    Ok(update)
}

/// Parses a `TraceSetting` request; a setting without values is cleared.
pub(crate) fn update_from_proto(request: proto::TraceSettingRequest) -> TraceUpdate {
    let given = |values: Vec<String>| (!values.is_empty()).then_some(values);
    request.settings.into_iter().map(|(key, setting)| (key, given(setting.value))).collect()
}

fn text(key: &str, value: &Value) -> Result<String, SettingsError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) if !number.is_f64() => Ok(number.to_string()),
        other => Err(invalid(key, other, "a string")),
    }
}

fn level(values: &[String]) -> Result<TraceLevel, SettingsError> {
    let expected = "OFF alone, or TIMESTAMPS and TENSORS";
    let mut level = TraceLevel::Off;
    // The values are stored as sent and parsed for each request that may be traced, so they must be few.
    if values.len() > 2 {
        return Err(invalid("trace_level", values.len(), expected));
    }
    for value in values {
        let one = match value.to_ascii_uppercase().as_str() {
            "OFF" if values.len() == 1 => TraceLevel::Off,
            "TIMESTAMPS" => TraceLevel::Timestamps,
            "TENSORS" => TraceLevel::Tensors,
            _ => return Err(invalid("trace_level", value, expected)),
        };
        level = level.and(one);
    }
    Ok(level)
}

fn rate(value: &str) -> Result<u32, SettingsError> {
    match value.parse() {
        Ok(rate) if rate > 0 => Ok(rate),
        Ok(_) | Err(_) => Err(invalid("trace_rate", value, "an integer from 1")),
    }
}

fn count(value: &str) -> Result<Option<u32>, SettingsError> {
    if value == "-1" {
        return Ok(None);
    }
    let count = value.parse();
    count.map(Some).map_err(|_| invalid("trace_count", value, "an integer from -1"))
}

fn frequency(value: &str) -> Result<u32, SettingsError> {
    value.parse().map_err(|_| invalid("log_frequency", value, "an integer from 0"))
}

#[cfg(test)]
mod tests;
