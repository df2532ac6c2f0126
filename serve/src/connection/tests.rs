//! Tests of one connection. Time is paused: it advances only to the next timer.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::idle::IDLE_AFTER;
use super::*;
use crate::lifetime::LATE_REQUESTS;
use crate::{Acceptor, ConnectionLimits, HttpOptions, Pace};

const ASK: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);

const LIMITS: ConnectionLimits = ConnectionLimits {
    total: 1,
    per_client: 1,
    idle: HEADER_TIMEOUT,
    stall: HEADER_TIMEOUT,
    pace: Pace { grace: HEADER_TIMEOUT, rate: 1024 },
};

/// Bytes of a response that is larger than any socket buffer.
const LARGE: usize = 64 << 20;

fn port(stop: &CancellationToken) -> HttpPort {
    HttpPort::new(HttpOptions::control(LIMITS, 16), stop.clone())
}

/// Serves a connection; each response's body has `length` bytes.
fn answered<I>(stream: I, traffic: Arc<Traffic>, length: usize, stop: &CancellationToken) -> JoinHandle<()>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let port = port(stop);
    tokio::spawn(async move {
        let body = Bytes::from(vec![b'x'; length]);
        let service = service_fn(move |_: Request<Incoming>| {
            std::future::ready(Ok::<_, Infallible>(Response::new(Full::new(body.clone()))))
        });
        port.serve(stream, service, &traffic).await;
    })
}

fn connection() -> (DuplexStream, JoinHandle<()>, CancellationToken) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let stop = CancellationToken::new();
    let served = answered(near, Arc::default(), 2, &stop);
    (far, served, stop)
}

async fn answer(client: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nxx") {
        client.read_buf(&mut answer).await.unwrap();
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test(start_paused = true)]
async fn requests_are_answered_after_each_pause() {
    let (mut client, _served, _stop) = connection();
    for pause in [0, 1, 3, 3, 60, 0, 70] {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        client.write_all(ASK).await.unwrap();
        assert!(answer(&mut client).await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_split_by_a_pause_is_one_head() {
    let (mut client, _served, _stop) = connection();
    client.write_all(ASK).await.unwrap();
    answer(&mut client).await;
    for piece in ASK.chunks(4) {
        client.write_all(piece).await.unwrap();
        tokio::time::sleep(IDLE_AFTER).await;
    }
    assert!(answer(&mut client).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_never_ends_times_out_like_any_other() {
    for (before, pause) in [("", 0), ("", 3), ("GE", 0), ("GET", 3)] {
        let (mut client, served, _stop) = connection();
        client.write_all(ASK).await.unwrap();
        answer(&mut client).await;
        let begun = crate::clock::now();
        client.write_all(before.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(pause)).await;
        client.write_all(b"P").await.unwrap();
        served.await.unwrap();
        let took = begun.elapsed().as_secs();
        assert!((74..=76).contains(&took), "{took} s after {before:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_is_disconnected() {
    let (mut client, served, _stop) = connection();
    client.write_all(b"PRI").await.unwrap();
    let begun = crate::clock::now();
    served.await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), HEADER_TIMEOUT.as_secs());
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_closes_with_the_port() {
    let (mut client, served, stop) = connection();
    client.write_all(ASK).await.unwrap();
    answer(&mut client).await;
    tokio::time::sleep(2 * IDLE_AFTER).await;
    stop.cancel();
    served.await.unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_on_its_way_when_the_port_closed_is_answered() {
    // Without a pause hyper holds the connection; after the idle time only its socket is left.
    for pause in [Duration::ZERO, 2 * IDLE_AFTER] {
        let (mut client, served, stop) = connection();
        client.write_all(ASK).await.unwrap();
        answer(&mut client).await;
        tokio::time::sleep(pause).await;
        stop.cancel();
        tokio::time::sleep(LATE_REQUESTS / 2).await;
        client.write_all(ASK).await.unwrap();
        assert!(answer(&mut client).await.starts_with("HTTP/1.1 200"));
        served.await.unwrap();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_the_whole_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let acceptor = Acceptor::new(listener, LIMITS, stop.clone());
    let (client, stream) = tokio::join!(TcpStream::connect(address), acceptor.accept());
    let (mut client, stream) = (client.unwrap(), stream.unwrap());
    let traffic = stream.traffic();
    let _served = answered(stream, traffic, LARGE, &stop);
    client.write_all(ASK).await.unwrap();
    tokio::time::sleep(3 * IDLE_AFTER).await;
    // From here on the test waits for sockets, so time has to run.
    tokio::time::resume();
    let mut all = 0;
    let mut piece = vec![0; 1 << 20];
    while all < LARGE {
        match client.read(&mut piece).await.unwrap() {
            0 => panic!("the response ended after {all} bytes"),
            some => all += some,
        }
    }
}

#[tokio::test]
async fn requests_that_arrive_together_begin_in_different_polls_of_the_connection() {
    const REQUESTS: usize = 40;
    let (near, mut far) = tokio::io::duplex(1 << 16);
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let service = service_fn(move |_: Request<Incoming>| {
        let counted = Arc::clone(&counted);
        async move {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"xx"))))
        }
    });
    far.write_all(&ASK.repeat(REQUESTS)).await.unwrap();
    let (port, traffic) = (port(&CancellationToken::new()), Arc::default());
    let mut served = pin!(port.serve(near, service, &traffic));
    let mut before = 0;
    while before < REQUESTS {
        let polled = poll_fn(|context| Poll::Ready(served.as_mut().poll(context))).await;
        let now = begun.load(Ordering::Relaxed);
        assert!(polled.is_pending() && now <= before + 1, "{now} requests after {before}");
        before = now;
    }
}
