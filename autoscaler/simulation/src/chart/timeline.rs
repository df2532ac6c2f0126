//! Timeline of runs: arrivals, replicas, delay and late requests.

use std::fmt::Write;
use std::time::Duration;

use super::panel::{HEIGHT, LEFT, Panel, WIDTH};
use crate::Run;

/// Number of time steps across the chart; the eye could not separate more.
const STEPS: usize = 410;

/// Pixels from one diagram to the next.
const PITCH: f64 = HEIGHT + 40.0;

const STYLE: &str = "text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.scale{text-anchor:end;fill:#777}\
.axis{fill:none;stroke:#999}.arrivals{fill:#9ecae1;stroke:none}.ready{fill:#a1d99b;stroke:none}\
.desired{fill:none;stroke:#006d2c;stroke-width:1.2}.delay{fill:none;stroke:#54278f}.late{fill:#de2d26;stroke:none}\
.level{fill:none;stroke:#de2d26;stroke-dasharray:4 3}";

/// Draws a chart of runs with the same requests, each under the name of its policy. `target` is the target for the time
/// in the queue.
#[must_use]
pub fn timeline(runs: &[(String, Run)], target: Duration) -> String {
    let height = 40.0 + PITCH * (1.0 + 3.0 * runs.len() as f64);
    let width = LEFT + WIDTH + 20.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\">\
         <style>{STYLE}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let mut top = 30.0;
    if let Some((_, run)) = runs.first() {
        let rates = Steps::new(run).arrivals;
        let panel = Panel::new(top, "arrivals per second", &[&rates]);
        panel.area(&mut svg, &rates, "arrivals");
        panel.frame(&mut svg);
    }
    for (name, run) in runs {
        top = add(&mut svg, top + PITCH, name, &Steps::with_waits(run, target), target);
    }
    if let Some((_, run)) = runs.first() {
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{y}\">0</text><text x=\"{x}\" y=\"{y}\" class=\"scale\">{end}</text>",
            y = top + HEIGHT + 16.0,
            x = LEFT + WIDTH,
            end = clock(run.until),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Draws the three diagrams of one policy; returns the top of the last one.
fn add(svg: &mut String, top: f64, name: &str, steps: &Steps, target: Duration) -> f64 {
    let title = format!("{name}: replicas wanted (line) and ready");
    let panel = Panel::new(top, &title, &[&steps.desired, &steps.ready]);
    panel.area(svg, &steps.ready, "ready");
    panel.curve(svg, &steps.desired, "desired");
    panel.frame(svg);
    let top = top + PITCH;
    let target = target.as_secs_f64();
    let title = format!("{name}: longest wait in seconds, and the target");
    let mut panel = Panel::new(top, &title, &[&steps.delay, &[target]]);
    panel.count = steps.delay.len();
    panel.curve(svg, &steps.delay, "delay");
    panel.level(svg, target);
    panel.frame(svg);
    let top = top + PITCH;
    let title = format!("{name}: late requests per second");
    let panel = Panel::new(top, &title, &[&steps.late]);
    panel.area(svg, &steps.late, "late");
    panel.frame(svg);
    top
}

/// A run in equal time steps.
#[derive(Default)]
struct Steps {
    arrivals: Vec<f64>,
    desired: Vec<f64>,
    ready: Vec<f64>,
    delay: Vec<f64>,
    late: Vec<f64>,
}

impl Steps {
    fn new(run: &Run) -> Self {
        let seconds = run.until.as_secs_f64().max(1.0);
        let count = STEPS.min(seconds as usize).max(2);
        let mut steps =
            Self { arrivals: vec![0.0; count], desired: vec![0.0; count], ready: vec![0.0; count], ..Self::default() };
        let each = seconds / count as f64;
        for frame in &run.frames {
            let index = index(frame.at, each, count);
            steps.arrivals[index] += frame.arrivals as f64 / each;
            steps.desired[index] = steps.desired[index].max(frame.desired.into());
            steps.ready[index] = steps.ready[index].max(frame.ready.into());
        }
        steps
    }

    fn with_waits(run: &Run, target: Duration) -> Self {
        let mut steps = Self::new(run);
        let count = steps.arrivals.len();
        let each = run.until.as_secs_f64().max(1.0) / count as f64;
        steps.delay = vec![0.0; count];
        steps.late = vec![0.0; count];
        let waiting = run.waiting.iter().map(|arrived| (*arrived, run.until.saturating_sub(*arrived)));
        let all = run.waits.iter().map(|wait| (wait.arrived, wait.waited));
        for (arrived, waited) in all.chain(waiting) {
            let index = index(arrived, each, count);
            steps.delay[index] = steps.delay[index].max(waited.as_secs_f64());
            if waited > target {
                steps.late[index] += 1.0 / each;
            }
        }
        steps
    }
}

fn index(at: Duration, each: f64, count: usize) -> usize {
    ((at.as_secs_f64() / each) as usize).min(count - 1)
}

fn clock(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    format!("{} h {:02} min", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FixedPolicy, Service, World};

    #[test]
    fn every_policy_has_three_diagrams() {
        let service = Service::Each { time: Duration::from_secs(1), most: 1 };
        let world = World::new(service, Duration::from_secs(3));
        let arrivals: Vec<_> = (0..20).map(Duration::from_secs).collect();
        let until = Duration::from_secs(30);
        let run = world.run(&arrivals, until, &mut FixedPolicy { replicas: 1 });
        let svg = timeline(&[("a<b".to_owned(), run)], Duration::from_secs(1));
        assert_eq!(svg.matches("class=\"axis\"").count(), 4);
        assert!(svg.contains("a&lt;b: late requests"));
        assert!(!svg.contains("NaN"), "{svg}");
        assert!(timeline(&[("x".to_owned(), Run::default())], until).ends_with("</svg>\n"));
    }
}
