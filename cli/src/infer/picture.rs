//! From an image file to a tensor.

use std::path::Path;

use half::f16;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader};

use super::form::{Channels, Element, Form, Order, Rank};
use super::npy::Array;
use crate::args::Range;

/// 64 megapixels: what a large camera makes, and 768 MiB as floats of three channels.
const MOST_PIXELS: u64 = 64 << 20;

/// Mean and deviation of ImageNet's channels, red first, as torchvision's pages give them.
const IMAGENET: [(f32, f32); 3] = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)];

/// Reads a file, turned as its camera was held. The error is a clause that says what is wrong with it.
pub(super) fn open(file: &Path) -> Result<DynamicImage, String> {
    let reader = ImageReader::open(file).and_then(ImageReader::with_guessed_format);
    let reader = reader.map_err(|error| error.to_string())?;
    if !matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg)) {
        return Err("neither PNG nor JPEG".to_owned());
    }
    let unreadable = |error| format!("cannot be read: {error}");
    let mut decoder = reader.into_decoder().map_err(unreadable)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        return Err(format!(
            "{width}×{height} pixels are too many; {MOST_PIXELS} are allowed"
        ));
    }
    let orientation = decoder.orientation().map_err(unreadable)?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(unreadable)?;
    image.apply_orientation(orientation);
    Ok(image)
}

/// What is done to a picture before it is sent, for people; `None` where nothing is.
pub(super) fn resizing(image: &DynamicImage, form: &Form) -> Option<String> {
    let (from, to) = ((image.width(), image.height()), size(image, form));
    (from != to).then(|| format!("resized from {}×{} to {}×{}", from.0, from.1, to.0, to.1))
}

/// The picture as the model takes it; samples are mapped to `range`.
///
/// # Errors
/// A clause that says why the range does not fit the form.
pub(super) fn tensor(image: &DynamicImage, form: &Form, range: Range) -> Result<Array, String> {
    let scales = scales(range, form)?;
    let (width, height) = size(image, form);
    let samples = samples(image, form.channels, (width, height));
    let channels = form.channels.count();
    let mut data = Vec::new();
    in_order(form.order, channels, &samples, |channel, sample| {
        let (mean, deviation) = scales[channel];
        encode(form.element, (sample - mean) / deviation, &mut data);
    });
    let (width, height) = (width as usize, height as usize);
    let mut shape = match form.order {
        Order::Planes => vec![channels, height, width],
        Order::Pixels => vec![height, width, channels],
    };
    match form.rank {
        Rank::Picture => {}
        Rank::BatchOfOne => shape.insert(0, 1),
    }
    Ok(Array {
        datatype: form.element.datatype(),
        shape,
        data,
    })
}

/// Hands over each sample with its channel; `samples` are pixel by pixel.
fn in_order(order: Order, channels: usize, samples: &[f32], mut each: impl FnMut(usize, f32)) {
    match order {
        Order::Planes => {
            for channel in 0..channels {
                let plane = samples.iter().skip(channel).step_by(channels);
                plane.for_each(|sample| each(channel, *sample));
            }
        }
        Order::Pixels => {
            let numbered = samples.iter().enumerate();
            numbered.for_each(|(i, sample)| each(i % channels, *sample));
        }
    }
}

/// The range that models of this type usually take.
pub(super) fn usual_range(form: &Form) -> Range {
    match form.element {
        Element::Uint8 => Range::BYTE,
        Element::Fp16 | Element::Fp32 | Element::Fp64 => Range::UNIT,
    }
}

/// Of each channel, what is taken off a sample, and what the rest is divided by.
fn scales(range: Range, form: &Form) -> Result<[(f32, f32); 3], String> {
    match (range, form.channels, form.element) {
        (Range::Between { black, white }, _, _) if black == white => {
            Err(format!("--range makes all of it {black}"))
        }
        (Range::Between { black, white }, _, _) => {
            let deviation = (white - black).recip();
            Ok([(-black * deviation, deviation); 3])
        }
        (Range::Imagenet, Channels::Grey, _) => {
            Err("--range imagenet is for colours, and the model takes grey".to_owned())
        }
        (Range::Imagenet, Channels::Rgb, Element::Uint8) => {
            Err("--range imagenet is for floats, and the model takes UINT8".to_owned())
        }
        (Range::Imagenet, Channels::Rgb, Element::Fp16 | Element::Fp32 | Element::Fp64) => {
            Ok(IMAGENET)
        }
    }
}

/// Width and height to send.
fn size(image: &DynamicImage, form: &Form) -> (u32, u32) {
    let width = form.width.unwrap_or(image.width());
    (width, form.height.unwrap_or(image.height()))
}

/// 0 to 1, pixel by pixel.
fn samples(image: &DynamicImage, channels: Channels, size: (u32, u32)) -> Vec<f32> {
    let resized = (size != (image.width(), image.height()))
        .then(|| image.resize_exact(size.0, size.1, FilterType::Triangle));
    let image = resized.as_ref().unwrap_or(image);
    match channels {
        Channels::Grey => image.to_luma32f().into_raw(),
        Channels::Rgb => image.to_rgb32f().into_raw(),
    }
}

