//! Outputs that would overwrite each other in a region.

use weir_protocol::{Delivery, SharedRange, Tensor};

use super::SharedMemoryError;

/// Checks that no two outputs of a response lie over each other. What counts is the bytes that they have: many clients
/// announce more, such as the whole region for each.
///
/// # Errors
/// [`SharedMemoryError::Overlap`] naming both.
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

/// Two ranges of bytes overlap where each begins before the other ends.
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

    /// An output of so many bytes, in region `r` from an offset on.
    fn output(name: &str, offset: u64, bytes: usize) -> (Tensor, Delivery) {
        let shape = Shape::new(&[bytes as i64]).unwrap();
        let data = Bytes::from(vec![0; bytes]);
        let tensor = Tensor::new(name.to_owned(), DataType::Uint8, shape, data).unwrap();
        let range = SharedRange { region: "r".to_owned(), offset, size: 100 };
        (tensor, Delivery::Shared(range))
    }

    #[test]
    fn outputs_over_each_other_are_named() {
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
    fn outputs_apart_of_no_bytes_or_elsewhere_are_taken() {
        let mut elsewhere = output("d", 0, 4);
        if let Delivery::Shared(range) = &mut elsewhere.1 {
            range.region = "other".to_owned();
        }
        let (inline, _) = output("e", 0, 4);
        let outputs = [output("a", 0, 4), output("b", 4, 4), output("c", 2, 0), elsewhere, (inline, Delivery::Binary)];
        assert!(check_apart(&outputs).is_ok());
    }
}
