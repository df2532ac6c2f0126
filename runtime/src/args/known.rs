//! Triton flags that do nothing here.

use clap::{Arg, ArgAction, ArgMatches, Command};

/// A flag and the reason it does nothing.
struct Known {
    name: &'static str,
    because: &'static str,
}

const fn known(name: &'static str, because: &'static str) -> Known {
    Known { name, because }
}

/// Nobody would notice that these do nothing: they size what we do not have or size ourselves.
const ACCEPTED: [Known; 30] = [
    known("backend-directory", "backends are built in"),
    known(
        "buffer-manager-thread-count",
        "the engine copies on its own threads",
    ),
    known("cache-config", "there is no response cache"),
    known("cache-directory", "there is no response cache"),
    known("cuda-memory-pool-byte-size", "libtorch manages GPU memory"),
    known("cuda-virtual-address-size", "libtorch manages GPU memory"),
    known("enable-peer-access", "libtorch manages GPU memory"),
    known(
        "grpc-http2-max-ping-strikes",
        "the HTTP/2 library counts pings",
    ),
    known(
        "grpc-http2-max-pings-without-data",
        "the HTTP/2 library counts pings",
    ),
    known(
        "grpc-http2-min-recv-ping-interval-without-data",
        "the HTTP/2 library counts pings",
    ),
    known("grpc-infer-allocation-pool-size", "requests are not pooled"),
    known(
        "grpc-infer-thread-count",
        "one set of threads serves HTTP and gRPC",
    ),
    known(
        "grpc-keepalive-permit-without-calls",
        "pings are answered in any case",
    ),
    known("grpc-max-response-pool-size", "responses are not pooled"),
    known("host-policy", "the operating system places threads"),
    known("metrics-interval-ms", "metrics are current at each scrape"),
    known(
        "min-supported-compute-capability",
        "libtorch decides which GPUs it can use",
    ),
    known("model-load-gpu-limit", "libtorch manages GPU memory"),
    known(
        "pinned-memory-pool-byte-size",
        "pinned memory grows with the batches",
    ),
    known(
        "rate-limit-resource",
        "instances run without a rate limiter",
    ),
    known(
        "repoagent-directory",
        "repository agents are not supported; a model that names one is refused",
    ),
    known("response-cache-byte-size", "there is no response cache"),
    known(
        "sagemaker-port",
        "Amazon SageMaker's interface is not served",
    ),
    known(
        "sagemaker-safe-port-range",
        "Amazon SageMaker's interface is not served",
    ),
    known(
        "sagemaker-thread-count",
        "Amazon SageMaker's interface is not served",
    ),
    known("trace-log-frequency", "traces go to the log as they end"),
    known("vertex-ai-address", "Vertex AI's interface is not served"),
    known("vertex-ai-port", "Vertex AI's interface is not served"),
    known(
        "vertex-ai-thread-count",
        "Vertex AI's interface is not served",
    ),
    known(
        "vertex-ai-default-model",
        "Vertex AI's interface is not served",
    ),
];

/// The user would not get what these ask for, so they are refused, unless given as `false`, `0` or
/// `off`.
const REFUSED: [Known; 15] = [
    known(
        "allow-sagemaker",
        "Amazon SageMaker's interface is not served; use the V2 protocol",
    ),
    known(
        "allow-vertex-ai",
        "Vertex AI's interface is not served; use the V2 protocol",
    ),
    known(
        "grpc-root-cert",
        "TLS is not served here; end it at the gateway in front",
    ),
    known(
        "grpc-server-cert",
        "TLS is not served here; end it at the gateway in front",
    ),
    known(
        "grpc-server-key",
        "TLS is not served here; end it at the gateway in front",
    ),
    known(
        "grpc-use-ssl",
        "TLS is not served here; end it at the gateway in front",
    ),
    known(
        "grpc-use-ssl-mutual",
        "TLS is not served here; end it at the gateway in front",
    ),
    known(
        "model-namespacing",
        "two models of one name cannot be served; rename one",
    ),
    known("rate-limit", "instances run without a rate limiter"),
    known("trace-count", "say --trace-config count=N"),
    known("trace-file", "traces go to the log; say --log-file"),
    known("trace-level", "say --trace-config level=LEVEL"),
    known("trace-rate", "say --trace-config rate=N"),
    known(
        "tf-allow-soft-placement",
        "TensorFlow models are not served",
    ),
    known("tf-gpu-memory-fraction", "TensorFlow models are not served"),
];

/// Which of them were given.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// A sentence per accepted flag, for the log.
    pub(super) accepted: Vec<String>,
    /// A sentence per refused flag.
    pub(super) refused: Vec<String>,
}

/// Adds them to the command: the accepted ones to its long help, the refused ones to nothing.
pub(super) fn add_to(command: Command) -> Command {
    let command = command.next_help_heading("Accepted without effect");
    let accepted = ACCEPTED
        .iter()
        .map(|known| flag(known).hide_short_help(true));
    let command = command.args(accepted).next_help_heading("Refused");
    command.args(REFUSED.iter().map(|known| flag(known).hide(true)))
}

fn flag(known: &Known) -> Arg {
    let arg = Arg::new(known.name).long(known.name).help(known.because);
    arg.num_args(0..=1)
        .value_name("VALUE")
        .action(ArgAction::Append)
}

pub(super) fn given(matches: &ArgMatches) -> Given {
    let mut given = Given::default();
    for known in ACCEPTED
        .iter()
        .filter(|known| matches.contains_id(known.name))
    {
        let Known { name, because } = known;
        given
            .accepted
            .push(format!("--{name} accepted without effect: {because}"));
    }
    for known in REFUSED
        .iter()
        .filter(|known| asked_for(matches, known.name))
    {
        let Known { name, because } = known;
        given
            .refused
            .push(format!("--{name} is not supported: {because}"));
    }
    given
}

fn asked_for(matches: &ArgMatches, name: &str) -> bool {
    let off = |value: &String| matches!(value.to_ascii_lowercase().as_str(), "false" | "0" | "off");
    match matches.get_many::<String>(name) {
        Some(values) => !values.clone().all(off) || values.len() == 0,
        None => false,
    }
}
