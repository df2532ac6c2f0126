//! Reader of the tensors that `torch.save` writes as a pickle, as torch 2.8 stores the weights of a program.
//!
//! A pickle is a list of instructions for a stack. Only those that describe a dict of tensors are read, and the functions
//! that they name are compared with a list: nothing is called.

use std::collections::HashMap;
use std::rc::Rc;

use crate::error::ExportedError;
use crate::format::schema::{SymInt, TensorMeta};

/// Function that makes a tensor of elements, sizes and strides.
const TENSOR: &str = "torch._utils._rebuild_tensor_v2";

/// Classes of tensors, which say nothing about the elements.
const CLASSES: [&str; 2] = ["torch.Tensor", "torch.nn.parameter.Parameter"];

/// Largest number of dimensions of a tensor, which is that of libtorch.
const MOST_DIMENSIONS: usize = 64;

/// Deepest nesting of tuples, which bounds the stack when they are dropped. `torch.save` nests them three deep.
const DEEPEST: usize = 16;

/// Longest text in bytes. The names of weights and storages are texts, and the pickle may repeat each for every tensor.
const LONGEST_TEXT: usize = 1024;

/// Largest number of tensors.
const MOST_TENSORS: usize = 1 << 17;

/// A tensor of the pickle.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pickled {
    /// Name of the storage, which is an entry in the folder `data` of the archive.
    pub(crate) storage: String,
    element_type: i64,
    sizes: Rc<[i64]>,
    strides: Rc<[i64]>,
    offset: i64,
}

impl Pickled {
    pub(crate) fn meta(&self) -> TensorMeta {
        let numbers = |all: &[i64]| all.iter().copied().map(SymInt::AsInt).collect();
        TensorMeta {
            dtype: self.element_type,
            sizes: numbers(&self.sizes),
            strides: numbers(&self.strides),
            storage_offset: SymInt::AsInt(self.offset),
            layout: None,
        }
    }
}

/// A value on the stack. Parts are shared, because the pickle may repeat a value any number of times.
#[derive(Clone, Debug)]
enum Item {
    Mark,
    None,
    Bool,
    Int(i64),
    Text(Rc<str>),
    /// A function or class by its module and name.
    Global(Rc<str>),
    /// Values with the depth of their nesting.
    Tuple(Rc<[Item]>, usize),
    Dict,
    /// Element type and name of the storage.
    Storage(i64, Rc<str>),
    Tensor(Rc<Pickled>),
}

impl Item {
    /// Returns the depth of nested tuples; 0 for a value that is none.
    fn depth(&self) -> usize {
        match self {
            Self::Tuple(_, depth) => *depth,
            Self::Mark
            | Self::None
            | Self::Bool
            | Self::Int(_)
            | Self::Text(_)
            | Self::Global(_)
            | Self::Dict
            | Self::Storage(..)
            | Self::Tensor(_) => 0,
        }
    }
}

/// Returns the named tensors of a pickled dict.
///
/// # Errors
/// [`ExportedError::Unsupported`] with the first thing that is no tensor; [`ExportedError::Archive`] if it is cut off.
pub(crate) fn tensors(bytes: &[u8]) -> Result<Vec<(String, Pickled)>, ExportedError> {
    let mut machine = Machine { rest: bytes, stack: Vec::new(), memo: HashMap::new(), found: Vec::new() };
    while machine.step()? {}
    match machine.stack.as_slice() {
        [Item::Dict] => Ok(machine.found),
        _ => Err(unsupported("it is not a dict of tensors")),
    }
}

struct Machine<'a> {
    rest: &'a [u8],
    stack: Vec<Item>,
    memo: HashMap<u32, Item>,
    found: Vec<(String, Pickled)>,
}

