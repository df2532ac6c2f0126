//! Where the holes of a body are.

use std::ops::Range;

use bytes::Bytes;
use weir_protocol::rest::{Nesting, elements, members, rows};
use weir_protocol::{DataType, Shape};

use super::{Data, Hole, Side, Template};
use crate::batching::slices::Slices;

/// Says that a body is not as it should be; whoever asks for a batch knows which.
const NO_V2: &str = "it is no V2 body";

pub(super) fn v1(text: Bytes, side: Side) -> Option<Template> {
    let key = match side {
        Side::Request => "instances",
        Side::Response => "predictions",
    };
    let members = members(&text)?;
    let (_, array) = members.into_iter().find(|(name, _)| name == key)?;
    let found = elements(&text[array.clone()])?;
    let found: Vec<_> = found.into_iter().map(|row| within(&array, &row)).collect();
    let (first, last) = (found.first()?, found.last()?);
    Some(Template {
        holes: vec![(first.start..last.end, Hole::Data(0))],
        name: key.to_owned(),
        rows: found.len(),
        // Each instance is a value of its own, whatever its shape.
        tensors: vec![Data::Text(Nesting::Rows, found)],
        text,
    })
}

pub(super) fn v2(text: Bytes, blobs: Bytes, side: Side) -> Result<Template, String> {
    let all = members(&text).ok_or(NO_V2)?;
    let mut draft = Draft::new(text.clone(), blobs);
    let mut list = None;
    for (key, value) in all {
        match (key.as_str(), side) {
            ("id", _) if text[value.start] == b'"' => draft.holes.push((value, Hole::Id)),
            ("inputs", Side::Request) | ("outputs", Side::Response) => list = Some(value),
            ("outputs", Side::Request) => refuse(&text[value], SHARED)?,
            ("parameters", Side::Request) => refuse(&text[value], SEQUENCE)?,
            _ => {}
        }
    }
    let list = list.ok_or(NO_V2)?;
    for tensor in elements(&text[list.clone()]).ok_or(NO_V2)? {
        draft.tensor(within(&list, &tensor))?;
    }
    draft.finish()
}

/// The number of elements of an array, of its first element, and so on.
pub(super) fn widths(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(found) = elements(text) {
        out.extend_from_slice(found.len().to_string().as_bytes());
        out.push(b',');
        match found.into_iter().next() {
            Some(first) => text = &text[first],
            None => return,
        }
    }
}

/// Names that only shared memory's parameters have.
const SHARED: &[u8] = b"\"shared_memory_";

/// Names that only the parameters of sequences have.
const SEQUENCE: &[u8] = b"\"sequence_";

/// What these names are for has a place or an order that a batch cannot give it.
fn refuse(text: &[u8], names: &[u8]) -> Result<(), String> {
    match text.windows(names.len()).any(|window| window == names) {
        true => Err("it uses shared memory or a sequence".to_owned()),
        false => Ok(()),
    }
}

/// A V2 body while it is read.
struct Draft {
    text: Bytes,
    /// Binary data that no tensor has taken yet.
    blobs: Bytes,
    holes: Vec<(Range<usize>, Hole)>,
    tensors: Vec<Data>,
    /// Of the first tensor.
    name: Option<String>,
    rows: Option<usize>,
}

/// A tensor's members.
#[derive(Default)]
struct Parts {
    name: String,
    datatype: Option<DataType>,
    shape: Option<Range<usize>>,
    data: Option<Range<usize>>,
    size: Option<Range<usize>>,
}

impl Draft {
    fn new(text: Bytes, blobs: Bytes) -> Self {
        Self {
            text,
            blobs,
            holes: Vec::new(),
            tensors: Vec::new(),
            name: None,
            rows: None,
        }
    }

