//! Converts an image file to a tensor.

use std::path::Path;

use half::f16;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader};

use super::image_input::{Channels, Element, ImageInput, Layout, Rank};
use super::npy::Array;
use crate::args::Range;

/// Most pixels of an image: 64 megapixels, the size of a large camera's images, and 768 MiB as three channels of
/// floats.
const MAX_PIXELS: u64 = 64 << 20;

/// Mean and standard deviation of ImageNet's channels, red first, from torchvision's documentation.
const IMAGENET: [(f32, f32); 3] = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)];

/// Reads an image file and rotates it as its EXIF data says. The error is a clause that says what is wrong.
pub(super) fn open(file: &Path) -> Result<DynamicImage, String> {
    let reader = ImageReader::open(file).and_then(ImageReader::with_guessed_format);
    let reader = reader.map_err(|error| error.to_string())?;
    if !matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg)) {
        return Err("neither PNG nor JPEG".to_owned());
    }
    let unreadable = |error| format!("cannot be read: {error}");
    let mut decoder = reader.into_decoder().map_err(unreadable)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(format!("{width}×{height} pixels are too many; {MAX_PIXELS} are allowed"));
    }
    let orientation = decoder.orientation().map_err(unreadable)?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(unreadable)?;
    image.apply_orientation(orientation);
    Ok(image)
}

/// Returns a message if the image will be resized; `None` if not.
pub(super) fn resizing(image: &DynamicImage, input: &ImageInput) -> Option<String> {
    let (from, to) = ((image.width(), image.height()), size(image, input));
    (from != to).then(|| format!("resized from {}×{} to {}×{}", from.0, from.1, to.0, to.1))
}

/// Converts the image to the tensor that the model takes; samples are mapped to `range`.
///
/// # Errors
/// A clause that says why the range does not fit the input.
pub(super) fn tensor(image: &DynamicImage, input: &ImageInput, range: Range) -> Result<Array, String> {
    let scales = scales(range, input)?;
    let (width, height) = size(image, input);
    let samples = samples(image, input.channels, (width, height));
    let channels = input.channels.count();
    let mut data = Vec::new();
    in_layout(input.layout, channels, &samples, |channel, sample| {
        let (mean, deviation) = scales[channel];
        encode(input.element, (sample - mean) / deviation, &mut data);
    });
    let (width, height) = (width as usize, height as usize);
    let mut shape = match input.layout {
        Layout::Chw => vec![channels, height, width],
        Layout::Hwc => vec![height, width, channels],
    };
    match input.rank {
        Rank::Three => {}
        Rank::Four => shape.insert(0, 1),
    }
    Ok(Array { datatype: input.element.datatype(), shape, data })
}

/// Calls `each` with every sample and its channel, in the order of `layout`; `samples` are ordered by pixel.
fn in_layout(layout: Layout, channels: usize, samples: &[f32], mut each: impl FnMut(usize, f32)) {
    match layout {
        Layout::Chw => {
            for channel in 0..channels {
                let plane = samples.iter().skip(channel).step_by(channels);
                plane.for_each(|sample| each(channel, *sample));
            }
        }
        Layout::Hwc => {
            let numbered = samples.iter().enumerate();
            numbered.for_each(|(i, sample)| each(i % channels, *sample));
        }
    }
}

/// Returns the range that models with this element type usually take.
pub(super) fn default_range(input: &ImageInput) -> Range {
    match input.element {
        Element::Uint8 => Range::BYTE,
        Element::Fp16 | Element::Fp32 | Element::Fp64 => Range::UNIT,
    }
}

/// Returns a clause about the assumed range, if the element type leaves it open. With a range other than the one of its
/// training, a model returns wrong results without an error. `None` for UINT8, which has one usual range.
pub(super) fn assumed_range(input: &ImageInput) -> Option<&'static str> {
    match input.element {
        Element::Uint8 => None,
        Element::Fp16 | Element::Fp32 | Element::Fp64 => Some(
            "black is sent as 0 and white as 1; if the model was trained on other values, set them with --range, such as \
             --range 0,255 or --range imagenet",
        ),
    }
}