impl Machine<'_> {
    /// Executes an instruction. Returns false after the last one.
    fn step(&mut self) -> Result<bool, ExportedError> {
        let item = match self.byte()? {
            b'.' => return Ok(false),
            // The version of the format.
            0x80 => return self.byte().map(|_| true),
            code @ (b'q' | b'r') => return self.remember(code).map(|()| true),
            code @ (b's' | b'u') => return self.set_items(code).map(|()| true),
            b'(' => Item::Mark,
            b'N' => Item::None,
            0x88 | 0x89 => Item::Bool,
            b'}' => Item::Dict,
            b')' => Item::Tuple(Rc::new([]), 1),
            code @ (0x85..=0x87 | b't') => self.tuple(code)?,
            code @ (b'h' | b'j') => self.recall(code)?,
            code @ (b'K' | b'M' | b'J' | 0x8a) => Item::Int(self.number(code)?),
            b'X' => self.text()?,
            b'c' => Item::Global(format!("{}.{}", self.line()?, self.line()?).into()),
            b'Q' => self.storage()?,
            b'R' => self.call()?,
            other => return Err(unsupported(&format!("it has the instruction {other:#04x}"))),
        };
        self.stack.push(item);
        Ok(true)
    }

    fn byte(&mut self) -> Result<u8, ExportedError> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, length: usize) -> Result<&[u8], ExportedError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(taken)
    }

    fn pop(&mut self) -> Result<Item, ExportedError> {
        self.stack.pop().ok_or_else(cut_off)
    }

    /// Reads the number that follows an instruction: unsigned in one or two bytes, signed in four bytes or after a
    /// length.
    fn number(&mut self, code: u8) -> Result<i64, ExportedError> {
        let length = match code {
            b'K' => 1,
            b'M' => 2,
            b'J' => 4,
            _ => usize::from(self.byte()?),
        };
        if length > 8 {
            return Err(unsupported("it has a number of more than 8 bytes"));
        }
        let bytes = self.take(length)?;
        let is_negative = matches!(code, b'J' | 0x8a) && bytes.last().is_some_and(|last| *last >= 0x80);
        let mut wide = [if is_negative { 0xff } else { 0 }; 8];
        wide[..length].copy_from_slice(bytes);
        Ok(i64::from_le_bytes(wide))
    }

    fn text(&mut self) -> Result<Item, ExportedError> {
        let length = u32::from_le_bytes(self.array()?) as usize;
        if length > LONGEST_TEXT {
            return Err(unsupported(&format!("a text has {length} bytes")));
        }
        let text = std::str::from_utf8(self.take(length)?);
        text.map(|text| Item::Text(text.into())).map_err(|_| cut_off())
    }

    fn array(&mut self) -> Result<[u8; 4], ExportedError> {
        self.take(4)?.try_into().map_err(|_| cut_off())
    }

    fn line(&mut self) -> Result<String, ExportedError> {
        let end = self.rest.iter().position(|byte| *byte == b'\n').ok_or_else(cut_off)?;
        let line = String::from_utf8_lossy(self.take(end)?).into_owned();
        self.byte().map(|_| line)
    }

    /// Takes the values after the last mark, or as many as the instruction says.
    fn tuple(&mut self, code: u8) -> Result<Item, ExportedError> {
        let items = match code {
            b't' => self.marked()?,
            _ => {
                let start = self.stack.len().checked_sub(usize::from(code - 0x84)).ok_or_else(cut_off)?;
                self.stack.split_off(start)
            }
        };
        let inner = items.iter().map(Item::depth).max().unwrap_or_default();
        if inner == DEEPEST {
            return Err(unsupported("its tuples are nested too deeply"));
        }
        Ok(Item::Tuple(items.into(), inner + 1))
    }

    fn marked(&mut self) -> Result<Vec<Item>, ExportedError> {
        let mark = self.stack.iter().rposition(|item| matches!(item, Item::Mark)).ok_or_else(cut_off)?;
        let items = self.stack.split_off(mark + 1);
        self.stack.pop();
        Ok(items)
    }

    fn index(&mut self, code: u8) -> Result<u32, ExportedError> {
        match code {
            b'q' | b'h' => self.byte().map(u32::from),
            _ => self.array().map(u32::from_le_bytes),
        }
    }

    fn remember(&mut self, code: u8) -> Result<(), ExportedError> {
        let index = self.index(code)?;
        let last = self.stack.last().ok_or_else(cut_off)?;
        self.memo.insert(index, last.clone());
        Ok(())
    }

    fn recall(&mut self, code: u8) -> Result<Item, ExportedError> {
        let index = self.index(code)?;
        self.memo.get(&index).cloned().ok_or_else(cut_off)
    }

    /// Reads a reference to elements: the word `storage`, the class of the elements, the name, the device and the size.
    fn storage(&mut self) -> Result<Item, ExportedError> {
        let Item::Tuple(parts, _) = self.pop()? else { return Err(unsupported("a reference is no tuple")) };
        match &*parts {
            [Item::Text(word), Item::Global(class), Item::Text(name), Item::Text(_), Item::Int(_)]
                if &**word == "storage" =>
            {
                let number = element_type(class).ok_or_else(|| unsupported(&format!("it has elements of {class}")))?;
                Ok(Item::Storage(number, Rc::clone(name)))
            }
            _ => Err(unsupported("a reference names no elements")),
        }
    }

    /// Executes a call: returns the value that one of the known functions would return, without calling it.
    fn call(&mut self) -> Result<Item, ExportedError> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        match (function, arguments) {
            (Item::Global(function), Item::Tuple(arguments, _)) => called(&function, &arguments),
            _ => Err(unsupported("it calls something that has no name")),
        }
    }

    /// Adds an entry, or all after a mark, to the dict that the pickle consists of. Other dicts have attributes of tensors,
    /// which are left out.
    fn set_items(&mut self, code: u8) -> Result<(), ExportedError> {
        let items = match code {
            b'u' => self.marked()?,
            _ => self.stack.split_off(self.stack.len().checked_sub(2).ok_or_else(cut_off)?),
        };
        if !matches!(self.stack.last(), Some(Item::Dict)) {
            return Err(unsupported("it adds to something that is no dict"));
        }
        if self.stack.len() > 1 {
            return Ok(());
        }
        if self.found.len() + items.len() / 2 > MOST_TENSORS {
            return Err(unsupported("it has too many tensors"));
        }
        for entry in items.chunks(2) {
            match entry {
                [Item::Text(name), Item::Tensor(tensor)] => self.found.push((name.to_string(), (**tensor).clone())),
                [Item::Text(name), _] => return Err(unsupported(&format!("'{name}' is no tensor"))),
                _ => return Err(unsupported("an entry of the dict has no name")),
            }
        }
        Ok(())
    }
}

