//! The HTTP client below `object_store`: the workspace's own, with one TLS library, and errors that keep what the service
//! said.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Collected, Limited};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use reqwest::header::{self, HeaderMap};
use reqwest::{StatusCode, Url};

use super::refusal::{IgnoredRange, Refusal, Unanswered};
use crate::web::{self, WebClient};

/// Maximum time for a response of the machine's own metadata service, which most machines do not have.
const METADATA_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum size of an error document that is read, in bytes.
const MAX_ERROR: usize = 16 << 10;

/// Maximum size of an answer with a list of objects, in bytes. A page has a thousand objects of Amazon's and Google's
/// services and five thousand of Azure's, which take 2 KB each at most unless their names have many escapes.
const MAX_LIST: usize = 32 << 20;

/// Client for all connections of a store.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    web: WebClient,
    /// Client for the machine's own services.
    direct: reqwest::Client,
    /// Hosts and ports of the machine's own services that variables name, in place of their usual addresses.
    named: Vec<(String, u16)>,
}

impl Connector {
    /// Returns the client. `named` are hosts or URLs of metadata services.
    ///
    /// # Errors
    /// A clause that says why there is no client.
    pub(super) fn new(web: WebClient, named: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let named = named.into_iter().filter_map(|name| place_of(&name)).collect();
        Ok(Self { web, direct: web::direct_client(METADATA_TIMEOUT)?, named })
    }

    /// Returns true for the hosts of clouds' metadata services, which identify a machine or pod.
    fn is_metadata(&self, host: &str, port: u16) -> bool {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        matches!(host, "metadata.google.internal" | "metadata")
            || address.is_ok_and(web::is_service_of_machine)
            || self.named.iter().any(|named| (named.0.as_str(), named.1) == (host, port))
    }
}

/// Returns the host and port of a URL, or of `HOST` or `HOST:PORT`; `None` if it is none of these.
fn place_of(name: &str) -> Option<(String, u16)> {
    let url = if name.contains("://") { Url::parse(name) } else { Url::parse(&format!("http://{name}")) };
    let url = url.ok()?;
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait::async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let place = place_of(&request.uri().to_string());
        if place.is_some_and(|(host, port)| self.is_metadata(&host, port)) {
            let reason = "the machine has no metadata service".to_owned();
            let unanswered = |_| unanswered(Unanswered { reason, is_metadata: true, is_final: false });
            return self.direct.call(request).await.map_err(unanswered);
        }
        let wants_range = request.headers().contains_key(header::RANGE);
        let is_list =
            request.uri().query().is_some_and(|query| query.contains("list-type=2") || query.contains("comp=list"));
        let response = self.send(request).await?;
        match response.status() {
            StatusCode::OK if wants_range => Err(HttpError::new(HttpErrorKind::Unknown, IgnoredRange)),
            status if status.is_success() && is_list => {
                let response: http::Response<reqwest::Body> = response.into();
                let (parts, body) = into_response(response).into_parts();
                let list = without_directories(&String::from_utf8_lossy(&list(body).await?));
                Ok(HttpResponse::from_parts(parts, list.into()))
            }
            status if status.is_success() => {
                let response: http::Response<reqwest::Body> = response.into();
                Ok(into_response(response))
            }
            _ => Err(HttpError::new(HttpErrorKind::Unknown, refusal(response).await)),
        }
    }
}

impl Connector {
    async fn send(&self, request: HttpRequest) -> Result<reqwest::Response, HttpError> {
        let url = Url::parse(&request.uri().to_string());
        let url = url.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let sent = self.web.plain().request(parts.method, url.clone()).headers(parts.headers).body(body).send().await;
        sent.map_err(|error| {
            let reason = web::unreachable(&url, &error);
            unanswered(Unanswered { reason, is_metadata: false, is_final: web::is_untrusted(&error) })
        })
    }
}

fn unanswered(error: Unanswered) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error)
}

fn into_response(response: http::Response<reqwest::Body>) -> HttpResponse {
    let (parts, body) = response.into_parts();
    let failed = |error: reqwest::Error| {
        let reason = match web::interrupted(&error) {
            crate::store::StoreError::Retry { reason, .. } => reason,
            crate::store::StoreError::Changed | crate::store::StoreError::Fatal(_) => String::new(),
        };
        unanswered(Unanswered { reason, is_metadata: false, is_final: false })
    };
    HttpResponse::from_parts(parts, HttpResponseBody::new(body.map_err(failed)))
}

/// Reads a list of objects.
async fn list(body: HttpResponseBody) -> Result<Bytes, HttpError> {
    let read = Limited::new(body, MAX_LIST).collect().await;
    read.map(Collected::to_bytes).map_err(|error| match error.downcast::<HttpError>() {
        Ok(interrupted) => *interrupted,
        Err(_) => {
            let reason = format!("the service answered with a list of more than {MAX_LIST} bytes");
            unanswered(Unanswered { reason, is_metadata: false, is_final: true })
        }
    })
}

/// Removes the objects of a list whose keys end with a slash, by which some tools mark directories. `object_store` would
/// drop the slash, so that they look like files.
fn without_directories(list: &str) -> String {
    let list = without_marked(list, ("<Contents>", "</Contents>"), "/</Key>");
    without_marked(&list, ("<Blob>", "</Blob>"), "/</Name>")
}

