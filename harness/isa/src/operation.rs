//! What is known of one operation, in one place: how it is executed, how MODE rounds it, and how its sources show in its
//! results.

use std::{collections::HashMap, sync::Arc};

use device::Arch;

use crate::{
    exec::{Binder, Bound},
    machine::Machine,
    rounding::{Field, Rounding},
    text::Text,
    wave::Wave,
};

/// How what the sources hold shows in the results. Operands are targets first, then sources, where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passes {
    /// Each bit may depend on all sources.
    Computes,
    /// The same, with the target as a source unless there is a fourth operand in its stead.
    Accumulates,
    /// The same as the first, with a second target behind the first: a carry or a flag for each lane.
    Flags,
    /// Bits are moved about.
    Bits,
    /// The source is the result.
    Copies,
    /// All lanes of the source are in the result, or in each lane of it.
    Across,
    /// The same, with the target as a source.
    AccumulatesAcross,
    /// All lanes of the source are in the result, and nothing is computed of them.
    Picks,
    /// The second source where the mask has a one, else the first.
    Selects,
    /// The first source where SCC is one, else the second.
    SelectsScalar,
    /// All operands are sources, and SCC is the target.
    Condition,
    /// The wave goes where that register says.
    Branches(u16),
    /// The sources say which lanes run; EXEC is saved to the target, if there is one.
    Masks,
    /// The same where a target is the first of three operands; else all are sources.
    Compares,
    /// The operands change places.
    Swaps,
    /// Some lanes of the vector registers among the operands come from elsewhere.
    Mixes,
    /// Targets that are not known before the instruction runs.
    Anywhere,
    /// No register is a target.
    Nothing,
}

type Rounded = Box<dyn Fn(Rounding) -> Binder + Send + Sync>;

/// One operation.
pub struct Operation {
    /// To nearest even, if it rounds.
    binder: Binder,
    /// In the other modes. What has none rounds in one way of its own, or not at all: the approximations (reciprocals, roots,
    /// powers, logarithms, sines), which are given as accurate to a bit or so in every mode, products of matrices, dot
    /// products, atomics, and conversions that name their rounding.
    rounded: Option<(Field, Rounded)>,
    pub(crate) passes: Passes,
}

impl From<Binder> for Operation {
    fn from(binder: Binder) -> Operation {
        Operation { binder, rounded: None, passes: Passes::Computes }
    }
}

impl<F: Fn(&Text) -> Bound + Send + Sync + 'static> From<Box<F>> for Operation {
    fn from(binder: Box<F>) -> Operation {
        Operation::from(binder as Binder)
    }
}

impl Operation {
    /// One that is `nearest` to nearest even, and what `rounded` makes in the other modes.
    pub(crate) fn rounded<O: Into<Operation>>(
        field: Field,
        nearest: impl Into<Operation>,
        rounded: impl Fn(Rounding) -> O + Send + Sync + 'static,
    ) -> Operation {
        let rounded: Rounded = Box::new(move |rounding| rounded(rounding).into().binder);
        Operation { rounded: Some((field, rounded)), ..nearest.into() }
    }

    pub(crate) fn that(self, passes: Passes) -> Operation {
        Operation { passes, ..self }
    }

    pub(crate) fn bind(&self, text: &Text) -> Bound {
        (self.binder)(text)
    }

    /// The instruction as it is in that MODE; `None` if it is the same as ever.
    pub(crate) fn bind_rounded(&self, text: &Text, mode: u32) -> Option<Bound> {
        let (field, rounded) = self.rounded.as_ref()?;
        field.of(mode).map(|rounding| rounded(rounding)(text))
    }

    /// Whether MODE rounds it.
    pub fn is_rounded(&self) -> bool {
        self.rounded.is_some()
    }
}

/// An operation whose result MODE rounds, written once: `$r` is what rounds.
macro_rules! rounded {
    ($field:ident, $r:ident => $binder:expr) => {{
        let nearest = {
            let $r = $crate::rounding::Nearest;
            $binder
        };
        let rounded = move |$r: $crate::rounding::Rounding| $binder;
        $crate::operation::Operation::rounded($crate::rounding::Field::$field, nearest, rounded)
    }};
}
pub(crate) use rounded;

/// The old target is a source.
pub(crate) fn accumulates(operation: impl Into<Operation>) -> Operation {
    operation.into().that(Passes::Accumulates)
}

/// Bits are moved about.
pub(crate) fn bits(operation: impl Into<Operation>) -> Operation {
    operation.into().that(Passes::Bits)
}

/// The source is the result.
pub(crate) fn copies(operation: impl Into<Operation>) -> Operation {
    operation.into().that(Passes::Copies)
}

/// Lanes of one register are picked.
pub(crate) fn picks(operation: impl Into<Operation>) -> Operation {
    operation.into().that(Passes::Picks)
}

/// An operation that is not the same on all architectures. How MODE rounds it and how its sources show in its results is said
/// around it.
pub(crate) fn by_arch<O: Into<Operation>>(
    choose: impl Fn(Arch) -> O + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| choose(text.site.arch).into().bind(text))
}

/// An operation that is another one where MODE.FP16_OVFL is set, which `choose` is told.
pub(crate) fn by_overflow<O: Into<Operation>>(choose: impl Fn(bool) -> O) -> Operation {
    by_mode(Wave::saturates, choose)
}

/// An operation that is another one where MODE says so, which `choose` is told.
pub(crate) fn by_mode<O: Into<Operation>>(
    says_so: fn(&Wave) -> bool,
    choose: impl Fn(bool) -> O,
) -> Operation {
    let (plain, other): (Operation, Operation) = (choose(false).into(), choose(true).into());
    let passes = plain.passes;
    let binder: Binder = Box::new(move |text| {
        let (plain, other) = (plain.bind(text)?, other.bind(text)?);
        Ok(Box::new(move |wave: &mut Wave, machine: &mut Machine<'_>| {
            let exec = if says_so(wave) { &other } else { &plain };
            exec.run(wave, machine)
        }))
    });
    Operation::from(binder).that(passes)
}

pub(crate) type Table = HashMap<String, Arc<Operation>>;

/// Adds an operation, of which there is one for each name.
pub(crate) fn add(table: &mut Table, name: &str, operation: Arc<Operation>) {
    let before = table.insert(name.to_owned(), operation);
    assert!(before.is_none(), "two operations are called {name}");
}

/// One line per operation: its names over the generations, and what it does.
macro_rules! operations {
    ($table:ident; $($($name:literal)|+ => $operation:expr;)+) => {
        $(
            let operation = std::sync::Arc::new($crate::operation::Operation::from($operation));
            for name in [$($name),+] {
                $crate::operation::add($table, name, operation.clone());
            }
        )+
    };
}
pub(crate) use operations;
