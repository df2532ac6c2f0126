//! The parameters of a model's configuration that the libtorch backend knows.

use std::collections::BTreeMap;

use weir_runtime::backend::LoadError;

use crate::module::RunOptions;

/// Triton's parameters, parsed. `None` leaves libtorch's default alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// INFERENCE_MODE, DISABLE_OPTIMIZED_EXECUTION, ENABLE_CACHE_CLEANING.
    pub(crate) run: RunOptions,
    /// INTRA_OP_THREAD_COUNT, of each instance.
    pub(crate) intra_op_threads: i32,
    /// What holds for the whole process.
    pub(crate) process: ProcessSettings,
}

/// Switches libtorch has once for all models: the first model to set one wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessSettings {
    /// INTER_OP_THREAD_COUNT.
    pub(crate) inter_op_threads: Option<i32>,
    /// ENABLE_JIT_EXECUTOR.
    pub(crate) jit_executor: Option<bool>,
    /// ENABLE_JIT_PROFILING.
    pub(crate) jit_profiling: Option<bool>,
    /// ENABLE_TENSOR_FUSER.
    pub(crate) tensor_fuser: Option<bool>,
    /// DISABLE_CUDNN.
    pub(crate) disable_cudnn: Option<bool>,
}

/// One thread per instance: libtorch's pools of several instances fight for the same cores, and more
/// instances use more cores anyway.
const DEFAULT_INTRA_OP_THREADS: i32 = 1;

impl Settings {
    /// Reads the parameters. Those of other backends and of people's own scripts are left alone.
    pub(crate) fn parse(parameters: &BTreeMap<String, String>) -> Result<Self, LoadError> {
        let flag = |name| flag(parameters, name);
        flag("ENABLE_WEIGHT_SHARING")?; // accepted: instances of a device always share their weights
        Ok(Self {
            run: RunOptions {
                inference_mode: flag("INFERENCE_MODE")?.unwrap_or(true),
                optimize: !flag("DISABLE_OPTIMIZED_EXECUTION")?.unwrap_or(false),
                empty_cache: flag("ENABLE_CACHE_CLEANING")?.unwrap_or(false),
            },
            intra_op_threads: count(parameters, "INTRA_OP_THREAD_COUNT")?
                .unwrap_or(DEFAULT_INTRA_OP_THREADS),
            process: ProcessSettings {
                inter_op_threads: count(parameters, "INTER_OP_THREAD_COUNT")?,
                jit_executor: flag("ENABLE_JIT_EXECUTOR")?,
                jit_profiling: flag("ENABLE_JIT_PROFILING")?,
                tensor_fuser: flag("ENABLE_TENSOR_FUSER")?,
                disable_cudnn: flag("DISABLE_CUDNN")?,
            },
        })
    }
}

fn flag(parameters: &BTreeMap<String, String>, name: &str) -> Result<Option<bool>, LoadError> {
    let Some(value) = parameters.get(name) else {
        return Ok(None);
    };
    match value.trim().to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(Some(true)),
        "false" | "0" => Ok(Some(false)),
        _ => Err(LoadError::Config(format!(
            "parameter {name} must be true or false, not '{value}'"
        ))),
    }
}

fn count(parameters: &BTreeMap<String, String>, name: &str) -> Result<Option<i32>, LoadError> {
    let Some(value) = parameters.get(name) else {
        return Ok(None);
    };
    match value.trim().parse() {
        Ok(count) if count > 0 => Ok(Some(count)),
        _ => Err(LoadError::Config(format!(
            "parameter {name} must be a positive number, not '{value}'"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings, LoadError> {
        let owned = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Settings::parse(&owned.collect())
    }

    #[test]
    fn defaults_are_tritons_but_for_threads() {
        let settings = parse(&[]).unwrap();
        assert!(settings.run.inference_mode && settings.run.optimize && !settings.run.empty_cache);
        assert_eq!(settings.intra_op_threads, 1);
        assert_eq!(settings.process, ProcessSettings::default());
    }

    #[test]
    fn values_are_read() {
        let settings = parse(&[
            ("INFERENCE_MODE", "false"),
            ("DISABLE_OPTIMIZED_EXECUTION", "TRUE"),
            ("INTRA_OP_THREAD_COUNT", "2"),
            ("ENABLE_TENSOR_FUSER", "0"),
            ("SOMEBODY_ELSES", "x"),
        ]);
        let settings = settings.unwrap();
        assert!(!settings.run.inference_mode && !settings.run.optimize);
        assert_eq!(settings.intra_op_threads, 2);
        assert_eq!(settings.process.tensor_fuser, Some(false));
    }

    #[test]
    fn nonsense_names_the_parameter() {
        for (name, value) in [("INFERENCE_MODE", "maybe"), ("INTER_OP_THREAD_COUNT", "0")] {
            let error = parse(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
