//! Tests of reports as other processes receive them over the admin port.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::{Activity, Phase, Reports};
use weir_cluster_reports::RemoteReports;
use weir_ops::admin::{Admin, Health};
use weir_ops::registry;

use crate::client::{connect, once, post, read};
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, TEST_TIMEOUT, World, revision};

/// Opens the first gateway's admin port, and follows the reports from there.
async fn listen(world: &World) -> (RemoteReports, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let registry = Arc::new(registry::with_process_metrics());
    let reports = world.gateways[0].gateway.reports();
    let admin = Admin::new(listener, registry, Arc::new(|| Health::Serving))
        .with_service(weir_cluster_reports::PATH, weir_cluster_reports::service(reports));
    let serving = AbortOnDropHandle::new(tokio::spawn(admin.serve(CancellationToken::new())));
    let member = weir_cluster::Gateway {
        name: "gateway-0".into(),
        serving: world.address().into(),
        admin: Some(address.into()),
    };
    let members = tokio::sync::watch::Sender::new(Arc::from([member])).subscribe();
    (RemoteReports::follow(members), serving)
}

/// Waits until a report about this revision satisfies the condition.
async fn wait_for_activity(reports: &RemoteReports, number: u32, is_so: impl Fn(&Activity) -> bool) {
    let mut latest = reports.watch();
    let name = revision(number);
    let received = latest.wait_for(|latest| {
        let report = latest.get("gateway-0");
        report.is_some_and(|report| report.revisions.get(&name).is_some_and(|a| is_so(a)))
    });
    let received = tokio::time::timeout(TEST_TIMEOUT, received).await.is_ok();
    assert!(received, "{:?}", reports.watch().borrow());
}

#[tokio::test]
async fn counts_of_a_gateway_are_reported_each_second() {
    let world = World::new(1).await;
    world.serve_limited(&[100], Some(3), |_| {}).await;
    let (reports, _serving) = listen(&world).await;
    wait_for_activity(&reports, 1, |activity| activity.credits == 0).await;
    let _replica = world.start(1, "a", Behaviour::Echo(Duration::from_millis(5))).await;
    for _ in 0..4 {
        once(world.address(), post(HOST, "/", "x")).await;
    }
    wait_for_activity(&reports, 1, |activity| {
        let delays = activity.queue_delay.count();
        let times = activity.service_time.quantile(0.5);
        activity.succeeded == 4 && delays == 4 && times >= Some(Duration::from_millis(4))
    })
    .await;
    wait_for_activity(&reports, 1, |activity| activity.credits == 3).await;
    let latest = reports.watch();
    let mut ages = Vec::new();
    let mut changes = latest;
    for _ in 0..3 {
        let changed = tokio::time::timeout(TEST_TIMEOUT, changes.changed()).await;
        changed.unwrap().unwrap();
        ages.push(changes.borrow_and_update()["gateway-0"].age_us);
    }
    assert!(ages.is_sorted() && ages[2] > ages[0], "{ages:?}");
}

/// Pause in the upload of a body.
const PAUSE: Duration = Duration::from_secs(1);

#[tokio::test]
async fn the_upload_of_a_body_is_no_wait_for_a_replica() {
    let (world, _replica) = World::with(Behaviour::Echo(Duration::ZERO)).await;
    let mut client = connect(world.address()).await;
    let (pieces, receiver) = mpsc::channel::<io::Result<Frame<Bytes>>>(1);
    let request = Request::post("/").header("host", HOST).body(StreamBody::new(ReceiverStream::new(receiver)));
    let asked = tokio::spawn(client.send_request(request.unwrap()));
    pieces.send(Ok(Frame::data("slow".into()))).await.unwrap();
    tokio::time::sleep(PAUSE).await;
    pieces.send(Ok(Frame::data("ly".into()))).await.unwrap();
    drop(pieces);
    let answer = read(asked.await.unwrap().unwrap()).await.unwrap();
    assert_eq!(answer.text(), "slowly");
    world.activity(1, |activity| activity.queue_delay.count() == 1 && activity.queue_delay.sum_us() < 500_000).await;
    let timing = answer.header("server-timing");
    let queued = timing.strip_prefix("queue;dur=").and_then(|rest| rest.split(',').next()?.parse::<f64>().ok());
    assert!(queued.unwrap() < 500.0, "{timing}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_at_zero_is_reported_at_once() {
    let world = World::new(1).await;
    world.serve_limited(&[100], Some(1), |_| {}).await;
    let (reports, _serving) = listen(&world).await;
    wait_for_activity(&reports, 1, |_| true).await;
    let mut took = Vec::new();
    for round in 1..=7 {
        let asked = tokio::spawn(once(world.address(), post(HOST, "/", "x")));
        let began = Instant::now();
        wait_for_activity(&reports, 1, |activity| activity.woken == round).await;
        took.push(began.elapsed());
        let replica = TestReplica::start(Behaviour::Echo(Duration::ZERO)).await;
        world.put_in(1, "a", replica.address, Phase::Ready);
        let answer = tokio::time::timeout(TEST_TIMEOUT, asked).await.unwrap();
        assert_eq!(answer.unwrap().text(), "x");
        world.take(1, "a").await;
    }
    // Reports at one-second intervals would rarely arrive this soon. The median is checked, because a busy machine
    // delays single reports.
    took.sort_unstable();
    assert!(took[3] < Duration::from_millis(200), "{took:?}");
}
