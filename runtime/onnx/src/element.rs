//! Conversion between V2 datatypes and onnxruntime's element types.

use ort_sys::ONNXTensorElementDataType as Element;
use weir_protocol::DataType;

/// Each datatype with its element type.
const TYPES: [(DataType, Element); 14] = [
    (DataType::Fp32, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT),
    (DataType::Uint8, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8),
    (DataType::Int8, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8),
    (DataType::Uint16, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16),
    (DataType::Int16, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16),
    (DataType::Int32, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32),
    (DataType::Int64, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64),
    (DataType::Bytes, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING),
    (DataType::Bool, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL),
    (DataType::Fp16, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16),
    (DataType::Fp64, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE),
    (DataType::Uint32, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32),
    (DataType::Uint64, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64),
    (DataType::Bf16, Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16),
];

/// Names of the element types that V2 does not have, from number 14.
const OTHERS: [&str; 13] = [
    "complex64",
    "complex128",
    "bfloat16",
    "float8e4m3fn",
    "float8e4m3fnuz",
    "float8e5m2",
    "float8e5m2fnuz",
    "uint4",
    "int4",
    "float4e2m1",
    "uint2",
    "int2",
    "float8e8m0",
];

/// Returns onnxruntime's element type of a datatype.
pub(crate) fn element_type(datatype: DataType) -> Element {
    let found = TYPES.iter().find(|(candidate, _)| *candidate == datatype);
    found.map_or(Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED, |(_, element)| *element)
}

/// Returns the datatype of the element type with this number; `None` for types that V2 does not have.
pub(crate) fn datatype(element_type: i32) -> Option<DataType> {
    TYPES.iter().find(|(_, element)| *element as i32 == element_type).map(|(datatype, _)| *datatype)
}

/// Returns the name of an element type that V2 does not have.
pub(crate) fn other_name(element_type: i32) -> &'static str {
    let index = usize::try_from(element_type - 14).ok();
    index.and_then(|index| OTHERS.get(index)).copied().unwrap_or("an unknown type")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datatype_has_an_element_type_of_its_own() {
        for expected in DataType::ALL {
            assert_eq!(datatype(element_type(expected) as i32), Some(expected));
        }
        assert_eq!((datatype(0), datatype(14), other_name(17)), (None, None, "float8e4m3fn"));
    }
}
