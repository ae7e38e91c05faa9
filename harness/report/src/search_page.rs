//! A bisect as a page that people look at: how sure it is of which place, the way it took, the runs of each build, what moved.

use std::fmt::Write;

use crate::{evidence::Component, text::html, words::count};

/// One tested build.
#[derive(Clone, Debug, PartialEq)]
pub struct Tested {
    /// Its name.
    pub label: String,
    /// Runs with the failure.
    pub failed: u32,
    /// Runs without one.
    pub passed: u32,
    /// Why it could not be tested, where it could not.
    pub skipped: Option<String>,
}

/// Builds between two tested ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// Where in the whole history it begins and ends, 0 (first) to 1 (last).
    pub from: f64,
    /// See `from`.
    pub to: f64,
    /// The builds at its ends.
    pub labels: (String, String),
    /// Probability that the change is here, 0 to 1.
    pub mass: f64,
}

/// What a run showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dot {
    /// No failure.
    Passed,
    /// The failure that is looked for.
    Failed,
    /// Another failure.
    Other,
}

/// A finished search. Everything is in the history's own order, the oldest first.
#[derive(Clone, Debug)]
pub struct SearchPage<'a> {
    /// What was searched with.
    pub title: &'a str,
    /// What was found.
    pub sentence: &'a str,
    /// Runs, builds and time.
    pub spent: &'a str,
    /// Everything as text.
    pub answer: &'a str,
    /// The oldest and the newest build.
    pub ends: (&'a str, &'a str),
    /// Where the change is, between 0 and 1, and the builds there.
    pub edge: Option<(f64, f64, &'a str, &'a str)>,
    /// Probabilities by place.
    pub stretches: &'a [Stretch],
    /// Each run in the order in which they were made: its place in the history, and what it showed.
    pub runs: &'a [(f64, Dot)],
    /// Tested builds.
    pub tested: &'a [Tested],
    /// What differs between the two builds.
    pub moved: &'a [Component],
    /// The other search of the same change: where its page is, from this one, and what is said of it.
    pub other: Option<(&'a str, &'a str)>,
}

/// Of a picture, which is drawn as wide as the page: small enough for a telephone to show its marks.
const WIDTH: f64 = 600.0;
const STYLE: &str = include_str!("search_page.css");

impl SearchPage<'_> {
    /// The page, whole in itself: it loads nothing and runs nothing.
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
        self.way(&mut page);
        self.builds(&mut page);
        self.components(&mut page);
        if let Some((address, words)) = self.other {
            let (address, words) = (html(address), html(words));
            let _ = writeln!(page, "<p><a href=\"{address}\">{words}</a></p>");
        }
        let _ = write!(
            page,
            "<h2>As text</h2>\n<p>To be pasted into an issue.</p>\n<pre>{}</pre>\n</main>\n</body>\n</html>\n",
            html(self.answer)
        );
        page
    }

    /// How likely the change is at which place.
    fn posterior(&self, page: &mut String) {
        const HEIGHT: f64 = 72.0;
        if self.stretches.is_empty() {
            return;
        }
        page.push_str(
            "<h2>Where the change is</h2>\n<p>The whole history from left to right; each bar is as high as the change is likely there. They do not add up to 100 %,
 because a history may be like nothing that the search knows of.</p>\n",
        );
        let label = "How likely the change is at each place of the history";
        let _ = writeln!(
            page,
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{label}\">",
            HEIGHT + 1.0
        );
        for stretch in self.stretches.iter().filter(|stretch| stretch.mass > 0.005) {
            let (from, to) = (stretch.from * WIDTH, stretch.to * WIDTH);
            // One build of thousands is to be seen as well.
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

    /// The history, and the names of its ends below the picture that this closes.
    fn axis(&self, page: &mut String, y: f64) {
        let _ = writeln!(
            page,
            "<line class=\"axis\" x1=\"0\" y1=\"{y}\" x2=\"{WIDTH}\" y2=\"{y}\"/>\n</svg>\n\
             <p class=\"ends\"><span>{}</span><span>{}</span></p>",
            html(self.ends.0),
            html(self.ends.1),
        );
    }

    /// Which build was run when, and what that showed.
    fn way(&self, page: &mut String) {
        let runs = self.runs.len();
        if runs == 0 {
            return;
        }
        let _ = writeln!(
            page,
            "<h2>The way there</h2>\n<p>{}, from top to bottom in the order in which they were made.</p>",
            count(runs, "run")
        );
        // Thousands of runs are drawn closer together, on a picture that can still be looked at.
        let step = (320.0 / runs as f64).clamp(1.0, 9.0);
        let height = step * runs as f64 + 8.0;
        let _ = writeln!(
            page,
            "<svg viewBox=\"0 -6 {WIDTH} {:.0}\" role=\"img\" aria-label=\"Place and outcome of every run\">",
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

    /// A row for each tested build.
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

    /// What differs between the two builds.
    fn components(&self, page: &mut String) {
        if self.moved.is_empty() {
            return;
        }
        page.push_str("<h2>What moved</h2>\n<p>From the good build to the bad one.</p>\n<dl>\n");
        for Component { name, good, bad, compare_url } in self.moved {
            let name = html(name);
            // A manifest comes from the network: only what is a link on the web is made one.
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

/// Told apart by shape as well as by colour.
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
            other: Some(("commits/bisect.html", "The search between these two")),
        }
        .html()
    }

    #[test]
    fn a_whole_page() {
        insta::assert_snapshot!(page("7.13.0").replace(STYLE, "(style)\n"));
    }

    /// Every text of a build's publisher or a program goes through one place.
    #[test]
    fn a_foreign_text_is_no_markup() {
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
