//! The service, the machines and the requests to simulate.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use weir_cluster::{ComponentKind, ScalingPolicy};
use weir_controller::{ScaledBy, Validated};
use weir_simulation::{Contender, Machines, Service, SpotGpus, Starts, Workload, World};

use super::measured;
use super::starts::starts;
use crate::args::SimulateArgs;
use crate::commands::up;
use crate::error::CliError;

/// The service, the machines and the requests to simulate.
pub(super) struct Scenario {
    pub(super) arrivals: Vec<Duration>,
    pub(super) until: Duration,
    pub(super) world: World,
    pub(super) scaling: ScalingPolicy,
    /// Targets for the time in the queue; each is simulated separately.
    pub(super) targets: Vec<Duration>,
}

impl Scenario {
    pub(super) async fn new(args: &SimulateArgs, arrivals: Vec<Duration>) -> Result<Self, CliError> {
        let declared = declared(args)?;
        let credits = declared.as_ref().and_then(|service| service.concurrency);
        let scaling = scaling(args, declared.as_deref());
        check_bounds(args, &scaling)?;
        let service = service(args, credits.map(NonZeroU32::get)).await?;
        let targets = match args.queue_delay.as_slice() {
            [] => vec![scaling.queue_delay],
            given => given.to_vec(),
        };
        let until = match args.wave {
            Some(_) => args.length,
            None => end(&arrivals),
        };
        Ok(Self { arrivals, until, world: world(args, service, starts(args).await?, &scaling), scaling, targets })
    }

    /// Returns the requests with one of the targets.
    pub(super) fn workload(&self, target: Duration) -> Workload {
        Workload { arrivals: self.arrivals.clone(), until: self.until, service: self.world.service, target }
    }

    /// Returns the policy of Weir's own control law with one of the targets.
    pub(super) fn scaling(&self, target: Duration) -> ScalingPolicy {
        ScalingPolicy { queue_delay: target, ..self.scaling.clone() }
    }
}

/// Returns the end of the simulation: the end of the log's last full minute. Requests in flight then still finish.
fn end(arrivals: &[Duration]) -> Duration {
    let last = arrivals.last().map_or(0, Duration::as_secs);
    Duration::from_secs((last / 60 + 1) * 60)
}

/// Returns the service that the flags choose from the files; `None` without files. A transformer or an explainer is only
/// chosen by its whole name.
fn declared(args: &SimulateArgs) -> Result<Option<Arc<Validated>>, CliError> {
    if args.files.is_empty() {
        return Ok(None);
    }
    let declaration = up::declared(&args.files)?;
    let wanted = args.service.as_deref();
    let named = declaration.services.iter().filter(|(name, _)| match (wanted, name.component()) {
        (Some(wanted), _) if name.to_string() == wanted => true,
        (wanted, ComponentKind::Predictor) => wanted.is_none_or(|wanted| name.name() == wanted),
        (_, ComponentKind::Transformer | ComponentKind::Explainer) => false,
    });
    let names: Vec<_> = declaration.services.keys().map(ToString::to_string).collect();
    let found: Vec<_> = named.filter_map(|(_, service)| service.validated()).collect();
    match found.as_slice() {
        [] if names.is_empty() => Err(CliError::Usage("no InferenceService found in the -f paths".to_owned())),
        [] => Err(CliError::Usage(format!(
            "--service {} is not in the -f paths: write {}",
            wanted.unwrap_or_default(),
            names.join(" or ")
        ))),
        [service] if service.predictor.scaling.by != ScaledBy::Weir => Err(CliError::Usage(format!(
            "{} is scaled by another autoscaler (serving.kserve.io/autoscalerClass): simulate one that Weir scales",
            service.service
        ))),
        [service] => Ok(Some(Arc::clone(service))),
        _ => Err(CliError::Usage(format!(
            "the -f paths hold several services: choose one with --service, {}",
            names.join(" or ")
        ))),
    }
}

fn scaling(args: &SimulateArgs, declared: Option<&Validated>) -> ScalingPolicy {
    let declared = declared.map(|service| service.predictor.scaling.policy.clone());
    let mut scaling = declared.unwrap_or_else(|| ScalingPolicy { min: 0, ..ScalingPolicy::default() });
    scaling.min = args.min.unwrap_or(scaling.min);
    scaling.max = args.max.or(scaling.max);
    scaling.quantile = args.percentile.unwrap_or(scaling.quantile);
    scaling.economy = args.economy.map_or(scaling.economy, Into::into);
    scaling
}

