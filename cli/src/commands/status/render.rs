//! Renders the status as a table with messages below it.

use comfy_table::{Table, presets};

use crate::commands::status_table::{RevisionRow, ServiceRow, StatusTable};

const HEADINGS: [&str; 8] = ["SERVICE", "READY", "URL", "REVISION", "TRAFFIC", "REPLICAS", "QUEUED", "QUEUE DELAY"];

/// Columns that [`Width::Wide`] adds.
const WIDE_HEADINGS: [&str; 8] =
    ["IN FLIGHT", "REQUESTS", "FAILED", "REFUSED", "RESTARTS", "IN TIME", "IDLE", "SCALED"];

/// Columns of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// The columns that fit a terminal.
    Narrow,
    /// All columns, however wide.
    Wide,
}

/// Returns a line for each revision; below them the reasons of services that are not ready, and notes.
pub(super) fn text(status: &StatusTable, width: Width) -> String {
    if status.services.is_empty() {
        return format!("no services are declared\n{}", messages(status));
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(headings(width))
        .add_rows(status.services.iter().flat_map(|service| rows_of(service, width)));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    format!("{}\n{}", table.trim_fmt(), messages(status))
}

fn headings(width: Width) -> Vec<&'static str> {
    match width {
        Width::Narrow => HEADINGS.to_vec(),
        Width::Wide => [&HEADINGS[..], &WIDE_HEADINGS[..]].concat(),
    }
}

fn rows_of(service: &ServiceRow, width: Width) -> Vec<Vec<String>> {
    let name = format!("{}/{}", service.namespace, service.name);
    let mut first = [name, service.ready.clone(), service.url.clone()];
    let mut rows = Vec::new();
    for revision in &service.revisions {
        let mut row = std::mem::take(&mut first).to_vec();
        row.extend(cells(revision));
        if width == Width::Wide {
            row.extend(wide_cells(revision));
        }
        rows.push(row);
    }
    if rows.is_empty() {
        let mut row = first.to_vec();
        row.resize(headings(width).len(), "-".to_owned());
        rows.push(row);
    }
    rows
}

fn wide_cells(revision: &RevisionRow) -> [String; 8] {
    [
        revision.in_flight.to_string(),
        revision.arrivals.to_string(),
        revision.failed.to_string(),
        revision.refused.to_string(),
        revision.restarts.to_string(),
        percent(revision.attainment),
        percent(revision.idleness),
        revision.scaled.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

/// Formats a share in percent, rounded down, so that less than 100 % never looks like 100 %.
fn percent(share: Option<f64>) -> String {
    let tenths = share.map(|share| (share * 1000.0).floor() / 10.0);
    tenths.map_or("-".to_owned(), |percent| format!("{percent:.1} %"))
}

fn cells(revision: &RevisionRow) -> [String; 5] {
    let tags = if revision.tags.is_empty() { String::new() } else { format!(" ({})", revision.tags.join(", ")) };
    [
        format!("{}{tags}", revision.name),
        format!("{:.0} %", revision.traffic_percent),
        format!("{}/{}", revision.ready, revision.wanted),
        revision.queued.to_string(),
        delay(revision),
    ]
}

fn delay(revision: &RevisionRow) -> String {
    match (revision.queue_delay_p50_ms, revision.queue_delay_p99_ms) {
        (Some(median), Some(high)) => format!("{median:.1} / {high:.1} ms"),
        (_, _) => "-".to_owned(),
    }
}

/// Returns the reasons of services that are not ready, the notes, and the errors of the files.
fn messages(status: &StatusTable) -> String {
    let mut lines = Vec::new();
    for service in &status.services {
        let name = format!("{}/{}", service.namespace, service.name);
        let reason = service.message.as_ref().or(service.reason.as_ref());
        let reason = reason.filter(|_| service.ready != "True");
        lines.extend(reason.map(|reason| format!("{name}: {reason}")));
        for revision in &service.revisions {
            let failure = revision.failure.as_deref();
            if let Some(failure) = failure.filter(|failure| !contains(reason, failure)) {
                lines.push(format!("{name}: {}: {failure}", revision.name));
            }
        }
        let notes = service.notes.iter();
        lines.extend(notes.map(|note| format!("{name}: note: {note}")));
    }
    lines.extend(status.problems.iter().cloned());
    if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("\n")) }
}

