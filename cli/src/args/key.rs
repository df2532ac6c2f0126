//! The flags of `weir key`.

use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use jiff::Timestamp;
use weir_access::Operation;

use super::object_name::{SecretName, secret_name};

const NOTES: &str = "\
A gateway reads the file by --access-file, or the Secret by --access-secret, and again within a
second of each change. Rules, which say what a client may do, are elsewhere: see docs/access.md.

On Kubernetes, gateways of the Helm chart read the Secret weir-access of their own namespace:
    weir key create --secret weir-system/weir-access --client team-a";

/// Makes, lists and revokes the API keys of clients.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    pub(crate) action: KeyAction,
}

/// Commands of `weir key`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum KeyAction {
    /// Make a key for a client, store its digest and print it once. A missing file is made with mode 0600, and a missing
    /// Secret is made as well.
    Create(CreateKeyArgs),
    /// List the ids of the keys, with their clients.
    List(ListKeysArgs),
    /// Remove a key, so that gateways refuse it.
    Revoke(RevokeKeyArgs),
}

/// Flags that say where the keys are.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct KeyStoreArgs {
    /// File with the keys of clients.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Secret of a Kubernetes cluster whose entry keys.yaml has the keys of clients. The cluster is that of KUBECONFIG.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = secret_name)]
    pub(crate) secret: Option<SecretName>,
}

/// Flags of `weir key create`.
#[derive(Debug, clap::Args)]
pub(crate) struct CreateKeyArgs {
    #[command(flatten)]
    pub(crate) store: KeyStoreArgs,

    /// Name of the client, by which rules, logs and metrics name it.
    #[arg(long, value_name = "NAME")]
    pub(crate) client: String,

    /// Time from which the key is refused, such as 2027-01-31T00:00:00Z [default: never].
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) expires: Option<Timestamp>,

    /// Operation to which the key is limited; repeatable [default: all that the rules allow].
    #[arg(long = "scope", value_name = "OPERATION", value_enum)]
    pub(crate) scopes: Vec<Scope>,

    /// Role of the client when it uses this key; repeatable.
    #[arg(long = "role", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) roles: Vec<String>,

    #[command(flatten)]
    pub(crate) limits: ClientLimitArgs,
}

/// Flags of `weir key create` that limit the client of the key. They hold for all of its keys together.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Limits of the client, for all of its keys together")]
pub(crate) struct ClientLimitArgs {
    /// Requests per minute [default: any number].
    #[arg(long, value_name = "N")]
    pub(crate) requests_per_minute: Option<NonZeroU32>,

    /// Requests that may arrive at once after a pause [default: a sixth of --requests-per-minute].
    #[arg(long, value_name = "N", requires = "requests_per_minute")]
    pub(crate) burst: Option<NonZeroU32>,

    /// Bytes of bodies of requests and responses per minute [default: any number].
    #[arg(long, value_name = "N")]
    pub(crate) bytes_per_minute: Option<NonZeroU64>,

    /// Tokens of language models per minute [default: any number].
    #[arg(long, value_name = "N")]
    pub(crate) tokens_per_minute: Option<NonZeroU64>,

    /// Requests in flight at once [default: any number].
    #[arg(long, value_name = "N")]
    pub(crate) concurrency: Option<NonZeroU32>,

    /// Share of the replicas' time and of a full queue, relative to that of other clients [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) weight: Option<NonZeroU16>,
}

/// Flags of `weir key list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListKeysArgs {
    #[command(flatten)]
    pub(crate) store: KeyStoreArgs,
}

/// Flags of `weir key revoke`.
#[derive(Debug, clap::Args)]
pub(crate) struct RevokeKeyArgs {
    #[command(flatten)]
    pub(crate) store: KeyStoreArgs,

    /// Id of the key, the part between its first two underscores.
    pub(crate) id: String,
}

/// Operation to which a key can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scope {
    /// Inference, and all calls that belong to no other operation.
    Infer,
    /// Health, metadata, configuration and statistics of models.
    Metadata,
    /// Control of servers: loading, settings, shared memory.
    Control,
    /// Choice of a revision by header or tag.
    Pin,
}

impl From<Scope> for Operation {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Infer => Self::Infer,
            Scope::Metadata => Self::Metadata,
            Scope::Control => Self::Control,
            Scope::Pin => Self::Pin,
        }
    }
}

/// Parses a time with its date and its offset from UTC.
fn time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "write it as 2027-01-31T00:00:00Z".to_owned())
}
