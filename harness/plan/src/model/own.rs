//! Kernels that a case brings itself: what they write is what the case says that they compute, or unknown.

use super::{Bytes, Model, Now, Ranges};
use crate::{
    Arg, Formula, FormulaError, FormulaInputs, OwnKernel, Place, Scalar, ScalarType, flat_args,
};

/// The bytes behind an address, and which of them cannot be known.
type Content = (Vec<u8>, Ranges);

/// What a launch finds.
struct Found<'l> {
    args: &'l [Arg],
    /// By parameter, for pointers.
    memory: &'l [Option<Content>],
    types: &'l [Option<ScalarType>],
}

/// Where an element lies among so many bytes.
fn element(ty: ScalarType, at: i128, bytes: usize) -> Result<std::ops::Range<usize>, FormulaError> {
    let at = usize::try_from(at).map_err(|_| FormulaError::Outside)?;
    let start = at.checked_mul(ty.bytes()).ok_or(FormulaError::Outside)?;
    let end =
        start.checked_add(ty.bytes()).filter(|end| *end <= bytes).ok_or(FormulaError::Outside)?;
    Ok(start..end)
}

impl FormulaInputs for Found<'_> {
    fn number(&self, parameter: usize) -> Option<Scalar> {
        match self.args.get(parameter)? {
            Arg::Number(number) => Some(*number),
            Arg::Address(_) | Arg::Input(_) | Arg::Struct(_) | Arg::Bytes(_) => None,
        }
    }

    fn element(&self, parameter: usize, at: i128) -> Result<Option<Scalar>, FormulaError> {
        let content = self.memory.get(parameter).and_then(Option::as_ref);
        let ((bytes, unknown), ty) = content
            .zip(self.types[parameter])
            .ok_or(FormulaError::Undefined("it has no address"))?;
        let range = element(ty, at, bytes.len())?;
        let known = unknown.part(range.start as u64..range.end as u64).is_empty();
        Ok(Scalar::from_bytes(ty, &bytes[range]).filter(|_| known))
    }
}

impl<'a, B: Bytes> Model<'a, B> {
    /// A launch of a kernel that is none of the library.
    pub(super) fn launch_own(&mut self, now: Now<'a>, name: &str, items: u64, args: &[Arg]) {
        let none = OwnKernel::default();
        let own = self.plan.own_kernels.get(name).unwrap_or(&none);
        let parameters = own.parameters.as_deref().unwrap_or_default();
        let args = flat_args(parameters, args);
        let mut formulas = Vec::new();
        for text in &own.computes {
            match Formula::parse(text, parameters) {
                Ok(formula) => formulas.push(formula),
                Err(why) => return self.mistake(now.step, format!("`{text}`: {why}")),
            }
        }
        // Everything is read before anything is written.
        let mut memory = Vec::new();
        for arg in &args {
            let content = match arg {
                Arg::Input(place) => self.behind(now, place, true),
                Arg::Address(place) if !formulas.is_empty() => self.behind(now, place, false),
                Arg::Address(_) | Arg::Number(_) | Arg::Struct(_) | Arg::Bytes(_) => Some(None),
            };
            let Some(content) = content else { return };
            memory.push(content);
        }
        let computed: Vec<usize> = formulas.iter().map(|formula| formula.out).collect();
        for (index, arg) in args.iter().enumerate() {
            for (place, only_read) in arg.places() {
                let Some(state) = self.live(now.step, &place.buffer) else { return };
                if !only_read && !computed.contains(&index) {
                    state.written = true;
                    state.unknown = Ranges::of(0..state.bytes.len());
                }
            }
        }
        for formula in &formulas {
            let Some(Arg::Address(out)) = args.get(formula.out) else {
                let message = format!("kernel `{name}` computes what is given no buffer here");
                return self.mistake(now.step, message);
            };
            // Where bytes are not kept, what may be wrong depends on them.
            if memory.iter().flatten().next().is_none() {
                self.undecided = true;
                return;
            }
            let Ok(items) = u32::try_from(items) else {
                let message =
                    "a kernel with `computes` takes fewer than 2^32 work-items".to_owned();
                return self.mistake(now.step, message);
            };
            let found = Found { args: &args, memory: &memory, types: &formula.types };
            match computed_by(formula, &found, items) {
                Ok((bytes, unknown)) => self.write(now, out, &B::whole(bytes), &unknown),
                Err((item, why)) => {
                    let why = match why {
                        FormulaError::Outside => "an element lies outside of its buffer",
                        FormulaError::Undefined(why) => why,
                        FormulaError::TooMuch => "it takes too many steps",
                    };
                    let message = format!(
                        "what kernel `{name}` computes here has no right result for i = {item}: {why}"
                    );
                    return self.mistake(now.step, message);
                }
            }
        }
    }

    /// What lies behind an address to the end of its buffer; none within where bytes are not kept.
    fn behind(&mut self, now: Now<'a>, place: &Place, read: bool) -> Option<Option<Content>> {
        let size = self.live(now.step, &place.buffer)?.bytes.len();
        let rest = size.saturating_sub(place.offset);
        let (bytes, unknown) = match read {
            true => self.read(now.step, place, rest)?,
            false => {
                let range = self.range(now.step, place, rest)?;
                let state = &self.states[place.buffer.as_str()];
                (state.bytes.part(range.clone()), state.unknown.part(range))
            }
        };
        Some(bytes.known().map(|bytes| (bytes.to_vec(), unknown)))
    }
}

/// What an output holds afterwards.
fn computed_by(
    formula: &Formula,
    found: &Found<'_>,
    items: u32,
) -> Result<Content, (u32, FormulaError)> {
    let out = found.memory.get(formula.out).and_then(Option::as_ref);
    let (mut bytes, mut unknown) =
        out.cloned().ok_or((0, FormulaError::Undefined("it has no address")))?;
    let mut written = vec![false; bytes.len() / formula.element.bytes()];
    formula.evaluate(found, items, |at, value| {
        let range = element(formula.element, at, bytes.len())?;
        let first = range.start / formula.element.bytes();
        if std::mem::replace(&mut written[first], true) {
            return Err(FormulaError::Undefined("another one has written to its place"));
        }
        let place = range.start as u64..range.end as u64;
        match value {
            Some(value) => {
                bytes[range].copy_from_slice(&value.to_bytes());
                if !unknown.is_empty() {
                    unknown.remove(place);
                }
            }
            None => unknown.add(place),
        }
        Ok(())
    })?;
    Ok((bytes, unknown))
}
