//! One input of a request.

use std::borrow::Cow;

use bytes::Bytes;

use super::super::error::InField;
use super::super::tensor_data::Wanted;
use super::super::{Limits, RestError};
use super::output::SharedParameters;
use super::shape::Dims;
use super::{once, shape};
use crate::json::{Mark, Reader};
use crate::{DataType, Shape, SharedRange};

/// An input as the JSON describes it.
#[derive(Debug)]
pub(super) struct InputHead {
    pub(super) name: String,
    pub(super) datatype: DataType,
    pub(super) shape: Shape,
    pub(super) place: Place,
}

/// Where its data is.
#[derive(Debug)]
pub(super) enum Place {
    /// It was in the JSON.
    Json(Bytes),
    /// So many bytes after the JSON.
    Blob(u64),
    /// In shared memory.
    Shared(SharedRange),
}

/// Members seen so far.
#[derive(Default)]
struct Draft<'a> {
    name: Option<Cow<'a, str>>,
    datatype: Option<Cow<'a, str>>,
    dims: Option<Dims>,
    binary: Option<u64>,
    shared: SharedParameters,
    parameters: Option<()>,
    data: Option<Data>,
}

/// The `data` member.
enum Data {
    /// Read already, because name, datatype and shape came before it.
    Read(Bytes),
    /// Stepped over; it is here.
    At(Mark),
}

const PLACE: &str = "input";

/// Reads an input object.
pub(super) fn read(reader: &mut Reader<'_>, limits: &Limits) -> Result<InputHead, RestError> {
    let mut draft = Draft::default();
    reader.begin_object().field("inputs")?;
    while let Some(key) = reader.key().field("inputs")? {
        match &*key {
            "name" => once(
                &mut draft.name,
                "name",
                PLACE,
                Some(reader.string().field("name")?),
            )?,
            "datatype" => {
                let datatype = reader.string().field("datatype")?;
                once(&mut draft.datatype, "datatype", PLACE, Some(datatype))?;
            }
            "shape" => once(&mut draft.dims, "shape", PLACE, Some(shape::read(reader)?))?,
            "parameters" => {
                once(&mut draft.parameters, "parameters", PLACE, Some(()))?;
                draft.read_parameters(reader)?;
            }
            "data" if reader.null() => {}
            "data" => {
                let data = draft.read_data(reader, limits)?;
                once(&mut draft.data, "data", PLACE, Some(data))?;
            }
            other => reader.skip().field(other)?,
        }
    }
    draft.finish(reader.text(), limits)
}

impl Draft<'_> {
    fn read_parameters(&mut self, reader: &mut Reader<'_>) -> Result<(), RestError> {
        if reader.null() {
            return Ok(());
        }
        reader.begin_object().field("parameters")?;
        while let Some(key) = reader.key().field("parameters")? {
            if key == "binary_data_size" {
                let size = reader.unsigned().field(&key)?;
                once(
                    &mut self.binary,
                    "binary_data_size",
                    "input parameters",
                    Some(size),
                )?;
            } else if !self.shared.read(&key, reader)? {
                reader.skip().field(&key)?;
            }
        }
        Ok(())
    }

    /// Reads the data where its type is known by now; otherwise notes its place.
    fn read_data(&self, reader: &mut Reader<'_>, limits: &Limits) -> Result<Data, RestError> {
        if let (Some(name), Some(datatype), Some(dims)) = (&self.name, &self.datatype, &self.dims) {
            let datatype = parse_datatype(name, datatype)?;
            let shape = shape::check(name, datatype, dims)?;
            let wanted = Wanted {
                name,
                field: "data",
                datatype,
                max_bytes: limits.max_json,
            };
            return Ok(Data::Read(wanted.array(reader, shape.elements())?));
        }
        let mark = reader.mark();
        reader.leap().field("data")?;
        Ok(Data::At(mark))
    }

    fn finish(self, text: &[u8], limits: &Limits) -> Result<InputHead, RestError> {
        // As Triton reads them: what is missing comes before where the data is.
        let source = self.check_source();
        let name = self.name.ok_or_else(|| RestError::missing("name"))?;
        let datatype = self
            .datatype
            .ok_or_else(|| RestError::missing("datatype"))?;
        let datatype = parse_datatype(&name, &datatype)?;
        let dims = self.dims.ok_or_else(|| RestError::missing("shape"))?;
        let shape = shape::check(&name, datatype, &dims)?;
        source?;
        let place = match (self.data, self.binary, self.shared.range()) {
            (Some(Data::Read(bytes)), _, _) => Place::Json(bytes),
            (Some(Data::At(mark)), _, _) => {
                let wanted = Wanted {
                    name: &name,
                    field: "data",
                    datatype,
                    max_bytes: limits.max_json,
                };
                let mut reader = Reader::resume(text, mark);
                Place::Json(wanted.array(&mut reader, shape.elements())?)
            }
            (None, Some(size), _) => Place::Blob(size),
            (None, None, Some(range)) => Place::Shared(range),
            (None, None, None) => return Err(source_error(&[])),
        };
        Ok(InputHead {
            name: name.into_owned(),
            datatype,
            shape,
            place,
        })
    }

    /// There must be one source, and only one.
    fn check_source(&self) -> Result<(), RestError> {
        let sources = [
            ("'data'", self.data.is_some()),
            ("'binary_data_size'", self.binary.is_some()),
            ("'shared_memory_region'", self.shared.region.is_some()),
        ];
        let set: Vec<&str> = sources
            .iter()
            .filter(|(_, set)| *set)
            .map(|(name, _)| *name)
            .collect();
        if set.len() == 1 {
            Ok(())
        } else {
            Err(source_error(&set))
        }
    }
}

fn source_error(set: &[&str]) -> RestError {
    let found = if set.is_empty() {
        "no field is set".to_owned()
    } else {
        format!("set {}", set.join(" "))
    };
    RestError::DataSource { found }
}

fn parse_datatype(input: &str, datatype: &str) -> Result<DataType, RestError> {
    DataType::parse(datatype).ok_or_else(|| RestError::Datatype {
        input: input.to_owned(),
        datatype: datatype.to_owned(),
    })
}
