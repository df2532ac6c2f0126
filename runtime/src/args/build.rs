//! Builds a [`Config`] from the flags, or reports all their errors at once.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use weir_ops::admin::TokenFile;
use weir_ops::telemetry;
use weir_serve::{ConnectionLimits, Pace};

use super::Args;
use super::config::{Config, GrpcConfig, HttpConfig, MetricsConfig, OnLoadError};
use super::device::DeviceArgs;
use super::grpc::GrpcArgs;
use super::http::HttpArgs;
use super::limits::LimitArgs;
use super::logs::{LogArgs, LogFormat};
use super::models::{ALL_OPERATORS, BackendSetting, CodeFlag, ModeFlag, ModelArgs, WarmUpFlag};
use super::triton_flags::Given;
use super::{restrict, tls};
use crate::backend::{ModelCode, UnguardedOperators, WarmUpFailures};
use crate::engine::BatchLimit;
use crate::incoming::restriction::Restriction;
use crate::metrics;
use crate::repository::{AutoComplete, ControlMode, ReadinessPolicy};
use crate::settings::trace::TraceSettings;

/// Builds a [`Config`] from the flags.
///
/// # Errors
/// All errors in the flags, one sentence each.
pub(super) fn build(args: Args, given: Given) -> Result<Config, Vec<String>> {
    let Args { models, device: DeviceArgs { device }, http, grpc, tls, limits, logs } = args;
    let mut errors = given.refused;
    let control = control(&models, &mut errors);
    check_models(&models, &mut errors);
    let notes = notes(given.accepted, &models, &http);
    let metrics = metrics(&http, &mut errors);
    let (threads, connections) = (http.http_thread_count, connection_limits(&http, &limits));
    let max_decompressed = http.http_max_input_size.get();
    let (http, grpc) = (http_config(http, &mut errors), grpc_config(grpc, max_decompressed, &mut errors));
    check_ports(http.as_ref(), grpc.as_ref(), metrics.as_ref(), &mut errors);
    check_limits(&limits, &mut errors);
    let tls = tls::config(tls).unwrap_or_else(|error| {
        errors.push(error);
        None
    });
    let trace = trace(&logs.trace_config, &mut errors);
    let config = Config {
        control,
        device,
        http,
        grpc,
        metrics,
        tls,
        threads,
        trace,
        auto_complete: auto_complete(&models),
        readiness: readiness(&models),
        control_routes: models.control_routes,
        on_load_error: on_load_error(&models),
        warm_up_failures: warm_up_failures(&models),
        unguarded_operators: unguarded_operators(&models),
        model_code: model_code(&models),
        example: models.example,
        id: models.id,
        repositories: models.model_repository,
        repository_cache: models.model_repository_cache,
        model_name: models.model_name,
        config_name: models.model_config_name,
        load_threads: models.model_load_thread_count,
        load_retries: models.model_load_retry_count,
        max_queue: limits.max_queue,
        batch_limit: batch_limit(&limits),
        connections,
        max_inflight: limits.max_inflight_bytes.get(),
        exit_timeout: limits.exit_timeout_secs,
        drain_delay: limits.drain_delay_secs,
        shared_memory: limits.allow_client_shm.then_some(limits.max_shm_regions),
        logs: log_settings(logs),
        notes,
    };
    if errors.is_empty() { Ok(config) } else { Err(errors) }
}

fn control(models: &ModelArgs, errors: &mut Vec<String>) -> ControlMode {
    let load = models.load_model.clone();
    if !load.is_empty() && models.model_control_mode != ModeFlag::Explicit {
        errors.push("--load-model needs --model-control-mode explicit".to_owned());
    }
    if load.len() > 1 && load.iter().any(|name| name == "*") {
        errors.push("--load-model * must be the only --load-model".to_owned());
    }
    match models.model_control_mode {
        ModeFlag::None => ControlMode::None,
        ModeFlag::Explicit => ControlMode::Explicit { load },
        ModeFlag::Poll => {
            let period = models.repository_poll_secs;
            if period.is_zero() {
                errors.push("--repository-poll-secs must be more than 0 in mode poll".to_owned());
            }
            ControlMode::Poll(period)
        }
    }
}

fn batch_limit(limits: &LimitArgs) -> BatchLimit {
    match limits.max_batch_seconds {
        None => BatchLimit::Measured,
        Some(Duration::ZERO) => BatchLimit::Unlimited,
        Some(limit) => BatchLimit::Fixed(limit),
    }
}

