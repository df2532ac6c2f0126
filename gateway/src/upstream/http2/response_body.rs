//! The body of a call's answer, as it comes.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http_body::Frame;

use super::upload::Upload;

/// A body that still comes, and what its call still sends.
pub(crate) struct Http2ResponseBody {
    body: RecvStream,
    upload: Upload,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Data,
    Trailers,
    Ended,
}

impl Http2ResponseBody {
    pub(super) fn new(body: RecvStream, upload: Upload) -> Self {
        Self {
            body,
            upload,
            stage: Stage::Data,
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        // If it breaks off, the answer says what comes of it.
        let _ = self.upload.poll(context);
        if self.stage == Stage::Data {
            match ready!(self.body.poll_data(context)) {
                Some(Ok(data)) => {
                    // Cannot fail for what was just received.
                    let _ = self.body.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                // All was said, and the rest of the call is not of interest (RFC 9113, 8.1).
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => {
                    self.stage = Stage::Ended;
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(self.broken(&error)))),
                None => self.stage = Stage::Trailers,
            }
        }
        if self.stage == Stage::Ended {
            return Poll::Ready(None);
        }
        let trailers = ready!(self.body.poll_trailers(context));
        self.stage = Stage::Ended;
        Poll::Ready(match trailers {
            Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
            Err(error) => Some(Err(self.broken(&error))),
        })
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.stage == Stage::Ended || self.body.is_end_stream()
    }

    fn broken(&mut self, error: &h2::Error) -> String {
        self.stage = Stage::Ended;
        error.to_string()
    }
}
