//! Charts in SVG: a timeline of runs, and cost against attainment of policies.

mod panel;
mod scatter;
mod timeline;

pub use scatter::{PolicyPoint, Scatter, scatter};
pub use timeline::timeline;

/// Escapes the characters that SVG treats as markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-6).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= value * 0.999_999).unwrap_or(10.0 * power)
}

/// Formats a number with one decimal place, or none if it is whole or at least 10.
fn short(value: f64) -> String {
    if value >= 10.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}
