//! Properties of an operation: how it is executed, how MODE affects the rounding of its results, and how uninitialised
//! source operands affect its results.

use std::{collections::HashMap, sync::Arc};

use device::Arch;

use crate::{
    exec::{Binder, Bound},
    machine::Machine,
    rounding::{Field, Rounding},
    text::Text,
    wave::Wave,
};

/// Rules by which uninitialised source operands affect the results of an instruction. Unless noted otherwise, the first
/// operand is the target, which the instruction writes, and the other operands are sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataFlow {
    /// Each result bit may depend on all sources.
    Computes,
    /// Like `Computes`, with the target as an additional source unless there is a fourth operand.
    Accumulates,
    /// Like `Computes`, with a second target after the first: a mask with a carry or a flag for each lane.
    Flags,
    /// The operation rearranges bits of the sources.
    Bits,
    Copies,
    /// The operation combines all lanes of the source, or each lane of the result may depend on all of them.
    Across,
    /// Like `Across`, with the target as an additional source.
    AccumulatesAcross,
    /// Like `Across`, but the operation only copies values between lanes.
    Picks,
    /// Each lane of the result is the second source if the mask bit is set, otherwise the first source.
    Selects,
    /// The result is the first source if SCC is one, otherwise the second source.
    SelectsScalar,
    /// All operands are sources, and SCC is the result.
    Condition,
    /// The scalar register with this number decides whether the branch is taken.
    Branches(u16),
    /// The sources decide which lanes are active. EXEC is saved to the target, if there is one.
    Masks,
    /// Like `Masks`, but the first of three operands is a target. With fewer operands, all are sources.
    Compares,
    Swaps,
    /// The operation replaces some lanes of the vector registers.
    Mixes,
    /// The operation writes registers whose numbers are known only at run time.
    Anywhere,
    Nothing,
}

type Rounded = Box<dyn Fn(Rounding) -> Binder + Send + Sync>;

/// An operation that one or several mnemonics share.
pub struct Operation {
    /// Function that binds the operation, with rounding to nearest even if the operation rounds.
    binder: Binder,
    /// Function that binds the operation with a rounding mode other than round to nearest even, and the field of MODE
    /// that selects the rounding mode. `None` for operations whose rounding does not depend on MODE: matrix products,
    /// dot products, atomics, conversions whose name contains the rounding mode, and approximations (reciprocals,
    /// roots, powers, logarithms, sines). Approximations are accurate to about one bit in every mode.
    rounded: Option<(Field, Rounded)>,
    pub(crate) passes: DataFlow,
}

impl From<Binder> for Operation {
    fn from(binder: Binder) -> Operation {
        Operation { binder, rounded: None, passes: DataFlow::Computes }
    }
}

impl<F: Fn(&Text) -> Bound + Send + Sync + 'static> From<Box<F>> for Operation {
    fn from(binder: Box<F>) -> Operation {
        Operation::from(binder as Binder)
    }
}

impl Operation {
    /// Creates an operation that runs `nearest` when MODE rounds to nearest even, and `rounded` in the other modes.
    pub(crate) fn rounded<O: Into<Operation>>(
        field: Field,
        nearest: impl Into<Operation>,
        rounded: impl Fn(Rounding) -> O + Send + Sync + 'static,
    ) -> Operation {
        let rounded: Rounded = Box::new(move |rounding| rounded(rounding).into().binder);
        Operation { rounded: Some((field, rounded)), ..nearest.into() }
    }

    pub(crate) fn with_flow(self, passes: DataFlow) -> Operation {
        Operation { passes, ..self }
    }

    pub(crate) fn bind(&self, text: &Text) -> Bound {
        (self.binder)(text)
    }

    /// Binds the instruction for this value of MODE; returns `None` if MODE does not affect it.
    pub(crate) fn bind_rounded(&self, text: &Text, mode: u32) -> Option<Bound> {
        let (field, rounded) = self.rounded.as_ref()?;
        field.of(mode).map(|rounding| rounded(rounding)(text))
    }

    /// Returns true if MODE affects the rounding of the operation.
    pub fn is_rounded(&self) -> bool {
        self.rounded.is_some()
    }
}

/// Defines an operation whose rounding depends on MODE. `$operation` refers to the rounding mode as `$r`.
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

pub(crate) fn accumulates(operation: impl Into<Operation>) -> Operation {
    operation.into().with_flow(DataFlow::Accumulates)
}

pub(crate) fn bits(operation: impl Into<Operation>) -> Operation {
    operation.into().with_flow(DataFlow::Bits)
}

pub(crate) fn copies(operation: impl Into<Operation>) -> Operation {
    operation.into().with_flow(DataFlow::Copies)
}

pub(crate) fn picks(operation: impl Into<Operation>) -> Operation {
    operation.into().with_flow(DataFlow::Picks)
}

/// Returns a binder that chooses the operation by architecture. The binder ignores the rounding function and the
/// [`DataFlow`] of the chosen operation, so the caller must set both for the operation that it creates from the binder.
pub(crate) fn by_arch<O: Into<Operation>>(
    choose: impl Fn(Arch) -> O + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| choose(text.site.arch).into().bind(text))
}

/// Returns an operation that depends on `MODE.FP16_OVFL`. `choose` receives the value of this bit and returns the
/// operation for this value.
pub(crate) fn by_overflow<O: Into<Operation>>(choose: impl Fn(bool) -> O) -> Operation {
    by_mode(Wave::saturates, choose)
}

/// Returns an operation that depends on MODE. `says_so` tests the wave's MODE, and `choose` returns the operation for a
/// result of this test.
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
    Operation::from(binder).with_flow(passes)
}

pub(crate) type Table = HashMap<String, Arc<Operation>>;

pub(crate) fn add(table: &mut Table, name: &str, operation: Arc<Operation>) {
    let before = table.insert(name.to_owned(), operation);
    assert!(before.is_none(), "two operations are called {name}");
}

/// Adds operations to the table. Each line contains the names of an operation in all GPU generations, and then the
/// operation.
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
