//! The page `docs/metrics.md`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weir_access::{IssuerKind, IssuerSettings, Policy};
use weir_autoscaler::{Autoscaler, Reason as ScaleReason};
use weir_cluster::{
    Apply, Desired, Destination, Directory, Fake, Host, Mirror, PodTemplate, Readiness, Route, ServiceName, Workload,
};
use weir_controller::files::Files;
use weir_controller::{Controller, Platform};
use weir_controller_kubernetes::{AuthorityEnd, WebhookMetrics};
use weir_gateway::{AccessControl, Gateway, Options, Scope};
use weir_model_cache::CacheMetrics;
use weir_ops::registry::{self, Registry};
use weir_runtime::internals::{
    self as runtime, GpuSample, ModelMemory, ModelSample, Pool, Reason, Refusal, Sources, Statistics,
};

use super::check;
use crate::commands::up;

#[tokio::test]
async fn metrics_are_documented() -> Result<(), Box<dyn Error>> {
    let mut page = "\
# Metrics

In Prometheus' text format 0.0.4. Generated from the output of the programs. Metrics that begin with `process_` exist on Linux only.

## `weir up`

`/metrics` on port 9090 (`--admin-port`): the gateway's metrics of each revision, the autoscaler's decisions, the controller, and the process
that runs them. `weir autoscaler` has the autoscaler's metrics, and with `--gpu-price` the gauge `weir_autoscaler_gpu_price`: multiplied by
`weir_autoscaler_gpu_seconds_total / 3600` it is the money spent.

Metrics that begin with `weir_gateway_access_` exist with [access control](access.md#audit) only.

Values of `outcome`: see [mirrored requests](services.md#mirrored-requests). Values of `reason`: REASONS.
`weir status --json` shows each reason as a sentence with its numbers.

"
    .replace("REASONS", &quoted(ScaleReason::LABELS));
    page.push_str(&table(&weir_metrics().await?));
    page.push_str(
        "
## `weir controller`

`/metrics` on port 9090 (`--admin-port`): the metrics of the controller above, those of its process, with `--webhook-port` those of the webhook
of this process, and with `--replica-tls-port` the end of the [authority of replicas](kubernetes.md#tls-to-replicas). Values of `outcome`: `allowed`,
`refused`, and `error` if the review failed and the object was admitted unchecked.

",
    );
    page.push_str(&table(&controller_metrics()?));
    page.push_str(
        "
## `weir model-cache`

`/metrics` on port 9090 (`--admin-port`). Values of `outcome`: `hit`, `miss` (the pod fetches the model for its node), `wait` (another pod fetches it), and
`refused` (the model is larger than the cache, or too many pods fetch). Requests without a valid token do not count.

",
    );
    page.push_str(&table(&cache_metrics()?));
    page.push_str(&runtime_section());
    page.push_str(&table(&runtime_metrics()?));
    check("docs/metrics.md", &page);
    Ok(())
}

/// Returns the text above the metrics of `weir-runtime`.
fn runtime_section() -> String {
    "
## `weir-runtime`

`/metrics` on port 8002 (`--metrics-port`). Names beginning `nv_` are Triton's, with its labels and meaning.

Series of a model have the labels `model`, `version` and one for each of the model's `metric_tags`: `_team` for `team`; those of a GPU have `gpu_uuid` and exist
if there is a GPU. `nv_inference_first_response_histogram_ms` appears with `--metrics-config
histogram_latencies=true`.

Values of `reason`: REASONS. Values of `cause`: CAUSES. Values of `code`: `ok`, or the word for the error.
Values of `part`: `weights` on all devices, `workspace` for the runs of all instances at once, `inputs` of the batches in flight, and
`graphs` for what the CUDA graphs of all instances hold. Workspace and inputs are those of the largest batch that ran before readiness; parts that the backend does not count are left out.

"
        .replace("REASONS", &quoted(Reason::ALL.map(Reason::label)))
        .replace("CAUSES", &quoted(Refusal::ALL.map(Refusal::label)))
}

/// Returns every metric of `weir up` as `/metrics` prints it, for one revision.
async fn weir_metrics() -> Result<String, Box<dyn Error>> {
    let cluster = Arc::new(Fake::new(Readiness::Manual));
    serve(&cluster).await?;
    let (directory, reports) = (cluster.clone(), cluster.clone());
    let autoscaler = Autoscaler::new(directory, reports, cluster.clone(), cluster.clone());
    let access = AccessControl::new(Policy::default());
    access.trust(&[IssuerSettings { kind: IssuerKind::Kubernetes, ..IssuerSettings::default() }])?;
    let gateway = Gateway::new(Options { access: Some(access), ..Options::new("local", Scope::Local) });
    let registry = up::registry(&gateway, &autoscaler, &controller(&cluster)?);
    let mut decisions = autoscaler.decisions();
    let stop = CancellationToken::new();
    let scaling = tokio::spawn(autoscaler.run(stop.clone()));
    let decided = decisions.wait_for(|decisions| !decisions.is_empty());
    drop(decided.await?);
    stop.cancel();
    Arc::clone(&gateway).follow(Directory::watch(&*cluster), stop).await;
    let text = registry::text(&registry)?;
    scaling.await?;
    Ok(text)
}

/// Returns every metric of the webhook and of the authority of replicas as `/metrics` prints it.
fn controller_metrics() -> Result<String, Box<dyn Error>> {
    let mut registry = Registry::default();
    WebhookMetrics::default().register(&mut registry);
    AuthorityEnd::default().register(&mut registry);
    Ok(registry::text(&registry)?)
}

/// Returns every metric of the model cache as `/metrics` prints it.
fn cache_metrics() -> Result<String, Box<dyn Error>> {
    let mut registry = Registry::default();
    CacheMetrics::default().register(&mut registry);
    Ok(registry::text(&registry)?)
}

/// Applies a service with one revision, which is also its mirror.
async fn serve(cluster: &Fake) -> Result<(), Box<dyn Error>> {
    let service = ServiceName::new("default", "digits")?;
    let revision = service.revision(1)?;
    let workload =
        Workload { scaling: Some(Arc::default()), ..Workload::new(revision.clone(), PodTemplate::default(), 1) };
    let mut route = Route::new(service.clone(), Destination::Nowhere("".into()));
    route.mirror = Some(Mirror { revision, percent: 1 });
    route.refused_hosts = vec![Host::parse("other.example.com")?];
    let desired = Desired::new(service, vec![workload], Some(route))?;
    cluster.apply(desired).await?;
    Ok(())
}

/// Creates a controller without services.
fn controller(cluster: &Arc<Fake>) -> Result<Controller, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let platform = Platform { routes_model_names: true, ..Platform::new("example.com") };
    let files = Files::open(&[folder.path().to_owned()], platform)?;
    let (apply, directory, reports) = (cluster.clone(), cluster.clone(), cluster.clone());
    let files = Arc::new(files);
    Ok(Controller::new(files, apply, directory, reports, cluster.clone()))
}

#[derive(Debug)]
struct Everything;

impl Sources for Everything {
    fn models(&self) -> Vec<ModelSample> {
        vec![ModelSample {
            name: "m".to_owned(),
            version: 1,
            tags: Vec::new(),
            snapshot: Statistics::new(1).snapshot(),
            predicted_wait: Duration::ZERO,
            load: Duration::ZERO,
            running_batch: Duration::ZERO,
            batch_limit: Duration::ZERO,
            batch_bound: 0,
            memory: ModelMemory { weights: Some(0), workspace: Some(0), inputs: Some(0), graphs: Some(0) },
        }]
    }

    fn gpus(&self) -> Vec<GpuSample> {
        vec![GpuSample {
            uuid: "GPU-1".to_owned(),
            utilization: Some(0.0),
            memory: Some(Pool::default()),
            power: Some(0.0),
            power_limit: Some(0.0),
            energy: Some(0.0),
            allocator: Some(Pool::default()),
        }]
    }
}

/// Returns every metric of `weir-runtime` as `/metrics` prints it.
fn runtime_metrics() -> Result<String, Box<dyn Error>> {
    let mut registry = registry::with_process_metrics();
    let options = runtime::Options { histogram_latencies: true, ..runtime::Options::default() };
    let _requests = runtime::register(&mut registry, Arc::new(Everything), options);
    Ok(registry::text(&registry)?)
}

fn table(text: &str) -> String {
    let mut rows = "| name | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
    let mut help = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let labels = labels(text, name);
            let help = help.trim_end_matches('.');
            rows.push_str(&format!("| `{name}` | {kind} | {labels} | {help} |\n"));
        }
    }
    rows
}

fn quoted<const N: usize>(words: [&str; N]) -> String {
    words.map(|word| format!("`{word}`")).join(", ")
}

/// Returns the label names of the family's first sample, except `le`.
fn labels(text: &str, name: &str) -> String {
    let sample = text.lines().find(|line| {
        let after = line.strip_prefix(name);
        after.is_some_and(|after| after.starts_with(['{', ' ', '_']))
    });
    let inside = sample.and_then(|line| line.split_once('{')).map_or("", |(_, rest)| rest);
    let pairs = inside.split_once('}').map_or("", |(inside, _)| inside).split(',');
    let names: Vec<_> = pairs
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, _)| format!("`{name}`"))
        .filter(|name| name != "`le`")
        .collect();
    names.join(", ")
}
