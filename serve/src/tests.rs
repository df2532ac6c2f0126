use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::bind::CLIENTS;
use crate::lifetime::close;

/// Longer than any test needs on a busy machine, and shorter than any of the waits that the tests expect to be cut
/// short.
const DEADLINE: Duration = Duration::from_secs(20);

/// Idle timeout that no test reaches.
const LONG: Duration = Duration::from_secs(3_600);

struct Server {
    acceptor: Acceptor,
    stop: CancellationToken,
    client: TcpStream,
}

fn limits(stall: Duration) -> ConnectionLimits {
    ConnectionLimits { total: 10, per_client: 10, idle: LONG, stall, pace: Pace::default() }
}

/// Starts a port and connects a client to it.
async fn server(stall: Duration) -> Server {
    let listener = bind((Ipv4Addr::LOCALHOST, 0).into(), PortUse::Exclusive).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let stop = CancellationToken::new();
    Server { acceptor: Acceptor::new(listener, limits(stall), stop.clone()), stop, client }
}

/// Polls a future once.
async fn poll_once<F: Future>(mut work: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await
}

/// Answers requests on one connection until `stop`, and then ends it.
async fn respond(stream: Stream, stop: CancellationToken, permission: CancellationToken) {
    let traffic = stream.traffic();
    let seen = Arc::clone(&traffic);
    let service = service_fn(move |_: Request<Incoming>| {
        let (exchange, permission) = (seen.begin(), permission.clone());
        async move {
            permission.cancelled().await;
            let response = Response::new(Full::new(Bytes::from_static(b"answered")));
            Ok::<_, Infallible>(exchange.track(response))
        }
    });
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let _ = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => close(connection, &traffic).await,
    };
}

#[test]
fn an_address_that_cannot_be_bound_has_advice() {
    let advice_for = |kind| advice(&std::io::Error::from(kind));
    assert!(advice_for(std::io::ErrorKind::PermissionDenied).contains("below 1024"));
    assert!(advice_for(std::io::ErrorKind::AddrNotAvailable).contains("`ip addr`"));
    assert_eq!(advice_for(std::io::ErrorKind::OutOfMemory), "");
}

#[tokio::test]
async fn half_a_head_does_not_delay_the_shutdown() {
    let mut server = server(LONG).await;
    server.client.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
    let stream = server.acceptor.accept().await.unwrap();
    let answering = respond(stream, server.stop.clone(), CancellationToken::new());
    let mut answering = std::pin::pin!(answering);
    // The server reads the part of the head that has arrived, and waits for the rest.
    assert!(poll_once(answering.as_mut()).await.is_pending());
    server.stop.cancel();
    tokio::time::timeout(DEADLINE, answering).await.unwrap();
    assert!(server.acceptor.accept().await.is_none());
}

#[tokio::test]
async fn a_complete_request_is_answered() {
    let mut server = server(LONG).await;
    let head = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    server.client.write_all(head).await.unwrap();
    let stream = server.acceptor.accept().await.unwrap();
    let traffic = stream.traffic();
    let permission = CancellationToken::new();
    let responding = respond(stream, server.stop.clone(), permission.clone());
    let task = tokio::spawn(responding);
    let is_open = async {
        while traffic.open() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, is_open).await.unwrap();
    server.stop.cancel();
    // Waits longer than the server waits for a client without a request.
    let early = tokio::time::timeout(GRACE * 3, server.client.readable());
    assert!(early.await.is_err());
    permission.cancel();
    let mut text = String::new();
    server.client.read_to_string(&mut text).await.unwrap();
    assert!(text.ends_with("answered"), "{text}");
    task.await.unwrap();
}

#[tokio::test]
async fn a_silent_connection_reads_as_closed_at_shutdown() {
    let server = server(LONG).await;
    let mut stream = server.acceptor.accept().await.unwrap();
    server.stop.cancel();
    let read = tokio::time::timeout(DEADLINE, stream.read(&mut [0; 1])).await;
    assert_eq!(read.unwrap().unwrap(), 0);
    assert!(server.acceptor.accept().await.is_none());
}

#[tokio::test]
async fn a_connection_in_the_backlog_at_shutdown_is_served() {
    let mut server = server(LONG).await;
    let head = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    server.client.write_all(head).await.unwrap();
    let (stop, permission) = (server.stop, CancellationToken::new());
    permission.cancel();
    stop.cancel();
    let connection = |stream| respond(stream, stop.clone(), permission.clone());
    let serving = server.acceptor.serve(connection);
    tokio::time::timeout(DEADLINE, serving).await.unwrap();
    let mut text = String::new();
    server.client.read_to_string(&mut text).await.unwrap();
    assert!(text.ends_with("answered"), "{text}");
}

