//! Many clients at several gateways, half of them over HTTP and half over gRPC.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{BufMut, Bytes, BytesMut};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::client::{Client, connect_h2, post};
use crate::world::{HOST, World, until};

/// The gateways to which clients may send requests.
pub(crate) struct Targets {
    open: Mutex<Vec<Arc<Target>>>,
    answered: AtomicUsize,
    /// Largest difference so far between the numbers of answers of two gateways.
    pub(crate) lead: AtomicUsize,
}

pub(crate) struct Target {
    address: SocketAddr,
    answered: AtomicUsize,
    pub(crate) busy: AtomicUsize,
}

impl Target {
    fn new(address: SocketAddr) -> Arc<Self> {
        Arc::new(Self { address, answered: AtomicUsize::new(0), busy: AtomicUsize::new(0) })
    }
}

impl Targets {
    pub(crate) fn of(world: &World) -> Self {
        let open = world.gateways.iter().map(|running| Target::new(running.address));
        Self { open: Mutex::new(open.collect()), answered: AtomicUsize::new(0), lead: AtomicUsize::new(0) }
    }

    /// Adds a gateway that clients may use from now on.
    pub(crate) fn open(&self, address: SocketAddr) {
        self.open.lock().push(Target::new(address));
    }

    /// Removes a gateway, to which clients send no further requests.
    pub(crate) fn close(&self, address: SocketAddr) -> Arc<Target> {
        let mut open = self.open.lock();
        let index = open.iter().position(|target| target.address == address);
        open.remove(index.unwrap())
    }

    /// Waits until `count` requests were answered.
    pub(crate) async fn until_answered(&self, count: usize) {
        until("answers", || self.answered.load(Ordering::SeqCst) >= count).await;
    }

    /// Lets `clients` clients send `requests` requests in total, each client one after the other, and each request to
    /// the gateway that `choose` returns for its number. Checks that each answer equals its request, and returns the
    /// number of answers.
    pub(crate) async fn burst(&self, clients: usize, requests: usize, choose: impl Fn(usize) -> usize) -> usize {
        let mut under_way = JoinSet::new();
        let mut idle: Vec<_> = (0..clients).map(Sender::new).collect();
        let mut answered = 0;
        for number in 0..requests {
            let sender = match idle.pop() {
                Some(sender) => sender,
                None => self.take(under_way.join_next().await, &mut answered),
            };
            let target = self.target(choose(number));
            under_way.spawn(sender.send(target, format!("{number}")));
        }
        while let Some(ended) = under_way.join_next().await {
            self.take(Some(ended), &mut answered);
        }
        answered
    }

    fn target(&self, number: usize) -> Arc<Target> {
        let open = self.open.lock();
        let target = Arc::clone(&open[number % open.len()]);
        target.busy.fetch_add(1, Ordering::SeqCst);
        target
    }

    fn take(&self, ended: Option<Result<Sender, tokio::task::JoinError>>, answered: &mut usize) -> Sender {
        *answered += 1;
        self.answered.fetch_add(1, Ordering::SeqCst);
        let open = self.open.lock();
        let counts = open.iter().map(|target| target.answered.load(Ordering::SeqCst));
        let (least, most) = (counts.clone().min(), counts.max());
        self.lead.fetch_max(most.unwrap() - least.unwrap(), Ordering::SeqCst);
        ended.unwrap().unwrap()
    }
}

struct Sender {
    number: usize,
    /// Connections of this sender, one for each gateway.
    clients: HashMap<SocketAddr, Client>,
}

impl Sender {
    fn new(number: usize) -> Self {
        Self { number, clients: HashMap::new() }
    }

    async fn send(mut self, target: Arc<Target>, body: String) -> Self {
        match self.number % 2 {
            0 => self.http(target.address, body).await,
            _ => grpc(target.address, &body).await,
        }
        target.answered.fetch_add(1, Ordering::SeqCst);
        target.busy.fetch_sub(1, Ordering::SeqCst);
        self
    }

    async fn http(&mut self, address: SocketAddr, body: String) {
        let client = self.clients.entry(address);
        let client = client.or_insert_with(|| Client::new(address));
        let answer = client.send(post(HOST, "/", body.clone())).await.unwrap();
        assert_eq!((answer.status, answer.text()), (StatusCode::OK, &*body));
        assert_eq!(answer.header("weir-revision"), "digits-predictor-00001");
    }
}

async fn grpc(address: SocketAddr, message: &str) {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put_slice(message.as_bytes());
    let framed = framed.freeze();
    let request = Request::post(format!("http://{HOST}/some.Service/Call"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(framed.clone()))
        .unwrap();
    let mut sender = connect_h2::<Full<Bytes>>(address).await;
    let response = sender.send_request(request).await.unwrap();
    let head = response.headers().clone();
    let body = response.into_body().collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or(head);
    assert_eq!(trailers["grpc-status"], "0", "{trailers:?}");
    assert_eq!(body.to_bytes(), framed);
}