fn check_models(models: &ModelArgs, errors: &mut Vec<String>) {
    if models.model_repository.is_empty() {
        errors.push(
            "--model-repository PATH is missing: name a model file, a model directory or a directory of models"
                .to_owned(),
        );
    }
    if models.model_name.is_some() && models.model_repository.len() > 1 {
        errors.push("--model-name works with one --model-repository only".to_owned());
    }
}

fn readiness(models: &ModelArgs) -> ReadinessPolicy {
    if models.strict_readiness { ReadinessPolicy::Strict } else { ReadinessPolicy::Lenient }
}

fn on_load_error(models: &ModelArgs) -> OnLoadError {
    if models.exit_on_error { OnLoadError::Exit } else { OnLoadError::Serve }
}

fn warm_up_failures(models: &ModelArgs) -> WarmUpFailures {
    match models.warm_up_failures {
        WarmUpFlag::Refuse => WarmUpFailures::Refuse,
        WarmUpFlag::Allow => WarmUpFailures::Allow,
    }
}

fn model_code(models: &ModelArgs) -> ModelCode {
    match models.model_code {
        CodeFlag::Allow => ModelCode::Allow,
        CodeFlag::Forbid => ModelCode::Forbid,
    }
}

fn unguarded_operators(models: &ModelArgs) -> UnguardedOperators {
    let names = &models.allow_unguarded_operators;
    if names.iter().any(|name| name == ALL_OPERATORS) {
        UnguardedOperators::All
    } else {
        UnguardedOperators::Only(names.clone())
    }
}

fn auto_complete(models: &ModelArgs) -> AutoComplete {
    if models.disable_auto_complete_config || models.strict_model_config == Some(true) {
        AutoComplete::Off
    } else {
        AutoComplete::On
    }
}

/// Returns sentences for the log about flags accepted without effect.
fn notes(accepted: Vec<String>, models: &ModelArgs, http: &HttpArgs) -> Vec<String> {
    [accepted, backend_notes(models), summary_notes(&http.metrics_config)].concat()
}

/// Returns a sentence for each `--backend-config`. Triton's libtorch backend has no such settings either.
fn backend_notes(models: &ModelArgs) -> Vec<String> {
    let given = models.backend_config.iter();
    let note = |setting: &BackendSetting| {
        let BackendSetting { backend, key, value } = setting;
        format!(
            "--backend-config {backend},{key}={value} accepted without effect: a model's settings are parameters of \
             its config.pbtxt"
        )
    };
    given.map(note).collect()
}

/// Returns a sentence if summary metrics are requested.
fn summary_notes(metrics_config: &[(String, String)]) -> Vec<String> {
    let asks = |(key, value): &(String, String)| key == "summary_latencies" && super::values::switch(value) == Ok(true);
    let note = "--metrics-config summary_latencies=true accepted without effect: summaries of several replicas cannot be \
                added up; use histogram_latencies=true";
    let asked = metrics_config.iter().any(asks);
    asked.then(|| note.to_owned()).into_iter().collect()
}

fn http_config(args: HttpArgs, errors: &mut Vec<String>) -> Option<HttpConfig> {
    check_rules("--http-restricted-api", &args.http_restricted_api, errors);
    args.allow_http.then(|| HttpConfig {
        address: SocketAddr::new(args.http_address, args.http_port),
        reuse_port: args.reuse_http_port,
        max_input: args.http_max_input_size.get(),
        max_body: args.http_max_body_size.get(),
        forward: args.http_header_forward_pattern,
        restricted: args.http_restricted_api,
    })
}

fn grpc_config(args: GrpcArgs, max_decompressed: usize, errors: &mut Vec<String>) -> Option<GrpcConfig> {
    check_rules("--grpc-restricted-protocol", &args.grpc_restricted_protocol, errors);
    args.allow_grpc.then(|| GrpcConfig {
        address: SocketAddr::new(args.grpc_address, args.grpc_port),
        reuse_port: args.reuse_grpc_port,
        forward: args.grpc_header_forward_pattern,
        restricted: args.grpc_restricted_protocol,
        max_decompressed,
        gzip_responses: args.grpc_infer_response_compression_level.uses_gzip(),
        keepalive_time: args.grpc_keepalive_time,
        keepalive_timeout: args.grpc_keepalive_timeout,
        max_age: args.grpc_max_connection_age,
        max_age_grace: args.grpc_max_connection_age_grace,
    })
}

