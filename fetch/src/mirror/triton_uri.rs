//! Triton's forms of the URIs of model repositories.

use crate::error::FetchError;
use crate::shown_uri::without_secrets;
use crate::source::AZURE_BLOB;

/// A URI as this crate fetches it, and the endpoint that Triton's form has in front of the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TritonUri {
    pub(super) uri: String,
    /// URL of the S3 service; `None` for that of the environment.
    pub(super) endpoint: Option<String>,
}

impl TritonUri {
    /// Parses `s3://https://HOST:PORT/BUCKET/PATH`, `s3://HOST:PORT/BUCKET/PATH` (plain HTTP, as in Triton) and
    /// `as://ACCOUNT/CONTAINER/PATH`. Other URIs stay as they are.
    pub(super) fn parse(uri: &str) -> Result<Self, FetchError> {
        let invalid = |reason: &str| FetchError::Address { uri: shown(uri), reason: reason.to_owned() };
        match uri.split_once("://") {
            Some(("s3", rest)) => of_s3(rest).map_err(invalid),
            Some(("as", rest)) => of_azure(rest).map_err(invalid),
            Some(_) | None => Ok(Self { uri: uri.to_owned(), endpoint: None }),
        }
    }
}

/// Returns the URI without secrets, also without those of an endpoint in it.
fn shown(uri: &str) -> String {
    match uri.strip_prefix("s3://").filter(|rest| rest.contains("://")) {
        Some(rest) => format!("s3://{}", without_secrets(rest)),
        None => without_secrets(uri),
    }
}

fn of_s3(rest: &str) -> Result<TritonUri, &'static str> {
    let (scheme, at) = match rest.split_once("://") {
        Some((scheme @ ("http" | "https"), at)) => (Some(scheme), at),
        Some(_) => return Err("the endpoint must begin with http:// or https://"),
        None => (None, rest),
    };
    let (host, path) = at.split_once('/').unwrap_or((at, ""));
    if scheme.is_none() && !has_port(host) {
        return Ok(TritonUri { uri: format!("s3://{rest}"), endpoint: None });
    }
    if host.is_empty() || host.contains('@') {
        return Err("the endpoint must be a host, and may have a port: credentials come from variables and files");
    }
    let endpoint = format!("{}://{host}", scheme.unwrap_or("http"));
    Ok(TritonUri { uri: format!("s3://{path}"), endpoint: Some(endpoint) })
}

/// Returns true for `HOST:PORT`; the name of a bucket has no colon.
fn has_port(host: &str) -> bool {
    let port = host.rsplit_once(':').map(|(_, port)| port);
    port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn of_azure(rest: &str) -> Result<TritonUri, &'static str> {
    let (account, path) = rest.split_once('/').unwrap_or((rest, ""));
    let account = account.strip_suffix(AZURE_BLOB).unwrap_or(account);
    let is_name = !account.is_empty() && account.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !is_name || path.is_empty() {
        return Err("write as://ACCOUNT/CONTAINER/PATH");
    }
    Ok(TritonUri { uri: format!("https://{account}{AZURE_BLOB}/{path}"), endpoint: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tritons_forms_are_translated() {
        for (given, uri, endpoint) in [
            ("s3://bucket/models", "s3://bucket/models", None),
            ("s3://bucket", "s3://bucket", None),
            ("s3://https://minio:9000/bucket/models", "s3://bucket/models", Some("https://minio:9000")),
            ("s3://http://minio:9000/bucket", "s3://bucket", Some("http://minio:9000")),
            ("s3://127.0.0.1:9000/bucket/a/b", "s3://bucket/a/b", Some("http://127.0.0.1:9000")),
            ("gs://bucket/models", "gs://bucket/models", None),
            ("as://acc1/models/v1", "https://acc1.blob.core.windows.net/models/v1", None),
            ("as://acc1.blob.core.windows.net/models", "https://acc1.blob.core.windows.net/models", None),
            ("hf://org/name:main", "hf://org/name:main", None),
        ] {
            let expected = TritonUri { uri: uri.to_owned(), endpoint: endpoint.map(str::to_owned) };
            assert_eq!(TritonUri::parse(given).unwrap(), expected, "{given}");
        }
    }

    #[test]
    fn incomplete_and_hostile_forms_are_refused() {
        for given in [
            "as://",
            "as://acc",
            "as://acc/",
            "as://a@b/c",
            "s3://https:///b",
            "s3://https://u:p@h:1/b",
            "s3://ftp://h/b",
        ] {
            let error = TritonUri::parse(given).unwrap_err().to_string();
            assert!(!error.contains("u:p"), "{error}");
        }
    }
}