/// Writes until the port drops the client.
async fn until_dropped(stream: &mut (impl AsyncWriteExt + Unpin)) {
    let flood = async {
        loop {
            if let Err(error) = stream.write_all(&[0; 1 << 16]).await {
                return error;
            }
        }
    };
    let error = tokio::time::timeout(DEADLINE, flood).await.unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_dropped() {
    let server = server(Duration::from_millis(200)).await;
    let mut stream = server.acceptor.accept().await.unwrap();
    until_dropped(&mut stream).await;
    assert!(stream.traffic().written() > 0);
}

#[tokio::test]
async fn dead_peers_are_noticed() {
    // Accepted connections inherit the listener's options.
    let listener = bind((Ipv4Addr::LOCALHOST, 0).into(), PortUse::Exclusive).unwrap();
    let address = listener.local_addr().unwrap();
    let (accepted, client) = tokio::join!(listener.accept(), TcpStream::connect(address));
    let (accepted, _client) = (accepted.unwrap().0, client.unwrap());
    let socket = socket2::SockRef::from(&accepted);
    assert!(socket.keepalive().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), CLIENTS.time);
    assert_eq!(socket.tcp_keepalive_interval().unwrap(), CLIENTS.interval);
    assert_eq!(socket.tcp_keepalive_retries().unwrap(), CLIENTS.probes);
    #[cfg(target_os = "linux")]
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(60)));
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_is_dropped() {
    let limits = ConnectionLimits { pace: Pace { grace: Duration::from_millis(400), rate: 1 << 30 }, ..limits(LONG) };
    let listener = bind((Ipv4Addr::LOCALHOST, 0).into(), PortUse::Exclusive).unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = Acceptor::new(listener, limits, CancellationToken::new());
    let (client, stream) = tokio::join!(TcpStream::connect(address), acceptor.accept());
    let (mut client, mut stream) = (client.unwrap(), stream.unwrap());
    let taking = tokio::spawn(async move {
        let mut some = vec![0; 1 << 20];
        while let Ok(1..) = client.read(&mut some).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    until_dropped(&mut stream).await;
    taking.abort();
}

/// Binds a port on which a client may have one connection.
fn narrow_port() -> (Acceptor, std::net::SocketAddr) {
    let limits = ConnectionLimits { per_client: 1, ..limits(LONG) };
    let listener = bind((Ipv4Addr::LOCALHOST, 0).into(), PortUse::Exclusive).unwrap();
    let address = listener.local_addr().unwrap();
    (Acceptor::new(listener, limits, CancellationToken::new()), address)
}

#[tokio::test]
async fn a_new_connection_waits_until_the_port_notices_the_end_of_the_previous_one() {
    let (acceptor, address) = narrow_port();
    let first = TcpStream::connect(address).await.unwrap();
    let served = acceptor.accept().await.unwrap();
    drop(first);
    let mut second = TcpStream::connect(address).await.unwrap();
    let mut next = std::pin::pin!(acceptor.accept());
    for _ in 0..100 {
        assert!(poll_once(next.as_mut()).await.is_pending());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(served);
    let next = tokio::time::timeout(DEADLINE, next).await.unwrap();
    next.unwrap().write_all(b"x").await.unwrap();
    assert_eq!(second.read_u8().await.unwrap(), b'x');
}

#[tokio::test]
async fn one_connection_over_the_limit_waits_a_moment_and_further_ones_are_closed_at_once() {
    let (acceptor, address) = narrow_port();
    let _first = TcpStream::connect(address).await.unwrap();
    let _served = acceptor.accept().await.unwrap();
    let mut waits = TcpStream::connect(address).await.unwrap();
    let mut beyond = TcpStream::connect(address).await.unwrap();
    let closed = async {
        beyond.read_u8().await.unwrap_err();
        let pending = poll_once(std::pin::pin!(waits.read_u8())).await.is_pending();
        waits.read_u8().await.unwrap_err();
        pending
    };
    let was_waiting = tokio::select! {
        _ = acceptor.accept() => panic!("nobody has a place"),
        waiting = tokio::time::timeout(DEADLINE, closed) => waiting.unwrap(),
    };
    assert!(was_waiting);
}