/// Removes the elements that contain a mark.
fn without_marked(list: &str, (start, end): (&str, &str), mark: &str) -> String {
    let mut kept = String::with_capacity(list.len());
    let mut rest = list;
    while let Some((before, from)) = rest.split_once(start) {
        kept.push_str(before);
        let Some((element, after)) = from.split_once(end) else {
            kept.push_str(start);
            rest = from;
            break;
        };
        if !element.contains(mark) {
            kept.extend([start, element, end]);
        }
        rest = after;
    }
    kept.push_str(rest);
    kept
}

/// Reads what the service says about a refusal.
async fn refusal(mut response: reqwest::Response) -> Refusal {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let mut text = Vec::new();
    while text.len() < MAX_ERROR
        && let Ok(Some(chunk)) = response.chunk().await
    {
        text.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR - text.len())]);
    }
    let text = String::from_utf8_lossy(&text);
    let header = |name: &str| text_of(&headers, name);
    Refusal {
        status,
        code: element(&text, "Code").or_else(|| member(&text)).or_else(|| header("x-ms-error-code")),
        region: header("x-amz-bucket-region").or_else(|| element(&text, "Region")).or_else(|| expected_region(&text)),
        after: web::retry_after(&headers),
    }
}

fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// Returns the text of the first XML element with a name.
fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once("</")?;
    is_word(value).then(|| value.to_owned())
}

/// Returns the region in the message about a signature for another one: `the region 'us-east-1' is wrong; expecting
/// 'eu-west-1'`, which some services send without the element for it.
fn expected_region(text: &str) -> Option<String> {
    let text = text.replace("&apos;", "'").replace("&#39;", "'");
    let (region, _) = text.split_once("; expecting '")?.1.split_once('\'')?;
    is_word(region).then(|| region.to_owned())
}

/// Returns the code of an error in JSON, as token services send it.
fn member(text: &str) -> Option<String> {
    let error = serde_json::from_str::<serde_json::Value>(text).ok()?;
    let code = match &error["error"] {
        serde_json::Value::String(code) => code.clone(),
        inner => inner["status"].as_str().or_else(|| inner["errors"][0]["reason"].as_str())?.to_owned(),
    };
    is_word(&code).then_some(code)
}

/// Returns true for a code that may be shown. Longer texts could repeat a part of the request.
fn is_word(code: &str) -> bool {
    !code.is_empty()
        && code.len() <= 64
        && code.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_the_machine_are_known_by_their_address_or_by_variables() {
        use crate::limits::Limits;
        use crate::web::Trust;
        let web = WebClient::new(&Limits::default(), &Trust::System).unwrap();
        let named = ["127.0.0.1:8080", "http://imds.test:99/"].map(str::to_owned);
        let connector = Connector::new(web, named).unwrap();
        for host in [
            "metadata.google.internal",
            "169.254.169.254",
            "169.254.170.23",
            "[fd00:ec2::23]",
            "[fd20:ce::254]",
            "127.0.0.1",
        ] {
            assert!(connector.is_metadata(host, 8080), "{host}");
        }
        assert!(connector.is_metadata("imds.test", 99));
        assert!(!connector.is_metadata("127.0.0.1", 9000) && !connector.is_metadata("imds.test", 80));
        for host in ["169.254.example.com", "s3.amazonaws.com", "127.0.0.2"] {
            assert!(!connector.is_metadata(host, 8080), "{host}");
        }
    }

    #[test]
    fn marks_of_directories_are_no_objects() {
        let list = "<R><Contents><Key>a/</Key><Size>0</Size></Contents><Contents><Key>a/b</Key></Contents></R>";
        assert_eq!(without_directories(list), "<R><Contents><Key>a/b</Key></Contents></R>");
        let list = "<R><Blob><Name>a/</Name></Blob><Blob><Name>b</Name></Blob><Blob><Name>cut";
        assert_eq!(without_directories(list), "<R><Blob><Name>b</Name></Blob><Blob><Name>cut");
        assert_eq!(without_directories("<R></R>"), "<R></R>");
    }

    #[test]
    fn codes_are_found() {
        let xml = "<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>no</Message><Region>eu-west-1</Region></Error>";
        assert_eq!(element(xml, "Code").as_deref(), Some("NoSuchBucket"));
        assert_eq!(element(xml, "Region").as_deref(), Some("eu-west-1"));
        assert_eq!(element("<Code>a b <secret></Code>", "Code"), None);
        let message =
            "is malformed; the region &apos;us-east-1&apos; is wrong; expecting &apos;eu-west-1&apos;</Message>";
        assert_eq!(expected_region(message).as_deref(), Some("eu-west-1"));
        assert_eq!(expected_region("; expecting 'a secret'"), None);
        assert_eq!(member(r#"{"error":"invalid_grant","error_description":"x"}"#).as_deref(), Some("invalid_grant"));
        let google = r#"{"error":{"code":403,"status":"PERMISSION_DENIED"}}"#;
        assert_eq!(member(google).as_deref(), Some("PERMISSION_DENIED"));
        let google = r#"{"error":{"code":404,"errors":[{"reason":"notFound"}]}}"#;
        assert_eq!(member(google).as_deref(), Some("notFound"));
        assert_eq!(member("<html>"), None);
    }
}
