//! Reads one input of a request.

use std::borrow::Cow;

use bytes::Bytes;

use super::super::error::InField;
use super::super::tensor_data::DataDecoder;
use super::super::{Limits, RestError};
use super::output::SharedParameters;
use super::shape::Dims;
use super::{once, shape};
use crate::json::{ReadPosition, Reader};
use crate::{DataType, Shape, SharedRange};

/// An input as described by the JSON.
#[derive(Debug)]
pub(super) struct InputHead {
    pub(super) name: String,
    pub(super) datatype: DataType,
    pub(super) shape: Shape,
    pub(super) data: InputData,
}

/// Location of an input's data.
#[derive(Debug)]
pub(super) enum InputData {
    /// Parsed data from the JSON.
    Json(Bytes),
    /// Size in bytes of a blob after the JSON.
    Blob(u64),
    /// A range of shared memory.
    Shared(SharedRange),
}

/// Members read so far.
#[derive(Default)]
struct InputDraft<'a> {
    name: Option<Cow<'a, str>>,
    datatype: Option<Cow<'a, str>>,
    dims: Option<Dims>,
    binary: Option<u64>,
    shared: SharedParameters,
    parameters: Option<()>,
    data: Option<DataMember>,
}

/// The member `data` of an input.
enum DataMember {
    /// Already parsed, because name, datatype and shape came before the data.
    Parsed(Bytes),
    /// Position at which the data was skipped, to be parsed once datatype and shape are known.
    Deferred(ReadPosition),
}

const OBJECT: &str = "input";

/// Reads an input object.
pub(super) fn read(reader: &mut Reader<'_>, limits: &Limits) -> Result<InputHead, RestError> {
    let mut draft = InputDraft::default();
    reader.begin_object().field("inputs")?;
    while let Some(key) = reader.key().field("inputs")? {
        match &*key {
            "name" => once(&mut draft.name, "name", OBJECT, Some(reader.string().field("name")?))?,
            "datatype" => {
                let datatype = reader.string().field("datatype")?;
                once(&mut draft.datatype, "datatype", OBJECT, Some(datatype))?;
            }
            "shape" => once(&mut draft.dims, "shape", OBJECT, Some(shape::read(reader)?))?,
            "parameters" => {
                once(&mut draft.parameters, "parameters", OBJECT, Some(()))?;
                draft.read_parameters(reader)?;
            }
            "data" if reader.null() => {}
            "data" => {
                let data = draft.read_data(reader, limits)?;
                once(&mut draft.data, "data", OBJECT, Some(data))?;
            }
            other => reader.skip().field(other)?,
        }
    }
    draft.finish(reader.text(), limits)
}

impl InputDraft<'_> {
    fn read_parameters(&mut self, reader: &mut Reader<'_>) -> Result<(), RestError> {
        if reader.null() {
            return Ok(());
        }
        reader.begin_object().field("parameters")?;
        while let Some(key) = reader.key().field("parameters")? {
            if key == "binary_data_size" {
                let size = reader.unsigned().field(&key)?;
                once(&mut self.binary, "binary_data_size", "input parameters", Some(size))?;
            } else if !self.shared.read(&key, reader)? {
                reader.skip().field(&key)?;
            }
        }
        Ok(())
    }

    /// Parses the data if its datatype and shape are already known; otherwise keeps its position.
    fn read_data(&self, reader: &mut Reader<'_>, limits: &Limits) -> Result<DataMember, RestError> {
        if let (Some(name), Some(datatype), Some(dims)) = (&self.name, &self.datatype, &self.dims) {
            let datatype = parse_datatype(name, datatype)?;
            let shape = shape::check(name, datatype, dims)?;
            let decoder = DataDecoder { name, field: "data", datatype, max_bytes: limits.max_json };
            return Ok(DataMember::Parsed(decoder.decode_array(reader, &shape)?));
        }
        let position = reader.position();
        reader.skip_unchecked().field("data")?;
        Ok(DataMember::Deferred(position))
    }

    fn finish(self, text: &[u8], limits: &Limits) -> Result<InputHead, RestError> {
        // Errors are in Triton's order: missing members are reported before a wrong source of data.
        let source = self.check_source();
        let name = self.name.ok_or_else(|| RestError::missing("name"))?;
        let datatype = self.datatype.ok_or_else(|| RestError::missing("datatype"))?;
        let datatype = parse_datatype(&name, &datatype)?;
        let dims = self.dims.ok_or_else(|| RestError::missing("shape"))?;
        let shape = shape::check(&name, datatype, &dims)?;
        source?;
        let data = match (self.data, self.binary, self.shared.range()) {
            (Some(DataMember::Parsed(bytes)), _, _) => InputData::Json(bytes),
            (Some(DataMember::Deferred(position)), _, _) => {
                let decoder = DataDecoder { name: &name, field: "data", datatype, max_bytes: limits.max_json };
                let mut reader = Reader::resume(text, position);
                InputData::Json(decoder.decode_array(&mut reader, &shape)?)
            }
            (None, Some(size), _) => InputData::Blob(size),
            (None, None, Some(range)) => InputData::Shared(range),
            (None, None, None) => return Err(source_error(&[])),
        };
        Ok(InputHead { name: name.into_owned(), datatype, shape, data })
    }

    /// Checks that there is exactly one source of data.
    fn check_source(&self) -> Result<(), RestError> {
        let sources = [
            ("'data'", self.data.is_some()),
            ("'binary_data_size'", self.binary.is_some()),
            ("'shared_memory_region'", self.shared.region.is_some()),
        ];
        let set: Vec<&str> = sources.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect();
        if set.len() == 1 { Ok(()) } else { Err(source_error(&set)) }
    }
}

fn source_error(set: &[&str]) -> RestError {
    let found = if set.is_empty() { "no field is set".to_owned() } else { format!("set {}", set.join(" ")) };
    RestError::DataSource { found }
}

fn parse_datatype(input: &str, datatype: &str) -> Result<DataType, RestError> {
    DataType::parse(datatype)
        .ok_or_else(|| RestError::Datatype { input: input.to_owned(), datatype: datatype.to_owned() })
}
