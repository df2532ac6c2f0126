//! One diagram of a timeline: a frame, an axis and curves.

use std::fmt::Write;

use super::{escaped, round_up, short};

/// One diagram over time.
pub(super) struct Panel {
    pub(super) top: f64,
    pub(super) title: String,
    /// Highest value on the axis.
    pub(super) most: f64,
    /// Number of time steps.
    pub(super) count: usize,
}

/// Left edge, width and height of the frame, in pixels.
pub(super) const LEFT: f64 = 60.0;
pub(super) const WIDTH: f64 = 820.0;
pub(super) const HEIGHT: f64 = 90.0;

impl Panel {
    pub(super) fn new(top: f64, title: &str, values: &[&[f64]]) -> Self {
        let all = values.iter().flat_map(|values| values.iter().copied());
        Self {
            top,
            title: title.to_owned(),
            most: round_up(all.fold(0.0, f64::max)),
            count: values.first().map_or(0, |values| values.len()),
        }
    }

    /// Draws the frame with its title and the numbers of its axis.
    pub(super) fn frame(&self, svg: &mut String) {
        let (bottom, right) = (self.top + HEIGHT, LEFT + WIDTH);
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{}\" class=\"title\">{}</text>\
             <path d=\"M{LEFT} {top}V{bottom}H{right}\" class=\"axis\"/>\
             <text x=\"{x}\" y=\"{high}\" class=\"scale\">{most}</text>\
             <text x=\"{x}\" y=\"{bottom}\" class=\"scale\">0</text>",
            self.top - 6.0,
            escaped(&self.title),
            top = self.top,
            x = LEFT - 6.0,
            high = self.top + 8.0,
            most = short(self.most),
        );
    }

    /// Draws a step curve.
    pub(super) fn curve(&self, svg: &mut String, values: &[f64], class: &str) {
        let mut path = String::new();
        for (index, value) in values.iter().enumerate() {
            let (x, y) = (self.x(index), self.y(*value));
            let _ = match index {
                0 => write!(path, "M{x:.1} {y:.1}"),
                _ => write!(path, "H{x:.1}V{y:.1}"),
            };
        }
        let _ = writeln!(svg, "<path d=\"{path}\" class=\"{class}\"/>");
    }

    /// Draws a curve with the area below it filled.
    pub(super) fn area(&self, svg: &mut String, values: &[f64], class: &str) {
        let mut path = format!("M{LEFT} {:.1}", self.y(0.0));
        for (index, value) in values.iter().enumerate() {
            let _ = write!(path, "L{:.1} {:.1}", self.x(index), self.y(*value));
        }
        let right = self.x(values.len().saturating_sub(1));
        let _ = writeln!(svg, "<path d=\"{path}L{right:.1} {:.1}Z\" class=\"{class}\"/>", self.y(0.0));
    }

    /// Draws a horizontal line across the frame.
    pub(super) fn level(&self, svg: &mut String, value: f64) {
        let y = self.y(value);
        let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}h{WIDTH}\" class=\"level\"/>");
    }

    fn x(&self, index: usize) -> f64 {
        LEFT + WIDTH * index as f64 / self.count.max(2).saturating_sub(1) as f64
    }

    fn y(&self, value: f64) -> f64 {
        self.top + HEIGHT * (1.0 - (value / self.most).clamp(0.0, 1.0))
    }
}
