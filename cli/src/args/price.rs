//! Parser for prices of GPUs.

/// Parses the price of a GPU per hour.
pub(super) fn price(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=1e6).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a price: write 2.50"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_a_number_from_zero_to_a_million() {
        assert_eq!(price("2.50"), Ok(2.5));
        for wrong in ["-1", "NaN", "inf", "2,50", "$2", ""] {
            assert!(price(wrong).is_err(), "{wrong}");
        }
    }
}
