//! Arrays saved by `numpy.save`.

use npyz::{DType, NpyHeader, Order};

/// NumPy's type codes, each with the V2 name and the bytes of an element; V2 is little-endian.
const TYPES: [(&str, &str, usize); 12] = [
    ("|b1", "BOOL", 1),
    ("|u1", "UINT8", 1),
    ("<u2", "UINT16", 2),
    ("<u4", "UINT32", 4),
    ("<u8", "UINT64", 8),
    ("|i1", "INT8", 1),
    ("<i2", "INT16", 2),
    ("<i4", "INT32", 4),
    ("<i8", "INT64", 8),
    ("<f2", "FP16", 2),
    ("<f4", "FP32", 4),
    ("<f8", "FP64", 8),
];

/// An array in the V2 binary format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Array {
    /// V2 name of the element type.
    pub(super) datatype: &'static str,
    pub(super) shape: Vec<usize>,
    /// Elements in row-major order, little-endian.
    pub(super) data: Vec<u8>,
}

impl Array {
    /// Parses the content of a file. The error is a clause that says what is wrong.
    pub(super) fn read(mut content: &[u8]) -> Result<Self, String> {
        let header = NpyHeader::from_reader(&mut content).map_err(|_| "not a file that numpy.save wrote".to_owned())?;
        let (datatype, size) = element(&header.dtype())?;
        if header.order() == Order::Fortran {
            return Err("it is in Fortran order; save numpy.ascontiguousarray of it instead".to_owned());
        }
        let shape = header.shape().iter().map(|size| usize::try_from(*size));
        let shape: Vec<usize> = shape.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let bytes = shape.iter().try_fold(size, |n, d| n.checked_mul(*d));
        if bytes != Some(content.len()) {
            return Err(format!("a {datatype} array of shape {shape:?} does not have {} bytes", content.len()));
        }
        Ok(Self { datatype, shape, data: content.to_owned() })
    }
}

/// Returns the V2 name of an element type, and the bytes of an element.
fn element(dtype: &DType) -> Result<(&'static str, usize), String> {
    let DType::Plain(code) = dtype else {
        return Err("its elements are structures, which V2 does not support".to_owned());
    };
    let code = code.to_string();
    let known = TYPES.iter().find(|(known, _, _)| *known == code);
    let (_, datatype, size) =
        known.ok_or_else(|| format!("its elements are of type {code:?}, which V2 does not support"))?;
    Ok((datatype, *size))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a file in version 1 of NumPy's format.
    pub(in super::super) fn array(code: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn an_array_is_read() {
        let read = Array::read(&array("<i8", "(2,)", &[7; 16])).unwrap();
        assert_eq!((read.datatype, read.shape), ("INT64", vec![2]));
        assert_eq!(read.data, [7; 16]);
        let scalar = Array::read(&array("|b1", "()", &[1])).unwrap();
        assert_eq!(scalar.shape, Vec::<usize>::new());
    }

    #[test]
    fn arrays_that_cannot_be_sent_are_refused() {
        let error = |bytes: &[u8]| Array::read(bytes).unwrap_err();
        assert_eq!(error(b"PK"), "not a file that numpy.save wrote");
        let text = error(&array("<U3", "(1,)", &[0; 12]));
        let expected = "its elements are of type \"<U3\", which V2 does not support";
        assert_eq!(text, expected);
        let short = error(&array("<f4", "(3,)", &[0; 8]));
        assert_eq!(short, "a FP32 array of shape [3] does not have 8 bytes");
        let mut columns = array("<f4", "(1,)", &[0; 4]);
        let text = String::from_utf8_lossy(&columns).find("False").unwrap();
        assert!(text > 0);
        let at = columns.windows(5).position(|part| part == b"False").unwrap();
        columns.splice(at..at + 5, *b"True ");
        assert!(error(&columns).starts_with("it is in Fortran order"));
    }

    #[test]
    fn the_example_is_read() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/digits/inputs/digit-7-a.npy");
        let read = Array::read(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(read.shape, [1, 1, 8, 8]);
    }
}
