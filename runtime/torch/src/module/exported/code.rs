//! A plan in the form that `shim/exported.cc` reads: numbers, of which some are indices of texts.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};

use weir_exported::{Call, Plan, PlanOutput, PlanValue, Program, Weight};

use crate::libtorch::ffi::RawExportedCode;

/// A plan as numbers and texts.
pub(super) struct PlanCode {
    numbers: Vec<i64>,
    texts: Vec<CString>,
    pointers: Vec<*const c_char>,
    by_text: BTreeMap<String, i64>,
}

impl PlanCode {
    /// Writes a plan. `payloads` has the index of each entry of the archive.
    pub(super) fn of(program: &Program, plan: &Plan, payloads: &BTreeMap<&str, usize>) -> Self {
        let mut code = Self { numbers: Vec::new(), texts: Vec::new(), pointers: Vec::new(), by_text: BTreeMap::new() };
        code.count(plan.slots);
        code.count(program.weights.len());
        for weight in &program.weights {
            code.weight(weight, payloads.get(weight.payload.entry.as_str()).copied().unwrap_or_default());
        }
        code.count(plan.constants);
        code.calls(&plan.preparation);
        code.count(plan.written_inputs.len());
        code.numbers.extend(plan.written_inputs.iter().map(|written| i64::from(*written)));
        code.calls(&plan.calls);
        code.slots(&plan.outputs);
        code.pointers = code.texts.iter().map(|text| text.as_ptr()).collect();
        code
    }

    /// Returns pointers to the code, which are valid as long as it lives.
    pub(super) fn as_raw(&self) -> RawExportedCode {
        RawExportedCode {
            numbers: self.numbers.as_ptr(),
            count: self.numbers.len(),
            texts: self.pointers.as_ptr(),
            text_count: self.pointers.len(),
        }
    }

    fn count(&mut self, count: usize) {
        self.numbers.push(count as i64);
    }

    fn slots(&mut self, slots: &[usize]) {
        self.count(slots.len());
        self.numbers.extend(slots.iter().map(|slot| *slot as i64));
    }

    /// Writes the index of a text. A NUL byte, which no operator's name has, ends the text.
    fn text(&mut self, text: &str) {
        let next = self.texts.len() as i64;
        let index = *self.by_text.entry(text.to_owned()).or_insert(next);
        if index == next {
            let text = text.split('\0').next().unwrap_or_default();
            self.texts.push(CString::new(text).unwrap_or_default());
        }
        self.numbers.push(index);
    }

    fn weight(&mut self, weight: &Weight, payload: usize) {
        self.count(payload);
        self.numbers.push(weight.element_type.into());
        self.count(weight.sizes.len());
        self.numbers.extend(&weight.sizes);
        // The shim reads one stride for each size, and a file may give another number of strides.
        let strides = weight.strides.iter().chain(std::iter::repeat(&0));
        self.numbers.extend(strides.take(weight.sizes.len()));
        self.numbers.push(weight.offset);
    }

    fn calls(&mut self, calls: &[Call]) {
        self.count(calls.len());
        calls.iter().for_each(|call| self.call(call));
    }

    fn call(&mut self, call: &Call) {
        self.text(&call.name);
        self.text(&call.overload);
        self.text(&call.place);
        self.count(call.arguments.len());
        for (name, value) in &call.arguments {
            self.text(name);
            self.value(value);
        }
        self.count(call.outputs.len());
        for output in &call.outputs {
            self.output(output);
        }
        self.count(call.guards.len());
        self.numbers.extend(call.guards.iter().flat_map(|(slot, expected)| [*slot as i64, i64::from(*expected)]));
        self.slots(&call.frees);
    }

    /// Writes a value after its kind, which has the numbers of `Tag` in the shim.
    fn value(&mut self, value: &PlanValue) {
        match value {
            PlanValue::None => self.numbers.push(0),
            PlanValue::Slot(slot) => self.numbers.extend([1, *slot as i64]),
            PlanValue::Int(number) => self.numbers.extend([2, *number]),
            PlanValue::Float(number) => self.numbers.extend([3, number.to_bits() as i64]),
            PlanValue::Bool(value) => self.numbers.extend([4, i64::from(*value)]),
            PlanValue::Text(text) => {
                self.numbers.push(5);
                self.text(text);
            }
            PlanValue::Device => self.numbers.push(6),
            PlanValue::List(items) => {
                self.numbers.push(7);
                self.count(items.len());
                items.iter().for_each(|item| self.value(item));
            }
        }
    }

    /// Writes a destination, which has the numbers of `Destination` in the shim.
    fn output(&mut self, output: &PlanOutput) {
        match output {
            PlanOutput::Slot(slot) => self.numbers.extend([0, *slot as i64]),
            PlanOutput::List(slots) => {
                self.numbers.push(1);
                self.slots(slots);
            }
            PlanOutput::Dropped => self.numbers.push(2),
        }
    }
}
