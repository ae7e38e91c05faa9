//! One kind of trouble.

use crate::{expect::Expect, scene::Scene};

/// One kind of trouble: how it is planted, and what may be said then.
pub(crate) struct Row {
    /// Its family and what it does.
    pub(crate) name: &'static str,
    /// Plants it.
    pub(crate) plant: fn(&mut Scene<'_>),
    /// What a truthful tool may say.
    pub(crate) expect: Expect,
    /// Whether it may be mixed with others.
    pub(crate) mixes: bool,
    /// Whether it is for the long form only.
    pub(crate) long: bool,
}

/// A row with what may be said: `pass`, `fail SIGNATURE`, `no-verdict SIGNATURE`, `skip SIGNATURE`, `refused` (exit code 2), `stopped`
/// (exit code 3 before a trial), `done` (exit code 0 without a trial). A `*` at the end of a signature stands for anything.
pub(crate) const fn row(
    name: &'static str,
    plant: fn(&mut Scene<'_>),
    any: &'static [&'static str],
) -> Row {
    Row { name, plant, expect: Expect::new(any), mixes: true, long: false }
}

impl Row {
    /// With texts that must be said, on standard output or standard error.
    pub(crate) const fn says(mut self, texts: &'static [&'static str]) -> Row {
        self.expect.says = texts;
        self
    }

    /// With texts that must not be said.
    pub(crate) const fn hides(mut self, texts: &'static [&'static str]) -> Row {
        self.expect.hides = texts;
        self
    }

    /// Not mixed with others, as it drives the command in its own way.
    pub(crate) const fn alone(mut self) -> Row {
        self.mixes = false;
        self
    }

    /// For the long form only, as it takes long.
    pub(crate) const fn long(mut self) -> Row {
        self.long = true;
        self.mixes = false;
        self
    }
}
