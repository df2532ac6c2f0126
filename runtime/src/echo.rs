//! A backend without models that returns its inputs. It needs no libtorch; `service_time_ms` makes it as slow as a test
//! of scaling, faults or gateways needs.

mod columns;

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_protocol::{DataType, Parameters, Tensor};

use crate::backend::{
    Affinity, Backend, Batch, BatchOutput, Device, Instance, LoadError, Model, ModelError, ModelSource, ShapeTolerance,
    Signature, TensorConfig, Timing, WarmUp,
};

/// Default batch limit in rows, larger than any batch that a test collects by accident.
const DEFAULT_MAX_BATCH_SIZE: usize = 64;

/// A day, in milliseconds. A longer time is probably a mistaken unit, and `Duration` cannot represent every `f64`.
const MAX_SERVICE_MS: f64 = 86_400_000.0;

/// Loads models that echo their inputs.
///
/// Parameters of the model configuration: `service_time_ms` (sleep per batch), `service_time_ms_per_row` (additional
/// sleep per row) and `echo_parameters` (`true` returns the parameters of a request as parameters of its response).
#[derive(Clone, Copy, Debug, Default)]
pub struct EchoBackend;

#[derive(Debug)]
struct EchoModel {
    signature: Signature,
    behaviour: Behaviour,
}

/// The behaviour set by the configuration's parameters.
#[derive(Clone, Copy, Debug)]
struct Behaviour {
    per_batch: Duration,
    per_row: Duration,
    echo_parameters: bool,
}

struct EchoInstance {
    /// Names of each input and its output, by position.
    pairs: Vec<(String, String)>,
    behaviour: Behaviour,
}

impl Backend for EchoBackend {
    fn names(&self) -> &'static [&'static str] {
        &["echo", "identity"]
    }

    fn default_filename(&self) -> Option<&'static str> {
        None
    }

    fn code_in(&self, _source: &ModelSource) -> Option<String> {
        None
    }

    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, LoadError> {
        Ok(Arc::new(EchoModel { signature: signature(source)?, behaviour: behaviour(source)? }))
    }
}

impl Model for EchoModel {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Sleeping does not get faster with repetition, and measuring it would take as long as the sleep.
    fn warm_up(&self) -> WarmUp {
        WarmUp::Needless
    }

    fn instance(&self, device: Device) -> Result<Box<dyn Instance>, LoadError> {
        match device {
            Device::Cpu => {}
            Device::Cuda(index) => {
                return Err(LoadError::Device(format!(
                    "the echo backend runs on CPU only, not on CUDA device {index}"
                )));
            }
        }
        let Signature { inputs, outputs, .. } = &self.signature;
        let pair = |(input, output): (&TensorConfig, &TensorConfig)| (input.name.clone(), output.name.clone());
        Ok(Box::new(EchoInstance { pairs: inputs.iter().zip(outputs).map(pair).collect(), behaviour: self.behaviour }))
    }
}

impl Instance for EchoInstance {
    fn run(&mut self, batch: &Batch) -> Result<BatchOutput, ModelError> {
        let began = now();
        self.behaviour.wait(batch.rows);
        let infer = began.elapsed();
        let outputs = self.outputs(batch)?;
        Ok(BatchOutput {
            outputs,
            parameters: self.behaviour.answered(batch),
            timing: Timing { input: Duration::ZERO, infer, output: began.elapsed().saturating_sub(infer) },
        })
    }

    /// A batch that sleeps must not block the thread that received the request.
    fn affinity(&self) -> Affinity {
        if self.behaviour.wait_of(1).is_zero() { Affinity::None } else { Affinity::Thread }
    }
}

