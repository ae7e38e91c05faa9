//! Writes the HTML page about a bisect: where the change probably is, the order of the runs, the results of each build,
//! and the changed components.

use std::fmt::Write;

use super::layout::STYLE;
use crate::{evidence::Component, text::html, words::count};

/// Results of one tested build.
#[derive(Clone, Debug, PartialEq)]
pub struct Tested {
    /// Name of the build.
    pub label: String,
    /// Number of runs that failed with the searched signature.
    pub failed: u32,
    /// Number of runs without a failure.
    pub passed: u32,
    /// Reason why the build could not be tested; `None` if it was tested.
    pub skipped: Option<String>,
}

/// Range of builds between two neighbouring tested builds.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// Start of the range within the history: 0 is the first build, 1 the last one.
    pub from: f64,
    /// End of the range within the history, 0 to 1.
    pub to: f64,
    /// Names of the builds at the start and at the end of the range.
    pub labels: (String, String),
    /// Probability that the change is in this range, 0 to 1.
    pub mass: f64,
}

/// Result of a single run, which the page draws as a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dot {
    /// The run passed.
    Passed,
    /// The run failed with the searched signature.
    Failed,
    /// The run failed with another signature.
    Other,
}

/// Content of the page. All lists of builds are in the order of the history, the oldest build first.
#[derive(Clone, Debug)]
pub struct SearchPage<'a> {
    /// Name of the search.
    pub title: &'a str,
    /// Result in one sentence.
    pub sentence: &'a str,
    /// Effort of the search in words: number of runs and builds, and the time.
    pub spent: &'a str,
    /// Result of the search as plain text.
    pub answer: &'a str,
    /// Names of the oldest and the newest build.
    pub ends: (&'a str, &'a str),
    /// Start and end of the range that contains the change, 0 to 1, with the names of the builds before and after the
    /// change. `None` if no change was found.
    pub edge: Option<(f64, f64, &'a str, &'a str)>,
    /// Probability of the change for each range of builds.
    pub stretches: &'a [Stretch],
    /// Position in the history, 0 to 1, and result of each run, in the order in which the runs were made.
    pub runs: &'a [(f64, Dot)],
    /// Results of each tested build.
    pub tested: &'a [Tested],
    /// Components that differ between the last good and the first bad build.
    pub moved: &'a [Component],
    /// Link, relative to this page, to the page of another search for the same change, and the text of the link.
    pub other: Option<(&'a str, &'a str)>,
}

/// Width of a drawing in SVG units. Drawings are scaled to the width of the page, and the marks stay visible on a
/// phone.
const WIDTH: f64 = 600.0;

