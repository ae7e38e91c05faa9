//! Writes the HTML page about a bisect: where the change probably is, the order of the runs, the results of each build,
//! and the changed components.

use maud::{Markup, html};

use super::layout::{Text, document};
use crate::{evidence::Component, words::count};

/// Results of one tested build.
#[derive(Clone, Debug, PartialEq)]
pub struct TestedBuild {
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
pub struct BuildRange {
    /// Position of the start of the range among all builds of the search: 0 is the oldest build, 1 the newest one.
    pub from: f64,
    /// Position of the end of the range among all builds of the search, 0 to 1.
    pub to: f64,
    /// Names of the builds at the start and at the end of the range.
    pub labels: (String, String),
    /// Probability that the change is in this range, 0 to 1.
    pub mass: f64,
}

/// Result of a single run, which the page draws as a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMark {
    /// The run passed.
    Passed,
    /// The run failed with the searched signature.
    Failed,
    /// The run failed with another signature.
    Other,
}

/// Content of the page. All lists of builds begin with the oldest build. A position is a number from 0, the oldest
/// build of the search, to 1, the newest one.
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
    /// Positions of the start and the end of the range that contains the change, and the names of the builds before and
    /// after the change. `None` if no change was found.
    pub edge: Option<(f64, f64, &'a str, &'a str)>,
    /// Probability of the change for each range of builds.
    pub stretches: &'a [BuildRange],
    /// Position of the tested build, and result, of each run, in the order in which the runs were made.
    pub runs: &'a [(f64, RunMark)],
    /// Results of each tested build.
    pub tested: &'a [TestedBuild],
    /// Components that differ between the last good and the first bad build.
    pub moved: &'a [Component],
    /// Link, relative to this page, to the page of another search for the same change, and the text of the link. `None`
    /// if this search is the only one.
    pub other: Option<(&'a str, &'a str)>,
}

/// Width of a drawing in SVG units. Drawings are scaled to the width of the page, and the marks stay visible on a
/// phone.
const WIDTH: f64 = 600.0;

impl SearchPage<'_> {
    /// Renders the page as one file that loads nothing else and runs no script.
    pub fn html(&self) -> String {
        let header = html! {
            p { (Text(self.title)) }
            h1 { (Text(self.sentence)) }
            p { (Text(self.spent)) }
        };
        let main = html! {
            (self.posterior())
            (self.runs_in_order())
            (self.builds())
            (self.components())
            @if let Some((address, words)) = self.other { p { a href=(Text(address)) { (Text(words)) } } }
            h2 { "As text" }
            p { "For pasting into an issue." }
            pre { (Text(self.answer)) }
        };
        document(self.title, false, &header, &main)
    }

    /// Draws the probability that each range of builds contains the change.
    fn posterior(&self) -> Markup {
        const HEIGHT: f64 = 72.0;
        let visible = || self.stretches.iter().filter(|stretch| stretch.mass > 0.005);
        html! {
            @if !self.stretches.is_empty() {
                h2 { "Where the change is" }
                p {
                    "The whole history from left to right; the height of a bar is the probability that the change is "
                    "there. The bars do not add up to 100 %, because the history may not fit the model of the search."
                }
                svg viewBox=(format!("0 0 {WIDTH} {}", HEIGHT + 1.0)) role="img"
                    aria-label="Probability of the change at each position of the history" {
                    @for stretch in visible() { (bar(stretch, HEIGHT)) }
                    (axis(HEIGHT))
                }
                (self.ends())
            }
        }
    }

    /// Returns the names of the oldest and the newest build, which are shown below a drawing.
    fn ends(&self) -> Markup {
        html! { p.ends { span { (Text(self.ends.0)) } span { (Text(self.ends.1)) } } }
    }

    fn runs_in_order(&self) -> Markup {
        let runs = self.runs.len();
        if runs == 0 {
            return html! {};
        }
        // If there are thousands of runs, their marks are drawn closer together, to limit the height of the drawing.
        let step = (320.0 / runs as f64).clamp(1.0, 9.0);
        let height = step * runs as f64 + 8.0;
        let at = |n: usize| (6.0 + self.runs[n].0 * (WIDTH - 12.0), step * (n as f64 + 0.5));
        let way: Vec<_> = (0..runs).map(at).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let edge = self.edge.map(|(from, to, ..)| (((to - from) * WIDTH).max(3.0), to * WIDTH));
        html! {
            h2 { "Runs in order" }
            p { (count(runs, "run")) ", from top to bottom in the order of execution." }
            svg viewBox=(format!("0 -6 {WIDTH} {:.0}", height + 7.0)) role="img"
                aria-label="Position and outcome of every run" {
                @if let Some((width, end)) = edge {
                    rect.edge x=(px(end - width)) y="-6" width=(px(width)) height=(px(height + 6.0)) {}
                }
                polyline.way points=(way.join(" ")) {}
                @for (n, (_, dot)) in self.runs.iter().enumerate() {
                    @let (x, y) = at(n);
                    (mark(*dot, x, y, 2.8))
                }
                (axis(height))
            }
            (self.ends())
            (self.key())
        }
    }

    /// Explains the marks that the drawing contains.
    fn key(&self) -> Markup {
        let names = [
            (RunMark::Passed, "passed"),
            (RunMark::Failed, "failed"),
            (RunMark::Other, "failed in another way"),
        ];
        let shown = names.into_iter().filter(|(dot, _)| self.runs.iter().any(|run| run.1 == *dot));
        html! {
            ul.key {
                @for (dot, name) in shown {
                    li { svg viewBox="0 0 12 12" aria-hidden="true" { (mark(dot, 6.0, 6.0, 4.0)) } (name) }
                }
            }
        }
    }

    fn builds(&self) -> Markup {
        html! {
            h2 { "Runs by build" }
            p { (count(self.tested.len(), "build")) ", the oldest first." }
            table { @for build in self.tested { (self.build_row(build)) } }
        }
    }

    fn build_row(&self, build: &TestedBuild) -> Markup {
        let at_edge = self.edge.is_some_and(|(.., a, b)| [a, b].contains(&build.label.as_str()));
        let runs = build.failed + build.passed;
        let bad = 100.0 * f64::from(build.failed) / f64::from(runs.max(1));
        let good = if runs == 0 { 0.0 } else { 100.0 - bad };
        html! {
            tr.edge-row[at_edge] {
                th scope="row" { (Text(&build.label)) }
                @match &build.skipped {
                    Some(why) => td.why colspan="2" { "not tested: " (Text(why)) },
                    None => {
                        td.bar {
                            div.share {
                                i style=(format!("width:{good:.1}%")) {}
                                i.bad style=(format!("width:{bad:.1}%")) {}
                            }
                        }
                        td { (build.failed) " of " (runs) " failed" }
                    }
                }
            }
        }
    }

    fn components(&self) -> Markup {
        // The address is from a manifest that was downloaded, so only https addresses become links.
        let address = |component: &Component| {
            component.compare_url.clone().filter(|url| url.starts_with("https://"))
        };
        html! {
            @if !self.moved.is_empty() {
                h2 { "Changed components" }
                p { "From the good build to the bad one." }
                dl {
                    @for component in self.moved {
                        dt {
                            @match address(component) {
                                Some(url) => a href=(Text(&url)) { (Text(&component.name)) },
                                None => (Text(&component.name)),
                            }
                        }
                        dd { code { (Text(&component.good)) } " → " code { (Text(&component.bad)) } }
                    }
                }
            }
        }
    }
}

