//! A JSON body with holes where bodies of one batch differ: id, first dimension, data, sizes of binary
//! data. What lies between the holes is moved as it is, and so are the numbers in them: nothing is read
//! that need not be, and what this gateway does not know of survives.

mod parse;

use std::ops::Range;

use bytes::Bytes;
use weir_protocol::rest::Nesting;

use super::slices::Slices;

/// A body.
#[derive(Clone, Debug)]
pub(super) struct Template {
    text: Bytes,
    holes: Vec<(Range<usize>, Hole)>,
    /// In the order of the body.
    tensors: Vec<Data>,
    /// The name of the first tensor.
    pub(super) name: String,
    pub(super) rows: usize,
}

/// What a hole is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hole {
    /// The id, with its quotes.
    Id,
    /// Nothing is here, but an id could be: at the beginning of the object.
    NoId,
    /// The first dimension of the tensor with this index.
    Rows,
    /// What lies between the brackets of the tensor's data.
    Data(usize),
    /// The size of the tensor's binary data.
    Size(usize),
}

/// The data of a tensor.
#[derive(Clone, Debug)]
enum Data {
    /// In the text: where each row is.
    Text(Nesting, Vec<Range<usize>>),
    /// After the text.
    Blob(Bytes, Slices),
}

/// Which member holds the tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// `inputs` or `instances`.
    Request,
    /// `outputs` or `predictions`.
    Response,
}

/// A body, JSON first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pieces {
    pub(super) json: Bytes,
    pub(super) blobs: Vec<Bytes>,
}

impl Template {
    /// A V1 body. `None` where it has no rows, or is none.
    pub(super) fn v1(text: Bytes, side: Side) -> Option<Self> {
        parse::v1(text, side)
    }

    /// A V2 body.
    ///
    /// # Errors
    /// Why it cannot be taken apart.
    pub(super) fn v2(text: Bytes, blobs: Bytes, side: Side) -> Result<Self, String> {
        parse::v2(text, blobs, side)
    }

    /// What has to be equal in the bodies of one batch.
    pub(super) fn likeness(&self) -> Vec<u8> {
        self.fill(|hole, out| match hole {
            Hole::NoId => {}
            Hole::Id | Hole::Rows | Hole::Size(_) => out.push(BLANK),
            Hole::Data(tensor) => {
                out.push(BLANK);
                self.tensors[tensor].likeness(&self.text, out);
            }
        })
    }

    /// The id as it was written, quotes included.
    pub(super) fn id(&self) -> Option<Bytes> {
        let id = self.holes.iter().find(|(_, hole)| *hole == Hole::Id);
        id.map(|(range, _)| self.text.slice(range.clone()))
    }

    /// One body with the rows of all these, which are alike. The first one's id stands for all.
    pub(super) fn merge(all: &[&Self]) -> Pieces {
        let Some(first) = all.first() else {
            return Pieces::default();
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
        let blobs =
            tensors.flat_map(|tensor| all.iter().filter_map(move |one| one.blob_of(tensor)));
        Pieces {
            json: json.into(),
            blobs: blobs.cloned().collect(),
        }
    }

    /// The same body with some of its rows only, and with this id if there is one.
    pub(super) fn cut(&self, rows: &Range<usize>, id: Option<&Bytes>) -> Pieces {
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
                Data::Text(_, found) => out.extend_from_slice(&self.text[span(found, rows)]),
                Data::Blob(data, slices) => {
                    let blob = data.slice(slices.bytes(rows));
                    number(out, blob.len());
                    blobs.push(blob);
                }
            },
        });
        blobs.retain(|blob| !blob.is_empty());
        Pieces {
            json: json.into(),
            blobs,
        }
    }

    /// The text with its holes filled.
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
            Data::Text(_, found) => Some(&self.text[span(found, &(0..found.len()))]),
            Data::Blob(..) => None,
        }
    }

    fn blob_of(&self, tensor: usize) -> Option<&Bytes> {
        match self.tensors.get(tensor)? {
            Data::Text(..) => None,
            Data::Blob(data, _) => Some(data),
        }
    }
}

impl Data {
    /// How it is written; of rows that no shape describes, how deep and wide the first one is.
    fn likeness(&self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Blob(..) => out.push(b'b'),
            Self::Text(Nesting::Flat, _) => out.push(b'f'),
            Self::Text(Nesting::Rows, found) => {
                out.push(b'r');
                if let Some(first) = found.first() {
                    parse::widths(&text[first.clone()], out);
                }
            }
        }
    }
}

/// What stands for whatever differs; no JSON text holds it.
const BLANK: u8 = 0;

/// Where these rows lie, with what is between them.
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
