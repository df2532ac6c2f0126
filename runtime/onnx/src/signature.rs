//! Inputs and outputs of a model, as its file describes them.

#![expect(unsafe_code, reason = "reads the descriptions that the library made")]

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use ort_sys::{
    ONNXTensorElementDataType, ONNXType, OrtAllocator, OrtSession, OrtStatusPtr, OrtTensorTypeAndShapeInfo, OrtTypeInfo,
};
use weir_protocol::DataType;

use crate::element;
use crate::error::OnnxError;
use crate::library::Library;

/// A tensor that a model takes or returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name in the graph.
    pub name: String,
    /// Datatype of the elements.
    pub datatype: DataType,
    /// Dimensions; empty for a scalar, and for an output whose rank the file leaves open.
    pub dims: Vec<Dimension>,
}

/// A dimension of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// A size that every request must have.
    Fixed(i64),
    /// A size that requests choose. Dimensions with the same name are meant to be equal; the name is empty if the file
    /// has none.
    Variable(String),
}

/// An output that is no tensor of a V2 datatype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnservableOutput {
    /// Name in the graph.
    pub name: String,
    /// The output's type with an article, such as `a sequence`.
    pub what: String,
}

/// A function of the library that counts the inputs or the outputs.
type Count = unsafe extern "system" fn(*const OrtSession, *mut usize) -> OrtStatusPtr;
/// A function of the library that returns the name of an input or output.
type Name = unsafe extern "system" fn(*const OrtSession, usize, *mut OrtAllocator, *mut *mut c_char) -> OrtStatusPtr;
/// A function of the library that returns the type of an input or output.
type Type = unsafe extern "system" fn(*const OrtSession, usize, *mut *mut OrtTypeInfo) -> OrtStatusPtr;

/// The library's functions that describe all inputs of a session, or all outputs.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    count: Count,
    name: Name,
    type_info: Type,
}

/// An input or output with the name that runs pass to the library.
pub(crate) struct Described {
    pub(crate) name: CString,
    /// The tensor, or the type of a value that is none, with an article.
    pub(crate) tensor: Result<TensorInfo, String>,
}

impl Side {
    pub(crate) fn inputs(library: &Library) -> Self {
        let api = library.api();
        Self { count: api.SessionGetInputCount, name: api.SessionGetInputName, type_info: api.SessionGetInputTypeInfo }
    }

    pub(crate) fn outputs(library: &Library) -> Self {
        let api = library.api();
        Self {
            count: api.SessionGetOutputCount,
            name: api.SessionGetOutputName,
            type_info: api.SessionGetOutputTypeInfo,
        }
    }

    /// Describes all inputs or outputs of a live session.
    ///
    /// # Safety
    /// `session` must be alive.
    pub(crate) unsafe fn describe(
        self,
        library: &Library,
        session: *const OrtSession,
    ) -> Result<Vec<Described>, OnnxError> {
        let mut count = 0;
        // SAFETY: the caller guarantees that the session is alive, and the result is valid for writes.
        library.check(unsafe { (self.count)(session, &raw mut count) })?;
        // SAFETY: as above, with an index below the count.
        (0..count).map(|index| unsafe { self.one(library, session, index) }).collect()
    }

    unsafe fn one(self, library: &Library, session: *const OrtSession, index: usize) -> Result<Described, OnnxError> {
        // SAFETY: the caller guarantees that the session is alive and has this index.
        let name = unsafe { self.name_of(library, session, index) }?;
        let mut info = ptr::null_mut();
        // SAFETY: as above, and the result is valid for writes.
        library.check(unsafe { (self.type_info)(session, index, &raw mut info) })?;
        // SAFETY: the description was just made, and is freed once, after its last use.
        let tensor = unsafe {
            let tensor = tensor(library, info);
            (library.api().ReleaseTypeInfo)(info);
            tensor?
        };
        let text = name.to_string_lossy().into_owned();
        let tensor = tensor.map(|(datatype, dims)| TensorInfo { name: text, datatype, dims });
        Ok(Described { name, tensor })
    }

