//! Gathers the rows and columns of a V1 request into one buffer per input.

use std::borrow::Cow;

use super::super::error::InField;
use super::super::tensor_data::DataDecoder;
use super::super::{Limits, RestError, TargetModel};
use super::nested::NestedShape;
use super::predict_error;
use crate::json::Reader;
use crate::{Input, Shape, Source, TensorSpec};

/// Inputs read so far, with one column for each.
pub(super) struct Columns<'a> {
    target: &'a TargetModel<'a>,
    limits: &'a Limits,
    columns: Vec<Column<'a>>,
    /// Number of rows read; `None` unless the body has rows by input name.
    rows: Option<usize>,
}

struct Column<'a> {
    spec: &'a TensorSpec,
    shape: NestedShape,
    data: Vec<u8>,
    /// Number of rows that have this input.
    rows: usize,
}

impl<'a> Columns<'a> {
    pub(super) fn new(target: &'a TargetModel<'a>, limits: &'a Limits) -> Self {
        Self { target, limits, columns: Vec::new(), rows: None }
    }

    /// Reads the whole tensor of the model's only input.
    pub(super) fn read_only(&mut self, reader: &mut Reader<'_>, field: &str) -> Result<(), RestError> {
        let [spec] = self.target.inputs else {
            return Err(predict_error(format!(
                "'{field}' must name the inputs: model '{}' has {} inputs",
                self.target.model,
                self.target.inputs.len()
            )));
        };
        let index = self.column(Cow::Borrowed(&spec.name))?;
        self.read_value(reader, index)
    }

    /// Reads an object of tensors by input name.
    pub(super) fn read_named(&mut self, reader: &mut Reader<'_>) -> Result<(), RestError> {
        reader.begin_object().field("inputs")?;
        while let Some(name) = reader.key().field("inputs")? {
            let index = self.column(name)?;
            self.read_value(reader, index)?;
            let column = &mut self.columns[index];
            column.rows += 1;
            if column.rows > 1 {
                let name = column.spec.name.clone();
                return Err(RestError::DuplicateInput { name });
            }
        }
        Ok(())
    }

    /// Reads one row: an object of values by input name.
    pub(super) fn read_row(&mut self, reader: &mut Reader<'_>) -> Result<(), RestError> {
        let row = self.rows.unwrap_or(0);
        reader.begin_object().field("instances")?;
        while let Some(name) = reader.key().field("instances")? {
            let index = self.column(name)?;
            self.read_value(reader, index)?;
            let column = &mut self.columns[index];
            column.rows += 1;
            if column.rows != row + 1 {
                return Err(differs(row, &column.spec.name));
            }
        }
        for column in &self.columns {
            if column.rows != row + 1 {
                return Err(differs(row, &column.spec.name));
            }
        }
        self.rows = Some(row + 1);
        Ok(())
    }

    /// Returns the inputs in the order in which the body names them.
    pub(super) fn finish(self) -> Result<Vec<Input>, RestError> {
        let rows = self.rows;
        if self.columns.is_empty() && rows.is_some_and(|rows| rows > 1) {
            // A request without tensors would count as one row, so the other rows would get no response.
            return Err(predict_error("'instances' must name the inputs: these are empty objects"));
        }
        let inputs = self.columns.into_iter().map(|column| {
            let dims: Vec<i64> = rows.into_iter().chain(column.shape.dims()).map(|dim| dim as i64).collect();
            Ok(Input {
                name: column.spec.name.clone(),
                datatype: column.spec.datatype,
                shape: Shape::new(&dims)?,
                source: Source::Inline(column.data.into()),
            })
        });
        inputs.collect()
    }

    fn column(&mut self, name: Cow<'_, str>) -> Result<usize, RestError> {
        if let Some(index) = self.columns.iter().position(|column| column.spec.name == name) {
            return Ok(index);
        }
        let Some(spec) = self.target.inputs.iter().find(|spec| spec.name == name) else {
            return Err(predict_error(format!(
                "unexpected inference input '{name}' for model '{}'",
                self.target.model
            )));
        };
        self.columns.push(Column { spec, shape: NestedShape::default(), data: Vec::new(), rows: 0 });
        Ok(self.columns.len() - 1)
    }

    fn read_value(&mut self, reader: &mut Reader<'_>, index: usize) -> Result<(), RestError> {
        let column = &mut self.columns[index];
        let decoder = DataDecoder {
            name: &column.spec.name,
            field: &column.spec.name,
            datatype: column.spec.datatype,
            max_bytes: self.limits.max_json,
        };
        column.shape.read(reader, &decoder, &mut column.data)
    }
}

fn differs(row: usize, input: &str) -> RestError {
    predict_error(format!("instance {row} must have input '{input}' once, as the other instances do"))
}
