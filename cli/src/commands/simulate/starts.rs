//! Start times of replicas, from the flags or as measured by the `weir up` that serves the model.

use std::path::Path;
use std::time::Duration;

use reqwest::Url;
use weir_simulation::Starts;

use crate::args::SimulateArgs;
use crate::commands::status;
use crate::commands::status_table::{RevisionRow, ServiceRow};
use crate::error::CliError;
use crate::output::print_note;
use crate::state::{self, AdminFile};

/// Default start time: that of a model of some gigabytes on a node that has its image already.
const ASSUMED: Duration = Duration::from_secs(60);

/// Returns the start times and the shares of starts that fail or never finish.
///
/// # Errors
/// [`CliError`] if a `weir up` serves the model but does not answer.
pub(super) async fn starts(args: &SimulateArgs) -> Result<Starts, CliError> {
    let StartTimes { usual, latest } = match (args.cold_start, &args.url) {
        (Some(given), _) => StartTimes::all(given),
        (None, None) => StartTimes::all(ASSUMED),
        (None, Some(url)) => known(args, url).await?,
    };
    Ok(Starts { time: usual, measured: latest, failing: args.failing_starts, endless: args.endless_starts })
}

/// Start times of a service's replicas.
#[derive(Debug, PartialEq)]
struct StartTimes {
    /// Upper bound for nine of ten starts.
    usual: Duration,
    /// Durations of the latest starts, oldest first; empty if none was measured.
    latest: Vec<Duration>,
}

impl StartTimes {
    /// Returns start times that are all equal.
    fn all(usual: Duration) -> Self {
        Self { usual, latest: Vec::new() }
    }
}

/// Returns the start times that the `weir up` behind the URL measured, or the default with a note.
async fn known(args: &SimulateArgs, url: &str) -> Result<StartTimes, CliError> {
    let state_dir = state::directory(args.state_dir.as_deref())?;
    if let Some(measured) = measured(url, &state_dir).await? {
        return Ok(measured);
    }
    print_note(&format!(
        "note: the start time is unknown, so 60s is assumed: give --cold-start, or --state-dir of the `weir up` that serves {url}"
    ));
    Ok(StartTimes::all(ASSUMED))
}

/// Returns the start times that the `weir up` of this state directory measured; `None` if it does not serve the URL.
async fn measured(url: &str, state_dir: &Path) -> Result<Option<StartTimes>, CliError> {
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

/// Returns true if the URL points to the serving port of that `weir up`.
fn is_served(url: &Url, file: &AdminFile) -> bool {
    let is_here = match url.host_str() {
        Some("localhost" | "127.0.0.1" | "[::1]") => true,
        Some(host) => host == file.serving.ip().to_string(),
        None => false,
    };
    is_here && url.port_or_known_default() == Some(file.serving.port())
}

/// Returns true if the path belongs to the service: by its namespace and name, or by its model's name.
fn is_of(row: &ServiceRow, path: &str) -> bool {
    let prefix = format!("/serving/{}/{}/", row.namespace, row.name);
    let model = format!("/v2/models/{}", row.name);
    path.starts_with(&prefix) || path.trim_end_matches('/') == model
}

/// Returns the start times of the revision with the most traffic.
fn of_service(row: &ServiceRow) -> Option<StartTimes> {
    let all = row.revisions.iter();
    let by_traffic = |a: &&RevisionRow, b: &&RevisionRow| a.traffic_percent.total_cmp(&b.traffic_percent);
    let revision = all.max_by(by_traffic)?;
    let latest = revision.starts_ms.iter().copied();
    Some(StartTimes { usual: from_ms(revision.cold_start_ms?)?, latest: latest.filter_map(from_ms).collect() })
}

fn from_ms(ms: f64) -> Option<Duration> {
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
            admin_token_file: None,
        }
    }

    #[test]
    fn only_the_serving_port_of_the_platform_matches() {
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

    fn service() -> ServiceRow {
        ServiceRow {
            namespace: "shop".to_owned(),
            name: "digits".to_owned(),
            ready: "True".to_owned(),
            reason: None,
            message: None,
            url: String::new(),
            host_url: None,
            notes: Vec::new(),
            revisions: Vec::new(),
        }
    }

    #[test]
    fn a_service_is_found_by_its_path_or_its_model() {
        let row = service();
        assert!(is_of(&row, "/v2/models/digits"));
        assert!(is_of(&row, "/v2/models/digits/"));
        assert!(is_of(&row, "/serving/shop/digits/v2/models/any"));
        assert!(!is_of(&row, "/v2/models/digits2"));
        assert!(!is_of(&row, "/serving/other/digits/v2/models/digits"));
        assert_eq!(of_service(&row), None);
    }

    fn revision(traffic: u32, cold_start: Option<f64>, starts: &[f64]) -> RevisionRow {
        let row = serde_json::json!({
            "name": "digits-00001", "traffic_percent": traffic, "tags": [], "ready": 1, "wanted": 1, "queued": 0,
            "in_flight": 0, "arrivals": 0, "failed": 0, "cold_start_ms": cold_start, "starts_ms": starts,
        });
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn starts_come_from_the_revision_with_the_most_traffic() {
        let mut row = service();
        row.revisions = vec![revision(90, Some(1500.0), &[500.0, 1500.0]), revision(10, None, &[])];
        let [half, longest] = [500, 1500].map(Duration::from_millis);
        let expected = StartTimes { usual: longest, latest: vec![half, longest] };
        assert_eq!(of_service(&row), Some(expected));
        row.revisions.swap_remove(0);
        assert_eq!(of_service(&row), None);
    }
}
