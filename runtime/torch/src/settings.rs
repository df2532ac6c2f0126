//! The configuration parameters that the libtorch backend supports.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::str::FromStr;

use weir_runtime::backend::LoadError;

/// Triton's parameters for libtorch, parsed. `None` keeps libtorch's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Method that requests run: `method`.
    pub(crate) method: String,
    /// Options of each run: `INFERENCE_MODE`, `DISABLE_OPTIMIZED_EXECUTION`.
    pub(crate) run: RunOptions,
    /// Handling of cached device memory: `ENABLE_CACHE_CLEANING`.
    pub(crate) cache: Cache,
    /// One copy of the weights per device, or one per instance: `ENABLE_WEIGHT_SHARING`.
    pub(crate) weight_sharing: WeightSharing,
    /// Use of CUDA graphs: `CUDA_GRAPHS`.
    pub(crate) graphs: CudaGraphs,
    /// Limit on the memory of each device, in bytes: `GPU_MEM_LIMIT`. `None` means no limit.
    pub(crate) memory_limit: Option<NonZeroU64>,
    /// Intra-operation threads of each instance: `INTRA_OP_THREAD_COUNT` or `intra_op_thread_count`.
    pub(crate) intra_op_threads: i32,
    /// Settings of the whole process.
    pub(crate) process: ProcessSettings,
}

/// The options of a call of `forward`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunOptions {
    /// True for inference mode; otherwise only gradients are turned off.
    pub(crate) inference_mode: bool,
    /// True for the JIT's optimised execution.
    pub(crate) optimize: bool,
}

/// Handling of device memory that a run allocated and no longer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Keeps the memory cached for the next run.
    Keep,
    /// Returns the memory to the driver after each run.
    EmptyAfterRun,
}

/// The configured sharing of weights between instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeightSharing {
    /// Not configured: weights are shared if no run changes them.
    Unset,
    /// Configured: instances on one device share their weights.
    Asked,
    /// Configured: each instance has its own copy.
    Declined,
}

/// The configured use of CUDA graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CudaGraphs {
    /// No batch runs as a graph.
    Off,
    /// Batch sizes for which a graph is exact and faster run as a graph.
    Auto,
}

/// libtorch's settings for all models of the process. The first model that sets one wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessSettings {
    pub(crate) inter_op_threads: Option<i32>,
    pub(crate) jit_executor: Option<bool>,
    pub(crate) jit_profiling: Option<bool>,
    pub(crate) tensor_fuser: Option<bool>,
    pub(crate) disable_cudnn: Option<bool>,
}

/// The name of the method that TorchScript modules have by default.
pub(crate) const FORWARD: &str = "forward";

/// Default threads per instance. The thread pools of several instances would compete for the same cores, and more
/// instances use more cores anyway.
const DEFAULT_INTRA_OP_THREADS: i32 = 1;

/// Largest number of threads of a pool: the cores of the largest machines. libtorch starts as many threads as
/// configured, and ends the process if the system refuses one.
const MAX_THREADS: i32 = 1024;

