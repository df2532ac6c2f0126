//! Finds the holes of a JSON body.

use std::ops::Range;

use bytes::Bytes;
use weir_protocol::rest::{RowLayout, elements, members, rows, widths};
use weir_protocol::{DataType, Shape};

use super::{BodyKind, Hole, Template, TensorData};
use crate::pipeline::batching::rows::RowSlices;

/// Maximum number of tensors in a body, the same as in a gRPC message.
const MAX_TENSORS: usize = 4096;

/// Maximum number of rows in a request that may share a batch. Each row takes 16 bytes in addition to its text, and
/// batches are far smaller than this.
const MAX_ROWS: usize = 1 << 16;

impl BodyKind {
    /// Returns the maximum number of rows that are parsed. A response has as many rows as its batch.
    fn max_rows(self) -> usize {
        match self {
            Self::Request => MAX_ROWS,
            Self::Response => usize::MAX,
        }
    }
}

/// Error of a body that is not valid V2 JSON.
const NOT_V2: &str = "it is not a V2 body";

pub(super) fn v1(text: Bytes, kind: BodyKind) -> Option<Template> {
    let key = match kind {
        BodyKind::Request => "instances",
        BodyKind::Response => "predictions",
    };
    let members = members(&text)?;
    let (_, array) = members.into_iter().find(|(name, _)| name == key)?;
    let found: Vec<_> =
        elements(&text[array.clone()], kind.max_rows())?.into_iter().map(|row| within(&array, &row)).collect();
    let (first, last) = (found.first()?, found.last()?);
    Some(Template {
        holes: vec![(first.start..last.end, Hole::Data(0))],
        name: key.to_owned(),
        rows: found.len(),
        // Each instance is one row of any shape.
        tensors: vec![TensorData::Text(RowLayout::Nested, found)],
        text,
    })
}

pub(super) fn v2(text: Bytes, blobs: Bytes, kind: BodyKind) -> Result<Template, String> {
    let all = members(&text).ok_or(NOT_V2)?;
    let mut parser = V2Parser::new(text.clone(), blobs, kind.max_rows());
    let mut list = None;
    for (key, value) in all {
        match (key.as_str(), kind) {
            ("id", _) if text[value.start] == b'"' => parser.holes.push((value, Hole::Id)),
            ("inputs", BodyKind::Request) | ("outputs", BodyKind::Response) => list = Some(value),
            ("outputs", BodyKind::Request) => refuse(&text[value], SHARED)?,
            ("parameters", BodyKind::Request) => refuse(&text[value], SEQUENCE)?,
            _ => {}
        }
    }
    let list = list.ok_or(NOT_V2)?;
    for tensor in elements(&text[list.clone()], MAX_TENSORS).ok_or(NOT_V2)? {
        parser.tensor(within(&list, &tensor))?;
    }
    parser.finish()
}

/// Appends the length of an array, the length of its first element, and so on.
pub(super) fn append_widths(text: &[u8], out: &mut Vec<u8>) {
    for width in widths(text) {
        out.extend_from_slice(width.to_string().as_bytes());
        out.push(b',');
    }
}

/// Prefix of the names of shared memory parameters.
const SHARED: &[u8] = b"\"shared_memory_";

/// Prefix of the names of sequence parameters.
const SEQUENCE: &[u8] = b"\"sequence_";

/// Refuses parameters with this prefix, which bind a request to shared memory or to an order that a batch cannot keep.
fn refuse(text: &[u8], names: &[u8]) -> Result<(), String> {
    if text.windows(names.len()).any(|window| window == names) {
        return Err("it uses shared memory or a sequence".to_owned());
    }
    Ok(())
}

/// Parser state of a V2 body.
struct V2Parser {
    text: Bytes,
    /// Binary data of the tensors that have not been parsed yet.
    blobs: Bytes,
    holes: Vec<(Range<usize>, Hole)>,
    tensors: Vec<TensorData>,
    /// Name of the first tensor.
    name: Option<String>,
    rows: Option<usize>,
    max_rows: usize,
}

/// Fields of a tensor's JSON object.
#[derive(Default)]
struct TensorFields {
    name: String,
    datatype: Option<DataType>,
    shape: Option<Range<usize>>,
    data: Option<Range<usize>>,
    size: Option<Range<usize>>,
}

impl V2Parser {
    fn new(text: Bytes, blobs: Bytes, max_rows: usize) -> Self {
        Self { max_rows, text, blobs, holes: Vec::new(), tensors: Vec::new(), name: None, rows: None }
    }

