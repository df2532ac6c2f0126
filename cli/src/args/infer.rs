//! The flags of `weir infer`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use super::Range;

const EXAMPLES: &str = "\
Examples:
    weir infer digits --json examples/digits/inputs/digit-7-a.json
    weir infer digits --npy image=examples/digits/inputs/digit-7-a.npy
    weir infer digits --image examples/digits/inputs/digit-7-a.png --range 0,16 --top 3
    weir infer team-a/digits --url http://gateway:8080 --npy image=digit.npy
    jq .request recorded.json | weir infer digits --json -";

/// Sends one request to a service and prints the response, tensor by tensor.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("input").required(true))]
pub(crate) struct InferArgs {
    /// Service to call, as NAME or NAMESPACE/NAME.
    pub(crate) service: String,

    /// URL of the gateway [default: the `weir up` that uses this state directory, else http://localhost:8080].
    #[arg(long)]
    pub(crate) url: Option<String>,

    /// CA or server certificate to trust, in PEM, for an https:// URL [default: the certificate of the `weir up` that
    /// uses this state directory].
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,

    /// API key, for a gateway with access control. Set the environment variable rather than the flag, which other users of
    /// the machine can read.
    #[arg(long, value_name = "KEY", env = "WEIR_API_KEY", hide_env_values = true)]
    pub(crate) api_key: Option<String>,

    /// State directory of the `weir up` to call [default: ~/.local/state/weir].
    #[arg(long, value_name = "DIR", env = "WEIR_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,

    /// File with a V2 inference request in JSON, or - for standard input.
    #[arg(long, value_name = "FILE", group = "input")]
    pub(crate) json: Option<PathBuf>,

    /// Input tensor, saved by numpy.save; repeatable. FILE - is standard input.
    #[arg(long, value_name = "NAME=FILE", group = "input")]
    pub(crate) npy: Vec<NamedFile>,

    /// PNG or JPEG image, for a model whose only input is an image of type FP32, FP16, FP64 or UINT8. The image is
    /// converted to grey or RGB and resized to fit the input.
    #[arg(long, value_name = "FILE", group = "input")]
    pub(crate) image: Option<PathBuf>,

    /// Values for black and white pixels, or `imagenet` to normalize by ImageNet's mean and standard deviation
    /// [default: 0,1; for UINT8 0,255].
    #[arg(
        long,
        value_name = "BLACK,WHITE",
        conflicts_with_all = ["json", "npy"],
        allow_hyphen_values = true
    )]
    pub(crate) range: Option<Range>,

    /// Show only the K classes with the highest scores.
    #[arg(long, value_name = "K", conflicts_with = "json")]
    pub(crate) top: Option<NonZeroU32>,

    /// Seconds to wait for the response; a service at zero replicas needs time to start.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
}

/// A tensor's name and the file that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
}

impl FromStr for NamedFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, file)) if !name.is_empty() && !file.is_empty() => {
                Ok(Self { name: name.to_owned(), file: file.into() })
            }
            Some(_) | None => Err("write NAME=FILE, where NAME is the name of the input".to_owned()),
        }
    }
}
