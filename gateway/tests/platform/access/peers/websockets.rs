//! WebSockets that are handed over by TLS.

use super::*;
use crate::websocket::{After, HANDSHAKE, SWITCH, head_of, read, server};

/// Opens a WebSocket at one gateway and then at the other, one of which owns the queue, and replaces the certificates
/// while it is open.
#[tokio::test]
async fn a_websocket_is_handed_over_and_outlives_its_certificates() {
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    let tls = [(); 2].map(|()| first.gateway().tls(PeerTrust::Certificate).unwrap());
    let pair = Pair::new([Some(Arc::clone(&tls[0])), Some(Arc::clone(&tls[1]))]).await;
    let server = server(SWITCH.to_owned(), After::Echo).await;
    pair.world.take(1, "a").await;
    pair.world.put(1, "b", server.address).await;
    let handshake = HANDSHAKE.replacen("\r\n", &format!("\r\nx-api-key: {}\r\n", key(1).text), 1);
    for gateway in [0, 1] {
        let mut client = TcpStream::connect(pair.address(gateway)).await.unwrap();
        client.write_all(handshake.as_bytes()).await.unwrap();
        let head = head_of(&mut client).await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        client.write_all(b"before").await.unwrap();
        assert_eq!(read(&mut client, 6).await, "before");
        for one in &tls {
            one.replace(second.gateway().all(), NOW).unwrap();
        }
        client.write_all(b"after").await.unwrap();
        assert_eq!(read(&mut client, 5).await, "after");
    }
    let heads: Vec<_> =
        server.seen.bodies.lock().iter().map(|head| String::from_utf8(head.to_vec()).unwrap()).collect();
    assert_eq!(heads.len(), 2);
    assert!(
        heads.iter().all(|head| head.contains("weir-client: team-a\r\n") && !head.contains("x-api-key")),
        "{heads:?}"
    );
}