fn called(function: &str, arguments: &[Item]) -> Result<Item, ExportedError> {
    match (function, arguments) {
        ("collections.OrderedDict", []) => Ok(Item::Dict),
        ("torch._utils._rebuild_parameter", [tensor @ Item::Tensor(_), ..]) => Ok(tensor.clone()),
        // A tensor with attributes: the function, the class, the arguments and the attributes.
        (
            "torch._tensor._rebuild_from_type_v2",
            [Item::Global(inner), Item::Global(class), Item::Tuple(arguments, _), ..],
        ) if CLASSES.contains(&&**class) && &**inner == TENSOR => called(inner, arguments),
        (TENSOR, [Item::Storage(element_type, name), Item::Int(offset), sizes, strides, ..]) => {
            let (Some(sizes), Some(strides)) = (numbers(sizes), numbers(strides)) else {
                return Err(unsupported("the sizes of a tensor are not at most 64 numbers"));
            };
            let (storage, element_type, offset) = (name.to_string(), *element_type, *offset);
            Ok(Item::Tensor(Rc::new(Pickled { storage, element_type, sizes, strides, offset })))
        }
        (function, _) => Err(unsupported(&format!("it calls {function}, which would be code"))),
    }
}

fn numbers(item: &Item) -> Option<Rc<[i64]>> {
    let Item::Tuple(items, _) = item else { return None };
    if items.len() > MOST_DIMENSIONS {
        return None;
    }
    let number = |item: &Item| match item {
        Item::Int(number) => Some(*number),
        _ => None,
    };
    items.iter().map(number).collect()
}