    unsafe fn name_of(self, library: &Library, session: *const OrtSession, index: usize) -> Result<CString, OnnxError> {
        let (mut allocator, mut name) = (ptr::null_mut(), ptr::null_mut());
        let api = library.api();
        // SAFETY: both results are valid for writes. The name is copied and then freed by the allocator that made it.
        unsafe {
            library.check((api.GetAllocatorWithDefaultOptions)(&raw mut allocator))?;
            library.check((self.name)(session, index, allocator, &raw mut name))?;
            let copy = CStr::from_ptr(name).to_owned();
            library.check((api.AllocatorFree)(allocator, name.cast()))?;
            Ok(copy)
        }
    }
}

/// Returns datatype and dimensions of a tensor; for another value its type with an article.
unsafe fn tensor(
    library: &Library,
    info: *const OrtTypeInfo,
) -> Result<Result<(DataType, Vec<Dimension>), String>, OnnxError> {
    let api = library.api();
    let mut kind = 0;
    // SAFETY: the caller's description is alive. The enumeration is written as the number that it is in C.
    library.check(unsafe { (api.GetOnnxTypeFromTypeInfo)(info, (&raw mut kind).cast::<ONNXType>()) })?;
    if kind != ONNXType::ONNX_TYPE_TENSOR as i32 {
        return Ok(Err(value_name(kind).to_owned()));
    }
    let mut tensor = ptr::null();
    // SAFETY: as above; the tensor's description belongs to `info`.
    unsafe {
        library.check((api.CastTypeInfoToTensorInfo)(info, &raw mut tensor))?;
        let element = element_type(library, tensor)?;
        let dims = dims(library, tensor)?;
        let names = dim_names(library, tensor, dims.len())?;
        let dims = dims.into_iter().zip(names).map(|(size, name)| match size {
            0.. => Dimension::Fixed(size),
            _ => Dimension::Variable(name),
        });
        let other = || format!("a tensor of {}", element::other_name(element));
        Ok(element::datatype(element).map(|datatype| (datatype, dims.collect())).ok_or_else(other))
    }
}

/// Returns the element type of a tensor, as a number.
///
/// # Safety
/// `tensor` must be alive.
pub(crate) unsafe fn element_type(
    library: &Library,
    tensor: *const OrtTensorTypeAndShapeInfo,
) -> Result<i32, OnnxError> {
    let mut element = 0;
    let out = (&raw mut element).cast::<ONNXTensorElementDataType>();
    // SAFETY: the caller's description is alive. The enumeration is written as the number that it is in C.
    library.check(unsafe { (library.api().GetTensorElementType)(tensor, out) })?;
    Ok(element)
}

/// Returns the dimensions of a tensor; -1 for one without a size.
///
/// # Safety
/// `tensor` must be alive.
pub(crate) unsafe fn dims(library: &Library, tensor: *const OrtTensorTypeAndShapeInfo) -> Result<Vec<i64>, OnnxError> {
    let api = library.api();
    let mut count = 0;
    // SAFETY: the caller's description is alive, and the results are valid for writes of their lengths.
    unsafe {
        library.check((api.GetDimensionsCount)(tensor, &raw mut count))?;
        let mut dims = vec![0; count];
        library.check((api.GetDimensions)(tensor, dims.as_mut_ptr(), count))?;
        Ok(dims)
    }
}

unsafe fn dim_names(
    library: &Library,
    tensor: *const OrtTensorTypeAndShapeInfo,
    count: usize,
) -> Result<Vec<String>, OnnxError> {
    let mut names: Vec<*const c_char> = vec![ptr::null(); count];
    // SAFETY: the caller's description is alive and has `count` dimensions. The names belong to it, and are copied.
    unsafe {
        library.check((library.api().GetSymbolicDimensions)(tensor, names.as_mut_ptr(), count))?;
        let text = |name: *const c_char| {
            if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
        };
        Ok(names.into_iter().map(text).collect())
    }
}

fn value_name(kind: i32) -> &'static str {
    match kind {
        2 => "a sequence",
        3 => "a map",
        4 => "an opaque value",
        5 => "a sparse tensor",
        6 => "an optional value",
        _ => "a value of unknown type",
    }
}
