//! Decodes the body that registers system shared memory.

use super::RestError;
use super::error::InField;
use super::repository::object;

/// Body of `POST /v2/systemsharedmemory/region/NAME/register`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionRequest {
    /// Name of the shared memory object.
    pub key: String,
    /// Offset of the region in the object, in bytes.
    pub offset: u64,
    /// Size of the region, in bytes.
    pub byte_size: u64,
}

/// Decodes a registration.
///
/// # Errors
/// Fails if the body is not a JSON object, if `key` or `byte_size` is missing, or if a member has the wrong type.
pub fn decode_region(body: &[u8]) -> Result<RegionRequest, RestError> {
    let (mut region_key, mut offset, mut byte_size) = (None, 0, None);
    object(body, |reader, key| {
        match key {
            "key" => region_key = Some(reader.string().field(key)?.into_owned()),
            "offset" => offset = reader.unsigned().field(key)?,
            "byte_size" => byte_size = Some(reader.unsigned().field(key)?),
            _ => reader.skip().field(key)?,
        }
        Ok(())
    })?;
    Ok(RegionRequest {
        key: region_key.ok_or_else(|| RestError::missing("key"))?,
        offset,
        byte_size: byte_size.ok_or_else(|| RestError::missing("byte_size"))?,
    })
}
