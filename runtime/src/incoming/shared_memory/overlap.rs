//! Finds outputs that would overwrite each other in a region.

use weir_protocol::{Delivery, SharedRange, Tensor};

use super::SharedMemoryError;

/// Checks that no two outputs of a response overlap in a region. Only their actual bytes count, because many clients
/// announce a larger range for each output, such as the whole region.
///
/// # Errors
/// [`SharedMemoryError::Overlap`] that names both outputs.
pub(crate) fn check_apart(outputs: &[(Tensor, Delivery)]) -> Result<(), SharedMemoryError> {
    for (i, (output, delivery)) in outputs.iter().enumerate() {
        let Delivery::Shared(range) = delivery else {
            continue;
        };
        let mut before = outputs[..i].iter();
        let first = before.find(|(other, delivery)| match delivery {
            Delivery::Shared(taken) => overlap((taken, other), (range, output)),
            Delivery::Json | Delivery::Binary => false,
        });
        if let Some((first, _)) = first {
            return Err(SharedMemoryError::Overlap {
                first: first.name().to_owned(),
                second: output.name().to_owned(),
                region: range.region.clone(),
            });
        }
    }
    Ok(())
}

/// Returns true if the byte ranges of two outputs overlap: each starts before the other ends.
fn overlap(first: (&SharedRange, &Tensor), second: (&SharedRange, &Tensor)) -> bool {
    let end = |(range, tensor): (&SharedRange, &Tensor)| range.offset.saturating_add(tensor.data().len() as u64);
    first.0.region == second.0.region
        && first.0.offset < end(second)
        && second.0.offset < end(first)
        && !first.1.data().is_empty()
        && !second.1.data().is_empty()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use weir_protocol::{DataType, Shape};

    use super::*;

    /// An output of `bytes` bytes that starts at `offset` in region `r`.
    fn output(name: &str, offset: u64, bytes: usize) -> (Tensor, Delivery) {
        let shape = Shape::new(&[bytes as i64]).unwrap();
        let data = Bytes::from(vec![0; bytes]);
        let tensor = Tensor::new(name.to_owned(), DataType::Uint8, shape, data).unwrap();
        let range = SharedRange { region: "r".to_owned(), offset, size: 100 };
        (tensor, Delivery::Shared(range))
    }

    #[test]
    fn overlapping_outputs_are_named() {
        for offset in [0, 3, 7] {
            let outputs = [output("a", 4, 4), output("b", offset, 4)];
            let expected = offset != 0;
            assert_eq!(check_apart(&outputs).is_err(), expected, "{offset}");
        }
        let outputs = [output("a", 0, 4), output("b", 8, 4), output("c", 0, 4)];
        assert_eq!(
            check_apart(&outputs).unwrap_err().to_string(),
            "outputs 'a' and 'c' overwrite each other in shared memory region 'r': give each its own \
             'shared_memory_offset'"
        );
    }

    #[test]
    fn outputs_that_do_not_overlap_are_accepted() {
        let mut elsewhere = output("d", 0, 4);
        if let Delivery::Shared(range) = &mut elsewhere.1 {
            range.region = "other".to_owned();
        }
        let (inline, _) = output("e", 0, 4);
        let outputs = [output("a", 0, 4), output("b", 4, 4), output("c", 2, 0), elsewhere, (inline, Delivery::Binary)];
        assert!(check_apart(&outputs).is_ok());
    }
}
