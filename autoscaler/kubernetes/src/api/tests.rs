use axum::body::Body;
use http::{Request, StatusCode};
use kube::Config;
use serde_json::Value;
use tower::ServiceExt;
use weir_cluster::Activity;

use super::*;
use crate::world::World;

async fn get(world: &World, path: &str) -> (StatusCode, Value) {
    // The tests make no call to the API server.
    let nowhere = Config::new("https://127.0.0.1:1".parse().unwrap());
    let api = MetricsApi::new(world.loads.clone(), Client::try_from(nowhere).unwrap());
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = api.router().oneshot(request).await.unwrap();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await;
    (status, serde_json::from_slice(&body.unwrap()).unwrap())
}

fn queued(queued: u32, arrivals: u64) -> Activity {
    Activity { queued, arrivals, ..Activity::default() }
}

#[tokio::test]
async fn an_external_metric_has_an_item_for_each_matching_service() {
    let world = World::new(&["digits", "echo"]);
    let loads = [("digits", queued(7, 25)), ("echo", queued(2, 0))];
    world.report(&loads).await;
    let path = format!("{EXTERNAL}/namespaces/team/nv_inference_pending_request_count");
    let (status, all) = get(&world, &path).await;
    assert_eq!((status, &all["kind"]), (StatusCode::OK, &"ExternalMetricValueList".into()));
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    let one = format!("{path}?labelSelector=serving.kserve.io%2Finferenceservice%3Ddigits");
    let (_, one) = get(&world, &one).await;
    assert_eq!((&one["items"][0]["value"], &one["items"][1]), (&"7".into(), &Value::Null));
    let (status, none) = get(&world, &format!("{path}?labelSelector=app%3Dother")).await;
    assert_eq!((status, &none["kind"]), (StatusCode::NOT_FOUND, &"Status".into()));
    let (status, _) = get(&world, &format!("{path}?labelSelector=app%20in%20x")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_metric_of_a_service_is_its_value() {
    let world = World::new(&["digits"]);
    let path = format!("{CUSTOM}/namespaces/team/inferenceservices.serving.kserve.io/digits/weir_requests_per_second");
    let (status, early) = get(&world, &path).await;
    assert_eq!((status, &early["code"]), (StatusCode::SERVICE_UNAVAILABLE, &503.into()));
    world.report(&[("digits", queued(0, 25))]).await;
    let (status, list) = get(&world, &path).await;
    assert_eq!(status, StatusCode::OK);
    let item = &list["items"][0];
    assert_eq!((&item["value"], &item["windowSeconds"]), (&"2500m".into(), &30.into()));
    assert_eq!(item["describedObject"]["name"], "digits");
}

#[tokio::test]
async fn a_star_selects_all_services_that_match_the_selector() {
    let world = World::new(&["digits", "echo"]);
    let loads = [("digits", queued(7, 25)), ("echo", queued(2, 0))];
    world.report(&loads).await;
    let services = "inferenceservices.serving.kserve.io";
    let path = format!("{CUSTOM}/namespaces/team/{services}/*/nv_inference_pending_request_count");
    let values = async |path: &str| {
        let (status, list) = get(&world, path).await;
        assert_eq!(status, StatusCode::OK, "{list}");
        let items = list["items"].as_array().unwrap().clone();
        let of = |item: &Value| (item["describedObject"]["name"].clone(), item["value"].clone());
        items.iter().map(of).collect::<Vec<_>>()
    };
    let all = [("digits".into(), "7".into()), ("echo".into(), "2".into())];
    assert_eq!(values(&path).await, all);
    let one = format!("{path}?labelSelector=serving.kserve.io%2Finferenceservice%3Decho");
    assert_eq!(values(&one).await, [("echo".into(), "2".into())]);
    let none = format!("{path}?labelSelector=app%3Dother");
    assert_eq!(values(&none).await, []);
}

#[tokio::test]
async fn unknown_objects_and_metrics_are_reported() {
    let world = World::new(&["digits"]);
    world.report(&[]).await;
    let of = |resource: &str, name: &str, metric: &str| format!("{CUSTOM}/namespaces/team/{resource}/{name}/{metric}");
    let services = "inferenceservices.serving.kserve.io";
    let cases = [
        (of(services, "digit", "weir_requests_per_second"), "did you mean \"digits\"?"),
        (of(services, "digits", "weir_requests_per_secon"), "did you mean weir_requests_per_second?"),
        (of("services", "digits", "weir_requests_per_second"), "use pods or"),
        ("/apis/custom.metrics.k8s.io/v1beta1".to_owned(), "have no path"),
    ];
    for (path, expected) in cases {
        let (status, answer) = get(&world, &path).await;
        let message = answer["message"].as_str().unwrap();
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn both_apis_list_their_metrics() {
    let world = World::new(&[]);
    for (path, count) in [(CUSTOM, 8), (EXTERNAL, 4)] {
        let (status, list) = get(&world, path).await;
        assert_eq!((status, &list["kind"]), (StatusCode::OK, &"APIResourceList".into()));
        assert_eq!(list["resources"].as_array().unwrap().len(), count);
        assert!(path.ends_with(list["groupVersion"].as_str().unwrap()));
    }
}

#[test]
fn whole_numbers_are_whole_and_others_in_thousandths() {
    let numbers = [0.0, 3.0, 0.3, 1.5, 0.00001, 50_000.0, -1.0, f64::INFINITY];
    let written = numbers.map(quantity);
    let expected = ["0", "3", "300m", "1500m", "1m", "50000", "0", "1000000000000000"];
    assert_eq!(written, expected);
    assert_eq!(quantity(f64::NAN), "0");
}
