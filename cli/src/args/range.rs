//! Range of values that an image's pixels are mapped to.

use std::str::FromStr;

/// Mapping from a sample, 0 for black to 1 for white, to the number that the model receives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Range {
    /// Linear map between two numbers.
    Between {
        /// Number that black is mapped to.
        black: f32,
        /// Number that white is mapped to.
        white: f32,
    },
    /// Normalization by ImageNet's mean and standard deviation of each channel.
    Imagenet,
}

impl Range {
    /// Default for floating-point models.
    pub(crate) const UNIT: Self = Self::Between { black: 0.0, white: 1.0 };

    /// Default for models with UINT8 inputs.
    pub(crate) const BYTE: Self = Self::Between { black: 0.0, white: 255.0 };
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "imagenet" {
            return Ok(Self::Imagenet);
        }
        let number = |text: &str| {
            let number = text.trim().parse::<f32>().ok();
            number.filter(|number| number.is_finite())
        };
        let pair = text.split_once(',');
        let pair = pair.and_then(|(black, white)| Some((number(black)?, number(white)?)));
        let (black, white) = pair.ok_or("write two numbers BLACK,WHITE or the word imagenet")?;
        Ok(Self::Between { black, white })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_or_a_name_are_parsed() {
        let between = |black, white| Ok(Range::Between { black, white });
        assert_eq!("0,16".parse(), between(0.0, 16.0));
        assert_eq!("1, -1.5".parse(), between(1.0, -1.5));
        assert_eq!("imagenet".parse(), Ok(Range::Imagenet));
        for wrong in ["", "1", "0,nan", "0,1,2", "ImageNet"] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
    }
}
