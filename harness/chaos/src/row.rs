use crate::{expectation::Expectation, setup::RunSetup};

/// One kind of disturbance, with the answers that the command may give.
pub(crate) struct Row {
    /// Family and name of the disturbance, separated by a slash.
    pub(crate) name: &'static str,
    pub(crate) set_up: fn(&mut RunSetup<'_>),
    pub(crate) expect: Expectation,
    /// True if the disturbance may be combined with others.
    pub(crate) mixes: bool,
    /// True if only the long form of the tests includes the row.
    pub(crate) long: bool,
}

/// Creates a row with its allowed answers. An answer is one of `pass`, `fail SIGNATURE`, `no-verdict SIGNATURE`, `skip
/// SIGNATURE`, `refused` (exit code 2), `stopped` (exit code 3 before any trial) and `done` (exit code 0 without a
/// trial). A `*` at the end of a signature matches any text.
pub(crate) const fn row(
    name: &'static str,
    set_up: fn(&mut RunSetup<'_>),
    any: &'static [&'static str],
) -> Row {
    Row { name, set_up, expect: Expectation::new(any), mixes: true, long: false }
}

impl Row {
    /// Adds strings that standard output or standard error must contain.
    pub(crate) const fn says(mut self, texts: &'static [&'static str]) -> Row {
        self.expect.says = texts;
        self
    }

    /// Adds strings that neither standard output nor standard error may contain.
    pub(crate) const fn hides(mut self, texts: &'static [&'static str]) -> Row {
        self.expect.hides = texts;
        self
    }

    /// Excludes the row from mixtures, for example because it runs the command in its own way.
    pub(crate) const fn alone(mut self) -> Row {
        self.mixes = false;
        self
    }

    /// Includes the row only in the long form of the tests, because its run takes long.
    pub(crate) const fn long(mut self) -> Row {
        self.long = true;
        self.mixes = false;
        self
    }
}
