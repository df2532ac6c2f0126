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
    weir infer team-a/digits --url http://gateway:8080 --npy image=digit.npy";

/// Sends one request to a service and prints the answer, tensor by tensor.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("input").required(true))]
pub(crate) struct InferArgs {
    /// The service, NAME or NAMESPACE/NAME.
    pub(crate) service: String,

    /// Where the gateway is [default: the `weir up` of the state directory, else
    /// http://localhost:8080].
    #[arg(long)]
    pub(crate) url: Option<String>,

    /// Certificates, PEM, that an https:// gateway must show or be vouched for by [default: that of
    /// the `weir up` of the state directory].
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,

    /// The state directory of the `weir up` to ask.
    #[arg(long, value_name = "DIR", env = "WEIR_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,

    /// A V2 inference request in JSON.
    #[arg(long, value_name = "FILE", group = "input")]
    pub(crate) json: Option<PathBuf>,

    /// One input tensor as NumPy saves it; repeatable.
    #[arg(long, value_name = "NAME=FILE", group = "input")]
    pub(crate) npy: Vec<Named>,

    /// A PNG or JPEG image, for a model with one input that takes images, FP32, FP16, FP64 or UINT8. It is
    /// made grey or RGB and resized as the model's metadata asks.
    #[arg(long, value_name = "FILE", group = "input")]
    pub(crate) image: Option<PathBuf>,

    /// What black and white become; or imagenet, for a model that takes colours less ImageNet's mean,
    /// divided by its deviation [default: 0,1, and 0,255 for UINT8].
    #[arg(
        long,
        value_name = "BLACK,WHITE",
        conflicts_with_all = ["json", "npy"],
        allow_hyphen_values = true
    )]
    pub(crate) range: Option<Range>,

    /// Show the K best classes instead of all scores.
    #[arg(long, value_name = "K", conflicts_with = "json")]
    pub(crate) top: Option<NonZeroU32>,

    /// Seconds to wait for the answer; a sleeping service needs a while to wake.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) timeout: u64,
}

/// A tensor's name and the file that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok(Self {
                name: name.to_owned(),
                file: file.into(),
            }),
            Some(_) | None => Err("it must be NAME=FILE, NAME the input's name".to_owned()),
        }
    }
}
