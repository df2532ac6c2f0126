use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use weir_cluster::{
    Batching, Destination, Economy, Host, Mirror, OpenAiApi, PolicySelect, ReadyCall, Route, ScaleTarget,
    ScalingBehavior, ScalingPolicy, ScalingRules, ServiceName, Split, Tag, Tagged, Target, Transport, Workload,
};

use super::scaling::WrittenScaling;
use super::*;

fn service() -> ServiceName {
    ServiceName::new("vision", "digits").unwrap()
}

fn read_again(route: &Route) -> Route {
    let text = serde_json::to_string(&WrittenRoute::of(route)).unwrap();
    let written: WrittenRoute = serde_json::from_str(&text).unwrap();
    written.route(&route.service, route.since).unwrap()
}

#[test]
fn a_route_with_every_field_is_read_as_it_was_written() {
    let [one, two] = [1, 2].map(|number| service().revision(number).unwrap());
    let weighted = |(revision, weight): (&_, u32)| Target { revision: Clone::clone(revision), weight };
    let split = Split::new([(&one, 80), (&two, 20)].map(weighted).to_vec()).unwrap();
    let mut route = Route::new(service(), Destination::Split(split));
    route.since = 1_700_000_000;
    route.hosts = service().inside_hosts("cluster.local").unwrap();
    route.model = Some("digits".into());
    route.tags = vec![Tagged {
        tag: Tag::new("next").unwrap(),
        hosts: vec![Host::parse("next-digits-vision.example.com").unwrap()],
        revision: two.clone(),
    }];
    route.timeout = Some(Duration::from_millis(1500));
    route.batching = Some(Batching { max_size: 32, max_latency: Duration::from_micros(500) });
    route.mirror = Some(Mirror { revision: two, percent: 10 });
    for openai in [OpenAiApi::Absent, OpenAiApi::Supported, OpenAiApi::Undeclared] {
        route.openai = openai;
        assert_eq!(read_again(&route), route);
    }
}

#[test]
fn numbers_that_validation_would_refuse_are_clamped() {
    let most = serde_json::json!({ "secs": u64::MAX, "nanos": 0 });
    let mut written = serde_json::to_value(WrittenScaling::of(&ScalingPolicy::default())).unwrap();
    for field in ["queueDelay", "retention", "scaleDownDelay", "window"] {
        written[field] = most.clone();
    }
    written["quantile"] = 7.into();
    written["min"] = u32::MAX.into();
    written["target"] = serde_json::json!({ "rps": 0.0 });
    let written: WrittenScaling = serde_json::from_value(written).unwrap();
    let policy = written.policy();
    let times = [policy.queue_delay, policy.retention.unwrap(), policy.scale_down_delay, policy.window];
    assert_eq!(times, [LONGEST; 4]);
    assert_eq!((policy.min, policy.target), (ScalingPolicy::MOST, None));
    assert_eq!(policy.quantile, 0.9999);
}

#[test]
fn a_route_to_nowhere_keeps_its_message() {
    let route = Route::new(service(), Destination::Nowhere("it is stopped".into()));
    assert_eq!(read_again(&route), route);
}

#[test]
fn rules_of_a_service_are_read_as_written_and_invalid_ones_allow_nothing() {
    let mut route = Route::new(service(), Destination::Nowhere("stopped".into()));
    let rule = weir_access::Rule { clients: vec!["team-b".to_owned()], ..weir_access::Rule::default() };
    route.access = weir_access::ServiceRules::new(vec![rule]).unwrap();
    assert_eq!(read_again(&route), route);
    let mut written = serde_json::to_value(WrittenRoute::of(&route)).unwrap();
    let rules = written["access"].as_array_mut().unwrap();
    rules.push(serde_json::json!({ "anyone": true, "services": ["*"] }));
    rules.push(serde_json::json!({ "anyone": true, "onlyOnSundays": true }));
    rules.push(serde_json::json!("everything"));
    let read: WrittenRoute = serde_json::from_value(written).unwrap();
    assert_eq!(read.route(&service(), 0).unwrap().access, route.access);
}

#[test]
fn a_newer_writer_may_add_fields() {
    let mut written =
        serde_json::to_value(WrittenRoute::of(&Route::new(service(), Destination::Nowhere("stopped".into())))).unwrap();
    written["invented"] = true.into();
    assert!(serde_json::from_value::<WrittenRoute>(written).is_ok());
}

#[test]
fn a_policy_is_read_as_it_was_written() {
    let policy = ScalingPolicy {
        min: 2,
        max: Some(9),
        economy: Economy::Latency,
        target: Some(ScaleTarget::Rps(2.5)),
        retention: Some(Duration::from_secs(90)),
        behavior: ScalingBehavior {
            up: None,
            down: Some(ScalingRules { select: PolicySelect::Min, tolerance: 0.05, ..ScalingRules::default_up() }),
        },
        ..ScalingPolicy::default()
    };
    let workload = Workload {
        concurrency: NonZeroU32::new(4),
        scaling: Some(Arc::new(policy.clone())),
        ..Workload::new(service().revision(1).unwrap(), weir_cluster::PodTemplate::default(), 1)
    };
    let text = |transport| {
        serde_json::to_string(&WrittenRevision::of(&workload, &workload.template.read(), transport)).unwrap()
    };
    let read = |text: &str| serde_json::from_str::<WrittenRevision>(text).unwrap();
    // Older gateways know no field for TLS, and older revisions have none.
    assert!(!text(Transport::Plain).contains("tls"));
    let written = read(&text(Transport::Tls));
    assert_eq!((written.transport(), written.ready_call()), (Transport::Tls, ReadyCall::V2));
    let written = read(&text(Transport::Plain));
    assert_eq!(written.transport(), Transport::Plain);
    assert_eq!(written.concurrency, NonZeroU32::new(4));
    assert_eq!(written.identity, workload.identity().as_str());
    assert_eq!(written.scaling.unwrap().policy(), policy);
}
