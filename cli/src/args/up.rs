//! The flags of `weir up`.

use std::net::IpAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  Serve one folder; edits of its YAML take effect at once:
    weir up -f examples/digits

  Serve two services on another port, reachable from other machines:
    weir up -f digits.yaml -f minilm.yaml --port 8000 --address 0.0.0.0

  Encrypt what clients send:
    weir up -f digits.yaml --tls-cert cert.pem --tls-key key.pem

A service NAME in namespace NS is reached in three ways, HTTP and gRPC alike on one port:
    by its V2 model name   curl localhost:8080/v2/models/NAME
    by its path            curl localhost:8080/serving/NS/NAME/v2/models/NAME
    by its host            curl -H 'Host: NAME-NS.example.com' localhost:8080/v2/models/NAME

pvc://CLAIM/path is the folder CLAIM/path beside the YAML file. A container with a `command` runs as
that command, with the variables PORT and GRPC_PORT set and $(PORT) expanded.

The first Ctrl-C or SIGTERM, or a terminal that closes, answers what was accepted, then ends; a second Ctrl-C
or SIGTERM ends at once. Under nohup a terminal may close.
Exit codes: 0 ended as asked, 1 failed, 2 wrong usage or YAML, 3 port taken.";

/// Serves InferenceServices on this machine: gateway, controller and autoscaler in this process, each
/// replica a child process.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpArgs {
    /// File or folder with InferenceService and ServingRuntime YAML; repeatable. It is watched for
    /// changes.
    #[arg(short = 'f', long = "file", value_name = "PATH", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Port for requests, HTTP and gRPC; 0 takes any free one.
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,

    /// Port for /metrics, /health, /status and /routes; 0 takes any free one.
    #[arg(long, default_value_t = 9090)]
    pub(crate) admin_port: u16,

    /// Address of both ports; 0.0.0.0 lets other machines in.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) address: IpAddr,

    /// Certificate chain of the port for requests, PEM; it then speaks TLS only. Read again when it
    /// changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// The program weir-runtime [default: the one beside weir, else the one in PATH].
    #[arg(long, value_name = "PATH")]
    pub(crate) runtime: Option<PathBuf>,

    /// Where logs, downloaded models and admin.json are kept, of one `weir up` alone [default:
    /// ~/.local/state/weir].
    #[arg(long, value_name = "DIR", env = "WEIR_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,

    /// Domain of the services' hosts, NAME-NAMESPACE.DOMAIN.
    #[arg(long, default_value = "example.com")]
    pub(crate) domain: String,

    /// Say more: -v what the parts do, -vv all of it.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}
