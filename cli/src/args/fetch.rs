//! The flags of `weir fetch`.

use std::path::PathBuf;

const NOTES: &str = "\
Pods of a service with a storageUri of these schemes run this in an init container. Sixteen
ranges are read at once, and the next run resumes an interrupted download at the byte. Nothing
outside the directory is written.

A URI that names one object or file stores it under its own name; a single archive (.zip, .tar,
.tar.gz, .tgz) is unpacked. A URI that names a prefix of a bucket stores all objects below it.

Examples:
    weir fetch https://models.example.com/digits.zip /mnt/models
    weir fetch 'https://models.example.com/model.pt#sha256:9f86d0…' /mnt/models
    weir fetch s3://bucket/models/digits /mnt/models
    AWS_ENDPOINT_URL=https://minio.example.com:9000 weir fetch s3://bucket/digits /mnt/models
    weir fetch gs://kfserving-examples/models/sklearn/1.0/model /mnt/models
    weir fetch hf://ORG/NAME:REVISION /mnt/models
    weir fetch oci://ghcr.io/ORG/NAME:TAG /mnt/models
    weir fetch https://ACCOUNT.blob.core.windows.net/CONTAINER/digits /mnt/models

Credentials come from the directory of --credentials, then from the usual variables and files:
    s3      AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE and ~/.aws, AWS_ROLE_ARN with
            AWS_WEB_IDENTITY_TOKEN_FILE; AWS_REGION, AWS_ENDPOINT_URL, AWS_CA_BUNDLE
    gs      GOOGLE_APPLICATION_CREDENTIALS, or the file of `gcloud auth application-default login`
    Azure   AZURE_STORAGE_ACCESS_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, AZURE_CLIENT_ID
            and AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE
    hf      HF_TOKEN, or the token of `hf auth login`; HF_ENDPOINT
    oci     ~/.docker/config.json, or that of DOCKER_CONFIG; WEIR_OCI_INSECURE
Without any, public buckets are read, then those that the machine's own identity may read.
HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE apply to all. docs/storage.md has every form.

Exit codes: 0 success, 1 the download failed, 2 the URI is not supported.";

/// Downloads a model into a directory, as a pod does before its server starts.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct FetchArgs {
    /// URI of a file, an archive, a prefix of a bucket, a model of a hub or an image: https://, http://,
    /// s3://, gs://, hf:// or oci://.
    #[arg(value_name = "URI")]
    pub(crate) uri: String,

    /// Directory for the model; created if it does not exist.
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,

    /// Directory with mounted Secrets, as SECRET/KEY, whose keys are those that KServe reads. It may be missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) credentials: Option<PathBuf>,

    /// Port on which GET /progress returns the progress as JSON, on all addresses [default: none].
    #[arg(long, env = "WEIR_PROGRESS_PORT", value_name = "PORT")]
    pub(crate) progress_port: Option<u16>,

    /// File for the error of a failed download, which Kubernetes shows in the pod's status. The file must exist,
    /// otherwise nothing is written.
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log")]
    pub(crate) termination_log: PathBuf,

    /// Cache of models on this node (`weir model-cache`), as http://HOST:PORT. If it cannot be used, the files come from
    /// the URI [default: none].
    #[arg(long, value_name = "URL")]
    pub(crate) cache: Option<String>,

    /// File with a token of the pod's ServiceAccount for the audience weir-model-cache, which --cache needs.
    #[arg(long, value_name = "FILE", default_value = "/var/run/weir/model-cache/token")]
    pub(crate) cache_token: PathBuf,
}
