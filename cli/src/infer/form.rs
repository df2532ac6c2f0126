//! How a model takes a picture, found out from its metadata.

use std::num::{NonZeroU32, TryFromIntError};

use super::signature::{Signature, Tensor};

/// How an input takes a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// The input's name.
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) order: Order,
    pub(super) channels: Channels,
    /// Pixels; none where any height will do.
    pub(super) height: Option<u32>,
    /// Pixels; none where any width will do.
    pub(super) width: Option<u32>,
    pub(super) rank: Rank,
}

/// Types that a picture's samples can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Uint8,
    Fp16,
    Fp32,
    Fp64,
}

/// What changes slowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// One whole channel after another: CHW.
    Planes,
    /// All channels of a pixel, then the next pixel: HWC.
    Pixels,
}

/// The colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    Grey,
    Rgb,
}

/// Whether there is a dimension for the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    Picture,
    BatchOfOne,
}

impl Form {
    /// The form of the model's one input. The error is a clause that says why a picture does not fit.
    pub(super) fn of(signature: &Signature) -> Result<Self, String> {
        match &*signature.inputs {
            [] => Err("the model has no input".to_owned()),
            [input] => Self::of_input(input),
            several => {
                let names: Vec<_> = several.iter().map(ToString::to_string).collect();
                Err(format!(
                    "the model has several inputs ({}), and a picture is only one; give all with --npy",
                    names.join(", ")
                ))
            }
        }
    }

    fn of_input(input: &Tensor) -> Result<Self, String> {
        let element = Element::of(&input.datatype)
            .ok_or_else(|| format!("the model's input {input} is of a type that no picture has"))?;
        let fault = || {
            format!(
                "the model's input {input} does not look like a picture: 1 or 3 channels, height and width, \
                 in the order CHW or HWC, alone or in a batch"
            )
        };
        let (rank, sizes) = dimensions(&input.shape).ok_or_else(fault)?;
        let (order, channels, [height, width]) = layout(sizes).ok_or_else(fault)?;
        Ok(Self {
            name: input.name.clone(),
            element,
            order,
            channels,
            height: size(height).map_err(|_| fault())?,
            width: size(width).map_err(|_| fault())?,
            rank,
        })
    }
}

/// The dimensions of one picture.
fn dimensions(shape: &[i64]) -> Option<(Rank, [i64; 3])> {
    match *shape {
        [-1 | 1, a, b, c] => Some((Rank::BatchOfOne, [a, b, c])),
        [a, b, c] => Some((Rank::Picture, [a, b, c])),
        _ => None,
    }
}

/// Order, channels, height and width. Where both ends could be channels, the first is, as in PyTorch.
fn layout(sizes: [i64; 3]) -> Option<(Order, Channels, [i64; 2])> {
    let [first, middle, last] = sizes;
    match (Channels::of(first), Channels::of(last)) {
        (Some(channels), _) => Some((Order::Planes, channels, [middle, last])),
        (None, Some(channels)) => Some((Order::Pixels, channels, [first, middle])),
        (None, None) => None,
    }
}

/// Pixels, at least one; none where any number will do.
fn size(size: i64) -> Result<Option<u32>, TryFromIntError> {
    match size {
        -1 => Ok(None),
        size => Ok(Some(NonZeroU32::try_from(u32::try_from(size)?)?.get())),
    }
}

impl Element {
    fn of(datatype: &str) -> Option<Self> {
        match datatype {
            "UINT8" => Some(Self::Uint8),
            "FP16" => Some(Self::Fp16),
            "FP32" => Some(Self::Fp32),
            "FP64" => Some(Self::Fp64),
            _ => None,
        }
    }

    /// V2's name.
    pub(super) fn datatype(self) -> &'static str {
        match self {
            Self::Uint8 => "UINT8",
            Self::Fp16 => "FP16",
            Self::Fp32 => "FP32",
            Self::Fp64 => "FP64",
        }
    }
}

impl Channels {
    fn of(count: i64) -> Option<Self> {
        match count {
            1 => Some(Self::Grey),
            3 => Some(Self::Rgb),
            _ => None,
        }
    }

    /// How many.
    pub(super) fn count(self) -> usize {
        match self {
            Self::Grey => 1,
            Self::Rgb => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(datatype: &str, shape: &[i64]) -> Result<Form, String> {
        let input = Tensor {
            name: "image".to_owned(),
            datatype: datatype.to_owned(),
            shape: shape.to_vec(),
        };
        Form::of(&Signature {
            inputs: vec![input],
            outputs: Vec::new(),
        })
    }

    #[test]
    fn both_orders_are_told_apart() {
        let grey = form("FP32", &[-1, 1, 8, 9]).unwrap();
        assert_eq!((grey.order, grey.channels), (Order::Planes, Channels::Grey));
        assert_eq!((grey.height, grey.width), (Some(8), Some(9)));
        assert_eq!(grey.rank, Rank::BatchOfOne);
        let colour = form("UINT8", &[224, 200, 3]).unwrap();
        let expected = (Order::Pixels, Channels::Rgb, Rank::Picture);
        assert_eq!((colour.order, colour.channels, colour.rank), expected);
        assert_eq!((colour.height, colour.width), (Some(224), Some(200)));
        let any = form("FP16", &[1, 3, -1, -1]).unwrap();
        assert_eq!((any.height, any.width), (None, None));
    }

    #[test]
    fn what_takes_no_picture_is_said() {
        for shape in [
            &[-1, 16][..],
            &[8, 3, 2, 2],
            &[-1, -1, -1, -1],
            &[3, 0, 4],
            &[],
        ] {
            let error = form("FP32", shape).unwrap_err();
            assert!(error.contains("does not look like a picture"), "{error}");
        }
        let error = form("BYTES", &[1, 3, 4, 4]).unwrap_err();
        assert!(
            error.ends_with("is of a type that no picture has"),
            "{error}"
        );
        let none = Form::of(&Signature::default()).unwrap_err();
        assert_eq!(none, "the model has no input");
    }
}
