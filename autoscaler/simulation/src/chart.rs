//! Charts as SVG: what happened over a run, and where policies lie between cheap and good.

mod panel;
mod scatter;
mod timeline;

pub use scatter::{Mark, Scatter, scatter};
pub use timeline::timeline;

/// The text with what SVG takes for markup written out.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below a value.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-6).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= value * 0.999_999).unwrap_or(10.0 * power)
}

/// A number without digits that say nothing.
fn short(value: f64) -> String {
    if value >= 10.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}
