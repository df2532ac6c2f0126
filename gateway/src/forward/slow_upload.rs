//! Lends a replica's credit to others while the rest of a body comes slowly: the replica waits for the client, and has
//! nothing to compute. Bodies that are kept whole take no credit before they are here; those that are too long for that, or
//! find no room, would hold one as long as their clients like.

use std::convert::Infallible;
use std::time::Duration;

use crate::queue::Credit;
use crate::upstream::UploadHandle;

/// Time from one look at an upload to the next.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes from one look to the next of an upload that keeps its replica busy: 5 Mbit/s.
const FAST: u64 = 64 << 10;

/// Lends the credit while the upload is slow, and takes it back where it is fast again, or ended. A look now and then is
/// cheaper than to be woken by each piece.
pub(super) async fn lend_while_slow(credit: &mut Credit, upload: UploadHandle) -> Infallible {
    loop {
        let before = upload.received();
        tokio::select! {
            () = upload.ended() => break,
            () = tokio::time::sleep(LOOK) => {}
        }
        let is_slow = upload.waits_for_client() && upload.received() - before < FAST;
        if is_slow {
            credit.rest();
        } else {
            credit.resume();
        }
    }
    credit.resume();
    std::future::pending().await
}