fn encode(element: Element, value: f32, data: &mut Vec<u8>) {
    match element {
        // A cast keeps to the type's bounds.
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

    fn form(element: Element, order: Order, channels: Channels) -> Form {
        Form {
            name: "image".to_owned(),
            element,
            order,
            channels,
            height: None,
            width: None,
            rank: Rank::Picture,
        }
    }

    /// Red, then blue.
    fn colours() -> DynamicImage {
        let pixel = |x, _| match x {
            0 => Rgb([255, 0, 0]),
            _ => Rgb([0, 0, 255]),
        };
        RgbImage::from_fn(2, 1, pixel).into()
    }

    fn floats(array: &Array) -> Vec<f32> {
        let (each, _) = array.data.as_chunks::<4>();
        each.iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect()
    }

    #[test]
    fn planes_and_pixels_hold_the_same() {
        let tensor = |order| {
            let form = form(Element::Uint8, order, Channels::Rgb);
            tensor(&colours(), &form, Range::BYTE).unwrap()
        };
        let planes = tensor(Order::Planes);
        assert_eq!(planes.shape, [3, 1, 2]);
        assert_eq!(planes.data, [255, 0, 0, 0, 0, 255]);
        let pixels = tensor(Order::Pixels);
        assert_eq!(pixels.shape, [1, 2, 3]);
        assert_eq!(pixels.data, [255, 0, 0, 0, 0, 255]);
        assert_eq!(pixels.datatype, "UINT8");
    }

    #[test]
    fn black_and_white_become_what_is_asked_for() {
        let image = GrayImage::from_fn(3, 1, |x, _| Luma([[0, 51, 255][x as usize]]));
        let form = form(Element::Fp32, Order::Planes, Channels::Grey);
        let mapped = |black, white| {
            let range = Range::Between { black, white };
            floats(&tensor(&image.clone().into(), &form, range).unwrap())
        };
        assert_eq!(mapped(0.0, 1.0), [0.0, 0.2, 1.0]);
        for (found, expected) in mapped(1.0, -1.0).iter().zip([1.0, 0.6, -1.0]) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn imagenet_has_a_mean_for_each_channel() {
        let planes = form(Element::Fp32, Order::Planes, Channels::Rgb);
        let array = tensor(&colours(), &planes, Range::Imagenet).unwrap();
        let red = [(1.0 - 0.485) / 0.229, -0.485 / 0.229];
        assert_eq!(floats(&array)[..2], red);
        let grey = form(Element::Fp32, Order::Planes, Channels::Grey);
        assert!(tensor(&colours(), &grey, Range::Imagenet).is_err());
        let bytes = form(Element::Uint8, Order::Planes, Channels::Rgb);
        assert!(tensor(&colours(), &bytes, Range::Imagenet).is_err());
        let flat = Range::Between {
            black: 1.0,
            white: 1.0,
        };
        assert!(tensor(&colours(), &planes, flat).is_err());
    }

    #[test]
    fn a_fixed_size_is_kept_and_told() {
        let fixed = Form {
            height: Some(4),
            width: Some(6),
            rank: Rank::BatchOfOne,
            ..form(Element::Fp16, Order::Planes, Channels::Grey)
        };
        let array = tensor(&colours(), &fixed, Range::UNIT).unwrap();
        assert_eq!(array.shape, [1, 1, 4, 6]);
        assert_eq!(array.data.len(), 2 * 4 * 6);
        let told = resizing(&colours(), &fixed).unwrap();
        assert_eq!(told, "resized from 2×1 to 6×4");
        let free = form(Element::Fp32, Order::Planes, Channels::Rgb);
        assert_eq!(resizing(&colours(), &free), None);
    }

    #[test]
    fn the_example_s_picture_is_its_array() {
        let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/digits/inputs");
        let image = open(&inputs.join("digit-7-a.png")).unwrap();
        let form = form(Element::Fp32, Order::Planes, Channels::Grey);
        let range = "0,16".parse().unwrap();
        let found = floats(&tensor(&image, &form, range).unwrap());
        let array = std::fs::read(inputs.join("digit-7-a.npy")).unwrap();
        let expected = floats(&Array::read(&array).unwrap());
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            // A byte has 16 steps for each of the scan's.
            assert!((found - expected).abs() <= 0.5 / 15.9, "{found} {expected}");
        }
    }

    #[test]
    fn a_jpeg_is_read_whatever_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("picture.png");
        colours()
            .save_with_format(&file, ImageFormat::Jpeg)
            .unwrap();
        let image = open(&file).unwrap();
        assert_eq!((image.width(), image.height()), (2, 1));
    }

    #[test]
    fn what_is_no_picture_is_said() {
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
    fn a_picture_of_too_many_pixels_is_refused_before_it_is_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("large.png");
        // Size, depth and a checksum; that there are pixels at all is only announced.
        let head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x23\x28\0\0\x23\x28\x08\0\0\0\0\x48\xbe\x2d\x66\0\0\0\x01IDAT";
        std::fs::write(&file, head).unwrap();
        let error = open(&file).unwrap_err();
        assert!(
            error.starts_with("9000×9000 pixels are too many"),
            "{error}"
        );
    }
}