impl SearchPage<'_> {
    /// Renders the page as one file that loads nothing else and runs no script.
    pub fn html(&self) -> String {
        let mut page = String::new();
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <header>\n<p>{title}</p>\n<h1>{sentence}</h1>\n<p>{spent}</p>\n</header>\n<main>\n",
            title = html(self.title),
            sentence = html(self.sentence),
            spent = html(self.spent),
        );
        self.posterior(&mut page);
        self.runs_in_order(&mut page);
        self.builds(&mut page);
        self.components(&mut page);
        if let Some((address, words)) = self.other {
            let (address, words) = (html(address), html(words));
            let _ = writeln!(page, "<p><a href=\"{address}\">{words}</a></p>");
        }
        let _ = write!(
            page,
            "<h2>As text</h2>\n<p>For pasting into an issue.</p>\n<pre>{}</pre>\n</main>\n</body>\n</html>\n",
            html(self.answer)
        );
        page
    }

    /// Draws the probability that each range of builds contains the change.
    fn posterior(&self, page: &mut String) {
        const HEIGHT: f64 = 72.0;
        if self.stretches.is_empty() {
            return;
        }
        page.push_str(
            "<h2>Where the change is</h2>\n<p>The whole history from left to right; the height of a bar is the probability that the change is there. The bars do not add up to 100 %,
 because the history may not fit the model of the search.</p>\n",
        );
        let label = "Probability of the change at each position of the history";
        let _ = writeln!(
            page,
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{label}\">",
            HEIGHT + 1.0
        );
        for stretch in self.stretches.iter().filter(|stretch| stretch.mass > 0.005) {
            let (from, to) = (stretch.from * WIDTH, stretch.to * WIDTH);
            // A single build among thousands must still be visible.
            let width = (to - from).max(3.0);
            let height = (stretch.mass * HEIGHT).max(1.0);
            let _ = writeln!(
                page,
                "<rect class=\"mass\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"><title>{:.1} % between {} and {}\
                 </title></rect>",
                (to - width).max(0.0),
                HEIGHT - height,
                100.0 * stretch.mass,
                html(&stretch.labels.0),
                html(&stretch.labels.1),
            );
        }
        self.axis(page, HEIGHT);
    }

    /// Draws the axis and the names of the first and last build, and closes the drawing.
    fn axis(&self, page: &mut String, y: f64) {
        let _ = writeln!(
            page,
            "<line class=\"axis\" x1=\"0\" y1=\"{y}\" x2=\"{WIDTH}\" y2=\"{y}\"/>\n</svg>\n\
             <p class=\"ends\"><span>{}</span><span>{}</span></p>",
            html(self.ends.0),
            html(self.ends.1),
        );
    }

    fn runs_in_order(&self, page: &mut String) {
        let runs = self.runs.len();
        if runs == 0 {
            return;
        }
        let _ = writeln!(
            page,
            "<h2>Runs in order</h2>\n<p>{}, from top to bottom in the order of execution.</p>",
            count(runs, "run")
        );
        // If there are thousands of runs, their marks are drawn closer together, to limit the height of the drawing.
        let step = (320.0 / runs as f64).clamp(1.0, 9.0);
        let height = step * runs as f64 + 8.0;
        let _ = writeln!(
            page,
            "<svg viewBox=\"0 -6 {WIDTH} {:.0}\" role=\"img\" aria-label=\"Position and outcome of every run\">",
            height + 7.0
        );
        if let Some((from, to, ..)) = self.edge {
            let width = ((to - from) * WIDTH).max(3.0);
            let _ = writeln!(
                page,
                "<rect class=\"edge\" x=\"{:.1}\" y=\"-6\" width=\"{width:.1}\" height=\"{:.1}\"/>",
                to * WIDTH - width,
                height + 6.0
            );
        }
        let at = |n: usize| (6.0 + self.runs[n].0 * (WIDTH - 12.0), step * (n as f64 + 0.5));
        let way: Vec<_> = (0..runs).map(at).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(page, "<polyline class=\"way\" points=\"{}\"/>", way.join(" "));
        for (n, (_, dot)) in self.runs.iter().enumerate() {
            let (x, y) = at(n);
            page.push_str(&mark(*dot, x, y, 2.8));
            page.push('\n');
        }
        self.axis(page, height);
        page.push_str("<ul class=\"key\">");
        let key = [
            (Dot::Passed, "passed"),
            (Dot::Failed, "failed"),
            (Dot::Other, "failed in another way"),
        ];
        for (dot, name) in key.into_iter().filter(|(dot, _)| self.runs.iter().any(|r| r.1 == *dot))
        {
            let mark = mark(dot, 6.0, 6.0, 4.0);
            let _ = write!(
                page,
                "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\">{mark}</svg>{name}</li>"
            );
        }
        page.push_str("</ul>\n");
    }

    fn builds(&self, page: &mut String) {
        let _ = writeln!(
            page,
            "<h2>Runs by build</h2>\n<p>{}, the oldest first.</p>\n<table>",
            count(self.tested.len(), "build")
        );
        for build in self.tested {
            let at_edge =
                self.edge.is_some_and(|(.., a, b)| [a, b].contains(&build.label.as_str()));
            let class = if at_edge { " class=\"edge-row\"" } else { "" };
            let label = html(&build.label);
            let runs = build.failed + build.passed;
            let _ = match &build.skipped {
                Some(why) => writeln!(
                    page,
                    "<tr{class}><th scope=\"row\">{label}</th><td colspan=\"2\" class=\"why\">not tested: {}</td></tr>",
                    html(why)
                ),
                None => {
                    let bad = 100.0 * f64::from(build.failed) / f64::from(runs.max(1));
                    let good = if runs == 0 { 0.0 } else { 100.0 - bad };
                    writeln!(
                        page,
                        "<tr{class}><th scope=\"row\">{label}</th><td class=\"bar\"><div class=\"share\"><i style=\"width:{good:.1}%\"></i>\
                         <i class=\"bad\" style=\"width:{bad:.1}%\"></i></div></td><td>{} of {runs} failed</td></tr>",
                        build.failed
                    )
                }
            };
        }
        page.push_str("</table>\n");
    }

    fn components(&self, page: &mut String) {
        if self.moved.is_empty() {
            return;
        }
        page.push_str(
            "<h2>Changed components</h2>\n<p>From the good build to the bad one.</p>\n<dl>\n",
        );
        for Component { name, good, bad, compare_url } in self.moved {
            let name = html(name);
            // The address is from a manifest that was downloaded, so only https addresses become links.
            let name = match compare_url.as_ref().filter(|url| url.starts_with("https://")) {
                Some(url) => format!("<a href=\"{}\">{name}</a>", html(url)),
                None => name,
            };
            let _ = writeln!(
                page,
                "<dt>{name}</dt><dd><code>{}</code> &rarr; <code>{}</code></dd>",
                html(good),
                html(bad)
            );
        }
        page.push_str("</dl>\n");
    }
}

