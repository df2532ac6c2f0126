//! The response body of a gRPC call, as a stream of frames.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http_body::Frame;

use super::upload::Upload;

/// A response body, and the upload of its call, which may not have ended.
pub(crate) struct Http2ResponseBody {
    body: RecvStream,
    upload: Upload,
    stage: ResponseStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseStage {
    Data,
    Trailers,
    Ended,
}

impl Http2ResponseBody {
    pub(super) fn new(body: RecvStream, upload: Upload) -> Self {
        Self { body, upload, stage: ResponseStage::Data }
    }

    pub(crate) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        // A failed upload needs no handling here, because the response reports it.
        let _ = self.upload.poll(context);
        if self.stage == ResponseStage::Data {
            match ready!(self.body.poll_data(context)) {
                Some(Ok(data)) => {
                    // This cannot fail for data that was just received.
                    let _ = self.body.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                // The response is complete, and the peer does not need the rest of the upload (RFC 9113, 8.1).
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => {
                    self.stage = ResponseStage::Ended;
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(self.broken(&error)))),
                None => self.stage = ResponseStage::Trailers,
            }
        }
        if self.stage == ResponseStage::Ended {
            return Poll::Ready(None);
        }
        let trailers = ready!(self.body.poll_trailers(context));
        self.stage = ResponseStage::Ended;
        Poll::Ready(match trailers {
            Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
            Err(error) => Some(Err(self.broken(&error))),
        })
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.stage == ResponseStage::Ended || self.body.is_end_stream()
    }

    fn broken(&mut self, error: &h2::Error) -> String {
        self.stage = ResponseStage::Ended;
        error.to_string()
    }
}