impl Settings {
    /// Parses the parameters. Unknown parameters, of other backends or of the user's own scripts, are ignored.
    pub(crate) fn parse(parameters: &BTreeMap<String, String>) -> Result<Self, LoadError> {
        let flag = |name| flag(parameters, name);
        let threads = |name| threads(parameters, name);
        Ok(Self {
            method: method(parameters)?,
            run: RunOptions {
                inference_mode: flag("INFERENCE_MODE")?.unwrap_or(true),
                optimize: !flag("DISABLE_OPTIMIZED_EXECUTION")?.unwrap_or(false),
            },
            cache: match flag("ENABLE_CACHE_CLEANING")? {
                Some(true) => Cache::EmptyAfterRun,
                Some(false) | None => Cache::Keep,
            },
            weight_sharing: match flag("ENABLE_WEIGHT_SHARING")? {
                Some(true) => WeightSharing::Asked,
                Some(false) => WeightSharing::Declined,
                None => WeightSharing::Unset,
            },
            graphs: cuda_graphs(parameters)?,
            memory_limit: number(parameters, "GPU_MEM_LIMIT")?,
            intra_op_threads: intra_op_threads(parameters)?,
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

/// Parses the name of the method to run. The parameter is Weir's own; its key may be in upper case.
fn method(parameters: &BTreeMap<String, String>) -> Result<String, LoadError> {
    let value = parameters.get("method").or_else(|| parameters.get("METHOD"));
    match value.map(|value| value.trim()) {
        None => Ok(FORWARD.to_owned()),
        Some("") => Err(LoadError::Config(
            "parameter method must be the name of a method that the model exports, not empty".to_owned(),
        )),
        Some(name) => Ok(name.to_owned()),
    }
}

/// Parses the use of CUDA graphs, a parameter of Weir's own.
fn cuda_graphs(parameters: &BTreeMap<String, String>) -> Result<CudaGraphs, LoadError> {
    let Some(value) = parameters.get("CUDA_GRAPHS") else {
        return Ok(CudaGraphs::Auto);
    };
    match value.trim().to_ascii_lowercase().as_str() {
        "off" => Ok(CudaGraphs::Off),
        "auto" => Ok(CudaGraphs::Auto),
        _ => Err(LoadError::Config(format!("parameter CUDA_GRAPHS must be auto or off, not '{value}'"))),
    }
}

/// Parses the threads per operator. Triton's name of the parameter is in upper case for libtorch and in lower case for
/// onnxruntime; both are taken for each.
fn intra_op_threads(parameters: &BTreeMap<String, String>) -> Result<i32, LoadError> {
    let upper = threads(parameters, "INTRA_OP_THREAD_COUNT")?;
    let lower = threads(parameters, "intra_op_thread_count")?;
    Ok(upper.or(lower).unwrap_or(DEFAULT_INTRA_OP_THREADS))
}

/// Parses a number of threads. A number that is not positive means the default, as in Triton.
fn threads(parameters: &BTreeMap<String, String>, name: &str) -> Result<Option<i32>, LoadError> {
    let count = parameters.get(name).map(|value| {
        let count = value.trim().parse::<i32>().ok();
        count.filter(|count| *count <= MAX_THREADS).ok_or_else(|| {
            LoadError::Config(format!(
                "parameter {name} must be a number of threads of at most {MAX_THREADS}, not '{value}'"
            ))
        })
    });
    Ok(count.transpose()?.filter(|count| *count > 0))
}

fn flag(parameters: &BTreeMap<String, String>, name: &str) -> Result<Option<bool>, LoadError> {
    let Some(value) = parameters.get(name) else {
        return Ok(None);
    };
    match value.trim().to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(Some(true)),
        "false" | "off" | "0" => Ok(Some(false)),
        _ => Err(LoadError::Config(format!("parameter {name} must be true or false, not '{value}'"))),
    }
}

fn number<T: FromStr>(parameters: &BTreeMap<String, String>, name: &str) -> Result<Option<T>, LoadError> {
    let Some(value) = parameters.get(name) else {
        return Ok(None);
    };
    value
        .trim()
        .parse()
        .map(Some)
        .map_err(|_| LoadError::Config(format!("parameter {name} must be a positive number, not '{value}'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings, LoadError> {
        let owned = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Settings::parse(&owned.collect())
    }

    #[test]
    fn defaults_are_tritons_but_for_threads_and_graphs() {
        let settings = parse(&[]).unwrap();
        assert!(settings.run.inference_mode && settings.run.optimize);
        assert_eq!(settings.cache, Cache::Keep);
        assert_eq!(settings.method, "forward");
        assert_eq!(settings.weight_sharing, WeightSharing::Unset);
        assert_eq!(settings.memory_limit, None);
        assert_eq!(settings.graphs, CudaGraphs::Auto);
        assert_eq!(settings.intra_op_threads, 1);
        assert_eq!(settings.process, ProcessSettings::default());
    }

    #[test]
    fn threads_are_those_of_a_machine() {
        let intra = |value| parse(&[("INTRA_OP_THREAD_COUNT", value)]).map(|all| all.intra_op_threads);
        for (value, expected) in [("0", 1), ("-1", 1), (" 8 ", 8), ("1024", 1024)] {
            assert_eq!(intra(value).unwrap(), expected, "{value}");
        }
        for value in ["1025", "60000", "99999999999", "many", ""] {
            let error = intra(value).unwrap_err().to_string();
            assert!(error.contains("at most 1024"), "{error}");
        }
        let inter = parse(&[("INTER_OP_THREAD_COUNT", "0")]).unwrap();
        assert_eq!(inter.process.inter_op_threads, None);
    }

    #[test]
    fn values_are_parsed() {
        let settings = parse(&[
            ("INFERENCE_MODE", "false"),
            ("DISABLE_OPTIMIZED_EXECUTION", "TRUE"),
            ("INTRA_OP_THREAD_COUNT", "2"),
            ("ENABLE_CACHE_CLEANING", "1"),
            ("ENABLE_WEIGHT_SHARING", "false"),
            ("GPU_MEM_LIMIT", "3000000000"),
            ("ENABLE_TENSOR_FUSER", "0"),
            ("ENABLE_JIT_EXECUTOR", "Off"),
            ("DISABLE_CUDNN", "on"),
            ("OF_ANOTHER_BACKEND", "x"),
            ("method", " encode "),
            ("CUDA_GRAPHS", "Auto"),
        ]);
        let settings = settings.unwrap();
        assert!(!settings.run.inference_mode && !settings.run.optimize);
        assert_eq!(settings.intra_op_threads, 2);
        assert_eq!(settings.method, "encode");
        assert_eq!(settings.graphs, CudaGraphs::Auto);
        assert_eq!(settings.cache, Cache::EmptyAfterRun);
        assert_eq!(settings.weight_sharing, WeightSharing::Declined);
        assert_eq!(settings.memory_limit.unwrap().get(), 3_000_000_000);
        assert_eq!(settings.process.tensor_fuser, Some(false));
        assert_eq!(settings.process.jit_executor, Some(false));
        assert_eq!(settings.process.disable_cudnn, Some(true));
    }

    #[test]
    fn errors_name_the_parameter() {
        for (name, value) in [
            ("INFERENCE_MODE", "maybe"),
            ("INTER_OP_THREAD_COUNT", "two"),
            ("GPU_MEM_LIMIT", "2G"),
            ("CUDA_GRAPHS", "always"),
            ("method", ""),
        ] {
            let error = parse(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
