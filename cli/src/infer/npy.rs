//! Reading what `numpy.save` writes, as NumPy's own page on the format describes it: a magic, a version,
//! a header that is a Python literal, and the elements.

/// What every file begins with.
const MAGIC: &[u8] = b"\x93NUMPY";

/// NumPy's type codes, with V2's names and the bytes of an element. V2 is little-endian.
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

/// An array, as V2 sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Array {
    /// V2's name of the element type.
    pub(super) datatype: &'static str,
    pub(super) shape: Vec<usize>,
    /// Row-major, little-endian.
    pub(super) data: Vec<u8>,
}

impl Array {
    /// Reads a file's bytes. The error is a clause that says what is wrong.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let (header, data) = split(bytes).ok_or("not a file that numpy.save wrote")?;
        let code = text(header, "descr")?;
        let known = TYPES.iter().find(|(known, _, _)| *known == code);
        let (_, datatype, size) =
            known.ok_or_else(|| format!("elements of type {code:?} have no place in V2"))?;
        if after(header, "fortran_order")?.starts_with("True") {
            return Err(
                "its columns come first; save numpy.ascontiguousarray of it instead".to_owned(),
            );
        }
        let shape = shape(header)?;
        let elements = shape.iter().try_fold(*size, |n, d| n.checked_mul(*d));
        if elements != Some(data.len()) {
            return Err(format!(
                "a {datatype} array of shape {shape:?} does not have {} bytes",
                data.len()
            ));
        }
        Ok(Self {
            datatype,
            shape,
            data: data.to_owned(),
        })
    }
}

/// The header and the elements.
fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (version, rest) = rest.split_first_chunk::<2>()?;
    // Version 1 has a short length; 2 and 3 a long one.
    let (length, rest) = match version {
        [1, _] => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (u32::from(u16::from_le_bytes(*length)), rest)
        }
        [2 | 3, _] => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            (u32::from_le_bytes(*length), rest)
        }
        [_, _] => return None,
    };
    let (header, data) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some((std::str::from_utf8(header).ok()?, data))
}

/// What follows a key.
fn after<'a>(header: &'a str, key: &str) -> Result<&'a str, String> {
    let quoted = format!("'{key}':");
    let found = header.split_once(&quoted);
    let (_, rest) = found.ok_or_else(|| format!("its header has no {key}"))?;
    Ok(rest.trim_start())
}

fn text<'a>(header: &'a str, key: &str) -> Result<&'a str, String> {
    let rest = after(header, key)?.strip_prefix('\'');
    let value = rest.and_then(|rest| rest.split('\'').next());
    value.ok_or_else(|| format!("its {key} is no plain type; structures have no place in V2"))
}

fn shape(header: &str) -> Result<Vec<usize>, String> {
    let fault = || "its header has no shape".to_owned();
    let rest = after(header, "shape")?
        .strip_prefix('(')
        .ok_or_else(fault)?;
    let (inside, _) = rest.split_once(')').ok_or_else(fault)?;
    let sizes = inside.split(',').map(str::trim).filter(|s| !s.is_empty());
    sizes
        .map(|size| size.parse().map_err(|_| fault()))
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// As NumPy writes version 1.
    pub(in super::super) fn array(code: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
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
    fn what_cannot_be_sent_is_said() {
        let error = |bytes: &[u8]| Array::read(bytes).unwrap_err();
        assert_eq!(error(b"PK"), "not a file that numpy.save wrote");
        let text = error(&array("<U3", "(1,)", &[0; 12]));
        assert_eq!(text, "elements of type \"<U3\" have no place in V2");
        let short = error(&array("<f4", "(3,)", &[0; 8]));
        assert_eq!(short, "a FP32 array of shape [3] does not have 8 bytes");
        let mut columns = array("<f4", "(1,)", &[0; 4]);
        let text = String::from_utf8_lossy(&columns).find("False").unwrap();
        assert!(text > 0);
        let at = columns
            .windows(5)
            .position(|part| part == b"False")
            .unwrap();
        columns.splice(at..at + 5, *b"True ");
        assert!(error(&columns).starts_with("its columns come first"));
    }

    #[test]
    fn the_example_is_read() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../examples/digits/inputs/digit-7-a.npy"
        );
        let read = Array::read(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(read.shape, [1, 1, 8, 8]);
    }
}
