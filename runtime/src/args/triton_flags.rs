//! Flags of Triton and TorchServe that have no effect here: ignored with a note in the log, or refused.

use clap::{Arg, ArgAction, ArgMatches, Command};

/// A flag, and the reason why it has no effect.
struct TritonFlag {
    name: &'static str,
    reason: &'static str,
}

const fn flag(name: &'static str, reason: &'static str) -> TritonFlag {
    TritonFlag { name, reason }
}

/// Flags ignored with a note: they size things that Weir does not have or sizes by itself.
const IGNORED: [TritonFlag; 32] = [
    flag("backend-directory", "backends are built in"),
    flag("buffer-manager-thread-count", "the engine copies on its own threads"),
    flag("cache-config", "there is no response cache"),
    flag("cache-directory", "there is no response cache"),
    flag("cuda-memory-pool-byte-size", "libtorch manages GPU memory"),
    flag("cuda-virtual-address-size", "libtorch manages GPU memory"),
    // TorchServe's, which KServe's samples give to the format pytorch.
    flag("disable-token-auth", "no request needs TorchServe's tokens"),
    flag("enable-model-api", "TorchServe's model API is not served; V2's repository API needs --control-routes"),
    flag("enable-peer-access", "libtorch manages GPU memory"),
    flag("grpc-http2-max-ping-strikes", "the HTTP/2 library counts pings"),
    flag("grpc-http2-max-pings-without-data", "the HTTP/2 library counts pings"),
    flag("grpc-http2-min-recv-ping-interval-without-data", "the HTTP/2 library counts pings"),
    flag("grpc-infer-allocation-pool-size", "requests are not pooled"),
    flag("grpc-infer-thread-count", "one set of threads serves HTTP and gRPC"),
    flag("grpc-keepalive-permit-without-calls", "pings are answered in any case"),
    flag("grpc-max-response-pool-size", "responses are not pooled"),
    flag("host-policy", "the operating system places threads"),
    flag("metrics-interval-ms", "metrics are current at each scrape"),
    flag("min-supported-compute-capability", "libtorch decides which GPUs it can use"),
    flag("model-load-gpu-limit", "libtorch manages GPU memory"),
    flag("pinned-memory-pool-byte-size", "pinned memory grows with the batches"),
    flag("rate-limit-resource", "instances run without a rate limiter"),
    flag("repoagent-directory", "repository agents are not supported; a model that names one is refused"),
    flag("response-cache-byte-size", "there is no response cache"),
    flag("sagemaker-port", "Amazon SageMaker's interface is not served"),
    flag("sagemaker-safe-port-range", "Amazon SageMaker's interface is not served"),
    flag("sagemaker-thread-count", "Amazon SageMaker's interface is not served"),
    flag("trace-log-frequency", "traces go to the log as they end"),
    flag("vertex-ai-address", "Vertex AI's interface is not served"),
    flag("vertex-ai-port", "Vertex AI's interface is not served"),
    flag("vertex-ai-thread-count", "Vertex AI's interface is not served"),
    flag("vertex-ai-default-model", "Vertex AI's interface is not served"),
];

/// Flags refused unless set to `false`, `0` or `off`, because ignoring them would change the server's behaviour.
const REFUSED: [TritonFlag; 15] = [
    flag("allow-sagemaker", "Amazon SageMaker's interface is not served; use the V2 protocol"),
    flag("allow-vertex-ai", "Vertex AI's interface is not served; use the V2 protocol"),
    flag("grpc-root-cert", "use --tls-cert, --tls-key and --client-ca, which hold for HTTP too"),
    flag("grpc-server-cert", "use --tls-cert, --tls-key and --client-ca, which hold for HTTP too"),
    flag("grpc-server-key", "use --tls-cert, --tls-key and --client-ca, which hold for HTTP too"),
    flag("grpc-use-ssl", "use --tls-cert, --tls-key and --client-ca, which hold for HTTP too"),
    flag("grpc-use-ssl-mutual", "use --tls-cert, --tls-key and --client-ca, which hold for HTTP too"),
    flag("model-namespacing", "two models of one name cannot be served; rename one"),
    flag("rate-limit", "instances run without a rate limiter"),
    flag("trace-count", "use --trace-config count=N"),
    flag("trace-file", "traces go to the log; use --log-file"),
    flag("trace-level", "use --trace-config level=LEVEL"),
    flag("trace-rate", "use --trace-config rate=N"),
    flag("tf-allow-soft-placement", "TensorFlow models are not served"),
    flag("tf-gpu-memory-fraction", "TensorFlow models are not served"),
];

/// Notes on the flags that were given, one sentence each.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Notes on ignored flags, for the log.
    pub(super) accepted: Vec<String>,
    /// Notes on refused flags, for the error.
    pub(super) refused: Vec<String>,
}

/// Adds these flags to the command; the help shows only the ignored ones.
pub(super) fn add_to(command: Command) -> Command {
    let command = command.next_help_heading("Accepted without effect");
    let ignored = IGNORED.iter().map(|flag| arg(flag).hide_short_help(true));
    let command = command.args(ignored).next_help_heading("Refused");
    command.args(REFUSED.iter().map(|flag| arg(flag).hide(true)))
}

fn arg(flag: &TritonFlag) -> Arg {
    Arg::new(flag.name).long(flag.name).help(flag.reason).num_args(0..=1).value_name("VALUE").action(ArgAction::Append)
}

pub(super) fn given(matches: &ArgMatches) -> Given {
    let ignored = IGNORED.iter().filter(|flag| matches.contains_id(flag.name));
    let refused = REFUSED.iter().filter(|flag| is_requested(matches, flag.name));
    Given {
        accepted: ignored.map(|flag| format!("--{} accepted without effect: {}", flag.name, flag.reason)).collect(),
        refused: refused.map(|flag| format!("--{} is not supported: {}", flag.name, flag.reason)).collect(),
    }
}

/// Returns true if the flag was given with a value other than `false`, `0` or `off`.
fn is_requested(matches: &ArgMatches, name: &str) -> bool {
    let off = |value: &String| matches!(value.to_ascii_lowercase().as_str(), "false" | "0" | "off");
    match matches.get_many::<String>(name) {
        Some(values) => !values.clone().all(off) || values.len() == 0,
        None => false,
    }
}
