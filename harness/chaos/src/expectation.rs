//! Allowed reports of a run.

/// Allowed reports of a run.
#[derive(Clone, Debug)]
pub(crate) struct Expectation {
    /// Allowed answers; one of them must be given.
    pub(crate) any: AllowedAnswers,
    /// Texts that must all occur.
    pub(crate) says: &'static [&'static str],
    /// Texts that must not occur.
    pub(crate) hides: &'static [&'static str],
}

/// Allowed answers.
#[derive(Clone, Debug)]
pub(crate) enum AllowedAnswers {
    /// Answers of a row in the table.
    Fixed(&'static [&'static str]),
    /// Answers derived for a mixture.
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

    /// Returns whether an answer is allowed.
    pub(crate) fn allows(&self, answer: &str) -> bool {
        self.any.all().iter().any(|wanted| matches_pattern(wanted, answer))
    }
}

/// Returns whether an answer equals the pattern, or starts with it up to a final `*`.
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