    fn tensor(&mut self, object: Range<usize>) -> Result<(), String> {
        let parts = self.parts(&object).ok_or(NO_V2)?;
        let shape = parts.shape.clone().ok_or(NO_V2)?;
        let (dims, first) = self.dims(&shape).ok_or(NO_V2)?;
        let whole = Shape::new(&dims).map_err(|error| error.to_string())?;
        let rows = whole.dims().first().copied().unwrap_or(0);
        if rows == 0 || *self.rows.get_or_insert(rows) != rows {
            return Err(format!(
                "tensor {:?} has the shape {whole}, whose first dimension is not that of a batch",
                parts.name
            ));
        }
        let wrong = || format!("the data of tensor {:?} are not of its shape", parts.name);
        let data = self.data(&parts, &whole, rows).ok_or_else(wrong)?;
        self.holes.push((first.ok_or(NO_V2)?, Hole::Rows));
        self.tensors.push(data);
        self.name.get_or_insert(parts.name);
        Ok(())
    }

    fn parts(&self, object: &Range<usize>) -> Option<Parts> {
        let mut parts = Parts::default();
        for (key, value) in members(&self.text[object.clone()])? {
            let value = within(object, &value);
            match key.as_str() {
                "name" => parts.name = self.string(&value)?,
                "datatype" => parts.datatype = DataType::parse(&self.string(&value)?),
                "shape" => parts.shape = Some(value),
                "data" => {
                    parts.data = Some(value).filter(|value| self.text[value.clone()] != *b"null");
                }
                "parameters" if self.text[value.clone()] == *b"null" => {}
                "parameters" => parts.size = self.size(&value).ok()?,
                _ => {}
            }
        }
        Some(parts)
    }

    /// Where the size of binary data is, if there is one.
    ///
    /// # Errors
    /// Data in shared memory, and parameters that are no object.
    fn size(&self, parameters: &Range<usize>) -> Result<Option<Range<usize>>, String> {
        let text = &self.text[parameters.clone()];
        refuse(text, SHARED)?;
        let mut all = members(text).ok_or(NO_V2)?.into_iter();
        let size = all.find(|(key, _)| key == "binary_data_size");
        Ok(size.map(|(_, value)| within(parameters, &value)))
    }

    /// The dimensions, and where the first one is.
    fn dims(&self, shape: &Range<usize>) -> Option<(Vec<i64>, Option<Range<usize>>)> {
        let found = elements(&self.text[shape.clone()])?;
        let dims = found.iter().map(|dim| {
            let dim = &self.text[within(shape, dim)];
            std::str::from_utf8(dim).ok()?.parse().ok()
        });
        let first = found.first().map(|first| within(shape, first));
        Some((dims.collect::<Option<_>>()?, first))
    }

    fn data(&mut self, parts: &Parts, shape: &Shape, count: usize) -> Option<Data> {
        let tensor = self.tensors.len();
        match (&parts.data, &parts.size) {
            (Some(array), None) => {
                let scalars = shape.elements() / count;
                let text = &self.text[array.clone()];
                let (nesting, found) = rows(text, count, Some(scalars).filter(|n| *n > 0)?)?;
                let found: Vec<_> = found.iter().map(|row| within(array, row)).collect();
                let (first, last) = (found.first()?, found.last()?);
                self.holes.push((first.start..last.end, Hole::Data(tensor)));
                Some(Data::Text(nesting, found))
            }
            (None, Some(at)) => {
                let size = std::str::from_utf8(&self.text[at.clone()]).ok()?;
                let size = size.parse().ok().filter(|size| *size <= self.blobs.len())?;
                let data = self.blobs.split_to(size);
                let slices = Slices::of(parts.datatype?, shape, &data)?;
                self.holes.push((at.clone(), Hole::Size(tensor)));
                Some(Data::Blob(data, slices))
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
            return Err("binary data is left over".to_owned());
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

/// A range inside of another one, as a range of the whole.
fn within(outer: &Range<usize>, inner: &Range<usize>) -> Range<usize> {
    outer.start + inner.start..outer.start + inner.end
}
