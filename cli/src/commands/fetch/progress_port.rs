//! Port on which a running download reports its progress, as JSON on `GET /progress`.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use weir_fetch::DownloadReport;

/// Maximum number of connections at the same time; further ones wait.
const CONNECTIONS: usize = 8;

/// Time for one request and its response.
const DEADLINE: Duration = Duration::from_secs(1);

/// Maximum length of a request's head, in bytes.
const MAX_HEAD: usize = 2048;

/// Pause after a connection that could not be accepted, for instance because too many files are open.
const PAUSE: Duration = Duration::from_secs(1);

/// Binds the port on all addresses of this machine, of both families if it has IPv6.
pub(super) async fn bind(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
    }
}

/// Answers requests with the latest report, for as long as the future is polled.
pub(super) async fn serve(listener: TcpListener, reports: watch::Receiver<DownloadReport>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let report = reports.borrow().clone();
                connections.spawn(tokio::time::timeout(DEADLINE, answer(stream, report)));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn answer(mut stream: TcpStream, report: DownloadReport) -> io::Result<()> {
    let mut head = Vec::with_capacity(MAX_HEAD);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let missing = MAX_HEAD - head.len();
        if missing == 0 || (&mut stream).take(missing as u64).read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    stream.write_all(response(&head, &report).as_bytes()).await?;
    stream.shutdown().await
}

fn response(head: &[u8], report: &DownloadReport) -> String {
    let (status, body) = if head.starts_with(b"GET /progress ") {
        ("200 OK", report.to_json())
    } else {
        ("404 Not Found", String::new())
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use weir_fetch::{Attempt, Progress};

    use super::*;

    async fn exchange(port: u16, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        // The server may close the connection before all of a long request is sent.
        let _ = stream.write_all(request).await;
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        String::from_utf8(response).unwrap()
    }

    #[tokio::test]
    async fn the_port_reports_the_progress() {
        let (sender, receiver) = watch::channel(DownloadReport::default());
        let listener = bind(0).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = async {
            let progress = Progress { done: 5, total: Some(7), rate: 1 };
            sender.send_modify(|report| report.observe(Attempt::Progressed(progress)));
            let response = exchange(port, b"GET /progress HTTP/1.1\r\nHost: a\r\n\r\n").await;
            let (head, body) = response.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            assert_eq!(DownloadReport::from_json(body.as_bytes()), Some(sender.borrow().clone()));
            assert!(exchange(port, b"GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404 "));
            assert_eq!(exchange(port, &[b'x'; 4 * MAX_HEAD]).await, "");
        };
        tokio::select! {
            () = serve(listener, receiver) => unreachable!("the port is served for ever"),
            () = requests => {}
        }
    }
}
