//! The flags of `weir fetch`.

use std::path::PathBuf;

const NOTES: &str = "\
An init container of a pod runs it on a service whose storageUri begins with http:// or https://.
An archive (.zip, .tar, .tar.gz, .tgz) is unpacked into the directory, another file keeps its name
in it. Only the directory is written; an interrupted download is resumed by the next run.

Example:
    weir fetch https://models.example.com/digits.zip /mnt/models

Exit code: 0 when all is there, 1 when it cannot be had, 2 for a URI that cannot be fetched.";

/// Fetches a model into a directory, as a pod does before its server starts.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct FetchArgs {
    /// URI of an archive or a file: http:// or https://.
    #[arg(value_name = "URI")]
    pub(crate) uri: String,

    /// Directory for the model; made if it is not there.
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
}
