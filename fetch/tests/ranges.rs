//! Large files from real servers that support ranges, and do not always keep their word.

#![expect(clippy::unwrap_used, reason = "a test may end at once")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_fetch::{Attempt, FetchError, Limits};

/// Bytes of one read.
const PIECE: usize = 8 << 20;

/// Action of the server in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Sends the range that was asked for.
    Serve,
    /// Sends the whole file with status 200.
    IgnoreRange,
    /// Sends this many of the bytes, and closes the connection.
    Cut(usize),
    /// Sends this many of the bytes, and resets the connection.
    Reset(usize),
    /// Sends the head and nothing more.
    Stall,
    /// Answers with this status, and `Retry-After: 1`.
    Busy(u16),
    /// Sends the range of the version with this tag, though the request has `If-Range` of another one.
    OfVersion(usize),
}

struct Server {
    url: String,
    heads: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Server {
    /// Starts a server. `act` gets the number of the request, from 0, and its head.
    fn start(content: Vec<u8>, act: impl Fn(usize, &str) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/model.bin", listener.local_addr().unwrap());
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (seen, content, act) = (heads.clone(), Arc::new(content), Arc::new(act));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, content, act) = (seen.clone(), content.clone(), act.clone());
                std::thread::spawn(move || answer(stream.unwrap(), &content, &seen, &*act));
            }
        });
        Self { url, heads }
    }

    fn requests(&self) -> usize {
        self.heads.lock().unwrap().len()
    }
}

fn answer(
    mut stream: TcpStream,
    content: &[u8],
    seen: &Mutex<Vec<(Instant, String)>>,
    act: &dyn Fn(usize, &str) -> Act,
) {
    let lines = BufReader::new(&stream).lines().map(Result::unwrap);
    let head = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n").to_lowercase();
    let number = {
        let mut seen = seen.lock().unwrap();
        #[expect(clippy::disallowed_methods, reason = "the test checks the time between requests")]
        seen.push((Instant::now(), head.clone()));
        seen.len() - 1
    };
    let act = act(number, &head);
    let whole = (0, content.len());
    let (start, end) = if act == Act::IgnoreRange { whole } else { range(&head, content.len()).unwrap_or(whole) };
    let (mut bytes, tag) = (content[start..end].to_vec(), if let Act::OfVersion(tag) = act { tag } else { 1 });
    let status = if (start, end) == whole { "200 OK" } else { "206 Partial Content" };
    if let Act::Busy(status) = act {
        let _ =
            write!(stream, "HTTP/1.1 {status} X\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        return;
    }
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\netag: \"{tag}\"\r\ncontent-range: bytes {start}-{}/{}\r\ncontent-length: {}\r\nconnection: \
         close\r\n\r\n",
        end - 1,
        content.len(),
        bytes.len(),
    );
    match act {
        Act::Cut(length) | Act::Reset(length) => bytes.truncate(length),
        Act::Stall => bytes.clear(),
        Act::Serve | Act::IgnoreRange | Act::Busy(_) | Act::OfVersion(_) => {}
    }
    let _ = stream.write_all(&bytes);
    match act {
        Act::Reset(_) => socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap(),
        // The client closes the connection.
        Act::Stall => drop(BufReader::new(&stream).lines().count()),
        Act::Serve | Act::IgnoreRange | Act::Cut(_) | Act::Busy(_) | Act::OfVersion(_) => {}
    }
}

/// Returns start and end of the range that a head asks for.
fn range(head: &str, size: usize) -> Option<(usize, usize)> {
    let range = head.split("range: bytes=").nth(1)?.lines().next()?;
    let (start, last) = range.split_once('-')?;
    Some((start.parse().ok()?, last.parse::<usize>().map_or(size, |last| (last + 1).min(size))))
}

fn content(pieces: usize) -> Vec<u8> {
    (0..(pieces * PIECE + 12_345) as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn limits() -> Limits {
    Limits { stall: Duration::from_millis(500), ..Limits::default() }
}

/// Fetches the file; returns its bytes and the events.
async fn get(server: &Server) -> (Result<Vec<u8>, FetchError>, Vec<Attempt>) {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("model");
    let mut events = Vec::new();
    let fetched = weir_fetch::fetch(&server.url, &target, &limits(), &mut |event| events.push(event)).await;
    (fetched.map(|()| std::fs::read(target.join("model.bin")).unwrap()), events)
}

#[tokio::test]
async fn a_large_file_is_read_in_ranges() {
    let content = content(3);
    let server = Server::start(content.clone(), |_, _| Act::Serve);
    let (bytes, events) = get(&server).await;
    assert!(bytes.unwrap() == content);
    let heads = server.heads.lock().unwrap();
    let mut ranges: Vec<_> = heads.iter().filter_map(|(_, head)| range(head, content.len())).collect();
    ranges.sort_unstable();
    let end = content.len();
    assert!(ranges.iter().all(|(start, end)| end - start <= PIECE), "{ranges:?}");
    assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0), "{ranges:?}");
    assert_eq!((ranges[0].0, ranges.last().unwrap().1), (0, end));
    let Some(Attempt::Progressed(last)) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!((last.done, last.total), (end as u64, Some(end as u64)));
}

