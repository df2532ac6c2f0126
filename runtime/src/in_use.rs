//! Lets the requests that use a model version finish before the version is drained.
//!
//! A request looks up a version and submits a job to it a moment later. If the version were replaced and drained in
//! between, the job would meet a closed queue.

use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Counts the requests that use a version until it is retired.
#[derive(Debug, Default)]
pub(crate) struct InUseCount(TaskTracker);

/// Error: the version is being retired, so the request must look up the model again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retired;

impl InUseCount {
    /// Registers a use of the version, until the token is dropped.
    ///
    /// # Errors
    /// [`Retired`] after [`InUseCount::retire`] was called.
    pub(crate) fn acquire(&self) -> Result<TaskTrackerToken, Retired> {
        // The token comes first: if the version is retired after the check, `retire` waits for this token.
        let token = self.0.token();
        if self.0.is_closed() {
            return Err(Retired);
        }
        Ok(token)
    }

    /// Refuses further uses, and waits until the last one has ended.
    pub(crate) async fn retire(&self) {
        self.0.close();
        self.0.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn retiring_waits_for_requests_in_progress() {
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
