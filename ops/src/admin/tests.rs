use bytes::Bytes;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// Address of a server, the token that stops it, and its task.
type Running = (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>);

fn run(admin: Admin) -> Running {
    let address = admin.address().unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(admin.serve(stop.clone()));
    (address, stop, task)
}

async fn start(health: Health) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = Arc::new(crate::registry::with_process_metrics());
    let admin = Admin::new(listener, registry, Arc::new(move || health));
    run(admin)
}

async fn ask(address: SocketAddr, line: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn only_metrics_and_health_are_served() {
    let (address, stop, task) = start(Health::Serving).await;
    let metrics = ask(address, "GET /metrics").await;
    assert!(metrics.starts_with("HTTP/1.1 200 OK"), "{metrics}");
    assert!(metrics.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    assert!(metrics.contains("process_resident_memory_bytes"));
    assert!(ask(address, "GET /metrics/").await.starts_with("HTTP/1.1 200"));
    assert!(ask(address, "GET /health").await.ends_with("ok\n"));
    assert!(ask(address, "GET /x").await.starts_with("HTTP/1.1 404"));
    assert!(ask(address, "POST /metrics").await.starts_with("HTTP/1.1 405"));
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn the_owner_adds_pages() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = Arc::new(crate::registry::with_process_metrics());
    let admin =
        Admin::new(listener, registry, Arc::new(|| Health::Serving)).with_page("/status", Arc::new(|| "{}".to_owned()));
    let (address, stop, task) = run(admin);
    let page = ask(address, "GET /status").await;
    assert!(page.contains("content-type: application/json") && page.ends_with("{}"));
    let index = ask(address, "GET /").await;
    assert!(index.starts_with("HTTP/1.1 200") && index.contains("content-type: text/html"));
    for page in ["/metrics", "/health", "/status"] {
        assert!(index.contains(&format!("<a href=\"{page}\">")), "{index}");
    }
    let missing = ask(address, "GET /nothing").await;
    assert!(missing.ends_with("try /metrics, /health, /status\n"));
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_draining_process_is_unhealthy() {
    let (address, stop, task) = start(Health::Draining).await;
    assert!(ask(address, "GET /health").await.starts_with("HTTP/1.1 503"));
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn stopping_does_not_wait_for_idle_connections() {
    let (address, stop, task) = start(Health::Serving).await;
    let idle = TcpStream::connect(address).await.unwrap();
    stop.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(10), task).await;
    ended.unwrap().unwrap();
    drop(idle);
}

/// Starts a server whose service under `/echo/` responds with the path and HTTP version of the request.
async fn start_with_service() -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = Arc::new(crate::registry::with_process_metrics());
    let echo = tower::service_fn(|request: Request| async move {
        let text = format!("{} {:?}", request.uri().path(), request.version());
        Ok::<_, Infallible>(text.into_response())
    });
    let admin = Admin::new(listener, registry, Arc::new(|| Health::Serving)).with_service("/echo/", echo);
    run(admin)
}

async fn ask_http2(address: SocketAddr, path: &str) -> (StatusCode, Bytes) {
    let stream = TcpStream::connect(address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let handshake = hyper::client::conn::http2::handshake(executor, io);
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(format!("http://{address}{path}"));
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status();
    let body = http_body_util::BodyExt::collect(response.into_body()).await;
    (status, body.unwrap().to_bytes())
}

#[tokio::test]
async fn services_and_pages_are_reached_over_both_versions() {
    let (address, stop, task) = start_with_service().await;
    let answer = ask(address, "GET /echo/x").await;
    assert!(answer.ends_with("/echo/x HTTP/1.1"), "{answer}");
    let (status, text) = ask_http2(address, "/echo/y").await;
    assert_eq!((status, &*text), (StatusCode::OK, &b"/echo/y HTTP/2.0"[..]));
    assert_eq!(ask_http2(address, "/health").await.1, "ok\n");
    assert_eq!(ask_http2(address, "/echo").await.0, StatusCode::NOT_FOUND);
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_sends_no_complete_request_is_closed() {
    let (address, _stop, _task) = start_with_service().await;
    const SETTINGS: &str = "\0\0\0\u{4}\0\0\0\0\0";
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let with_settings = format!("{preface}{SETTINGS}");
    for beginning in ["", "PRI * HT", preface, &with_settings, "GET / HTTP/1.1\r\n"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(beginning.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // At most the HTTP/2 settings of the server arrive. A reset, which is an error here, ends the connection as
        // well.
        let _ = stream.read_to_end(&mut answer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_never_comes_ends_its_call() {
    let (address, _stop, _task) = start_with_reader().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = b"POST /read/x HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nsome";
    stream.write_all(head).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("broke off"), "{answer}");
}

/// Starts a server whose service under `/read/` reads the request's body.
async fn start_with_reader() -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = Arc::new(crate::registry::with_process_metrics());
    let read = tower::service_fn(|request: Request| async move {
        let read = http_body_util::BodyExt::collect(request.into_body()).await;
        let text = match read {
            Ok(_) => "whole",
            Err(_) => "broke off",
        };
        Ok::<_, Infallible>(text.into_response())
    });
    let admin = Admin::new(listener, registry, Arc::new(|| Health::Serving)).with_service("/read/", read);
    run(admin)
}

#[tokio::test]
async fn one_client_leaves_places_for_others() {
    let (address, stop, task) = start(Health::Serving).await;
    let mut held = Vec::new();
    for _ in 0..LIMITS.total {
        held.push(TcpStream::connect(address).await.unwrap());
    }
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(address).await.unwrap();
    let request = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    other.write_all(request).await.unwrap();
    let mut answer = String::new();
    let read = other.read_to_string(&mut answer);
    let read = tokio::time::timeout(Duration::from_secs(10), read).await;
    read.unwrap().unwrap();
    assert!(answer.ends_with("ok\n"), "{answer}");
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn requests_of_other_sites_pages_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = Arc::new(crate::registry::with_process_metrics());
    let hosts = KnownHosts::of("127.0.0.1".parse().unwrap(), &[]);
    let admin = Admin::new(listener, registry, Arc::new(|| Health::Serving)).with_hosts(hosts);
    let (address, stop, task) = run(admin);
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: evil.com\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(ask_http2(address, "/health").await.0, StatusCode::OK);
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn metrics_may_need_a_key() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = Arc::new(crate::registry::with_process_metrics());
    let admin = Admin::new(listener, registry, Arc::new(|| Health::Serving))
        .with_metrics_for(Arc::new(|headers| headers.contains_key("x-key")));
    let (address, stop, task) = run(admin);
    for path in ["/metrics", "/metrics/", "/metrics?a=b"] {
        let answer = ask(address, &format!("GET {path}")).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    }
    assert!(ask(address, "GET /health").await.starts_with("HTTP/1.1 200"));
    stop.cancel();
    task.await.unwrap();
}

/// Opens a connection, sends one request, and returns the connection, still open, with the response.
async fn called(address: SocketAddr, path: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 1024];
    let read = stream.read(&mut answer).await.unwrap();
    answer.truncate(read);
    (stream, String::from_utf8(answer).unwrap())
}

#[tokio::test]
async fn connections_to_a_service_are_limited_separately() {
    let (address, stop, task) = start_with_service().await;
    let mut held = Vec::new();
    for _ in 0..LIMITS.per_client {
        let (stream, answer) = called(address, "/echo/x").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        held.push(stream);
    }
    // Connections to the service leave the other connections' places free, and stay within their own limit.
    let (_, refused) = called(address, "/echo/x").await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(ask(address, "GET /health").await.ends_with("ok\n"));
    held.pop();
    let mut answer = String::new();
    while !answer.starts_with("HTTP/1.1 200") {
        answer = called(address, "/echo/x").await.1;
    }
    stop.cancel();
    drop(held);
    task.await.unwrap();
}