/// Returns mean and deviation of each channel: a sample becomes `(sample - mean) / deviation`.
fn scales(range: Range, input: &ImageInput) -> Result<[(f32, f32); 3], String> {
    match (range, input.channels, input.element) {
        (Range::Between { black, white }, _, _) if black == white => {
            Err(format!("--range maps black and white to the same number, {black}"))
        }
        (Range::Between { black, white }, _, _) => {
            let deviation = (white - black).recip();
            Ok([(-black * deviation, deviation); 3])
        }
        (Range::Imagenet, Channels::Grey, _) => {
            Err("--range imagenet needs 3 channels, and the model takes 1".to_owned())
        }
        (Range::Imagenet, Channels::Rgb, Element::Uint8) => {
            Err("--range imagenet needs a floating-point input, and the model takes UINT8".to_owned())
        }
        (Range::Imagenet, Channels::Rgb, Element::Fp16 | Element::Fp32 | Element::Fp64) => Ok(IMAGENET),
    }
}

/// Returns width and height of the tensor, in pixels.
fn size(image: &DynamicImage, input: &ImageInput) -> (u32, u32) {
    let width = input.width.unwrap_or(image.width());
    (width, input.height.unwrap_or(image.height()))
}

/// Returns the image's samples from 0 to 1, ordered by pixel.
fn samples(image: &DynamicImage, channels: Channels, size: (u32, u32)) -> Vec<f32> {
    let resized =
        (size != (image.width(), image.height())).then(|| image.resize_exact(size.0, size.1, FilterType::Triangle));
    let image = resized.as_ref().unwrap_or(image);
    match channels {
        Channels::Grey => image.to_luma32f().into_raw(),
        Channels::Rgb => image.to_rgb32f().into_raw(),
    }
}

