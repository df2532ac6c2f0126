//! Routes and queues as JSON, for debugging.

use serde_json::{Value, json};
use weir_cluster::{Destination, Host, Route};

use crate::queue::RevisionQueue;
use crate::state::State;

pub(crate) fn describe(state: &State) -> String {
    let routes: Vec<Value> = state.snapshot.routes.as_slice().iter().map(|route| of_route(route)).collect();
    let mut queues: Vec<_> = state.routes.queues.values().collect();
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    let revisions: Vec<Value> = queues.into_iter().map(|queue| of_queue(queue)).collect();
    let gateways: Vec<&str> = state.snapshot.gateways.iter().map(|gateway| &*gateway.name).collect();
    json!({
        "generation": state.snapshot.generation,
        "routes_generation": state.snapshot.routes.generation,
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
        "refused_hosts": route.refused_hosts.iter().map(Host::as_str).collect::<Vec<_>>(),
        "path": route.service.path_prefix(),
        "model": route.model.as_deref(),
        "split": split,
        "nowhere": nowhere,
        "tags": route.tags.iter().map(tag).collect::<Vec<_>>(),
        "timeout_ms": route.timeout.map(|timeout| timeout.as_millis() as u64),
        "max_queue": route.max_queue,
    })
}

fn of_queue(queue: &RevisionQueue) -> Value {
    let activity = queue.shown_activity();
    let ms = |share| activity.queue_delay.quantile(share).map(|delay| delay.as_secs_f64() * 1e3);
    let replicas = queue.replicas();
    let replicas: Vec<Value> = replicas
        .iter()
        .map(|(upstream, in_flight, most)| json!({"name": &*upstream.name, "in_flight": in_flight, "credits": most}))
        .collect();
    json!({
        "revision": queue.name.to_string(),
        "arrivals": activity.arrivals,
        "succeeded": activity.succeeded,
        "failed": activity.failed,
        "refused": activity.refused,
        "queued": activity.queued,
        "in_flight": activity.in_flight,
        "oldest_ms": activity.oldest_us as f64 / 1e3,
        "queue_delay_p50_ms": ms(0.5),
        "queue_delay_p99_ms": ms(0.99),
        "failure": queue.failure().map(|failure| failure.message.to_string()),
        "replicas": replicas,
    })
}
