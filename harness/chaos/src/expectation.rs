//! Defines which results a disturbed run may report.

/// Results that a disturbed run may report, and strings that its output must contain.
#[derive(Clone, Debug)]
pub(crate) struct Expectation {
    /// Allowed answers. The run must give one of them.
    pub(crate) any: AllowedAnswers,
    /// Strings that the output must contain.
    pub(crate) says: &'static [&'static str],
    /// Strings that the output must not contain.
    pub(crate) hides: &'static [&'static str],
}

#[derive(Clone, Debug)]
pub(crate) enum AllowedAnswers {
    /// Answers that one row of the table of disturbances lists.
    Fixed(&'static [&'static str]),
    /// Answers for a mixture of rows, derived from the answers of these rows.
    Derived(Vec<&'static str>),
}

impl AllowedAnswers {
    pub(crate) fn all(&self) -> &[&'static str] {
        match self {
            AllowedAnswers::Fixed(fixed) => fixed,
            AllowedAnswers::Derived(derived) => derived,
        }
    }
}

impl Expectation {
    pub(crate) const fn new(any: &'static [&'static str]) -> Expectation {
        Expectation { any: AllowedAnswers::Fixed(any), says: &[], hides: &[] }
    }

    pub(crate) fn allows(&self, answer: &str) -> bool {
        self.any.all().iter().any(|wanted| matches_pattern(wanted, answer))
    }
}

/// Returns true if an answer matches the pattern `wanted`. A `*` at the end of the pattern matches any text.
pub(crate) fn matches_pattern(wanted: &str, answer: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(beginning) => answer.starts_with(beginning),
        None => answer == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_star_matches_any_text() {
        assert!(matches_pattern("fail crash:*", "fail crash:hipMalloc"));
        assert!(!matches_pattern("fail crash:*", "fail teardown-crash"));
        assert!(matches_pattern("pass", "pass"));
        assert!(!matches_pattern("pass", "passed"));
        let expect = Expectation::new(&["no-verdict *", "fail hang:*"]);
        assert!(expect.allows("no-verdict no-verdict:killed"));
        assert!(!expect.allows("pass"));
    }
}
