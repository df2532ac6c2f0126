//! How long a replica takes to start: as given, or as the `weir up` that serves the model has measured.

use std::path::Path;
use std::time::Duration;

use reqwest::Url;

use crate::args::SimulateArgs;
use crate::error::CliError;
use crate::output::print_note;
use crate::state::{self, AdminFile};
use crate::status;
use crate::status_table::{RevisionRow, ServiceRow};

/// The time where nothing says another: a model of some gigabytes on a node that has its image.
const ASSUMED: Duration = Duration::from_secs(60);

/// How long a replica takes to start.
///
/// # Errors
/// [`CliError`] when a `weir up` serves the model and does not tell.
pub(super) async fn cold_start(args: &SimulateArgs) -> Result<Duration, CliError> {
    if let Some(given) = args.cold_start {
        return Ok(given);
    }
    let Some(url) = &args.url else {
        return Ok(ASSUMED);
    };
    let state_dir = state::directory(args.state_dir.as_deref())?;
    if let Some(measured) = measured(url, &state_dir).await? {
        return Ok(measured);
    }
    print_note(&format!(
        "note: how long a start takes is not known, 60s is assumed: give --cold-start, or --state-dir of the `weir up` that serves {url}"
    ));
    Ok(ASSUMED)
}

/// What the `weir up` of this state directory has measured; `None` if it does not serve the URL.
async fn measured(url: &str, state_dir: &Path) -> Result<Option<Duration>, CliError> {
    let (Ok(file), Ok(url)) = (AdminFile::read(state_dir), Url::parse(url)) else {
        return Ok(None);
    };
    if !is_served(&url, &file) {
        return Ok(None);
    }
    let (table, _) = status::fetch(state_dir).await?;
    let found = table.services.iter().find(|row| is_of(row, url.path()));
    Ok(found.and_then(of_service))
}

/// Whether this is the port for requests of that `weir up`.
fn is_served(url: &Url, file: &AdminFile) -> bool {
    let is_here = match url.host_str() {
        Some("localhost" | "127.0.0.1" | "[::1]") => true,
        Some(host) => host == file.serving.ip().to_string(),
        None => false,
    };
    is_here && url.port_or_known_default() == Some(file.serving.port())
}

/// Whether a path is one of the service: by its namespace and name, or by the name of its model.
fn is_of(row: &ServiceRow, path: &str) -> bool {
    let prefix = format!("/serving/{}/{}/", row.namespace, row.name);
    let model = format!("/v2/models/{}", row.name);
    path.starts_with(&prefix) || path.trim_end_matches('/') == model
}

/// The time of the revision with most of the traffic.
fn of_service(row: &ServiceRow) -> Option<Duration> {
    let all = row.revisions.iter();
    let by_traffic =
        |a: &&RevisionRow, b: &&RevisionRow| a.traffic_percent.total_cmp(&b.traffic_percent);
    let ms = all.max_by(by_traffic)?.cold_start_ms?;
    Duration::try_from_secs_f64(ms / 1e3).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> AdminFile {
        AdminFile {
            admin: "127.0.0.1:9090".parse().unwrap(),
            serving: "127.0.0.1:8080".parse().unwrap(),
            process: 1,
            certificate: None,
        }
    }

    #[test]
    fn only_the_port_of_the_platform_is_its_own() {
        for (url, expected) in [
            ("http://localhost:8080/v2/models/a", true),
            ("http://127.0.0.1:8080/v2/models/a", true),
            ("http://localhost:8081/v2/models/a", false),
            ("http://localhost/v2/models/a", false),
            ("http://example.com:8080/v2/models/a", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(is_served(&url, &file()), expected, "{url}");
        }
    }

    #[test]
    fn a_service_is_found_by_its_path_or_its_model() {
        let row = ServiceRow {
            namespace: "shop".to_owned(),
            name: "digits".to_owned(),
            ready: "True".to_owned(),
            reason: None,
            message: None,
            url: String::new(),
            host_url: None,
            notes: Vec::new(),
            revisions: Vec::new(),
        };
        assert!(is_of(&row, "/v2/models/digits"));
        assert!(is_of(&row, "/v2/models/digits/"));
        assert!(is_of(&row, "/serving/shop/digits/v2/models/any"));
        assert!(!is_of(&row, "/v2/models/digits2"));
        assert!(!is_of(&row, "/serving/other/digits/v2/models/digits"));
        assert_eq!(of_service(&row), None);
    }
}
