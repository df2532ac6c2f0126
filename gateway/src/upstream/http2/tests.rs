use http::header::HeaderMap;
use http::uri::PathAndQuery;
use http::{Method, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use weir_cluster::Address;

use super::*;
use crate::upstream::RequestBody;

type Server = h2::server::Connection<TcpStream, Bytes>;
type Call = h2::server::SendResponse<Bytes>;

async fn accepted(listener: &TcpListener) -> Server {
    let (socket, _) = listener.accept().await.unwrap();
    h2::server::handshake(socket).await.unwrap()
}

async fn call(server: &mut Server) -> Call {
    server.accept().await.unwrap().unwrap().1
}

fn answer(mut call: Call, status: StatusCode) {
    let mut response = Response::new(());
    *response.status_mut() = status;
    call.send_response(response, true).unwrap();
}

async fn asked(channel: &GrpcChannel, address: &Address) -> Result<StatusCode, UpstreamErrorKind> {
    let (path, headers) = (PathAndQuery::from_static("/a.B/C"), HeaderMap::new());
    let request = || UpstreamRequest::plain(&Method::POST, &path, &headers, RequestBody::empty());
    let response = channel.send(Dialing { address, tls: None }, Freshness::Any, request).await;
    response.map(|head| head.status()).map_err(|error| error.kind)
}

/// A replica that shuts down sends GOAWAY and answers its open calls.
#[tokio::test]
async fn a_closing_connection_answers_open_calls_and_gets_no_new_ones() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let channel = GrpcChannel::default();
    let (ending, has_ended) = oneshot::channel();
    let replica = async {
        let mut first = accepted(&listener).await;
        let kept = call(&mut first).await;
        first.graceful_shutdown();
        // GOAWAY is sent while the next connection is accepted. A call that arrives before the client has read it is
        // refused.
        let mut second = loop {
            tokio::select! {
                second = accepted(&listener) => break second,
                call = first.accept() => call.unwrap().unwrap().1.send_reset(Reason::REFUSED_STREAM),
            }
        };
        answer(call(&mut second).await, StatusCode::CREATED);
        answer(kept, StatusCode::OK);
        let rest = async { while second.accept().await.is_some() {} };
        let last = async { while first.accept().await.is_some() {} };
        tokio::select! {
            ((), ()) = async { tokio::join!(rest, last) } => {}
            _ = has_ended => {}
        }
    };
    let client = async {
        let first = asked(&channel, &address);
        let later = async {
            loop {
                match asked(&channel, &address).await {
                    Err(UpstreamErrorKind::ConnectFailed) => {}
                    answered => return answered,
                }
            }
        };
        let both = tokio::join!(first, later);
        ending.send(()).unwrap();
        both
    };
    let ((), both) = tokio::join!(replica, client);
    assert_eq!(both, (Ok(StatusCode::OK), Ok(StatusCode::CREATED)));
}

#[tokio::test]
async fn a_refused_call_counts_as_connect_failed_and_any_other_reset_as_broken() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let channel = GrpcChannel::default();
    let replica = async {
        let mut server = accepted(&listener).await;
        for reason in [Reason::REFUSED_STREAM, Reason::INTERNAL_ERROR] {
            call(&mut server).await.send_reset(reason);
        }
        while server.accept().await.is_some() {}
    };
    let client = async {
        assert_eq!(asked(&channel, &address).await, Err(UpstreamErrorKind::ConnectFailed));
        assert_eq!(asked(&channel, &address).await, Err(UpstreamErrorKind::Broken));
    };
    tokio::select! {
        () = replica => panic!("the connection ended"),
        () = client => {}
    }
}

/// A vanished node answers no attempt to connect. Without sharing the failure, each call would wait for the attempts of
/// all earlier calls and then for its own.
#[tokio::test]
async fn calls_that_wait_for_an_attempt_to_connect_fail_with_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let channel = GrpcChannel::default();
    let attempt = channel.connecting.lock().await;
    let calls = async { tokio::join!(asked(&channel, &address), asked(&channel, &address)) };
    let fails = async {
        // Both calls are waiting now, because they were polled first.
        channel.connections.lock().note_failure(&UpstreamError::connect_failed("no answer within 2 s".to_owned()));
        drop(attempt);
    };
    let (both, ()) = tokio::join!(calls, fails);
    let failed: Result<StatusCode, _> = Err(UpstreamErrorKind::ConnectFailed);
    assert_eq!(both, (failed, failed));
    // The next call makes a new attempt.
    let next = asked(&channel, &address);
    tokio::select! {
        _ = next => panic!("the server never answers"),
        connected = listener.accept() => assert!(connected.is_ok()),
    }
}
