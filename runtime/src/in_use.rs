//! Lets a version that is replaced finish with the requests that found it, before it is drained.
//!
//! A request looks a version up and submits to it a moment later. In between the version may be
//! replaced: if it were drained at once, that request would meet a closed queue.

use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Counts the requests that use a version, until it is retired.
#[derive(Debug, Default)]
pub(crate) struct InUseCount(TaskTracker);

/// The version is being retired: look it up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retired;

impl InUseCount {
    /// Takes the version into use, until the token is dropped.
    ///
    /// # Errors
    /// [`Retired`] once [`InUseCount::retire`] was called.
    pub(crate) fn acquire(&self) -> Result<TaskTrackerToken, Retired> {
        // Counted first: if the version is retired after the check, that waits for this token.
        let token = self.0.token();
        if self.0.is_closed() {
            return Err(Retired);
        }
        Ok(token)
    }

    /// Refuses further use, and waits until the last use has ended.
    pub(crate) async fn retire(&self) {
        self.0.close();
        self.0.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn retiring_waits_for_requests_under_way() {
        let in_use = InUseCount::default();
        let (first, second) = (in_use.acquire().unwrap(), in_use.acquire().unwrap());
        let mut retiring = Box::pin(in_use.retire());
        assert!(futures_util::poll!(&mut retiring).is_pending());
        assert_eq!(in_use.acquire().map(drop), Err(Retired));
        drop(first);
        assert!(futures_util::poll!(&mut retiring).is_pending());
        drop(second);
        retiring.await;
    }
}
