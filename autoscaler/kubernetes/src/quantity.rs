//! Numbers in the format of Kubernetes quantities.

/// Formats a number as a Kubernetes quantity: whole, or in thousandths (`1500m`), rounded up so that a small value is
/// not zero.
pub(crate) fn quantity(value: f64) -> String {
    // A value that exceeds an i64 in thousandths cannot be a measurement.
    let thousandths = (value.max(0.0) * 1000.0 - ROUNDING).ceil().min(1e18) as i64;
    if thousandths % 1000 == 0 { (thousandths / 1000).to_string() } else { format!("{thousandths}m") }
}

/// Rounding error of a floating-point product, so that 0.3 becomes 300m.
const ROUNDING: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_whole_and_others_in_thousandths() {
        let numbers = [0.0, 3.0, 0.3, 1.5, 0.00001, 50_000.0, -1.0, f64::INFINITY];
        let written = numbers.map(quantity);
        let expected = ["0", "3", "300m", "1500m", "1m", "50000", "0", "1000000000000000"];
        assert_eq!(written, expected);
        assert_eq!(quantity(f64::NAN), "0");
    }
}