impl EchoInstance {
    fn outputs(&self, batch: &Batch) -> Result<Vec<Tensor>, ModelError> {
        let mut outputs = Vec::with_capacity(self.pairs.len());
        for (input, output) in &self.pairs {
            // The column is absent only if the input is optional and no request sent it, so there is nothing to echo.
            let Some(column) = batch.columns.iter().find(|column| *column.name == **input) else {
                continue;
            };
            let data = columns::joined(column)?;
            let tensor = Tensor::new(output.clone(), column.datatype, column.shape.clone(), data);
            outputs.push(tensor.map_err(|error| ModelError::Failed(error.to_string()))?);
        }
        Ok(outputs)
    }
}

#[expect(clippy::disallowed_methods, reason = "an instance measures its own run; nothing is decided by it here")]
fn now() -> Instant {
    Instant::now()
}

impl Behaviour {
    fn wait(self, rows: usize) {
        let wait = self.wait_of(rows);
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
    }

    fn wait_of(self, rows: usize) -> Duration {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        self.per_batch + self.per_row.saturating_mul(rows)
    }

    fn answered(self, batch: &Batch) -> Vec<Parameters> {
        if !self.echo_parameters {
            return Vec::new();
        }
        batch.requests.iter().map(|request| Parameters::clone(&request.parameters)).collect()
    }
}

fn signature(source: &ModelSource) -> Result<Signature, LoadError> {
    let inputs = if source.inputs.is_empty() { vec![vector("INPUT0")] } else { source.inputs.clone() };
    let outputs =
        if source.outputs.is_empty() { inputs.iter().map(output_of).collect() } else { source.outputs.clone() };
    check_pairs(&source.name, &inputs, &outputs)?;
    Ok(Signature {
        inputs,
        outputs,
        max_batch_size: source.max_batch_size.unwrap_or(DEFAULT_MAX_BATCH_SIZE),
        tolerance: ShapeTolerance::None,
    })
}

fn vector(name: &str) -> TensorConfig {
    TensorConfig::new(name, DataType::Fp32, vec![-1])
}

/// Input `INPUT0` is returned as `OUTPUT0`; any other name is kept.
fn output_of(input: &TensorConfig) -> TensorConfig {
    TensorConfig { name: input.name.replacen("INPUT", "OUTPUT", 1), optional: false, ..input.clone() }
}

fn check_pairs(model: &str, inputs: &[TensorConfig], outputs: &[TensorConfig]) -> Result<(), LoadError> {
    if outputs.len() > inputs.len() {
        return Err(LoadError::Config(format!(
            "model '{model}' has {} outputs for {} inputs: the echo backend returns each input once",
            outputs.len(),
            inputs.len()
        )));
    }
    for (input, output) in inputs.iter().zip(outputs) {
        if input.datatype != output.datatype {
            return Err(LoadError::Config(format!(
                "model '{model}': output '{}' is {} but echoes input '{}', which is {}",
                output.name, output.datatype, input.name, input.datatype
            )));
        }
    }
    Ok(())
}

fn behaviour(source: &ModelSource) -> Result<Behaviour, LoadError> {
    let echo_parameters = match source.parameters.get("echo_parameters").map(String::as_str) {
        Some("true") => true,
        Some("false") | None => false,
        Some(other) => return Err(bad_parameter("echo_parameters", other, "true or false")),
    };
    Ok(Behaviour {
        per_batch: milliseconds(source, "service_time_ms")?,
        per_row: milliseconds(source, "service_time_ms_per_row")?,
        echo_parameters,
    })
}

fn milliseconds(source: &ModelSource, key: &str) -> Result<Duration, LoadError> {
    let Some(text) = source.parameters.get(key) else {
        return Ok(Duration::ZERO);
    };
    match text.trim().parse::<f64>() {
        Ok(ms) if (0.0..=MAX_SERVICE_MS).contains(&ms) => Ok(Duration::from_secs_f64(ms / 1e3)),
        Ok(_) | Err(_) => Err(bad_parameter(key, text, "milliseconds from 0 to 86400000")),
    }
}

fn bad_parameter(key: &str, value: &str, wanted: &str) -> LoadError {
    LoadError::Config(format!("parameter '{key}' is '{value}', expected {wanted}"))
}

#[cfg(test)]
mod tests;
