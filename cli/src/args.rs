//! The flags of `weir`.

mod check;
mod domain;
mod fetch;
mod infer;
mod key;
mod kubernetes;
mod limits;
mod logs;
mod model_cache;
mod object_name;
mod range;
mod simulate;
mod status;
mod storage_initializer;
mod up;

use clap::{Parser, Subcommand};

pub(crate) use check::{CheckArgs, CheckTarget};
pub(crate) use fetch::FetchArgs;
pub(crate) use infer::{InferArgs, NamedFile};
pub(crate) use key::{ClientLimitArgs, CreateKeyArgs, KeyAction, KeyArgs, KeyStoreArgs, ListKeysArgs, RevokeKeyArgs};
pub(crate) use kubernetes::{
    AutoscalerArgs, ControllerArgs, GatewayArgs, MetricsApi, PeerArgs, PeerTrustFlag, ProcessArgs,
};
pub(crate) use limits::LimitArgs;
pub(crate) use logs::LogsArgs;
pub(crate) use model_cache::ModelCacheArgs;
pub(crate) use object_name::SecretName;
pub(crate) use range::Range;
pub(crate) use simulate::SimulateArgs;
pub(crate) use status::{OutputFormat, StatusArgs};
pub(crate) use up::UpArgs;

/// Examples at the end of `--help`.
const EXAMPLES: &str = "\
Examples:
  Serve the models of a folder, and send a request:
    weir up -f examples/digits
    weir infer digits --json examples/digits/inputs/digit-7-a.json

  Check the files without serving them, as in CI:
    weir check -f examples/digits

  Show the services, and the output of their replicas:
    weir status
    weir logs digits -f

Exit codes: 0 success, 1 failure, 2 wrong usage or YAML, 3 port in use.";

/// Columns of help texts on a wide terminal, and when the output is not a terminal.
const WIDTH: usize = 100;

/// Serves the models that InferenceServices declare.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_help = EXAMPLES, max_term_width = WIDTH)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Subcommands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve InferenceServices on this machine, without Kubernetes.
    Up(UpArgs),
    /// Report what `weir up` would report about the files, without running anything.
    Check(CheckArgs),
    /// Show what `weir up` serves.
    Status(StatusArgs),
    /// Show the output of a service's replicas.
    Logs(LogsArgs),
    /// Send one request to a service and print the response.
    Infer(InferArgs),
    /// Make, list and revoke the API keys of clients.
    Key(KeyArgs),
    /// Estimate the GPUs that requests would have needed, and their time in the queue.
    Simulate(Box<SimulateArgs>),
    /// Route requests to the InferenceServices of a Kubernetes cluster.
    Gateway(GatewayArgs),
    /// Create Deployments and routes for the InferenceServices of a Kubernetes cluster.
    Controller(ControllerArgs),
    /// Scale the pods of the InferenceServices of a Kubernetes cluster.
    Autoscaler(AutoscalerArgs),
    /// Download a model into a directory, as a pod does before its server starts.
    Fetch(FetchArgs),
    /// Keep the models that pods of a Kubernetes node have downloaded.
    ModelCache(ModelCacheArgs),
}

/// Parses the price of a GPU per hour.
fn price(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=1e6).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a price: write 2.50"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn flags_of_a_long_help_have_headings() {
        for command in Args::command().get_subcommands() {
            let ungrouped = command.get_opts().filter(|arg| arg.get_help_heading().is_none());
            let ungrouped = ungrouped.count();
            assert!(ungrouped <= 15, "{}: {ungrouped}", command.get_name());
        }
    }

    #[test]
    fn no_line_of_the_notes_is_wider_than_the_help() {
        let top = Args::command();
        for command in top.get_subcommands().chain([&top]) {
            let notes = command.get_after_help().map(ToString::to_string);
            for line in notes.unwrap_or_default().lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
    }

    #[test]
    fn flags_and_defaults_are_stable() {
        let args = Args::try_parse_from(["weir", "up", "-f", "a", "-f", "b"]).unwrap();
        let Command::Up(up) = args.command else {
            panic!("another command");
        };
        assert_eq!((up.port, up.admin_port), (8080, 9090));
        assert_eq!(up.domain, "example.com");
        assert_eq!(up.files.len(), 2);
    }

    #[test]
    fn infer_takes_exactly_one_kind_of_input() {
        let parse = |words: &[&str]| {
            let words = ["weir", "infer", "digits"].iter().chain(words);
            Args::try_parse_from(words)
        };
        assert!(parse(&["--json", "a.json"]).is_ok());
        assert!(parse(&["--npy", "x=a.npy", "--npy", "y=b.npy"]).is_ok());
        assert!(parse(&[]).is_err());
        assert!(parse(&["--json", "a.json", "--npy", "x=a.npy"]).is_err());
        assert!(parse(&["--npy", "a.npy"]).is_err());
        assert!(parse(&["--image", "a.png", "--range=-1,1", "--top", "3"]).is_ok());
        assert!(parse(&["--image", "a.png", "--npy", "x=a.npy"]).is_err());
        assert!(parse(&["--npy", "x=a.npy", "--range=-1,1"]).is_err());
        assert!(parse(&["--json", "a.json", "--top", "3"]).is_err());
        assert!(parse(&["--json", "a.json", "--timeout", "0"]).is_err());
    }

    #[test]
    fn a_price_is_a_number_from_zero_to_a_million() {
        assert_eq!(price("2.50"), Ok(2.5));
        for wrong in ["-1", "NaN", "inf", "2,50", "$2", ""] {
            assert!(price(wrong).is_err(), "{wrong}");
        }
    }
}
