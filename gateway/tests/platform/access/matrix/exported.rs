//! The matrix as requests in a file, which the tests of a real cluster send.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt;
use serde_json::{Map, Value};

use super::*;

/// File of the requests.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/scenarios/access_matrix.json");

/// Name of the service that does not exist; no request to it opens anything.
const ABSENT: &str = "absent";

impl Cell {
    /// Returns the cell's request without a key, and the expected status for each kind of key or token.
    async fn exported(self) -> Value {
        let (parts, body) = self.request(None).into_parts();
        let (host, _) = self.host_and_path();
        let shown = parts.headers.iter().filter(|(name, _)| *name != "host");
        let headers: Map<_, _> =
            shown.map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap()))).collect();
        let needed = self.needed();
        let expected = CREDENTIALS.map(|credential| (credential.name(), json!(credential.expected(&needed))));
        json!({
            "wire": format!("{:?}", self.wire),
            "address": format!("{:?}", self.address),
            "operation": self.operation.label(),
            "service": self.service,
            "method": parts.method.as_str(),
            "host": host,
            "path": parts.uri.path(),
            "headers": headers,
            "body": STANDARD.encode(body.collect().await.unwrap().to_bytes()),
            "expected": if self.service == ABSENT { Value::Null } else { Map::from_iter(expected).into() },
        })
    }
}

impl Credential {
    fn name(self) -> String {
        match self {
            Self::Scoped(operation) => format!("Scoped:{}", operation.label()),
            Self::Token(claims) => format!("Token:{claims:?}"),
            other => format!("{other:?}"),
        }
    }
}

/// Each row has a request to the service, and the same one to a service that does not exist.
#[tokio::test]
async fn the_requests_in_the_file_are_those_of_the_matrix() {
    let mut text = String::new();
    for (cell, missing) in cells("digits").zip(cells(ABSENT)) {
        let row = json!([cell.exported().await, missing.exported().await]);
        write!(text, "{}{row}", if text.is_empty() { "[\n" } else { ",\n" }).unwrap();
    }
    text.push_str("\n]\n");
    #[expect(clippy::disallowed_methods, reason = "UPDATE is the only switch of this test")]
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(Path::new(FILE), &text).unwrap();
    }
    let stored = std::fs::read_to_string(FILE).unwrap();
    assert!(stored == text, "tests/scenarios/access_matrix.json is out of date: make generate rewrites it");
}
