//! Routes and queues as JSON, for people who look.

use serde_json::{Value, json};
use weir_cluster::{Destination, Host, Route};

use crate::line::Line;
use crate::view::View;

pub(crate) fn describe(view: &View) -> String {
    let routes = view.snapshot.routes.as_slice();
    let routes: Vec<Value> = routes.iter().map(|route| of_route(route)).collect();
    let mut lines: Vec<_> = view.ways.lines.values().collect();
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    let revisions: Vec<Value> = lines.into_iter().map(|line| of_line(line)).collect();
    let gateways = view.snapshot.gateways.iter();
    let gateways: Vec<&str> = gateways.map(|gateway| &*gateway.name).collect();
    json!({
        "generation": view.snapshot.generation,
        "routes_generation": view.snapshot.routes.generation,
        "gateways": gateways,
        "routes": routes,
        "revisions": revisions,
    })
    .to_string()
}

fn of_route(route: &Route) -> Value {
    let split: Vec<Value> = match &route.destination {
        Destination::Split(split) => split
            .targets()
            .iter()
            .map(|target| json!({"revision": target.revision.as_str(), "weight": target.weight}))
            .collect(),
        Destination::Nowhere(_) => Vec::new(),
    };
    let nowhere = match &route.destination {
        Destination::Split(_) => None,
        Destination::Nowhere(because) => Some(&**because),
    };
    let tag = |tagged: &weir_cluster::Tagged| json!({"tag": tagged.tag.as_str(), "revision": tagged.revision.as_str()});
    json!({
        "service": route.service.to_string(),
        "hosts": route.all_hosts().map(Host::as_str).collect::<Vec<_>>(),
        "path": route.service.path_prefix(),
        "model": route.model.as_deref(),
        "split": split,
        "nowhere": nowhere,
        "tags": route.tags.iter().map(tag).collect::<Vec<_>>(),
        "timeout_ms": route.timeout.map(|timeout| timeout.as_millis() as u64),
        "max_queue": route.max_queue,
    })
}

fn of_line(line: &Line) -> Value {
    let activity = line.activity();
    let ms = |share| {
        activity
            .queue_delay
            .quantile(share)
            .map(|delay| delay.as_secs_f64() * 1e3)
    };
    let replicas = line.replicas();
    let replicas: Vec<Value> = replicas
        .iter()
        .map(|(upstream, in_flight, most)| {
            json!({"name": &*upstream.name, "in_flight": in_flight, "credits": most})
        })
        .collect();
    json!({
        "revision": line.name.to_string(),
        "arrivals": activity.arrivals,
        "succeeded": activity.succeeded,
        "failed": activity.failed,
        "refused": activity.refused,
        "queued": activity.queued,
        "in_flight": activity.in_flight,
        "oldest_ms": activity.oldest_us as f64 / 1e3,
        "queue_delay_p50_ms": ms(0.5),
        "queue_delay_p99_ms": ms(0.99),
        "failure": line.failure().map(|failure| failure.message.to_string()),
        "replicas": replicas,
    })
}
