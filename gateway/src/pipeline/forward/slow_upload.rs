//! Lends a replica's credit to other requests while the rest of a body arrives slowly, because the replica has nothing
//! to compute while it waits for the client. Bodies that are buffered whole take no credit before they are complete. A
//! body that is too long for the buffer, or that exceeds the byte budget, could otherwise hold a credit for any time
//! that its client chooses. A gRPC call lends none once its first message was sent: the replica works on that message,
//! although the client may keep the call open, and many servers send their response's head only with the first answer.

use std::convert::Infallible;
use std::time::Duration;

use crate::queue::Credit;
use crate::upstream::UploadHandle;

/// Time between two checks of an upload.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes between two checks from which on an upload keeps its replica busy: 5 Mbit/s.
const FAST: u64 = 64 << 10;

/// Lends the credit while the upload is slow, and takes it back once the upload is fast again or has ended. Checking at
/// intervals is cheaper than a wake-up by each chunk.
pub(super) async fn lend_while_slow(credit: &mut Credit, upload: UploadHandle) -> Infallible {
    loop {
        let before = upload.received();
        tokio::select! {
            () = upload.ended() => break,
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
        let is_incomplete = upload.messages() == Some(0);
        let is_slow = is_incomplete && upload.waits_for_client() && upload.received() - before < FAST;
        if is_slow {
            credit.rest();
        } else {
            credit.resume();
        }
    }
    credit.resume();
    std::future::pending().await
}
