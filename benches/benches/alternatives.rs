//! Measures what common libraries would add to each request: axum's router compared to a match on the path's segments,
//! and counters of the `metrics` facade compared to counters in a field. `docs/decisions/008` quotes the results.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up should stop")]

use std::convert::Infallible;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::routing::{get, post};
use criterion::Criterion;
use http::{Request, Response};
use metrics::{Key, Label};
use metrics_util::registry::{AtomicStorage, Registry};
use prometheus_client::metrics::counter::Counter;
use tower::Service;

/// Paths of the V2 protocol that a model server answers, for models with and without a version.
const PATHS: [&str; 8] = [
    "/v2",
    "/v2/health/live",
    "/v2/health/ready",
    "/v2/models/{model}",
    "/v2/models/{model}/ready",
    "/v2/models/{model}/versions/{version}",
    "/v2/models/{model}/versions/{version}/ready",
    "/v2/repository/index",
];

/// Counters that Triton increments for a successful request: success, count, executions, and four durations.
const COUNTERS: [&str; 7] = [
    "nv_inference_request_success",
    "nv_inference_count",
    "nv_inference_exec_count",
    "nv_inference_request_duration_us",
    "nv_inference_queue_duration_us",
    "nv_inference_compute_infer_duration_us",
    "nv_inference_compute_output_duration_us",
];

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    route(&mut criterion);
    count(&mut criterion);
    criterion.final_summary();
}

fn request() -> Request<Body> {
    Request::post("/v2/models/mlp/infer").body(Body::empty()).unwrap()
}

fn route(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("route");
    let mut router = PATHS.iter().fold(Router::new(), |router, path| router.route(path, get(async || "ok")));
    router = router.route("/v2/models/{model}/infer", post(async |Path(model): Path<String>| model));
    group.bench_function("axum", |bencher| {
        bencher.iter_with_setup(request, |request| black_box(now(router.call(request))));
    });
    group.bench_function("segments", |bencher| {
        bencher.iter_with_setup(request, |request| black_box(now(by_segments(request))));
    });
    group.finish();
}

async fn by_segments(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path();
    let mut segments = [""; 8];
    let mut count = 0;
    for segment in path.split('/').skip(1).take(segments.len()) {
        segments[count] = segment;
        count += 1;
    }
    let model = match &segments[..count] {
        ["v2", "models", model, "infer"] | ["v2", "models", model, "versions", _, "infer"] => *model,
        _ => "",
    };
    Ok(Response::new(Body::from(model.to_owned())))
}

/// Returns the value of a future that is ready at the first poll.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("neither router waits"),
    }
}

fn count(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("count");
    let registry = Registry::<Key, AtomicStorage>::atomic();
    group.bench_function("facade", |bencher| {
        bencher.iter(|| {
            for name in COUNTERS {
                let labels = vec![Label::new("model", black_box("mlp").to_owned()), Label::new("version", "1")];
                let key = Key::from_parts(name, labels);
                registry
                    .get_or_create_counter(&key, |counter| counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
            }
        });
    });
    let counters: [Counter; COUNTERS.len()] = Default::default();
    group.bench_function("held", |bencher| {
        bencher.iter(|| {
            for counter in &counters {
                black_box(counter).inc();
            }
        });
    });
    group.finish();
}
