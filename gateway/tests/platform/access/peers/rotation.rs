//! Gateways whose certificates rotate as controllers rotate them: each new certificate has a new authority, which is
//! trusted before the certificate comes into use and for some time after its use.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Builder;
use tokio_util::task::AbortOnDropHandle;

use super::*;

/// Pause between two changes.
const PAUSE: Duration = Duration::from_millis(10);

/// Former authorities that stay trusted. A request that is on its way when the certificate changes arrives within this
/// number of rotations, however busy the machine is. Controllers rotate every two days and keep one.
const FORMER: usize = 50;

/// TLS of gateways whose certificates rotate until this is dropped.
pub(in super::super) struct Rotating {
    pub(in super::super) tls: Vec<Arc<PeerTls>>,
    rotations: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl Rotating {
    pub(in super::super) fn start(gateways: usize) -> Self {
        let mut current = Authority::new("0");
        let tls = || current.gateway().tls(PeerTrust::Certificate).unwrap();
        let tls: Vec<_> = (0..gateways).map(|_| tls()).collect();
        let rotations = Arc::<AtomicUsize>::default();
        let (rotated, count) = (tls.clone(), Arc::clone(&rotations));
        let rotating = async move {
            let mut trusted = VecDeque::from([current.pem.clone()]);
            loop {
                let next = Authority::new(&(count.load(Ordering::SeqCst) + 1).to_string());
                trusted.push_back(next.pem.clone());
                if trusted.len() > FORMER + 2 {
                    trusted.pop_front();
                }
                let all: String = trusted.iter().map(String::as_str).collect();
                for files in [current.gateway().trusting(&all), next.gateway().trusting(&all)] {
                    for one in &rotated {
                        one.replace(files.all(), NOW).unwrap();
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                current = next;
                count.fetch_add(1, Ordering::SeqCst);
            }
        };
        Self { tls, rotations, _task: AbortOnDropHandle::new(tokio::spawn(rotating)) }
    }

    pub(in super::super) fn rotations(&self) -> usize {
        self.rotations.load(Ordering::SeqCst)
    }
}

/// Adds a gateway, with access for the client with the first key.
async fn add(world: &mut World, number: usize, tls: &Arc<PeerTls>) {
    let mut options = Options::new(&format!("gateway-{number}"), Scope::Local);
    options.access = Some(AccessControl::new(policy(vec![written(1, "team-a")], vec![rule("team-a", &["*"], &[])])));
    options.peers = Some(Arc::clone(tls));
    world.add(options).await;
}

/// Sends requests to two gateways while a third one dies without closing its connections, and is only then removed from
/// the set of gateways.
async fn a_gateway_dies(doomed: usize) {
    let rotating = Rotating::start(3);
    let mut world = World::new(0).await;
    let process = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for number in 0..3 {
        let tls = Arc::clone(&rotating.tls[number]);
        let adding = async move {
            add(&mut world, number, &tls).await;
            world
        };
        world = if number == doomed { process.spawn(adding).await.unwrap() } else { adding.await };
    }
    world.serve_limited(&[100], Some(1), |_| {}).await;
    let replica = world.start(1, "a", Behaviour::Work(Duration::from_millis(1))).await;
    let others: Vec<_> = (0..3).filter(|number| *number != doomed).collect();
    let clients = others.iter().cycle().take(8).map(|number| tokio::spawn(send(world.gateways[*number].address, 50)));
    let clients: Vec<_> = clients.collect();
    until("requests before the gateway dies", || replica.requests() > 50).await;
    process.shutdown_background();
    let began = rotating.rotations();
    until("rotations while the dead gateway is still listed", || rotating.rotations() > began + 1).await;
    world.gateways[doomed].resign();
    for client in clients {
        assert_eq!(client.await.unwrap(), NONE, "the gateway {doomed} died");
    }
    assert!(rotating.rotations() > began + 1);
}

/// One of the three gateways owns the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_dies_during_rotations_takes_no_request_of_the_others_along() {
    for doomed in 0..3 {
        a_gateway_dies(doomed).await;
    }
}