    fn tensor(&mut self, object: Range<usize>) -> Result<(), String> {
        let fields = self.fields(&object).ok_or(NOT_V2)?;
        let shape = fields.shape.clone().ok_or(NOT_V2)?;
        let (dims, first) = self.dims(&shape).ok_or(NOT_V2)?;
        let whole = Shape::new(&dims).map_err(|error| error.to_string())?;
        let rows = whole.dims().first().copied().unwrap_or(0);
        if rows == 0 || *self.rows.get_or_insert(rows) != rows {
            return Err(format!(
                "tensor {:?} has the shape {whole}, whose first dimension is not the batch's",
                fields.name
            ));
        }
        if rows > self.max_rows {
            return Err(format!("it has over {} rows", self.max_rows));
        }
        let wrong = || format!("the data of tensor {:?} do not fit its shape", fields.name);
        let data = self.data(&fields, &whole, rows).ok_or_else(wrong)?;
        self.holes.push((first.ok_or(NOT_V2)?, Hole::Rows));
        self.tensors.push(data);
        self.name.get_or_insert(fields.name);
        Ok(())
    }

    fn fields(&self, object: &Range<usize>) -> Option<TensorFields> {
        let mut fields = TensorFields::default();
        for (key, value) in members(&self.text[object.clone()])? {
            let value = within(object, &value);
            match key.as_str() {
                "name" => fields.name = self.string(&value)?,
                "datatype" => fields.datatype = DataType::parse(&self.string(&value)?),
                "shape" => fields.shape = Some(value),
                "data" => {
                    fields.data = Some(value).filter(|value| self.text[value.clone()] != *b"null");
                }
                "parameters" if self.text[value.clone()] == *b"null" => {}
                "parameters" => fields.size = self.size(&value).ok()?,
                _ => {}
            }
        }
        Some(fields)
    }

    /// Returns the position of `binary_data_size`; `None` if there is none.
    ///
    /// # Errors
    /// Fails if the data is in shared memory, or the parameters are not an object.
    fn size(&self, parameters: &Range<usize>) -> Result<Option<Range<usize>>, String> {
        let text = &self.text[parameters.clone()];
        refuse(text, SHARED)?;
        let mut all = members(text).ok_or(NOT_V2)?.into_iter();
        let size = all.find(|(key, _)| key == "binary_data_size");
        Ok(size.map(|(_, value)| within(parameters, &value)))
    }

    /// Returns the dimensions and the position of the first one.
    fn dims(&self, shape: &Range<usize>) -> Option<(Vec<i64>, Option<Range<usize>>)> {
        let found = elements(&self.text[shape.clone()], Shape::MAX_DIMS)?;
        let dims = found.iter().map(|dim| {
            let dim = &self.text[within(shape, dim)];
            std::str::from_utf8(dim).ok()?.parse().ok()
        });
        let first = found.first().map(|first| within(shape, first));
        Some((dims.collect::<Option<_>>()?, first))
    }

    fn data(&mut self, fields: &TensorFields, shape: &Shape, count: usize) -> Option<TensorData> {
        let tensor = self.tensors.len();
        match (&fields.data, &fields.size) {
            (Some(array), None) => {
                let scalars = shape.elements() / count;
                let text = &self.text[array.clone()];
                let (nesting, found) = rows(text, count, Some(scalars).filter(|n| *n > 0)?)?;
                let found: Vec<_> = found.iter().map(|row| within(array, row)).collect();
                let (first, last) = (found.first()?, found.last()?);
                self.holes.push((first.start..last.end, Hole::Data(tensor)));
                Some(TensorData::Text(nesting, found))
            }
            (None, Some(at)) => {
                let size = std::str::from_utf8(&self.text[at.clone()]).ok()?;
                let size = size.parse().ok().filter(|size| *size <= self.blobs.len())?;
                let data = self.blobs.split_to(size);
                let slices = RowSlices::of(fields.datatype?, shape, &data)?;
                self.holes.push((at.clone(), Hole::Size(tensor)));
                Some(TensorData::Blob(data, slices))
            }
            (Some(_), Some(_)) | (None, None) => None,
        }
    }

    fn string(&self, value: &Range<usize>) -> Option<String> {
        serde_json::from_slice(&self.text[value.clone()]).ok()
    }

    fn finish(mut self) -> Result<Template, String> {
        let rows = self.rows.ok_or("it has no tensor")?;
        if !self.blobs.is_empty() {
            return Err("binary data without a tensor".to_owned());
        }
        if !self.holes.iter().any(|(_, hole)| *hole == Hole::Id) {
            let brace = self.text.iter().position(|byte| *byte == b'{');
            let after = brace.map_or(0, |brace| brace + 1);
            self.holes.push((after..after, Hole::NoId));
        }
        self.holes.sort_by_key(|(range, _)| range.start);
        Ok(Template {
            text: self.text,
            holes: self.holes,
            tensors: self.tensors,
            name: self.name.unwrap_or_default(),
            rows,
        })
    }
}

/// Converts a range relative to `outer` into a range of the whole text.
fn within(outer: &Range<usize>, inner: &Range<usize>) -> Range<usize> {
    outer.start + inner.start..outer.start + inner.end
}
