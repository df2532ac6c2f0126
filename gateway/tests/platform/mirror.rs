//! Tests of copies of requests for a revision that mirrors a service.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use weir_cluster::{Mirror, Phase, Scale, Tag, Tagged};

use crate::client::{Client, connect, connect_h2, once, post, with};
use crate::grpc::{SERVICE, call, ended, infer, send, status};
use crate::replica::{Behaviour, TestReplica};
use crate::world::{HOST, TEST_TIMEOUT, World, revision, until};

const ECHO: Behaviour = Behaviour::Echo(Duration::ZERO);

/// Maximum number of copies of one revision in flight.
const MOST: u64 = 64;

/// Number of copies by outcome, as the metrics report it.
#[derive(Debug, Default, PartialEq, Eq)]
struct MirrorCounts {
    answered: u64,
    failed: u64,
    dropped: u64,
    streamed: u64,
}

impl MirrorCounts {
    fn all(&self) -> u64 {
        self.answered + self.failed + self.dropped + self.streamed
    }
}

/// Returns the counts of the second revision's copies at the first gateway.
fn copies(world: &World) -> MirrorCounts {
    let mut registry = weir_ops::registry::Registry::default();
    world.gateways[0].gateway.register(&mut registry);
    let text = weir_ops::registry::text(&registry).unwrap();
    let count = |outcome: &str| {
        let name = revision(2);
        let labels = format!(
            "{{namespace=\"default\",service=\"digits\",revision=\"{}\",outcome=\"{outcome}\"}} ",
            name.as_str()
        );
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("weir_gateway_mirrored_total"));
        let value = lines.find_map(|line| line.strip_prefix(&*labels));
        value.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
    };
    MirrorCounts {
        answered: count("answered"),
        failed: count("failed"),
        dropped: count("dropped"),
        streamed: count("streamed"),
    }
}

async fn until_copies(world: &World, what: &str, is_so: impl Fn(&MirrorCounts) -> bool) -> MirrorCounts {
    until(what, || is_so(&copies(world))).await;
    copies(world)
}

/// Creates a service whose first revision gets all requests and whose second revision gets copies.
async fn mirrored(gateways: usize, percent: u8) -> World {
    let world = World::new(gateways).await;
    serve(&world, &[100, 0], percent).await;
    world
}

/// Starts a replica of the revision that answers users, and one of the mirroring revision.
async fn user_and_mirror(world: &World, user: Behaviour, mirror: Behaviour) -> (TestReplica, TestReplica) {
    let user = TestReplica::start(user).await;
    let mirror = TestReplica::start(mirror).await;
    world.put(1, "a", user.address).await;
    world.put(2, "b", mirror.address).await;
    (user, mirror)
}

async fn serve(world: &World, weights: &[u32], percent: u8) {
    world
        .serve(weights, |route| {
            route.mirror = Some(Mirror { revision: revision(2), percent });
            route.tags = vec![Tagged { tag: Tag::new("stable").unwrap(), hosts: Vec::new(), revision: revision(1) }];
        })
        .await;
}

