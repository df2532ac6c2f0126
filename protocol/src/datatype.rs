//! The element types of V2 tensors.

use std::fmt;

/// The type of a tensor's elements, with the names of V2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// Boolean: one byte, 0 or 1.
    Bool,
    /// Unsigned integer of 8 bits.
    Uint8,
    /// Unsigned integer of 16 bits.
    Uint16,
    /// Unsigned integer of 32 bits.
    Uint32,
    /// Unsigned integer of 64 bits.
    Uint64,
    /// Signed integer of 8 bits.
    Int8,
    /// Signed integer of 16 bits.
    Int16,
    /// Signed integer of 32 bits.
    Int32,
    /// Signed integer of 64 bits.
    Int64,
    /// IEEE 754 half-precision number.
    Fp16,
    /// IEEE 754 single-precision number.
    Fp32,
    /// IEEE 754 double-precision number.
    Fp64,
    /// bfloat16: the upper half of an `Fp32`.
    Bf16,
    /// Byte string. On the wire, each element is a little-endian `u32` length followed by its bytes.
    Bytes,
}

impl DataType {
    /// Every datatype, in the order of Triton's `model_config.proto`.
    pub const ALL: [Self; 14] = [
        Self::Bool,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Fp16,
        Self::Fp32,
        Self::Fp64,
        Self::Bytes,
        Self::Bf16,
    ];

    /// Returns the V2 name, such as `FP32`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::Uint8 => "UINT8",
            Self::Uint16 => "UINT16",
            Self::Uint32 => "UINT32",
            Self::Uint64 => "UINT64",
            Self::Int8 => "INT8",
            Self::Int16 => "INT16",
            Self::Int32 => "INT32",
            Self::Int64 => "INT64",
            Self::Fp16 => "FP16",
            Self::Fp32 => "FP32",
            Self::Fp64 => "FP64",
            Self::Bf16 => "BF16",
            Self::Bytes => "BYTES",
        }
    }

    /// Returns the datatype with this V2 name. Case matters, as in Triton.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|datatype| datatype.name() == name)
    }

    /// Returns the bytes per element; `None` for [`DataType::Bytes`], whose elements differ in size.
    #[must_use]
    pub const fn size(self) -> Option<usize> {
        match self {
            Self::Bool | Self::Uint8 | Self::Int8 => Some(1),
            Self::Uint16 | Self::Int16 | Self::Fp16 | Self::Bf16 => Some(2),
            Self::Uint32 | Self::Int32 | Self::Fp32 => Some(4),
            Self::Uint64 | Self::Int64 | Self::Fp64 => Some(8),
            Self::Bytes => None,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
