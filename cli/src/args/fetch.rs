//! The flags of `weir fetch`.

use std::path::PathBuf;

const NOTES: &str = "\
Pods of a service whose storageUri begins with http:// or https:// run this in an init container.
An archive (.zip, .tar, .tar.gz, .tgz) is unpacked into the directory; any other file is stored
there under its own name. Nothing outside the directory is written. The next run resumes an
interrupted download.

Example:
    weir fetch https://models.example.com/digits.zip /mnt/models

Exit codes: 0 success, 1 the download failed, 2 the URI is not supported.";

/// Downloads a model into a directory, as a pod does before its server starts.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct FetchArgs {
    /// URI of an archive or a file, beginning with http:// or https://.
    #[arg(value_name = "URI")]
    pub(crate) uri: String,

    /// Directory for the model; created if it does not exist.
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
}