/// Sends `count` requests one after the other, and checks that each is answered correctly and in order.
async fn ask_in_order(world: &World, replica: &TestReplica, count: usize) {
    let mut client = Client::new(world.address());
    let mut sent = Vec::new();
    for number in 0..count {
        let body = format!("{number}");
        let answer = client.send(post(HOST, "/", body.clone())).await.unwrap();
        assert_eq!((answer.status, answer.text()), (StatusCode::OK, &*body));
        assert_eq!(answer.header("weir-revision"), "digits-predictor-00001");
        sent.push(Bytes::from(body));
    }
    assert_eq!(*replica.seen.bodies.lock(), sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fifth_of_the_requests_reaches_the_mirror_over_http() {
    let world = mirrored(1, 20).await;
    let (user, mirror) = user_and_mirror(&world, ECHO, ECHO).await;
    let address = world.address();
    let clients: Vec<_> = (0..8)
        .map(|client| {
            tokio::spawn(async move {
                let mut connection = Client::new(address);
                for number in 0..125 {
                    let body = format!("{client}-{number}");
                    let request = with(post(HOST, "/v2/x?y=z", body.clone()), "x-request-id", &body);
                    let answer = connection.send(request).await.unwrap();
                    assert_eq!((answer.status, answer.text()), (StatusCode::OK, &*body));
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(user.requests(), 1000);
    let seen = until_copies(&world, "all copies", |copies| (192..=208).contains(&copies.all())).await;
    until("all copies to arrive", || mirror.requests() as u64 == seen.answered).await;
    assert_eq!((seen.failed, seen.streamed), (0, 0), "{seen:?}");
    let mut ids: Vec<String> = mirror
        .seen
        .heads
        .lock()
        .iter()
        .map(|head| {
            assert_eq!(head.headers["weir-mirror"], "1");
            assert_eq!(head.uri, "/v2/x?y=z");
            assert!(!head.headers.contains_key("weir-revision"), "{head:?}");
            head.headers["x-request-id"].to_str().unwrap().to_owned()
        })
        .collect();
    let mut bodies = mirror.seen.bodies.lock().clone();
    bodies.sort_unstable();
    ids.sort_unstable();
    assert_eq!(bodies, ids);
    let is_copy = |head: &http::request::Parts| head.headers.contains_key("weir-mirror");
    assert!(!user.seen.heads.lock().iter().any(is_copy));
    world.activity(1, |a| a.arrivals == 1000 && a.succeeded == 1000).await;
    world.activity(2, |a| a.arrivals == seen.answered && a.in_flight == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fifth_of_the_calls_reaches_the_mirror_over_grpc() {
    let world = mirrored(1, 20).await;
    let (user, mirror) = user_and_mirror(&world, Behaviour::Mirror, Behaviour::Mirror).await;
    let path = format!("{SERVICE}/ModelInfer");
    let mut sender = connect_h2(world.address()).await;
    for number in 0..1000 {
        let message = infer(&format!("digits-{number}"));
        let request = call(HOST, &path, Full::new(message.clone()));
        let answer = ended(sender.send_request(request).await.unwrap()).await;
        assert_eq!((status(&answer).0, &answer.data), ("0", &message));
    }
    assert_eq!(user.requests(), 1000);
    let seen = until_copies(&world, "all copies", |copies| (192..=208).contains(&copies.all())).await;
    assert_eq!((seen.failed, seen.streamed), (0, 0), "{seen:?}");
    assert_eq!(mirror.requests() as u64, seen.answered);
    let heads = mirror.seen.heads.lock();
    assert!(heads.iter().all(|head| head.headers["weir-mirror"] == "1"));
    assert!(heads.iter().all(|head| head.uri.path() == path));
}

#[tokio::test]
async fn a_hanging_mirror_holds_a_bounded_number_of_copies_and_delays_no_user() {
    let world = mirrored(1, 100).await;
    let (user, mirror) = user_and_mirror(&world, ECHO, Behaviour::Hang).await;
    ask_in_order(&world, &user, 300).await;
    let seen = copies(&world);
    assert_eq!((seen.answered, seen.dropped), (0, 300 - MOST), "{seen:?}");
    // A server that reports no capacity gets this many requests at once, so all copies are sent.
    mirror.seen.until_busy(MOST as usize).await;
    world.activity(2, |a| u64::from(a.in_flight) == MOST && a.queued == 0).await;
    assert_eq!(mirror.seen.most.load(Ordering::SeqCst) as u64, MOST);
    world.activity(1, |a| a.succeeded == 300 && a.failed == 0).await;
}

#[tokio::test]
async fn a_mirror_that_fails_or_breaks_off_fails_no_user() {
    // A replica that breaks off is ejected longer each time, so few requests suffice.
    for (behaviour, count) in [(Behaviour::Fail, 200), (Behaviour::Reset, 12)] {
        let world = mirrored(1, 100).await;
        let (user, _mirror) = user_and_mirror(&world, ECHO, behaviour).await;
        ask_in_order(&world, &user, count as usize).await;
        let seen = until_copies(&world, "all copies", |copies| copies.all() == count).await;
        assert_eq!((seen.answered, seen.streamed), (0, 0), "{seen:?}");
        assert!(seen.failed >= count.min(MOST), "{seen:?}");
        world.activity(1, |a| a.succeeded == count && a.failed == 0).await;
        world.activity(2, |a| a.in_flight == 0 && a.failed == seen.failed).await;
    }
}

#[tokio::test]
async fn a_mirror_at_zero_is_woken_without_delaying_users() {
    let world = mirrored(1, 100).await;
    let user = world.start(1, "a", ECHO).await;
    ask_in_order(&world, &user, 100).await;
    world.activity(2, |a| u64::from(a.queued) == MOST && a.woken == MOST).await;
    world.fake.scale(&revision(2), 1).await.unwrap();
    let mirror = TestReplica::start(ECHO).await;
    world.put_in(2, "b", mirror.address, Phase::Starting);
    let seen = until_copies(&world, "all copies", |copies| copies.all() == 100).await;
    let expected = MirrorCounts { answered: MOST, dropped: 100 - MOST, ..MirrorCounts::default() };
    assert_eq!(seen, expected);
    let bodies = mirror.seen.bodies.lock().len() as u64;
    assert_eq!(bodies, MOST);
}

#[tokio::test]
async fn pinned_requests_and_streams_are_not_copied() {
    let world = mirrored(1, 100).await;
    let (_user, mirror) = user_and_mirror(&world, ECHO, ECHO).await;
    for (name, value) in [("weir-tag", "stable"), ("weir-revision", "digits-predictor-00001")] {
        let answer = once(world.address(), with(post(HOST, "/", "x"), name, value)).await;
        assert_eq!(answer.status, StatusCode::OK, "{name}");
    }
    assert_eq!(copies(&world), MirrorCounts::default());
    let stream = format!("{SERVICE}/ModelStreamInfer");
    let request = call(HOST, &stream, Full::new(infer("digits")));
    send(world.address(), request).await;
    assert_eq!(copies(&world).streamed, 1);
    // With a split, only requests that go to the other revision are copied.
    serve(&world, &[50, 50], 100).await;
    for _ in 0..100 {
        once(world.address(), post(HOST, "/", "x")).await;
    }
    until("half of the requests and copies of the other half", || mirror.requests() == 100).await;
    let copied = |head: &&http::request::Parts| head.headers.contains_key("weir-mirror");
    let copied = mirror.seen.heads.lock().iter().filter(copied).count();
    assert!((46..=54).contains(&copied), "{copied}");
}

#[tokio::test]
async fn a_client_cannot_mark_its_request_as_a_copy_or_as_handed_over() {
    let world = mirrored(1, 100).await;
    let (user, mirror) = user_and_mirror(&world, ECHO, ECHO).await;
    for (count, name) in [(1, "weir-mirror"), (2, "weir-hop")] {
        let answer = once(world.address(), with(post(HOST, "/", "x"), name, "1")).await;
        assert_eq!(answer.status, StatusCode::OK, "{name}");
        until("the copy to arrive", || mirror.requests() == count).await;
    }
    for head in user.seen.heads.lock().iter() {
        assert!(!head.headers.contains_key("weir-mirror"), "{head:?}");
        assert!(!head.headers.contains_key("weir-hop"), "{head:?}");
    }
}

#[tokio::test]
async fn a_copy_is_made_once_and_handed_over_to_the_owner_of_its_queue() {
    let world = mirrored(2, 100).await;
    let user = world.start(1, "a", ECHO).await;
    for gateway in &world.gateways {
        for number in 0..5 {
            let answer = once(gateway.address, post(HOST, "/", number.to_string())).await;
            assert_eq!(answer.status, StatusCode::OK);
        }
    }
    let mirror = world.start(2, "b", ECHO).await;
    until("every copy", || mirror.seen.bodies.lock().len() == 10).await;
    until("every copy's end", || mirror.seen.now.load(Ordering::SeqCst) == 0).await;
    assert_eq!((user.requests(), mirror.requests()), (10, 10));
}

#[tokio::test]
async fn a_drained_gateway_drops_copies_once_its_users_are_answered() {
    let mut world = mirrored(1, 100).await;
    let (user, mirror) = user_and_mirror(&world, Behaviour::Echo(Duration::from_millis(300)), Behaviour::Hang).await;
    let idle = connect::<Full<Bytes>>(world.address()).await;
    let asked = tokio::spawn(once(world.address(), post(HOST, "/", "body")));
    user.seen.until_busy(1).await;
    mirror.seen.until_busy(1).await;
    world.gateways[0].stop.cancel();
    let serving = world.gateways[0].serving.take().unwrap();
    assert_eq!(asked.await.unwrap().text(), "body");
    tokio::time::timeout(TEST_TIMEOUT, serving).await.unwrap().unwrap();
    assert_eq!(copies(&world).dropped, 1);
    mirror.seen.until_busy(0).await;
    drop(idle);
}

#[tokio::test]
async fn the_bytes_of_copies_are_limited() {
    let mut options = weir_gateway::Options::new("small", weir_gateway::Scope::Local);
    // Copies may use an eighth of the budget, of which an eighth stays free: eight copies of 10 000 bytes fit into 100
    // 000 bytes.
    options.all_buffers = 800_000;
    let world = World::of(options).await;
    serve(&world, &[100, 0], 100).await;
    let _user = world.start(1, "a", ECHO).await;
    let body = Bytes::from(vec![7; 10_000]);
    for _ in 0..20 {
        let request: Request<_> = post(HOST, "/", body.clone());
        let answer = once(world.address(), request).await;
        assert_eq!(answer.body, body);
    }
    let seen = copies(&world);
    assert_eq!((seen.dropped, seen.all()), (12, 12), "{seen:?}");
    let mirror = world.start(2, "b", ECHO).await;
    until_copies(&world, "the other eight", |copies| copies.answered == 8).await;
    let seen = Arc::clone(&mirror.seen);
    assert!(seen.bodies.lock().iter().all(|copy| *copy == body));
}