/// Returns true if the service's message already contains the failure, whose text begins with its reason word.
fn contains(reason: Option<&String>, failure: &str) -> bool {
    let sentence = failure.split_once(": ").map_or(failure, |(_, rest)| rest);
    // The failure ends with the time of an attempt in parentheses, which may have changed.
    let cause = sentence.rsplit_once(" (").map_or(sentence, |(cause, _)| cause);
    reason.is_some_and(|reason| reason.contains(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(name: &str) -> RevisionRow {
        RevisionRow {
            name: name.to_owned(),
            traffic_percent: 100.0,
            tags: Vec::new(),
            ready: 1,
            wanted: 1,
            queued: 0,
            in_flight: 0,
            arrivals: 10,
            failed: 0,
            refused: 0,
            queue_delay_p50_ms: None,
            queue_delay_p99_ms: None,
            restarts: 0,
            failure: None,
            last_exit: None,
            scaled: None,
            cold_start_ms: None,
            starts_ms: Vec::new(),
            attainment: None,
            idleness: None,
        }
    }

    fn service(revisions: Vec<RevisionRow>) -> ServiceRow {
        ServiceRow {
            namespace: "default".to_owned(),
            name: "digits".to_owned(),
            ready: "True".to_owned(),
            reason: None,
            message: None,
            url: "http://localhost:8080/serving/default/digits".to_owned(),
            host_url: None,
            notes: Vec::new(),
            revisions,
        }
    }

    #[test]
    fn each_revision_has_a_line_below_its_service() {
        let mut second = revision("digits-predictor-00002");
        second.traffic_percent = 20.0;
        second.tags = vec!["latest".to_owned()];
        second.queue_delay_p50_ms = Some(0.04);
        second.queue_delay_p99_ms = Some(12.0);
        second.failure = Some("Exited: it exited with status 1".to_owned());
        let revisions = vec![revision("digits-predictor-00001"), second];
        let status =
            StatusTable { services: vec![service(revisions)], problems: vec!["a.yaml:1:1: missing".to_owned()] };
        let text = super::text(&status, Width::Narrow);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("default/digits  True   http://localhost:8080/"));
        assert!(lines[2].trim_start().starts_with("digits-predictor-00002 (latest)"));
        assert!(lines[2].ends_with("20 %     1/1       0       0.0 / 12.0 ms"), "{text}");
        assert!(lines[4].ends_with("Exited: it exited with status 1"));
        assert_eq!(lines[5], "a.yaml:1:1: missing");
    }

    #[test]
    fn notes_follow_the_reasons_and_wide_tables_have_more_columns() {
        let mut noted = service(vec![revision("digits-predictor-00001")]);
        noted.notes = vec!["no effect: spec.predictor.logger".to_owned()];
        noted.revisions[0].restarts = 7;
        noted.revisions[0].refused = 3;
        noted.revisions[0].attainment = Some(0.99999);
        noted.revisions[0].scaled = Some("one replica: idle".to_owned());
        let mut empty = service(Vec::new());
        empty.name = "empty".to_owned();
        let status = StatusTable { services: vec![noted, empty], problems: Vec::new() };
        let narrow = super::text(&status, Width::Narrow);
        assert!(!narrow.contains("RESTARTS"), "{narrow}");
        let note = "\ndefault/digits: note: no effect: spec.predictor.logger\n";
        assert!(narrow.ends_with(note), "{narrow}");
        let wide = super::text(&status, Width::Wide);
        let lines: Vec<&str> = wide.lines().collect();
        assert!(lines[0].ends_with("IN FLIGHT  REQUESTS  FAILED  REFUSED  RESTARTS  IN TIME  IDLE  SCALED"), "{wide}");
        assert!(
            lines[1].ends_with("0          10        0       3        7         99.9 %   -     one replica: idle"),
            "{wide}"
        );
    }

    #[test]
    fn columns_stay_aligned_with_many_services() {
        let named = |number: usize| {
            let mut service = service(vec![revision(&format!("s{number}-predictor-00001"))]);
            service.name = format!("s{}", "x".repeat(number));
            service.url = format!("http://localhost:8080/serving/default/{}", service.name);
            service
        };
        let status = StatusTable { services: (0..30).map(named).collect(), problems: Vec::new() };
        let text = super::text(&status, Width::Narrow);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 31);
        for heading in HEADINGS {
            let column = lines[0].find(heading).unwrap();
            let begins = |line: &&str| line[..column].ends_with("  ") && line.as_bytes()[column] != b' ';
            assert!(column == 0 || lines.iter().all(begins), "{text}");
        }
    }

    #[test]
    fn a_service_without_revisions_has_a_line_too() {
        let mut waiting = service(Vec::new());
        waiting.ready = "Unknown".to_owned();
        waiting.message = Some("nothing of it runs yet".to_owned());
        let status = StatusTable { services: vec![waiting], problems: Vec::new() };
        let text = super::text(&status, Width::Narrow);
        assert!(text.contains("default/digits: nothing of it runs yet"), "{text}");
        assert_eq!(super::text(&StatusTable::default(), Width::Narrow), "no services are declared\n");
    }
}
