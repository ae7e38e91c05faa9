//! What a bisect saw, as a picture: one bar per tested build, in the order of the history.

use std::fmt::Write;

use crate::words::count;

/// One tested build.
#[derive(Clone, Debug, PartialEq)]
pub struct Tested {
    /// Its name.
    pub label: String,
    /// Where it is in the whole history, 0 (first) to 1 (last).
    pub place: f64,
    /// Runs with the failure.
    pub failed: u32,
    /// Runs without one.
    pub passed: u32,
    /// Why it could not be tested, where it could not.
    pub skipped: Option<String>,
}

const STEP: f64 = 56.0;
const LEFT: f64 = 30.0;
const HEIGHT: f64 = 120.0;
const TOP: f64 = 60.0;

/// A small HTML page with the picture and the answer as text.
///
/// `edge` names the builds between which the change is. The bars stand at equal distances; the ticks above them show where in
/// the history each build is.
pub fn timeline(
    title: &str,
    answer: &str,
    tested: &[Tested],
    edge: Option<(&str, &str)>,
) -> String {
    let width = LEFT * 2.0 + STEP * tested.len().max(8) as f64;
    let bottom = TOP + HEIGHT;
    let mut svg = String::new();
    let right = width - LEFT;
    let _ = writeln!(svg, r##"<line class="axis" x1="{LEFT}" y1="16" x2="{right}" y2="16"/>"##);
    for (n, build) in tested.iter().enumerate() {
        let x = LEFT + STEP * n as f64 + STEP / 2.0;
        let at = LEFT + build.place.clamp(0.0, 1.0) * (right - LEFT);
        let side = match edge {
            Some((_, bad)) if bad == build.label => "bad",
            Some((good, _)) if good == build.label => "good",
            _ => "plain",
        };
        let _ = writeln!(
            svg,
            r##"<path class="tie {side}" d="M{at:.1} 10 V22 L{x:.1} {y}"/>"##,
            y = TOP - 8.0
        );
        let (bar, runs) = (x - 16.0, build.failed + build.passed);
        let all = count(runs, "run");
        let label = escaped(&build.label);
        match &build.skipped {
            Some(why) => {
                let _ = writeln!(
                    svg,
                    r##"<g><title>{label}: cannot be tested: {why}</title><rect class="skip" x="{bar:.1}" y="{TOP}" width="32" height="{HEIGHT}"/></g>"##,
                    why = escaped(why)
                );
            }
            None => {
                let share = if runs == 0 { 0.0 } else { f64::from(build.failed) / f64::from(runs) };
                let red = HEIGHT * share;
                let _ = writeln!(
                    svg,
                    r##"<g><title>{label}: {failed} of {all} failed</title><rect class="pass" x="{bar:.1}" y="{TOP}" width="32" height="{green:.1}"/><rect class="fail" x="{bar:.1}" y="{y:.1}" width="32" height="{red:.1}"/></g>"##,
                    failed = build.failed,
                    green = HEIGHT - red,
                    y = bottom - red
                );
                let _ = writeln!(
                    svg,
                    r##"<text x="{x:.1}" y="{y}" text-anchor="middle">{failed}/{runs}</text>"##,
                    y = bottom + 16.0,
                    failed = build.failed
                );
            }
        }
        let _ = writeln!(
            svg,
            r##"<text class="{side}" transform="translate({x:.1} {y}) rotate(40)">{label}</text>"##,
            y = bottom + 34.0
        );
    }
    let longest = tested.iter().map(|build| build.label.chars().count()).max().unwrap_or(0);
    let height = bottom + 50.0 + 5.0 * longest as f64;
    let width = width + 6.0 * longest as f64;
    format!(
        r##"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #222; background: #fff; }}
svg {{ max-width: 100%; height: auto; }}
text {{ font: 11px system-ui, sans-serif; fill: #444; }}
text.bad, text.good {{ font-weight: bold; fill: #111; }}
.pass {{ fill: #4a9d5b; }} .fail {{ fill: #c8442f; }} .skip {{ fill: none; stroke: #999; stroke-dasharray: 4 3; }}
.axis, .tie {{ fill: none; stroke: #bbb; }} .tie.bad {{ stroke: #c8442f; }} .tie.good {{ stroke: #4a9d5b; }}
pre {{ background: #f4f4f4; padding: 1em; overflow-x: auto; }}
</style></head>
<body><h1>{title}</h1>
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img">
{svg}</svg>
<p>One bar per tested build, oldest to newest from left to right: green is the share of runs that passed, red the share that failed;
a dashed one could not be tested. The line at the top is the whole history.</p>
<pre>{answer}</pre>
</body></html>
"##,
        title = escaped(title),
        answer = escaped(answer)
    )
}

/// Text that cannot be taken for markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tested_build_has_its_bar() {
        let build = |label: &str, place, failed, passed, skipped: Option<&str>| Tested {
            label: label.to_owned(),
            place,
            failed,
            passed,
            skipped: skipped.map(str::to_owned),
        };
        let tested = [
            build("debian:5.7.1", 0.0, 0, 4, None),
            build("debian:6.4.3", 0.5, 0, 0, Some("it does not load: <none>")),
            build("debian:7.2.4", 1.0, 3, 1, None),
        ];
        let edge = Some(("debian:5.7.1", "debian:7.2.4"));
        insta::assert_snapshot!(timeline(
            "graphs/empty",
            "last good <debian:5.7.1>",
            &tested,
            edge
        ));
    }
}
