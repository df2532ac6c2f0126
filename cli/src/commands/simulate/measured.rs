//! Measures the service times of a running model from its V2 statistics.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use weir_simulation::Service;

use crate::client::Client;
use crate::error::CliError;

/// Timeout of each request to the model's server.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Batches of one size: the size, the number of such batches, and the mean time of one in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    size: f64,
    count: f64,
    seconds: f64,
}

/// Fits the service times of a model: a line through the times of its batches.
///
/// # Errors
/// [`CliError::Server`] if the server does not answer, or has not run batches of two different sizes.
pub(super) async fn service(url: &str, trusted: Option<&Path>, most: Option<u32>) -> Result<Service, CliError> {
    let url = url.trim_end_matches('/');
    let client = Client::new(url, trusted, TIMEOUT)?;
    let statistics = json(&client, &format!("{url}/stats")).await?;
    let most = match most {
        Some(most) => most,
        None => max_batch(&json(&client, &format!("{url}/config")).await?),
    };
    let fitted = fit(&batches(&statistics), most);
    fitted.ok_or_else(|| CliError::Server {
        url: url.to_owned(),
        reason: "the model has not run batches of two different sizes yet, so the time per request is unknown: send it load, or give --batch-time".to_owned(),
    })
}

async fn json(client: &Client, url: &str) -> Result<Value, CliError> {
    let response = client.get(url).await?;
    let reason = |reason: String| CliError::Server { url: url.to_owned(), reason };
    if !response.status().is_success() {
        let hint = "give the address of a model, http://HOST:PORT/v2/models/NAME";
        return Err(reason(format!("it answered {}: {hint}", response.status())));
    }
    serde_json::from_slice(response.body()).map_err(|_| reason("its answer is not JSON".to_owned()))
}

/// Returns the most requests that the server puts into one batch. It is 1 for a model without a batching configuration:
/// there `max_batch_size` only limits a single request.
fn max_batch(config: &Value) -> u32 {
    let is_set = |field| config.get(field).is_some_and(|value| !value.is_null());
    if !is_set("dynamic_batching") && !is_set("sequence_batching") {
        return 1;
    }
    let most = config.get("max_batch_size").and_then(Value::as_u64);
    most.map_or(1, |most| u32::try_from(most).unwrap_or(u32::MAX)).max(1)
}

fn batches(statistics: &Value) -> Vec<Measured> {
    let models = statistics.get("model_stats").and_then(Value::as_array);
    let sizes = models.into_iter().flatten().filter_map(|model| model.get("batch_stats"));
    let sizes = sizes.filter_map(Value::as_array).flatten();
    sizes.filter_map(measured).collect()
}

fn measured(batch: &Value) -> Option<Measured> {
    let size = batch.get("batch_size")?.as_u64()? as f64;
    let count = batch.pointer("/compute_infer/count")?.as_u64()? as f64;
    let parts = ["compute_input", "compute_infer", "compute_output"];
    let nanos: u64 = parts.iter().filter_map(|part| batch.get(*part)?.get("ns")?.as_u64()).sum();
    (count > 0.0 && size > 0.0).then_some(Measured { size, count, seconds: nanos as f64 / count / 1e9 })
}

/// Fits a line by least squares, weighted by the number of batches. A model that does not batch needs only the mean.
fn fit(batches: &[Measured], most: u32) -> Option<Service> {
    let weight: f64 = batches.iter().map(|batch| batch.count).sum();
    let mean =
        |of: &dyn Fn(&Measured) -> f64| batches.iter().map(|batch| batch.count * of(batch)).sum::<f64>() / weight;
    if batches.is_empty() {
        return None;
    }
    let (size, seconds) = (mean(&|batch| batch.size), mean(&|batch| batch.seconds));
    if most == 1 {
        let time = Duration::try_from_secs_f64(seconds).ok()?;
        return Some(Service::Each { time, most });
    }
    let spread = mean(&|batch| (batch.size - size).powi(2));
    if spread <= 0.0 {
        return None;
    }
    let slope = mean(&|batch| (batch.size - size) * (batch.seconds - seconds)) / spread;
    let each = slope.clamp(0.0, seconds / size);
    Some(Service::Batched {
        fixed: Duration::try_from_secs_f64(seconds - each * size).ok()?,
        each: Duration::try_from_secs_f64(each).ok()?,
        most,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn statistics(batches: &[(u64, u64, u64)]) -> Value {
        let batches = batches.iter().map(|(size, count, ms)| {
            json!({"batch_size": size, "compute_infer": {"count": count, "ns": count * ms * 1_000_000}})
        });
        json!({"model_stats": [{"batch_stats": batches.collect::<Vec<_>>()}]})
    }

    #[test]
    fn the_line_through_batches_is_found() {
        let found = batches(&statistics(&[(1, 10, 500), (4, 3, 800), (8, 1, 1200)]));
        let Some(Service::Batched { fixed, each, most }) = fit(&found, 8) else {
            panic!("no line");
        };
        assert_eq!((fixed.as_millis(), each.as_millis(), most), (400, 100, 8));
    }

    #[test]
    fn a_model_without_batching_has_batches_of_one_request() {
        let batching = json!({"max_batch_size": 8, "dynamic_batching": {}});
        assert_eq!(max_batch(&batching), 8);
        assert_eq!(max_batch(&json!({"max_batch_size": 8})), 1);
        let none = json!({"max_batch_size": 0, "dynamic_batching": {}});
        assert_eq!(max_batch(&none), 1);
    }

    #[test]
    fn one_batch_size_is_enough_only_for_a_model_without_batching() {
        let found = batches(&statistics(&[(1, 10, 500)]));
        assert_eq!(fit(&found, 8), None);
        let time = Duration::from_millis(500);
        assert_eq!(fit(&found, 1), Some(Service::Each { time, most: 1 }));
        assert_eq!(fit(&batches(&json!({"model_stats": [3]})), 1), None);
    }
}