/// Checks that the bounds from the flags and from the service fit together.
fn check_bounds(args: &SimulateArgs, scaling: &ScalingPolicy) -> Result<(), CliError> {
    let ScalingPolicy { min, max, .. } = *scaling;
    if let Some(max) = max.filter(|max| *max < min) {
        return Err(CliError::Usage(format!(
            "the minimum of {min} replicas is above the maximum of {max}: give --min and --max that fit"
        )));
    }
    let most = max.unwrap_or(World::MOST).max(min);
    let fixed = args.policy.iter().find_map(|policy| match policy {
        Contender::Fixed(count) if *count > most => Some(*count),
        _ => None,
    });
    match fixed {
        Some(count) => Err(CliError::Usage(format!(
            "--policy fixed={count} is above the maximum of {most} replicas: give --max {count}, or fewer replicas"
        ))),
        None => Ok(()),
    }
}

fn world(args: &SimulateArgs, service: Service, starts: Starts, scaling: &ScalingPolicy) -> World {
    let mut world = World::new(service, starts.time);
    let most = scaling.max.unwrap_or(World::MOST);
    world.least = scaling.min;
    world.most = most.max(scaling.min);
    world.starts = starts;
    let spot = SpotGpus { count: args.spot_gpus, life: args.spot_life };
    world.lengths = args.lengths;
    world.machines = Machines {
        gpus: args.gpus,
        time_sliced: None,
        node_start: args.node_start,
        linger: args.node_linger,
        spot: (args.spot_gpus > 0).then_some(spot),
    };
    if let Some(slow) = args.slow_replicas {
        world.slow = (slow.share, slow.factor);
    }
    world.seed = args.seed;
    world
}

/// Default batch size: a common one, and a GPU runs a full batch of it in a fraction of a second.
const BATCH: u32 = 8;

/// Default mean length of an answer, in tokens: that of a paragraph or two.
const TOKENS: u32 = 256;

/// Default number of requests that an engine works on at once, that of vLLM (`--max-num-seqs`).
const SEQUENCES: u32 = 256;

async fn service(args: &SimulateArgs, credits: Option<u32>) -> Result<Service, CliError> {
    if let Some(time) = args.service_time {
        let most = args.concurrency.or(credits).unwrap_or(1);
        return Ok(Service::Each { time, most });
    }
    if let Some(time) = args.token_time {
        let tokens = args.tokens.unwrap_or(TOKENS);
        let most = args.concurrency.or(credits).unwrap_or(SEQUENCES);
        return Ok(Service::Continuous { fixed: time.fixed * tokens, each: time.each * tokens, most });
    }
    if let Some(time) = args.batch_time {
        return Ok(Service::Batched {
            fixed: time.fixed,
            each: time.each,
            most: args.max_batch.or(credits).unwrap_or(BATCH),
        });
    }
    let url = args.url.as_deref().unwrap_or_default();
    measured::service(url, args.cacert.as_deref(), args.max_batch).await
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        args: SimulateArgs,
    }

    const COMPOSED: &str = "
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: digits}
spec:
  predictor: {containers: [{name: p, image: x}], maxReplicas: 3}
  transformer: {containers: [{name: t, image: x}], maxReplicas: 4}
";

    #[tokio::test]
    async fn a_service_stands_for_its_predictor_and_a_transformer_has_a_name_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("digits.yaml");
        std::fs::write(&file, COMPOSED).unwrap();
        let most = |chosen: &[&str]| {
            let flags = ["simulate", "log.csv", "--service-time", "1s", "-f", file.to_str().unwrap()];
            let flags = Flags::try_parse_from(flags.iter().chain(chosen)).unwrap();
            let declared = declared(&flags.args).unwrap().unwrap();
            declared.predictor.scaling.policy.max
        };
        for chosen in [&[][..], &["--service", "digits"], &["--service", "default/digits"]] {
            assert_eq!(most(chosen), Some(3), "{chosen:?}");
        }
        assert_eq!(most(&["--service", "default/digits/transformer"]), Some(4));
    }
}
