//! Derives from a model's metadata how the model takes an image.

use std::num::{NonZeroU32, TryFromIntError};

use super::signature::{Signature, Tensor};

/// A model's input that takes an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageInput {
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) layout: Layout,
    pub(super) channels: Channels,
    /// Height in pixels; `None` if the model takes any.
    pub(super) height: Option<u32>,
    /// Width in pixels; `None` if the model takes any.
    pub(super) width: Option<u32>,
    pub(super) rank: Rank,
}

/// Element types that an image can be sent as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Uint8,
    Fp16,
    Fp32,
    Fp64,
}

/// Order of an image's dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Channel, height, width: one whole channel after another.
    Chw,
    /// Height, width, channel: all channels of a pixel, then the next pixel.
    Hwc,
}

/// Colour channels of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    Grey,
    Rgb,
}

/// Number of dimensions of an image's tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// An image alone: 3 dimensions.
    Three,
    /// A batch of one image: 4 dimensions.
    Four,
}

impl ImageInput {
    /// Returns the model's only input. The error is a clause that says why the model takes no image.
    pub(super) fn of(signature: &Signature) -> Result<Self, String> {
        match &*signature.inputs {
            [] => Err("the model has no input".to_owned()),
            [input] => Self::of_input(input),
            several => {
                let names: Vec<_> = several.iter().map(ToString::to_string).collect();
                Err(format!(
                    "the model has several inputs ({}), and --image gives only one; give all with --npy",
                    names.join(", ")
                ))
            }
        }
    }

    fn of_input(input: &Tensor) -> Result<Self, String> {
        let element = Element::of(&input.datatype)
            .ok_or_else(|| format!("the model's input {input} has a type that --image does not support"))?;
        let unsupported = || {
            format!(
                "the model's input {input} takes no image: its shape must be CHW or HWC with 1 or 3 channels, \
                 alone or behind a batch dimension"
            )
        };
        let (rank, sizes) = dimensions(&input.shape).ok_or_else(unsupported)?;
        let (layout, channels, [height, width]) = layout(sizes).ok_or_else(unsupported)?;
        Ok(Self {
            name: input.name.clone(),
            element,
            layout,
            channels,
            height: size(height).map_err(|_| unsupported())?,
            width: size(width).map_err(|_| unsupported())?,
            rank,
        })
    }
}

/// Returns the dimensions of one image, and whether there is a batch dimension before them.
fn dimensions(shape: &[i64]) -> Option<(Rank, [i64; 3])> {
    match *shape {
        [-1 | 1, a, b, c] => Some((Rank::Four, [a, b, c])),
        [a, b, c] => Some((Rank::Three, [a, b, c])),
        _ => None,
    }
}

/// Returns layout, channels, height and width. If both the first and the last dimension could be the channels, the
/// first one is taken, as in PyTorch.
fn layout(sizes: [i64; 3]) -> Option<(Layout, Channels, [i64; 2])> {
    let [first, middle, last] = sizes;
    match (Channels::of(first), Channels::of(last)) {
        (Some(channels), _) => Some((Layout::Chw, channels, [middle, last])),
        (None, Some(channels)) => Some((Layout::Hwc, channels, [first, middle])),
        (None, None) => None,
    }
}

/// Returns a size in pixels, at least 1; `None` if the model takes any.
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

    /// Returns the type's name in the V2 protocol.
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

    /// Returns the number of channels.
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

    fn input(datatype: &str, shape: &[i64]) -> Result<ImageInput, String> {
        let tensor = Tensor { name: "image".to_owned(), datatype: datatype.to_owned(), shape: shape.to_vec() };
        ImageInput::of(&Signature { inputs: vec![tensor], outputs: Vec::new() })
    }

    #[test]
    fn both_layouts_are_recognized() {
        let grey = input("FP32", &[-1, 1, 8, 9]).unwrap();
        assert_eq!((grey.layout, grey.channels), (Layout::Chw, Channels::Grey));
        assert_eq!((grey.height, grey.width), (Some(8), Some(9)));
        assert_eq!(grey.rank, Rank::Four);
        let colour = input("UINT8", &[224, 200, 3]).unwrap();
        let expected = (Layout::Hwc, Channels::Rgb, Rank::Three);
        assert_eq!((colour.layout, colour.channels, colour.rank), expected);
        assert_eq!((colour.height, colour.width), (Some(224), Some(200)));
        let any = input("FP16", &[1, 3, -1, -1]).unwrap();
        assert_eq!((any.height, any.width), (None, None));
    }

    #[test]
    fn a_model_that_takes_no_image_is_refused() {
        for shape in [&[-1, 16][..], &[8, 3, 2, 2], &[-1, -1, -1, -1], &[3, 0, 4], &[]] {
            let error = input("FP32", shape).unwrap_err();
            assert!(error.contains("takes no image: its shape must be"), "{error}");
        }
        let error = input("BYTES", &[1, 3, 4, 4]).unwrap_err();
        assert!(error.ends_with("has a type that --image does not support"), "{error}");
        let none = ImageInput::of(&Signature::default()).unwrap_err();
        assert_eq!(none, "the model has no input");
    }
}