#[tokio::test]
async fn a_server_that_ignores_ranges_sends_one_stream() {
    let content = content(3);
    let server = Server::start(content.clone(), |_, _| Act::IgnoreRange);
    assert!(get(&server).await.0.unwrap() == content);
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn a_server_that_ignores_ranges_only_later_is_asked_again() {
    let content = content(3);
    let server = Server::start(content.clone(), |number, _| if number == 2 { Act::IgnoreRange } else { Act::Serve });
    let (bytes, events) = get(&server).await;
    assert!(bytes.unwrap() == content);
    let ignored = |event: &Attempt| matches!(event, Attempt::Failed(reason) if reason.contains("ignored a range"));
    assert!(events.iter().any(ignored), "{events:?}");
    assert!(server.requests() >= 5);
}

#[tokio::test]
async fn resets_and_early_ends_cost_only_the_rest_of_a_range() {
    let content = content(3);
    let server = Server::start(content.clone(), |number, _| match number {
        0 => Act::Cut(PIECE - 5),
        2 => Act::Reset(1 << 20),
        3 => Act::Cut(100),
        _ => Act::Serve,
    });
    assert!(get(&server).await.0.unwrap() == content);
    let heads = server.heads.lock().unwrap();
    let rest = (PIECE - 5, PIECE);
    assert!(heads.iter().any(|(_, head)| range(head, content.len()) == Some(rest)), "{heads:?}");
}

#[tokio::test]
async fn a_stalled_range_is_read_again() {
    let content = content(2);
    let server = Server::start(content.clone(), |number, _| if number == 1 { Act::Stall } else { Act::Serve });
    let (bytes, events) = get(&server).await;
    assert!(bytes.unwrap() == content);
    let stalled = |event: &Attempt| matches!(event, Attempt::Failed(reason) if reason.contains("timed out"));
    assert!(events.iter().any(stalled), "{events:?}");
}

#[tokio::test]
async fn a_new_version_starts_again() {
    let content = content(2);
    let changed = AtomicUsize::new(0);
    let server = Server::start(content.clone(), move |number, _| {
        if number >= 2 {
            changed.store(1, Ordering::Relaxed);
        }
        if changed.load(Ordering::Relaxed) == 1 { Act::OfVersion(2) } else { Act::Serve }
    });
    let (bytes, events) = get(&server).await;
    assert!(bytes.unwrap() == content);
    let changed =
        |event: &Attempt| matches!(event, Attempt::Failed(reason) if reason.contains("changed on the server"));
    assert_eq!(events.iter().filter(|event| changed(event)).count(), 1, "{events:?}");
}

#[tokio::test]
async fn a_file_that_changes_with_each_request_ends_the_fetch() {
    // If two versions took turns, parts that fit one of them could add up over several attempts.
    let server = Server::start(content(2), |number, _| Act::OfVersion(number));
    let (bytes, _) = get(&server).await;
    let error = bytes.unwrap_err().to_string();
    assert!(error.ends_with("the file changed on the server during the download"), "{error}");
}

#[tokio::test]
async fn a_busy_server_is_asked_again_after_the_time_that_it_names() {
    let content = content(0);
    let server = Server::start(content.clone(), |number, _| match number {
        0 => Act::Busy(429),
        1 => Act::Busy(503),
        _ => Act::Serve,
    });
    assert!(get(&server).await.0.unwrap() == content);
    let heads = server.heads.lock().unwrap();
    for pair in heads.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= Duration::from_secs(1), "{heads:?}");
    }
}

/// A fetch that is dropped continues at the byte in the next one.
#[tokio::test]
async fn a_later_fetch_asks_only_for_what_is_missing() {
    let content = content(2);
    let server = Server::start(content.clone(), |number, _| match number {
        0 | 3 => Act::Serve,
        _ if number < 3 => Act::Cut(1 << 20),
        _ => Act::Serve,
    });
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("model");
    let once = Limits { attempts: 1, ..limits() };
    let mut fetched = Err(());
    for _ in 0..9 {
        fetched = weir_fetch::fetch(&server.url, &target, &once, &mut |_| ()).await.map_err(|_| ());
        if fetched.is_ok() {
            break;
        }
    }
    fetched.unwrap();
    assert!(std::fs::read(target.join("model.bin")).unwrap() == content);
    let heads = server.heads.lock().unwrap();
    let firsts = heads.iter().filter(|(_, head)| range(head, content.len()).is_some_and(|(start, _)| start == 0));
    assert_eq!(firsts.count(), 1, "{heads:?}");
}