fn encode(element: Element, value: f32, data: &mut Vec<u8>) {
    match element {
        // A float cast saturates at the bounds of the type.
        Element::Uint8 => data.push(value.round() as u8),
        Element::Fp16 => data.extend(f16::from_f32(value).to_le_bytes()),
        Element::Fp32 => data.extend(value.to_le_bytes()),
        Element::Fp64 => data.extend(f64::from(value).to_le_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use image::{GrayImage, Luma, Rgb, RgbImage};

    use super::*;

    fn input(element: Element, layout: Layout, channels: Channels) -> ImageInput {
        ImageInput { name: "image".to_owned(), element, layout, channels, height: None, width: None, rank: Rank::Three }
    }

    /// Returns an image of a red and a blue pixel.
    fn colours() -> DynamicImage {
        let pixel = |x, _| match x {
            0 => Rgb([255, 0, 0]),
            _ => Rgb([0, 0, 255]),
        };
        RgbImage::from_fn(2, 1, pixel).into()
    }

    fn floats(array: &Array) -> Vec<f32> {
        let (each, _) = array.data.as_chunks::<4>();
        each.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    #[test]
    fn a_note_about_the_range_appears_only_if_the_type_leaves_it_open() {
        for element in [Element::Fp16, Element::Fp32, Element::Fp64] {
            let note = assumed_range(&input(element, Layout::Chw, Channels::Rgb)).unwrap();
            assert!(note.starts_with("black is sent as 0 and white as 1; "), "{note}");
        }
        let bytes = input(Element::Uint8, Layout::Chw, Channels::Rgb);
        assert_eq!(assumed_range(&bytes), None);
    }

    #[test]
    fn both_layouts_hold_the_same_samples() {
        let tensor = |layout| {
            let input = input(Element::Uint8, layout, Channels::Rgb);
            tensor(&colours(), &input, Range::BYTE).unwrap()
        };
        let planes = tensor(Layout::Chw);
        assert_eq!(planes.shape, [3, 1, 2]);
        assert_eq!(planes.data, [255, 0, 0, 0, 0, 255]);
        let pixels = tensor(Layout::Hwc);
        assert_eq!(pixels.shape, [1, 2, 3]);
        assert_eq!(pixels.data, [255, 0, 0, 0, 0, 255]);
        assert_eq!(pixels.datatype, "UINT8");
    }

    #[test]
    fn black_and_white_are_mapped_to_the_given_range() {
        let image = GrayImage::from_fn(3, 1, |x, _| Luma([[0, 51, 255][x as usize]]));
        let input = input(Element::Fp32, Layout::Chw, Channels::Grey);
        let mapped = |black, white| {
            let range = Range::Between { black, white };
            floats(&tensor(&image.clone().into(), &input, range).unwrap())
        };
        assert_eq!(mapped(0.0, 1.0), [0.0, 0.2, 1.0]);
        for (found, expected) in mapped(1.0, -1.0).iter().zip([1.0, 0.6, -1.0]) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn imagenet_has_a_mean_for_each_channel() {
        let planes = input(Element::Fp32, Layout::Chw, Channels::Rgb);
        let array = tensor(&colours(), &planes, Range::Imagenet).unwrap();
        let red = [(1.0 - 0.485) / 0.229, -0.485 / 0.229];
        assert_eq!(floats(&array)[..2], red);
        let grey = input(Element::Fp32, Layout::Chw, Channels::Grey);
        assert!(tensor(&colours(), &grey, Range::Imagenet).is_err());
        let bytes = input(Element::Uint8, Layout::Chw, Channels::Rgb);
        assert!(tensor(&colours(), &bytes, Range::Imagenet).is_err());
        let flat = Range::Between { black: 1.0, white: 1.0 };
        assert!(tensor(&colours(), &planes, flat).is_err());
    }

    #[test]
    fn an_image_is_resized_to_a_fixed_size() {
        let fixed = ImageInput {
            height: Some(4),
            width: Some(6),
            rank: Rank::Four,
            ..input(Element::Fp16, Layout::Chw, Channels::Grey)
        };
        let array = tensor(&colours(), &fixed, Range::UNIT).unwrap();
        assert_eq!(array.shape, [1, 1, 4, 6]);
        assert_eq!(array.data.len(), 2 * 4 * 6);
        let message = resizing(&colours(), &fixed).unwrap();
        assert_eq!(message, "resized from 2×1 to 6×4");
        let free = input(Element::Fp32, Layout::Chw, Channels::Rgb);
        assert_eq!(resizing(&colours(), &free), None);
    }

    #[test]
    fn the_example_s_picture_is_its_array() {
        let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/digits/inputs");
        let image = open(&inputs.join("digit-7-a.png")).unwrap();
        let input = input(Element::Fp32, Layout::Chw, Channels::Grey);
        let range = "0,16".parse().unwrap();
        let found = floats(&tensor(&image, &input, range).unwrap());
        let array = std::fs::read(inputs.join("digit-7-a.npy")).unwrap();
        let expected = floats(&Array::read(&array).unwrap());
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            // The PNG has about 16 grey levels for each level of the original scan, so a sample is off by at most half
            // a grey level.
            assert!((found - expected).abs() <= 0.5 / 15.9, "{found} {expected}");
        }
    }

    #[test]
    fn a_jpeg_is_read_whatever_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("picture.png");
        colours().save_with_format(&file, ImageFormat::Jpeg).unwrap();
        let image = open(&file).unwrap();
        assert_eq!((image.width(), image.height()), (2, 1));
    }

    #[test]
    fn a_file_without_an_image_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = |bytes: &[u8]| {
            let file = folder.path().join("a.png");
            std::fs::write(&file, bytes).unwrap();
            open(&file).unwrap_err()
        };
        assert_eq!(error(b"GIF89a......"), "neither PNG nor JPEG");
        let cut = error(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0");
        assert!(cut.starts_with("cannot be read: "), "{cut}");
    }

    #[test]
    fn an_image_of_too_many_pixels_is_refused_before_it_is_decoded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("large.png");
        // The file holds size, depth and a checksum, and announces pixels without containing any.
        let head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x23\x28\0\0\x23\x28\x08\0\0\0\0\x48\xbe\x2d\x66\0\0\0\x01IDAT";
        std::fs::write(&file, head).unwrap();
        let error = open(&file).unwrap_err();
        assert!(error.starts_with("9000×9000 pixels are too many"), "{error}");
    }
}
