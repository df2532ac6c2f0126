use std::time::Duration;

use tokio_stream::StreamExt;
use tonic::Code;
use weir_cluster::Activity;

use super::*;
use crate::world::World;

fn object(name: &str) -> ScaledObjectRef {
    ScaledObjectRef {
        name: name.to_owned(),
        namespace: "team".to_owned(),
        scaler_metadata: [("target".to_owned(), "2.5".to_owned())].into(),
    }
}

fn queued(queued: u32) -> Activity {
    Activity { queued, ..Activity::default() }
}

/// Stream of notifications about one service, each true if it is active.
struct Pushed(<Scaler as ExternalScaler>::StreamIsActiveStream);

impl Pushed {
    async fn of(world: &World, service: &str) -> Self {
        let scaler = Scaler { loads: world.loads.clone() };
        let answers = scaler.stream_is_active(Request::new(object(service)));
        Self(answers.await.unwrap().into_inner())
    }

    async fn next(&mut self) -> bool {
        let answer = tokio::time::timeout(Duration::from_secs(5), self.0.next()).await;
        answer.unwrap().unwrap().unwrap().result
    }
}

#[tokio::test]
async fn the_metric_comes_from_the_service_and_the_target_from_the_trigger() {
    let world = World::new(&["digits"]);
    world.report(&[("digits", queued(7))]).await;
    let scaler = Scaler { loads: world.loads.clone() };
    let spec = scaler.get_metric_spec(Request::new(object("digits"))).await;
    let spec = spec.unwrap().into_inner().metric_specs.remove(0);
    assert_eq!(spec.metric_name, "nv_inference_pending_request_count");
    assert_eq!((spec.target_size, spec.target_size_float), (3, 2.5));
    let request = GetMetricsRequest {
        scaled_object_ref: Some(object("digits")),
        metric_name: "s0-nv_inference_pending_request_count".to_owned(),
    };
    let values = scaler.get_metrics(Request::new(request)).await.unwrap();
    let value = values.into_inner().metric_values.remove(0);
    assert_eq!(value.metric_name, "s0-nv_inference_pending_request_count");
    assert_eq!((value.metric_value, value.metric_value_float), (7, 7.0));
}

#[tokio::test]
async fn errors_name_the_problem() {
    let world = World::new(&["digits"]);
    let scaler = Scaler { loads: world.loads.clone() };
    let unknown = scaler.is_active(Request::new(object("digit"))).await;
    assert_eq!(unknown.unwrap_err().code(), Code::NotFound);
    let early = scaler.is_active(Request::new(object("digits"))).await;
    assert_eq!(early.unwrap_err().code(), Code::Unavailable);
    let unread = ScaledObjectRef { scaler_metadata: [].into(), ..object("digits") };
    let unread = scaler.get_metric_spec(Request::new(unread)).await;
    assert_eq!(unread.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_request_at_zero_and_idleness_are_notified_at_once() {
    let world = World::new(&["digits"]);
    world.report(&[("digits", queued(0))]).await;
    let mut pushed = Pushed::of(&world, "digits").await;
    assert!(!pushed.next().await);
    world.report(&[("digits", queued(1))]).await;
    assert!(pushed.next().await);
    world.report(&[("digits", queued(0))]).await;
    assert!(!pushed.next().await);
}

/// This happens after `kubectl scale --replicas=0`, or if KEDA scales to zero while a request is on its way.
#[tokio::test]
async fn a_request_at_zero_is_notified_while_the_service_still_counts_as_busy() {
    let world = World::new(&["digits"]);
    let busy = Activity { arrivals: 1, credits: 4, ..Activity::default() };
    world.report(&[("digits", busy.clone())]).await;
    let mut pushed = Pushed::of(&world, "digits").await;
    assert!(pushed.next().await);
    let at_zero = Activity { arrivals: 2, queued: 1, credits: 0, ..busy };
    world.report(&[("digits", at_zero)]).await;
    assert!(pushed.next().await);
}