/// Formats a length in SVG units.
fn px(length: f64) -> String {
    format!("{length:.1}")
}

/// Returns the bar of a range of builds. Its height is proportional to the probability that the change is in the range;
/// `most` is the height for 100 %.
fn bar(stretch: &BuildRange, most: f64) -> Markup {
    let (from, to) = (stretch.from * WIDTH, stretch.to * WIDTH);
    // A single build among thousands must still be visible.
    let width = (to - from).max(3.0);
    let height = (stretch.mass * most).max(1.0);
    let (older, newer) = &stretch.labels;
    html! {
        rect.mass x=(px((to - width).max(0.0))) y=(px(most - height)) width=(px(width)) height=(px(height)) {
            title { (format!("{:.1} % between ", 100.0 * stretch.mass)) (Text(older)) " and " (Text(newer)) }
        }
    }
}

fn axis(y: f64) -> Markup {
    html! { line.axis x1="0" y1=(y) x2=(WIDTH) y2=(y) {} }
}

/// Returns the mark that is drawn for a result. The marks differ in shape as well as in colour.
fn mark(dot: RunMark, x: f64, y: f64, r: f64) -> Markup {
    let (left, right, top, bottom) = (x - r, x + r, y - r, y + r);
    let cross = format!(
        "M{left:.1} {top:.1}L{right:.1} {bottom:.1}M{left:.1} {bottom:.1}L{right:.1} {top:.1}"
    );
    html! {
        @match dot {
            RunMark::Passed => circle.pass cx=(px(x)) cy=(px(y)) r=(r) {},
            RunMark::Failed => path.fail d=(cross) {},
            RunMark::Other => circle.other cx=(px(x)) cy=(px(y)) r=(r) {},
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(label: &str) -> String {
        let tested = |label: &str, failed, passed, skipped: Option<&str>| TestedBuild {
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
                BuildRange { from: 0.0, to: 0.5, labels: (label.into(), "b".into()), mass: 0.03 },
                BuildRange { from: 0.5, to: 1.0, labels: ("b".into(), label.into()), mass: 0.97 },
            ],
            runs: &[(1.0, RunMark::Failed), (0.0, RunMark::Passed), (0.5, RunMark::Other)],
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
        insta::assert_snapshot!(page("7.13.0").split("</style>").nth(1).unwrap_or_default());
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
        let seen = page.matches("&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&amp;").count();
        assert_eq!(seen, 13, "{page}");
    }
}
