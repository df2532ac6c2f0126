use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

async fn start(
    condition: Condition,
) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = Arc::new(crate::registry::with_process_metrics());
    let admin = Admin::new(listener, registry, Arc::new(move || condition));
    let address = admin.address().unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(admin.serve(stop.clone()));
    (address, stop, task)
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
async fn metrics_health_and_nothing_else() {
    let (address, stop, task) = start(Condition::Well).await;
    let metrics = ask(address, "GET /metrics").await;
    assert!(metrics.starts_with("HTTP/1.1 200 OK"), "{metrics}");
    assert!(metrics.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    assert!(metrics.contains("process_resident_memory_bytes"));
    assert!(
        ask(address, "GET /metrics/")
            .await
            .starts_with("HTTP/1.1 200")
    );
    assert!(ask(address, "GET /health").await.ends_with("ok\n"));
    assert!(ask(address, "GET /").await.starts_with("HTTP/1.1 404"));
    assert!(
        ask(address, "POST /metrics")
            .await
            .starts_with("HTTP/1.1 405")
    );
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn the_owner_adds_pages() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = Arc::new(crate::registry::with_process_metrics());
    let admin = Admin::new(listener, registry, Arc::new(|| Condition::Well))
        .with_page("/status", Arc::new(|| "{}".to_owned()));
    let address = admin.address().unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(admin.serve(stop.clone()));
    let page = ask(address, "GET /status").await;
    assert!(page.contains("content-type: application/json") && page.ends_with("{}"));
    let missing = ask(address, "GET /nothing").await;
    assert!(missing.ends_with("try /metrics, /health, /status\n"));
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_draining_process_says_so() {
    let (address, stop, task) = start(Condition::Draining).await;
    assert!(
        ask(address, "GET /health")
            .await
            .starts_with("HTTP/1.1 503")
    );
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn stopping_does_not_wait_for_idle_connections() {
    let (address, stop, task) = start(Condition::Well).await;
    let idle = TcpStream::connect(address).await.unwrap();
    stop.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(10), task).await;
    ended.unwrap().unwrap();
    drop(idle);
}