/// Returns the mark that is drawn for a result. The marks differ in shape as well as in colour.
fn mark(dot: Dot, x: f64, y: f64, r: f64) -> String {
    let (left, right, top, bottom) = (x - r, x + r, y - r, y + r);
    match dot {
        Dot::Passed => format!("<circle class=\"pass\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\"/>"),
        Dot::Failed => format!(
            "<path class=\"fail\" d=\"M{left:.1} {top:.1}L{right:.1} {bottom:.1}M{left:.1} {bottom:.1}L{right:.1} {top:.1}\"/>"
        ),
        Dot::Other => format!("<circle class=\"other\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\"/>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(label: &str) -> String {
        let tested = |label: &str, failed, passed, skipped: Option<&str>| Tested {
            label: label.to_owned(),
            failed,
            passed,
            skipped: skipped.map(str::to_owned),
        };
        SearchPage {
            title: label,
            sentence: label,
            spent: "7 runs",
            answer: label,
            ends: (label, "7.15.0"),
            edge: Some((0.5, 1.0, label, "7.15.0")),
            stretches: &[
                Stretch { from: 0.0, to: 0.5, labels: (label.into(), "b".into()), mass: 0.03 },
                Stretch { from: 0.5, to: 1.0, labels: ("b".into(), label.into()), mass: 0.97 },
            ],
            runs: &[(1.0, Dot::Failed), (0.0, Dot::Passed), (0.5, Dot::Other)],
            tested: &[
                tested(label, 0, 4, None),
                tested("7.14.0", 0, 0, Some(label)),
                tested("7.15.0", 3, 1, None),
            ],
            moved: &[Component {
                name: label.into(),
                good: label.into(),
                bad: label.into(),
                compare_url: Some(format!("javascript:{label}")),
            }],
            other: Some(("commits/bisect.html", "Next search, between these two")),
        }
        .html()
    }

    #[test]
    fn renders_the_search_page() {
        insta::assert_snapshot!(page("7.13.0").replace(STYLE, "(style)\n"));
    }

    /// All strings that come from builds and programs are escaped.
    #[test]
    fn escapes_html() {
        let hostile = "<script>alert(1)</script>\"'&\u{1b}[31m\u{202e}";
        let page = page(hostile);
        assert!(
            !page.contains("<script") && !page.contains('\u{1b}') && !page.contains('\u{202e}')
        );
        assert!(!page.contains("href=\"javascript"), "{page}");
        let seen = page.matches("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;").count();
        assert_eq!(seen, 13, "{page}");
    }
}
