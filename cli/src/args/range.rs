//! What a picture's black and white become.

use std::str::FromStr;

/// From a sample, 0 black to 1 white, to the number that a model takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Range {
    /// Evenly between two numbers.
    Between {
        /// What 0 becomes.
        black: f32,
        /// What 1 becomes.
        white: f32,
    },
    /// Less ImageNet's mean and divided by its deviation, each channel by its own.
    Imagenet,
}

impl Range {
    /// What most models take that take floats.
    pub(crate) const UNIT: Self = Self::Between {
        black: 0.0,
        white: 1.0,
    };

    /// What is in most files.
    pub(crate) const BYTE: Self = Self::Between {
        black: 0.0,
        white: 255.0,
    };
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
        let (black, white) = pair.ok_or("it must be two numbers BLACK,WHITE, or imagenet")?;
        Ok(Self::Between { black, white })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_or_a_name_are_read() {
        let between = |black, white| Ok(Range::Between { black, white });
        assert_eq!("0,16".parse(), between(0.0, 16.0));
        assert_eq!("1, -1.5".parse(), between(1.0, -1.5));
        assert_eq!("imagenet".parse(), Ok(Range::Imagenet));
        for wrong in ["", "1", "0,nan", "0,1,2", "ImageNet"] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
    }
}
