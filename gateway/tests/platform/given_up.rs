//! Tests of calls that clients give up while the answers are on their way. Calls of other clients share the replica's
//! connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::StatusCode;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::client::connect_h2;
use crate::grpc;
use crate::replica::Behaviour;
use crate::world::{HOST, World, until};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const ACKNOWLEDGED: u8 = 1;
/// Headers `:status: 200` and `grpc-status: 0` in HPACK.
const ANSWER: &[u8] = b"\x88\0\x0bgrpc-status\x010";

/// A replica that answers a call only after the call was reset, as if answer and reset had crossed.
#[derive(Default)]
pub(crate) struct LateReplica {
    pub(crate) connections: AtomicUsize,
    pub(crate) calls: AtomicUsize,
    /// Set to make the replica answer at once from then on.
    pub(crate) is_prompt: AtomicBool,
}

impl LateReplica {
    /// Starts a replica, and returns its address.
    pub(crate) async fn start() -> (Arc<Self>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let replica = Arc::new(Self::default());
        tokio::spawn(Arc::clone(&replica).serve(listener));
        (replica, address)
    }

    async fn serve(self: Arc<Self>, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(Arc::clone(&self).talk(stream));
        }
    }

    async fn talk(self: Arc<Self>, mut stream: TcpStream) -> io::Result<()> {
        let mut begin = [0; PREFACE.len()];
        stream.read_exact(&mut begin).await?;
        if begin != PREFACE {
            // The connection is from a readiness probe.
            let ready = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            return stream.write_all(ready).await;
        }
        self.connections.fetch_add(1, Ordering::SeqCst);
        stream.write_all(&frame(SETTINGS, 0, [0; 4], b"")).await?;
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await?;
            let [a, b, c, kind, flags, id @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            stream.read_exact(&mut payload).await?;
            stream.write_all(&self.reply(kind, flags, id)).await?;
        }
    }

    /// Returns the frames that the replica sends in reply to a frame.
    fn reply(&self, kind: u8, flags: u8, id: [u8; 4]) -> Vec<u8> {
        match kind {
            SETTINGS if flags == 0 => frame(SETTINGS, ACKNOWLEDGED, [0; 4], b""),
            HEADERS => {
                self.calls.fetch_add(1, Ordering::SeqCst);
                if self.is_prompt.load(Ordering::SeqCst) { answer(id) } else { Vec::new() }
            }
            RESET => answer(id),
            _ => Vec::new(),
        }
    }
}

fn frame(kind: u8, flags: u8, stream: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    [&length[..], &[kind, flags], &stream, payload].concat()
}

fn answer(stream: [u8; 4]) -> Vec<u8> {
    const END_OF_STREAM_AND_HEADERS: u8 = 5;
    frame(HEADERS, END_OF_STREAM_AND_HEADERS, stream, ANSWER)
}

/// Number of rounds of [`CALLS`] calls: together more calls than h2 accepts late answers for before it ends the
/// connection.
const ROUNDS: usize = 3;
const CALLS: usize = 450;

#[tokio::test]
async fn calls_that_are_given_up_do_not_end_other_calls() {
    let (replica, address) = LateReplica::start().await;
    let world = World::new(1).await;
    world.serve_limited(&[100], Some(1000), |_| {}).await;
    world.put(1, "a", address).await;
    let call = || grpc::call(HOST, grpc::INFER, Full::new(grpc::infer("digits")));
    let mut sender = connect_h2(world.address()).await;
    for round in 1..=ROUNDS {
        let calls: Vec<_> = (0..CALLS).map(|_| sender.send_request(call())).collect();
        let calls: Vec<_> = calls.into_iter().map(tokio::spawn).collect();
        until("the replica to have the calls", || replica.calls.load(Ordering::SeqCst) >= round * CALLS).await;
        calls.iter().for_each(tokio::task::JoinHandle::abort);
        world.activity(1, |activity| activity.in_flight == 0).await;
    }
    replica.is_prompt.store(true, Ordering::SeqCst);
    let answer = sender.send_request(call()).await.unwrap();
    let (code, message) = {
        let ended = grpc::ended(answer).await;
        let (code, message) = grpc::status(&ended);
        (code.to_owned(), message)
    };
    assert_eq!(code, "0", "{message}");
    assert_eq!(replica.connections.load(Ordering::SeqCst), 1);
}

/// If this counted as a failure of the revision, clients could force a rollback.
#[tokio::test]
async fn a_head_that_is_too_long_for_a_replica_is_its_clients_fault() {
    let gate = Arc::new(tokio::sync::Semaphore::new(9));
    let (world, _replica) = World::with(Behaviour::Compute(gate, |_, _| {
        let mut response = http::Response::default();
        *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        response
    }))
    .await;
    let call = grpc::call(HOST, grpc::INFER, Full::new(grpc::infer("digits")));
    let mut sender = connect_h2(world.address()).await;
    let answer = sender.send_request(call).await.unwrap();
    assert_eq!(answer.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    world.activity(1, |activity| (activity.succeeded, activity.failed) == (1, 0)).await;
}
