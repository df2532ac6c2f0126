//! The flags of `weir up`.

use std::net::IpAddr;
use std::path::PathBuf;

use super::LimitArgs;
use super::domain::domain;

const EXAMPLES: &str = "\
Examples:
  Serve a folder; edits of its YAML take effect at once:
    weir up -f examples/digits

  Serve two services on another port, reachable from other machines:
    weir up -f digits.yaml -f minilm.yaml --port 8000 --address 0.0.0.0

  Serve over TLS:
    weir up -f digits.yaml --tls-cert cert.pem --tls-key key.pem

A service NAME in namespace NS has three addresses, for HTTP and gRPC on one port:
    by its V2 model name   curl localhost:8080/v2/models/NAME
    by its path            curl localhost:8080/serving/NS/NAME/v2/models/NAME
    by its host            curl -H 'Host: NAME-NS.example.com' localhost:8080/v2/models/NAME

pvc://CLAIM/path is the folder CLAIM/path beside the YAML file. A container with a `command` runs as
that command, with the variables PORT and GRPC_PORT set and $(PORT) expanded; a command that uses
neither is limited to one replica. $(METRICS_PORT) is a free port for its metrics, if it uses one.

Ctrl-C, SIGTERM or closing the terminal finishes accepted requests, then stops; a second Ctrl-C or
SIGTERM stops at once. Under nohup, closing the terminal has no effect.
Exit codes: 0 success, 1 failure, 2 wrong usage or YAML, 3 port in use.";

/// Serves InferenceServices on this machine: gateway, controller and autoscaler run in this process, each replica is a
/// child process.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpArgs {
    /// File or folder with YAML of InferenceServices and ServingRuntimes, or - for standard input; repeatable. Changes
    /// take effect at once.
    #[arg(short = 'f', long = "file", value_name = "PATH", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Port for requests, HTTP and gRPC; 0 chooses a free one.
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,

    /// Port for /metrics, /health, /status and /routes; 0 chooses a free one.
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    pub(crate) admin_port: u16,

    /// IP address of the serving port; 0.0.0.0 accepts requests from other machines.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) address: IpAddr,

    /// IP address of the admin port. The port shows every service: set --admin-token-file if other machines reach it.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) admin_address: IpAddr,

    /// File with one bearer token in each line. Requests from other machines to the admin port need one of them, except
    /// for /health. Weir reads the file again when it changes [default: no token is needed].
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// Further host name by which clients reach this machine, besides localhost, IP addresses and service hosts;
    /// repeatable. If --address is reachable from this machine only, requests with any other name in Host or Origin are
    /// refused, because a web page could otherwise send requests here through its visitors' browsers.
    #[arg(long = "allowed-host", value_name = "NAME")]
    pub(crate) allowed_hosts: Vec<String>,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    /// Certificate chain of the serving port, in PEM; the port then speaks TLS only. Weir reloads it when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "TLS")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    pub(crate) tls_key: Option<PathBuf>,

    /// File with the keys of clients and the rules that allow requests; repeatable, and read again when it changes. If
    /// it is set, requests that no rule allows are refused [default: every request is served].
    #[arg(long = "access-file", value_name = "FILE", help_heading = "Access")]
    pub(crate) access_files: Vec<PathBuf>,

    /// Path of the program weir-runtime [default: the one in the same folder as weir, else the one in PATH].
    #[arg(long, value_name = "PATH")]
    pub(crate) runtime: Option<PathBuf>,

    /// Directory for logs, downloaded models and admin.json; only one `weir up` can use it at a time [default:
    /// ~/.local/state/weir].
    #[arg(long, value_name = "DIR", env = "WEIR_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,

    /// Maximum size of all downloaded models, in bytes. Above it, the least recently used ones that no replica needs are
    /// removed.
    #[arg(long, value_name = "BYTES", default_value_t = weir_cluster_local::Options::MAX_MODELS_BYTES)]
    pub(crate) max_model_cache_bytes: u64,

    /// Domain of the service hosts NAME-NAMESPACE.DOMAIN.
    #[arg(long, default_value = "example.com", value_parser = domain)]
    pub(crate) domain: String,

    /// Log more: -v adds information, -vv debug messages.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}
