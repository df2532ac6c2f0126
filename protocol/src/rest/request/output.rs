//! Reads one requested output.

use std::num::NonZeroUsize;

use super::super::RestError;
use super::super::error::InField;
use super::once;
use crate::json::Reader;
use crate::{Delivery, RequestedOutput, SharedRange};

/// An output as described by the JSON.
#[derive(Debug, Default)]
pub(super) struct OutputHead {
    name: String,
    binary: Option<bool>,
    classes: Option<u64>,
    shared: SharedParameters,
}

/// Members of `parameters` that name a range of shared memory.
#[derive(Debug, Default)]
pub(super) struct SharedParameters {
    pub(super) region: Option<String>,
    offset: Option<u64>,
    size: Option<u64>,
}

const OBJECT: &str = "output";
const PARAMETERS: &str = "output parameters";

/// Reads an output object.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<OutputHead, RestError> {
    let mut output = OutputHead::default();
    let mut name = None;
    let mut parameters = None;
    reader.begin_object().field("outputs")?;
    while let Some(key) = reader.key().field("outputs")? {
        match &*key {
            "name" => once(&mut name, "name", OBJECT, Some(reader.string().field("name")?))?,
            "parameters" => {
                once(&mut parameters, "parameters", OBJECT, Some(()))?;
                output.read_parameters(reader)?;
            }
            other => reader.skip().field(other)?,
        }
    }
    output.name = name.ok_or_else(|| RestError::missing("name"))?.into_owned();
    output.check()?;
    Ok(output)
}

impl OutputHead {
    fn read_parameters(&mut self, reader: &mut Reader<'_>) -> Result<(), RestError> {
        if reader.null() {
            return Ok(());
        }
        reader.begin_object().field("parameters")?;
        while let Some(key) = reader.key().field("parameters")? {
            match &*key {
                "binary_data" => {
                    let binary = reader.boolean().field(&key)?;
                    once(&mut self.binary, &key, PARAMETERS, Some(binary))?;
                }
                "classification" => {
                    let classes = reader.unsigned().field(&key)?;
                    once(&mut self.classes, &key, PARAMETERS, Some(classes))?;
                }
                other => {
                    if !self.shared.read(other, reader)? {
                        reader.skip().field(other)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Refuses another encoding of an output in shared memory, which receives the tensor's own bytes.
    fn check(&self) -> Result<(), RestError> {
        let conflict = |other| Err(RestError::OutputConflict { other });
        match (&self.shared.region, self.classes, self.binary) {
            (Some(_), Some(_), _) => conflict("classification"),
            (Some(_), None, Some(true)) => conflict("binary_data"),
            (Some(_), None, Some(false) | None) | (None, _, _) => Ok(()),
        }
    }

    /// Chooses the delivery. An output that does not set its own follows the request's `binary_data_output`, as the
    /// binary extension documents. Triton follows that parameter only if no outputs are listed. Clients written for
    /// Triton set it on every output, so none of them breaks.
    pub(super) fn finish(self, default: &Delivery) -> RequestedOutput {
        let delivery = match (self.shared.range(), self.binary) {
            (Some(range), _) => Delivery::Shared(range),
            (None, Some(true)) => Delivery::Binary,
            (None, Some(false)) => Delivery::Json,
            (None, None) => default.clone(),
        };
        let classes = self.classes.map(|classes| usize::try_from(classes).unwrap_or(usize::MAX));
        RequestedOutput { name: self.name, delivery, classes: classes.and_then(NonZeroUsize::new) }
    }
}

impl SharedParameters {
    /// Reads the value of `key`. Returns `false` if `key` is not a parameter of shared memory.
    pub(super) fn read(&mut self, key: &str, reader: &mut Reader<'_>) -> Result<bool, RestError> {
        let object = "shared memory parameters";
        match key {
            "shared_memory_region" => {
                let region = reader.string().field(key)?.into_owned();
                once(&mut self.region, key, object, Some(region))?;
            }
            "shared_memory_offset" => {
                let offset = reader.unsigned().field(key)?;
                once(&mut self.offset, key, object, Some(offset))?;
            }
            "shared_memory_byte_size" => {
                let size = reader.unsigned().field(key)?;
                once(&mut self.size, key, object, Some(size))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the range if a region is named. A missing offset or size is 0, as in Triton.
    pub(super) fn range(&self) -> Option<SharedRange> {
        Some(SharedRange {
            region: self.region.clone()?,
            offset: self.offset.unwrap_or(0),
            size: self.size.unwrap_or(0),
        })
    }
}
