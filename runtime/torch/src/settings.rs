//! The parameters of a model's configuration that the libtorch backend knows.

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU64};
use std::str::FromStr;

use weir_runtime::backend::LoadError;

use crate::module::RunOptions;

/// Triton's parameters, parsed. `None` leaves libtorch's default alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// INFERENCE_MODE, DISABLE_OPTIMIZED_EXECUTION.
    pub(crate) run: RunOptions,
    /// ENABLE_CACHE_CLEANING.
    pub(crate) cache: Cache,
    /// GPU_MEM_LIMIT: bytes of each device.
    pub(crate) memory_limit: Option<NonZeroU64>,
    /// INTRA_OP_THREAD_COUNT, of each instance.
    pub(crate) intra_op_threads: i32,
    /// What holds for the whole process.
    pub(crate) process: ProcessSettings,
}

/// What becomes of device memory that a run took and needs no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// It is kept for the next run.
    Keep,
    /// It goes back to the driver after each run.
    Empty,
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
        let threads = |name| {
            let count = number::<NonZeroU16>(parameters, name)?;
            Ok(count.map(|count| i32::from(count.get())))
        };
        flag("ENABLE_WEIGHT_SHARING")?; // accepted: instances of a device always share their weights
        Ok(Self {
            run: RunOptions {
                inference_mode: flag("INFERENCE_MODE")?.unwrap_or(true),
                optimize: !flag("DISABLE_OPTIMIZED_EXECUTION")?.unwrap_or(false),
            },
            cache: match flag("ENABLE_CACHE_CLEANING")? {
                Some(true) => Cache::Empty,
                Some(false) | None => Cache::Keep,
            },
            memory_limit: number(parameters, "GPU_MEM_LIMIT")?,
            intra_op_threads: threads("INTRA_OP_THREAD_COUNT")?.unwrap_or(DEFAULT_INTRA_OP_THREADS),
            process: ProcessSettings {
                inter_op_threads: threads("INTER_OP_THREAD_COUNT")?,
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

fn number<T: FromStr>(
    parameters: &BTreeMap<String, String>,
    name: &str,
) -> Result<Option<T>, LoadError> {
    let Some(value) = parameters.get(name) else {
        return Ok(None);
    };
    value.trim().parse().map(Some).map_err(|_| {
        LoadError::Config(format!(
            "parameter {name} must be a positive number, not '{value}'"
        ))
    })
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
        assert!(settings.run.inference_mode && settings.run.optimize);
        assert_eq!(settings.cache, Cache::Keep);
        assert_eq!(settings.memory_limit, None);
        assert_eq!(settings.intra_op_threads, 1);
        assert_eq!(settings.process, ProcessSettings::default());
    }

    #[test]
    fn values_are_read() {
        let settings = parse(&[
            ("INFERENCE_MODE", "false"),
            ("DISABLE_OPTIMIZED_EXECUTION", "TRUE"),
            ("INTRA_OP_THREAD_COUNT", "2"),
            ("ENABLE_CACHE_CLEANING", "1"),
            ("GPU_MEM_LIMIT", "3000000000"),
            ("ENABLE_TENSOR_FUSER", "0"),
            ("SOMEBODY_ELSES", "x"),
        ]);
        let settings = settings.unwrap();
        assert!(!settings.run.inference_mode && !settings.run.optimize);
        assert_eq!(settings.intra_op_threads, 2);
        assert_eq!(settings.cache, Cache::Empty);
        assert_eq!(settings.memory_limit.unwrap().get(), 3_000_000_000);
        assert_eq!(settings.process.tensor_fuser, Some(false));
    }

    #[test]
    fn nonsense_names_the_parameter() {
        for (name, value) in [
            ("INFERENCE_MODE", "maybe"),
            ("INTER_OP_THREAD_COUNT", "0"),
            ("GPU_MEM_LIMIT", "2G"),
        ] {
            let error = parse(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