/// Limits on connections, the same for HTTP and gRPC.
fn connection_limits(http: &HttpArgs, limits: &LimitArgs) -> ConnectionLimits {
    let total = limits.max_connections.get();
    let per_client = limits.max_connections_per_address;
    ConnectionLimits {
        total,
        per_client: per_client.map_or(ConnectionLimits::share_of(total), NonZeroUsize::get),
        idle: http.http_header_timeout_secs,
        stall: http.http_body_timeout_secs,
        pace: Pace { grace: http.http_body_timeout_secs, ..Pace::default() },
    }
}

fn check_rules(flag: &str, rules: &[Restriction], errors: &mut Vec<String>) {
    for group in restrict::twice(rules) {
        errors.push(format!("{flag} restricts group '{}' more than once", group.name()));
    }
}

fn metrics(args: &HttpArgs, errors: &mut Vec<String>) -> Option<MetricsConfig> {
    let mut options =
        metrics::Options { cpu: args.allow_cpu_metrics, gpu: args.allow_gpu_metrics, ..metrics::Options::default() };
    for (key, value) in &args.metrics_config {
        metrics_option(key, value, &mut options, errors);
    }
    let ip = args.metrics_address.unwrap_or(args.http_address);
    let token = match args.metrics_token_file.as_deref().map(TokenFile::open).transpose() {
        Ok(token) => token.map(Arc::new),
        Err(error) => {
            errors.push(format!("--metrics-token-file: {error}"));
            None
        }
    };
    args.allow_metrics.then(|| MetricsConfig { address: SocketAddr::new(ip, args.metrics_port), options, token })
}

fn metrics_option(key: &str, value: &str, options: &mut metrics::Options, errors: &mut Vec<String>) {
    let Ok(on) = super::values::switch(value) else {
        // The value is a list of quantiles, not a boolean, and has no effect without summaries.
        if key != "summary_quantiles" {
            errors.push(format!("--metrics-config {key}={value}: expected true or false"));
        }
        return;
    };
    match key {
        "counter_latencies" => options.counter_latencies = on,
        "histogram_latencies" => options.histogram_latencies = on,
        // `summary_notes` reports that this setting has no effect.
        "summary_latencies" => {}
        unknown => errors
            .push(format!("--metrics-config {unknown}: unknown, expected counter_latencies or histogram_latencies")),
    }
}

fn check_ports(
    http: Option<&HttpConfig>,
    grpc: Option<&GrpcConfig>,
    metrics: Option<&MetricsConfig>,
    errors: &mut Vec<String>,
) {
    let all = [
        http.map(|http| ("--http-port", http.address)),
        grpc.map(|grpc| ("--grpc-port", grpc.address)),
        metrics.map(|metrics| ("--metrics-port", metrics.address)),
    ];
    let used: Vec<_> = all.into_iter().flatten().collect();
    for (index, (first, address)) in used.iter().enumerate() {
        for (second, other) in &used[index + 1..] {
            // Port 0 takes a free port each time, so two flags with 0 do not collide.
            if address.port() == other.port() && address.port() != 0 {
                errors.push(format!("{first} and {second} are both {}", address.port()));
            }
        }
    }
    if http.is_none() && grpc.is_none() {
        errors.push("--allow-http false and --allow-grpc false leave nothing to serve: remove one of them".to_owned());
    }
}

fn check_limits(limits: &LimitArgs, errors: &mut Vec<String>) {
    let (delay, exit) = (limits.drain_delay_secs, limits.exit_timeout_secs);
    if !delay.is_zero() && delay >= exit {
        errors.push(format!(
            "--drain-delay-secs {} must be shorter than --exit-timeout-secs {}",
            delay.as_secs(),
            exit.as_secs()
        ));
    }
}

fn trace(settings: &[(String, String)], errors: &mut Vec<String>) -> TraceSettings {
    if settings.iter().any(|(key, _)| key == "file") {
        let because = "traces go to the log; use --log-file";
        errors.push(format!("--trace-config file is not supported: {because}"));
    }
    let mut trace = TraceSettings::default();
    let mut set = |key: &str, values: &[String]| {
        if let Err(error) = trace.set(key, values) {
            errors.push(format!("--trace-config: {error}"));
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
            // `TraceSettings::set` refuses unknown settings by name.
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
