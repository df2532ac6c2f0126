//! Scatter plots of policies: cost against attainment.

use std::fmt::Write;

use super::{escaped, short};

/// One diagram, with the policies on one trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    /// Title, with the trace and the start time.
    pub title: String,
    /// One point per policy.
    pub points: Vec<PolicyPoint>,
}

/// A policy in a diagram.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyPoint {
    /// Name of the policy, written beside the point.
    pub name: String,
    /// GPU time relative to the least possible.
    pub cost: f64,
    /// Share of requests in time.
    pub attainment: f64,
    /// Colour of the point in SVG notation.
    pub colour: &'static str,
}

const SIDE: f64 = 300.0;
const GAP: f64 = 70.0;
const ACROSS: usize = 3;
/// Highest cost on the axis: thirty times the least.
const DEAREST: f64 = 30.0;
/// Attainments with a grid line. Equal distances on the axis divide the share of late requests by ten.
const LINES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Draws the diagrams in rows. The best place in each is the upper left.
#[must_use]
pub fn scatter(diagrams: &[Scatter]) -> String {
    let rows = diagrams.len().div_ceil(ACROSS);
    let width = GAP + (SIDE + GAP) * ACROSS as f64;
    let height = 20.0 + (SIDE + GAP) * rows as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\">\
         <style>text{{font:11px sans-serif;fill:#333}}.title{{font-weight:bold;font-size:13px}}\
         .axis{{fill:none;stroke:#999}}.grid{{stroke:#e5e5e5}}.end{{text-anchor:end;fill:#777}}\
         .middle{{text-anchor:middle;fill:#777}}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (index, diagram) in diagrams.iter().enumerate() {
        let left = GAP + (SIDE + GAP) * (index % ACROSS) as f64;
        let top = 40.0 + (SIDE + GAP) * (index / ACROSS) as f64;
        add(&mut svg, diagram, (left, top));
    }
    svg.push_str("</svg>\n");
    svg
}

fn add(svg: &mut String, diagram: &Scatter, (left, top): (f64, f64)) {
    let (bottom, right) = (top + SIDE, left + SIDE);
    for line in LINES {
        let y = top + down(line);
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {y:.1}H{right}\" class=\"grid\"/><text x=\"{:.1}\" y=\"{:.1}\" class=\"end\">{} %</text>",
            left - 5.0,
            y + 4.0,
            line * 100.0,
        );
    }
    for cost in [1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0] {
        let x = left + along(cost);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {top}V{bottom}\" class=\"grid\"/><text x=\"{x:.1}\" y=\"{:.1}\" class=\"middle\">{}×</text>",
            bottom + 14.0,
            short(cost),
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{left} {top}V{bottom}H{right}\" class=\"axis\"/><text x=\"{left}\" y=\"{:.1}\" class=\"title\">{}</text>",
        top - 10.0,
        escaped(&diagram.title),
    );
    for point in &diagram.points {
        let (x, y) = (left + along(point.cost), top + down(point.attainment));
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            point.colour,
            x + 6.0,
            y + 4.0,
            escaped(&point.name),
        );
    }
}

/// Returns the distance of a cost from the left edge, in pixels. The left edge stands for half of the least cost, and
/// the axis is logarithmic.
fn along(cost: f64) -> f64 {
    let part = (cost.max(0.5) / 0.5).log2() / (DEAREST / 0.5).log2();
    SIDE * part.clamp(0.0, 1.0)
}

/// Returns the distance of an attainment from the top edge, in pixels. The top edge stands for 99.99 % and more, and
/// the axis is logarithmic in the share of late requests.
fn down(attainment: f64) -> f64 {
    let late = (1.0 - attainment).clamp(1e-4, 1.0);
    SIDE * (late.log10() + 4.0) / 4.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_is_higher_and_cheaper_is_further_left() {
        assert!(down(0.999) < down(0.99) && down(0.99) < down(0.5));
        assert_eq!((down(0.0), down(1.0)), (SIDE, 0.0));
        assert!(along(1.0) < along(2.0) && along(100.0) == SIDE);
        let point = PolicyPoint { name: "a".to_owned(), cost: 2.0, attainment: 0.99, colour: "#000" };
        let svg = scatter(&[Scatter { title: "t".to_owned(), points: vec![point] }]);
        assert_eq!(svg.matches("<circle").count(), 1);
    }
}
