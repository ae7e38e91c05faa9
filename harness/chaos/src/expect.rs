//! What may be said about a run.

/// What may be said about a run.
#[derive(Clone, Debug)]
pub(crate) struct Expect {
    /// One of these must be the answer.
    pub(crate) any: Answers,
    /// Each of these must be said.
    pub(crate) says: &'static [&'static str],
    /// None of these may be said.
    pub(crate) hides: &'static [&'static str],
}

/// Answers of the table, or those derived for a mixture.
#[derive(Clone, Debug)]
pub(crate) enum Answers {
    /// Of the table.
    Fixed(&'static [&'static str]),
    /// Derived.
    Derived(Vec<&'static str>),
}

impl Answers {
    pub(crate) fn all(&self) -> &[&'static str] {
        match self {
            Answers::Fixed(fixed) => fixed,
            Answers::Derived(derived) => derived,
        }
    }
}

impl Expect {
    pub(crate) const fn new(any: &'static [&'static str]) -> Expect {
        Expect { any: Answers::Fixed(any), says: &[], hides: &[] }
    }

    /// Whether an answer is one of those that may be given.
    pub(crate) fn allows(&self, answer: &str) -> bool {
        self.any.all().iter().any(|wanted| fits(wanted, answer))
    }
}

/// Whether an answer is the wanted one: the same, or with the same beginning before a final `*`.
pub(crate) fn fits(wanted: &str, answer: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(beginning) => answer.starts_with(beginning),
        None => answer == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_end() {
        assert!(fits("fail crash:*", "fail crash:hipMalloc"));
        assert!(!fits("fail crash:*", "fail teardown-crash"));
        assert!(fits("pass", "pass"));
        assert!(!fits("pass", "passed"));
        let expect = Expect::new(&["no-verdict *", "fail hang:*"]);
        assert!(expect.allows("no-verdict no-verdict:killed"));
        assert!(!expect.allows("pass"));
    }
}
