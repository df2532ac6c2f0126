//! A JSON body with holes where the bodies of one batch differ: id, first dimension, data, and sizes of binary data.
//! The text between the holes is copied verbatim, and so are the numbers in the data. So nothing is parsed without
//! need, and unknown fields are kept.

mod parse;

use std::ops::Range;

use bytes::Bytes;
use weir_protocol::rest::RowLayout;

use super::rows::RowSlices;

/// A JSON body, and the positions of its holes.
#[derive(Clone, Debug)]
pub(super) struct Template {
    text: Bytes,
    holes: Vec<(Range<usize>, Hole)>,
    /// Tensors in the order of the body.
    tensors: Vec<TensorData>,
    /// Name of the first tensor.
    pub(super) name: String,
    pub(super) rows: usize,
}

/// Content of a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hole {
    /// The id, with its quotes.
    Id,
    /// An empty hole at the beginning of an object without id, where an id can be inserted.
    NoId,
    /// The first dimension of the tensor with this index.
    Rows,
    /// The elements of the tensor's data, without the brackets around them.
    Data(usize),
    /// The size of the tensor's binary data.
    Size(usize),
}

/// The data of a tensor.
#[derive(Clone, Debug)]
enum TensorData {
    /// Data in the text, with the position of each row.
    Text(RowLayout, Vec<Range<usize>>),
    /// Binary data after the text, with the positions of its rows.
    Blob(Bytes, RowSlices),
}

/// Kind of body, which determines the field that holds the tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyKind {
    /// Tensors are in `inputs` or `instances`.
    Request,
    /// Tensors are in `outputs` or `predictions`.
    Response,
}

/// A body: JSON and the binary data after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JsonBody {
    pub(super) json: Bytes,
    pub(super) blobs: Vec<Bytes>,
}

impl Template {
    /// Parses a V1 body; `None` if it is invalid or has no rows.
    pub(super) fn v1(text: Bytes, kind: BodyKind) -> Option<Self> {
        parse::v1(text, kind)
    }

    /// Parses a V2 body.
    ///
    /// # Errors
    /// A clause that describes why the body cannot share a batch or cannot be split.
    pub(super) fn v2(text: Bytes, blobs: Bytes, kind: BodyKind) -> Result<Self, String> {
        parse::v2(text, blobs, kind)
    }

    /// Returns the text without the holes' content, which is equal in all bodies of a batch.
    pub(super) fn batch_key(&self) -> Vec<u8> {
        self.fill(|hole, out| match hole {
            Hole::NoId => {}
            Hole::Id | Hole::Rows | Hole::Size(_) => out.push(BLANK),
            Hole::Data(tensor) => {
                out.push(BLANK);
                self.tensors[tensor].batch_key(&self.text, out);
            }
        })
    }

    /// Returns the id as written, including its quotes.
    pub(super) fn id(&self) -> Option<Bytes> {
        let id = self.holes.iter().find(|(_, hole)| *hole == Hole::Id);
        id.map(|(range, _)| self.text.slice(range.clone()))
    }

    /// Merges bodies with equal keys into one with the rows of all. The id is that of the first body.
    pub(super) fn merge(all: &[&Self]) -> JsonBody {
        let Some(first) = all.first() else {
            return JsonBody::default();
        };
        let rows: usize = all.iter().map(|one| one.rows).sum();
        let json = first.fill(|hole, out| match hole {
            Hole::NoId => {}
            Hole::Id => out.extend_from_slice(&first.id().unwrap_or_default()),
            Hole::Rows => number(out, rows),
            Hole::Data(tensor) => join(out, all.iter().filter_map(|one| one.text_of(tensor))),
            Hole::Size(tensor) => {
                let blobs = all.iter().filter_map(|one| one.blob_of(tensor));
                number(out, blobs.map(Bytes::len).sum());
            }
        });
        let tensors = 0..first.tensors.len();
        let blobs = tensors.flat_map(|tensor| all.iter().filter_map(move |one| one.blob_of(tensor)));
        JsonBody { json: json.into(), blobs: blobs.cloned().collect() }
    }

    /// Returns the body with these rows only. The id is `id`, or the body's own if `id` is `None`.
    pub(super) fn slice(&self, rows: &Range<usize>, id: Option<&Bytes>) -> JsonBody {
        let mut blobs = Vec::new();
        let json = self.fill(|hole, out| match (hole, id) {
            (Hole::Id, Some(id)) => out.extend_from_slice(id),
            (Hole::Id, None) => out.extend_from_slice(&self.id().unwrap_or_default()),
            (Hole::NoId, Some(id)) => {
                out.extend_from_slice(b"\"id\":");
                out.extend_from_slice(id);
                out.push(b',');
            }
            (Hole::NoId, None) => {}
            (Hole::Rows, _) => number(out, rows.len()),
            (Hole::Data(tensor) | Hole::Size(tensor), _) => match &self.tensors[tensor] {
                TensorData::Text(_, found) => out.extend_from_slice(&self.text[span(found, rows)]),
                TensorData::Blob(data, slices) => {
                    let blob = data.slice(slices.bytes(rows));
                    number(out, blob.len());
                    blobs.push(blob);
                }
            },
        });
        blobs.retain(|blob| !blob.is_empty());
        JsonBody { json: json.into(), blobs }
    }

    /// Returns the text, with the content that `fill` writes into each hole.
    fn fill(&self, mut fill: impl FnMut(Hole, &mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.text.len());
        let mut at = 0;
        for (range, hole) in &self.holes {
            out.extend_from_slice(&self.text[at..range.start]);
            fill(*hole, &mut out);
            at = range.end;
        }
        out.extend_from_slice(&self.text[at..]);
        out
    }

    fn text_of(&self, tensor: usize) -> Option<&[u8]> {
        match self.tensors.get(tensor)? {
            TensorData::Text(_, found) => Some(&self.text[span(found, &(0..found.len()))]),
            TensorData::Blob(..) => None,
        }
    }

    fn blob_of(&self, tensor: usize) -> Option<&Bytes> {
        match self.tensors.get(tensor)? {
            TensorData::Text(..) => None,
            TensorData::Blob(data, _) => Some(data),
        }
    }
}

impl TensorData {
    /// Appends a letter for the encoding of the data. For nested rows, the dimensions of the first row follow.
    fn batch_key(&self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Blob(..) => out.push(b'b'),
            Self::Text(RowLayout::Flat, _) => out.push(b'f'),
            Self::Text(RowLayout::Nested, found) => {
                out.push(b'r');
                if let Some(first) = found.first() {
                    parse::append_widths(&text[first.clone()], out);
                }
            }
        }
    }
}

/// Placeholder for the content of a hole; no JSON text contains this byte.
const BLANK: u8 = 0;

/// Returns the range of the text from the first to the last of these rows.
fn span(found: &[Range<usize>], rows: &Range<usize>) -> Range<usize> {
    match found.get(rows.clone()) {
        Some([first, .., last]) => first.start..last.end,
        Some([only]) => only.clone(),
        Some([]) | None => 0..0,
    }
}

fn number(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(number.to_string().as_bytes());
}

fn join<'a>(out: &mut Vec<u8>, texts: impl Iterator<Item = &'a [u8]>) {
    for (i, text) in texts.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(text);
    }
}