/// Returns the number that the schema of programs has for the elements of a class of storages.
fn element_type(class: &str) -> Option<i64> {
    Some(match class.strip_prefix("torch.")?.strip_suffix("Storage")? {
        "Byte" => 1,
        "Char" => 2,
        "Short" => 3,
        "Int" => 4,
        "Long" => 5,
        "Half" => 6,
        "Float" => 7,
        "Double" => 8,
        "ComplexFloat" => 10,
        "ComplexDouble" => 11,
        "Bool" => 12,
        "BFloat16" => 13,
        _ => return None,
    })
}

fn unsupported(what: &str) -> ExportedError {
    ExportedError::Unsupported(format!("in the pickle of its weights, {what}: export it again with torch 2.9 or later"))
}

fn cut_off() -> ExportedError {
    ExportedError::Archive("the pickle of its weights is cut off".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &[u8] = b"\x80\x02}q\x00(X\x01\x00\x00\x00wq\x01";
    const TENSOR: &[u8] =
        b"ctorch._utils\n_rebuild_tensor_v2\nq\x03((X\x07\x00\x00\x00storageq\x04ctorch\nHalfStorage\nq\x05\
        X\x01\x00\x00\x000q\x06X\x03\x00\x00\x00cpuq\x07K\x06tq\x08QK\x01K\x02K\x01\x86q\x09K\x01K\x01\x86q\x0a\x89\
        ccollections\nOrderedDict\nq\x0b)Rq\x0ctq\x0dRq\x0e";

    #[test]
    fn a_dict_of_tensors_is_read_without_calling_anything() {
        let found = tensors(&[START, TENSOR, b"X\x01\x00\x00\x00vh\x0eu."].concat()).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["w", "v"]);
        let expected = Pickled {
            storage: "0".to_owned(),
            element_type: 6,
            sizes: Rc::new([2, 1]),
            strides: Rc::new([1, 1]),
            offset: 1,
        };
        assert_eq!((&found[0].1, &found[1].1), (&expected, &expected));
        assert_eq!(tensors(b"\x80\x02}q\x00."), Ok(Vec::new()));
        assert_eq!(tensors(b"\x80\x02}X\x01\x00\x00\x00wNs."), Err(unsupported("'w' is no tensor")));
    }

    #[test]
    fn attributes_of_a_tensor_are_left_out() {
        let typed = b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n(\
            (X\x07\x00\x00\x00storagectorch\nByteStorage\nX\x01\x00\x00\x003X\x03\x00\x00\x00cpuK\x01tQK\x00K\x01\x85K\x01\x85\x89}t\
            }(X\x04\x00\x00\x00nameX\x03\x00\x00\x00idsutR";
        let found = tensors(&[START, typed, b"u."].concat()).unwrap();
        assert_eq!((found.len(), &*found[0].1.storage, &*found[0].1.sizes), (1, "3", [1_i64].as_slice()));
    }

    #[test]
    fn other_functions_and_values_are_refused_by_name() {
        let refused = |parts: &[&[u8]]| tensors(&parts.concat()).unwrap_err().to_string();
        assert!(refused(&[b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00ls\x85R."]).contains("calls posix.system"));
        assert!(refused(&[START, b"K\x05u."]).contains("'w' is no tensor"));
        assert!(refused(&[b"\x80\x02}\x8c\x01a."]).contains("instruction 0x8c"));
        assert!(refused(&[b"\x80\x02K\x05."]).contains("not a dict of tensors"));
    }

    #[test]
    fn a_pickle_that_ends_early_is_damaged() {
        let whole = [START, TENSOR, b"u."].concat();
        for length in 0..whole.len() {
            assert!(tensors(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn nested_tuples_and_long_sizes_are_refused() {
        let nested = [b"\x80\x02)".to_vec(), vec![0x85; 1_000_000]].concat();
        assert!(tensors(&nested).unwrap_err().to_string().contains("nested too deeply"));
        let sizes = |count| [b"(".to_vec(), b"K\x01".repeat(count), b"t".to_vec()].concat();
        let head = &TENSOR[..TENSOR.iter().position(|byte| *byte == b'Q').unwrap() + 1];
        let read = |count| tensors(&[START, head, b"K\x00", &sizes(count), &sizes(count), b"\x89NtRu."].concat());
        assert!(read(64).is_ok());
        assert!(read(65).unwrap_err().to_string().contains("at most 64 numbers"));
    }
}
