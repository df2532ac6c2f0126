//! From flags to a [`Config`], or to everything that is wrong with them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use weir_ops::telemetry;

use super::Args;
use super::config::{Config, GrpcConfig, HttpConfig, MetricsConfig, OnLoadError};
use super::device::DeviceArgs;
use super::grpc::GrpcArgs;
use super::http::HttpArgs;
use super::known::Given;
use super::limits::LimitArgs;
use super::logs::{LogArgs, LogFormat};
use super::models::{Mode, ModelArgs};
use super::restrict::{self, Restriction};
use crate::metrics;
use crate::repository::{AutoComplete, ControlMode, ReadinessPolicy};
use crate::settings::trace::Trace;

/// Puts a [`Config`] together.
///
/// # Errors
/// Every fault, a sentence each.
pub(super) fn build(args: Args, given: Given) -> Result<Config, Vec<String>> {
    let Args {
        models,
        device: DeviceArgs { device },
        http,
        grpc,
        limits,
        logs,
    } = args;
    let mut faults = given.refused;
    let control = control(&models, &mut faults);
    check_models(&models, &mut faults);
    let metrics = metrics(&http, &mut faults);
    let (threads, body_timeout) = (http.http_thread_count, http.http_body_timeout_secs);
    let (http, grpc) = (
        http_config(http, &mut faults),
        grpc_config(grpc, body_timeout, &mut faults),
    );
    check_ports(http.as_ref(), grpc.as_ref(), metrics.as_ref(), &mut faults);
    check_limits(&limits, &mut faults);
    let trace = trace(&logs.trace_config, &mut faults);
    let config = Config {
        control,
        device,
        http,
        grpc,
        metrics,
        threads,
        trace,
        auto_complete: auto_complete(&models),
        backends: backends(&models),
        readiness: readiness(&models),
        on_load_error: on_load_error(&models),
        id: models.id,
        repositories: models.model_repository,
        model_name: models.model_name,
        config_name: models.model_config_name,
        load_threads: models.model_load_thread_count,
        load_retries: models.model_load_retry_count,
        max_queue: limits.max_queue,
        max_connections: limits.max_connections,
        max_inflight: limits.max_inflight_bytes.get(),
        exit_timeout: limits.exit_timeout_secs,
        drain_delay: limits.drain_delay_secs,
        shared_memory: limits.allow_client_shm.then_some(limits.max_shm_regions),
        logs: log_settings(logs),
        notes: given.accepted,
    };
    if faults.is_empty() {
        Ok(config)
    } else {
        Err(faults)
    }
}

fn control(models: &ModelArgs, faults: &mut Vec<String>) -> ControlMode {
    let load = models.load_model.clone();
    if !load.is_empty() && models.model_control_mode != Mode::Explicit {
        faults.push("--load-model needs --model-control-mode explicit".to_owned());
    }
    if load.len() > 1 && load.iter().any(|name| name == "*") {
        faults.push("--load-model * must be the only --load-model".to_owned());
    }
    match models.model_control_mode {
        Mode::None => ControlMode::None,
        Mode::Explicit => ControlMode::Explicit { load },
        Mode::Poll => {
            let period = models.repository_poll_secs;
            if period.is_zero() {
                faults.push("--repository-poll-secs must be at least 1 in mode poll".to_owned());
            }
            ControlMode::Poll(period)
        }
    }
}

fn check_models(models: &ModelArgs, faults: &mut Vec<String>) {
    if models.model_repository.is_empty() {
        faults.push("--model-repository PATH is missing: what should be served?".to_owned());
    }
    if models.model_name.is_some() && models.model_repository.len() > 1 {
        faults.push(
            "--model-name names a single model, but there are several --model-repository"
                .to_owned(),
        );
    }
}

fn readiness(models: &ModelArgs) -> ReadinessPolicy {
    if models.strict_readiness {
        ReadinessPolicy::Strict
    } else {
        ReadinessPolicy::Lenient
    }
}

fn on_load_error(models: &ModelArgs) -> OnLoadError {
    if models.exit_on_error {
        OnLoadError::Exit
    } else {
        OnLoadError::Stay
    }
}

fn auto_complete(models: &ModelArgs) -> AutoComplete {
    if models.disable_auto_complete_config || models.strict_model_config == Some(true) {
        AutoComplete::Off
    } else {
        AutoComplete::On
    }
}

fn backends(models: &ModelArgs) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut backends = BTreeMap::<_, BTreeMap<_, _>>::new();
    for setting in &models.backend_config {
        let settings = backends.entry(setting.backend.clone()).or_default();
        settings.insert(setting.key.clone(), setting.value.clone());
    }
    backends
}

fn http_config(args: HttpArgs, faults: &mut Vec<String>) -> Option<HttpConfig> {
    check_rules("--http-restricted-api", &args.http_restricted_api, faults);
    args.allow_http.then(|| HttpConfig {
        address: SocketAddr::new(args.http_address, args.http_port),
        reuse_port: args.reuse_http_port,
        max_input: args.http_max_input_size.get(),
        max_body: args.http_max_body_size.get(),
        header_timeout: args.http_header_timeout_secs,
        body_timeout: args.http_body_timeout_secs,
        forward: args.http_header_forward_pattern,
        restricted: args.http_restricted_api,
    })
}

