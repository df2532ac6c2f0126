//! Progress of the downloads in pods, which their init containers report over HTTP.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use weir_cluster::RevisionName;
use weir_fetch::DownloadReport;

use crate::Kubernetes;
use crate::view::notes::{Downloads, FetchingPods};
use crate::view::observed::Change;
use crate::watch::watch_cache::Key;

/// Time between two rounds, and so the least time between two statuses that differ only in the progress.
const PERIOD: Duration = Duration::from_secs(5);

/// Time for one pod's report.
const DEADLINE: Duration = Duration::from_secs(1);

/// Time for all reports of a round. Pods that are not reached by then have no progress until the next round.
const ROUND: Duration = Duration::from_secs(4);

/// Number of pods that are queried concurrently in one round.
const AT_ONCE: usize = 32;

/// Number of pods that are queried per revision: a condition shows the progress of only one.
const PER_REVISION: usize = 2;

/// Maximum length of a response's head, in bytes.
const MAX_HEAD: usize = 1024;

const REQUEST: &[u8] = b"GET /progress HTTP/1.1\r\nHost: storage-initializer\r\nConnection: close\r\n\r\n";

impl Kubernetes {
    /// Queries the pods that fetch their models for their progress every five seconds; the snapshots then show it.
    /// Never returns.
    pub async fn follow_downloads(&self) {
        loop {
            sleep(PERIOD).await;
            let pods = asked(&self.notes.fetching.lock());
            if !pods.is_empty() {
                // The channel is closed only when the watch task has ended, and then no reader is left.
                let _ = self.writes.send(Change::Downloads(downloads(pods).await)).await;
            }
        }
    }
}

/// Returns the first pods of each revision.
fn asked(fetching: &FetchingPods) -> Vec<(Key, SocketAddr)> {
    let mut counts = BTreeMap::<&RevisionName, usize>::new();
    let mut pods = Vec::new();
    for (key, pod) in fetching {
        let count = counts.entry(&pod.revision).or_default();
        *count += 1;
        if *count <= PER_REVISION {
            pods.push((key.clone(), pod.address));
        }
    }
    pods
}

async fn downloads(pods: Vec<(Key, SocketAddr)>) -> Downloads {
    let answers = stream::iter(pods).map(async |(key, address)| {
        let report = timeout(DEADLINE, ask(address)).await.ok().flatten()?;
        Some((key, report.to_string().into()))
    });
    let in_time = answers.buffer_unordered(AT_ONCE).take_until(sleep(ROUND));
    in_time.filter_map(async |answer| answer).collect().await
}

/// Reads the report of one pod; `None` if the pod does not answer with one. No more bytes are read than the longest
/// report has.
async fn ask(address: SocketAddr) -> Option<DownloadReport> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(REQUEST).await.ok()?;
    let mut response = Vec::new();
    let limit = (MAX_HEAD + DownloadReport::MAX_LENGTH) as u64;
    stream.take(limit).read_to_end(&mut response).await.ok()?;
    report(&response)
}

fn report(response: &[u8]) -> Option<DownloadReport> {
    let response = response.strip_prefix(b"HTTP/1.1 200 ")?;
    let end = response.windows(4).position(|end| end == b"\r\n\r\n")?;
    DownloadReport::from_json(&response[end + 4..])
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;
    use weir_cluster::ServiceName;

    use super::*;
    use crate::view::notes::FetchingPod;

    fn key(name: &str) -> Key {
        ("vision".to_owned(), name.to_owned())
    }

    #[test]
    fn two_pods_of_each_revision_are_asked() {
        let service = ServiceName::new("vision", "digits").unwrap();
        let pod = |number| FetchingPod {
            revision: service.revision(number).unwrap(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
        };
        let pods = [("a", 1), ("b", 1), ("c", 1), ("d", 2)];
        let fetching = pods.map(|(name, number)| (key(name), pod(number))).into();
        let names: Vec<_> = asked(&fetching).into_iter().map(|((_, name), _)| name).collect();
        assert_eq!(names, ["a", "b", "d"]);
    }

    #[test]
    fn only_a_whole_report_counts() {
        let of = |text: &str| report(text.as_bytes()).map(|report| report.to_string());
        let whole = r#"{"progress":{"done":5,"total":10,"rate":5}}"#;
        let text = "fetching 5 of 10 B, 5 B/s, 1 s left";
        assert_eq!(of(&format!("HTTP/1.1 200 OK\r\nX: y\r\n\r\n{whole}")).as_deref(), Some(text));
        for other in ["", "HTTP/1.1 404 Not Found\r\n\r\n{}", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n{}", "{}"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }

    /// Returns the address of a server that sends this to each connection, and then nothing more.
    async fn server(sent: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut open = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.write_all(sent).await;
                open.push(stream);
            }
        });
        address
    }

    #[tokio::test]
    async fn pods_that_do_not_answer_or_send_too_much_have_no_progress() {
        let endless: &'static [u8] = Box::leak(vec![b'x'; 1 << 20].into_boxed_slice());
        let pods = vec![(key("silent"), server(b"").await), (key("endless"), server(endless).await)];
        assert_eq!(downloads(pods).await, Downloads::default());
    }
}