fn grpc_config(
    args: GrpcArgs,
    message_timeout: Duration,
    faults: &mut Vec<String>,
) -> Option<GrpcConfig> {
    check_rules(
        "--grpc-restricted-protocol",
        &args.grpc_restricted_protocol,
        faults,
    );
    args.allow_grpc.then(|| GrpcConfig {
        address: SocketAddr::new(args.grpc_address, args.grpc_port),
        reuse_port: args.reuse_grpc_port,
        forward: args.grpc_header_forward_pattern,
        restricted: args.grpc_restricted_protocol,
        message_timeout,
        compression: args.grpc_infer_response_compression_level,
        keepalive_time: args.grpc_keepalive_time,
        keepalive_timeout: args.grpc_keepalive_timeout,
        max_age: args.grpc_max_connection_age,
        max_age_grace: args.grpc_max_connection_age_grace,
    })
}

fn check_rules(flag: &str, rules: &[Restriction], faults: &mut Vec<String>) {
    for group in restrict::twice(rules) {
        faults.push(format!(
            "{flag} closes group '{}' more than once",
            group.name()
        ));
    }
}

fn metrics(args: &HttpArgs, faults: &mut Vec<String>) -> Option<MetricsConfig> {
    let mut options = metrics::Options {
        cpu: args.allow_cpu_metrics,
        gpu: args.allow_gpu_metrics,
        ..metrics::Options::default()
    };
    for (key, value) in &args.metrics_config {
        metrics_option(key, value, &mut options, faults);
    }
    let ip = args.metrics_address.unwrap_or(args.http_address);
    args.allow_metrics.then(|| MetricsConfig {
        address: SocketAddr::new(ip, args.metrics_port),
        options,
    })
}

fn metrics_option(
    key: &str,
    value: &str,
    options: &mut metrics::Options,
    faults: &mut Vec<String>,
) {
    let Ok(on) = super::values::switch(value) else {
        // Quantiles are a list; without summaries nobody reads them.
        if key != "summary_quantiles" {
            faults.push(format!(
                "--metrics-config {key}={value}: expected true or false"
            ));
        }
        return;
    };
    match key {
        "counter_latencies" => options.counter_latencies = on,
        "histogram_latencies" => options.histogram_latencies = on,
        "summary_latencies" if !on => {}
        "summary_latencies" => faults.push(
            "--metrics-config summary_latencies=true is not supported: summaries of several \
             replicas cannot be added up; read the histograms"
                .to_owned(),
        ),
        unknown => faults.push(format!(
            "--metrics-config {unknown}: unknown, expected counter_latencies or histogram_latencies"
        )),
    }
}

fn check_ports(
    http: Option<&HttpConfig>,
    grpc: Option<&GrpcConfig>,
    metrics: Option<&MetricsConfig>,
    faults: &mut Vec<String>,
) {
    let all = [
        http.map(|http| ("--http-port", http.address)),
        grpc.map(|grpc| ("--grpc-port", grpc.address)),
        metrics.map(|metrics| ("--metrics-port", metrics.address)),
    ];
    let used: Vec<_> = all.into_iter().flatten().collect();
    for (index, (first, address)) in used.iter().enumerate() {
        for (second, other) in &used[index + 1..] {
            // Port 0 takes a free one, so two of them never meet.
            if address.port() == other.port() && address.port() != 0 {
                faults.push(format!("{first} and {second} are both {}", address.port()));
            }
        }
    }
    if http.is_none() && grpc.is_none() {
        faults.push("--allow-http false and --allow-grpc false leave nothing to serve".to_owned());
    }
}

fn check_limits(limits: &LimitArgs, faults: &mut Vec<String>) {
    let (delay, exit) = (limits.drain_delay_secs, limits.exit_timeout_secs);
    if !delay.is_zero() && delay >= exit {
        faults.push(format!(
            "--drain-delay-secs {} leaves nothing of --exit-timeout-secs {}",
            delay.as_secs(),
            exit.as_secs()
        ));
    }
}

fn trace(settings: &[(String, String)], faults: &mut Vec<String>) -> Trace {
    if settings.iter().any(|(key, _)| key == "file") {
        let because = "traces go to the log; say --log-file";
        faults.push(format!("--trace-config file is not supported: {because}"));
    }
    let mut trace = Trace::default();
    let mut set = |key: &str, values: &[String]| {
        if let Err(error) = trace.set(key, values) {
            faults.push(format!("--trace-config: {error}"));
        }
    };
    let mut levels = Vec::new();
    for (key, value) in settings {
        match key.as_str() {
            "level" => levels.push(value.clone()),
            "file" => {}
            "rate" | "count" | "mode" => {
                set(&format!("trace_{key}"), std::slice::from_ref(value));
            }
            "log-frequency" => set("log_frequency", std::slice::from_ref(value)),
            // The store names what it does not know.
            unknown => set(unknown, std::slice::from_ref(value)),
        }
    }
    set("trace_level", &levels);
    trace
}

fn log_settings(args: LogArgs) -> telemetry::Settings {
    telemetry::Settings {
        format: match args.log_format {
            LogFormat::Default | LogFormat::Iso8601 => telemetry::Format::Text,
            LogFormat::Json => telemetry::Format::Json,
        },
        levels: telemetry::Levels {
            error: args.log_error,
            warning: args.log_warning,
            info: args.log_info,
            verbose: args.log_verbose,
        },
        file: args.log_file,
    }
}
