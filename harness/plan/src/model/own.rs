//! Kernels that a case defines. The reference model computes their outputs from the formulas in the case. The content
//! of an output without a formula is unknown.

use super::{Bytes, CurrentStep, Model, Ranges};
use crate::{
    Arg, BufferAddress, CaseKernel, Formula, FormulaError, FormulaInputs, Scalar, ScalarType,
    flat_args,
};

/// Content of a buffer from some address to the buffer's end: the bytes, and the ranges of bytes whose value is
/// unknown.
type PartialContent = (Vec<u8>, Ranges);

/// Arguments of a launch, and the memory that they point to.
struct LaunchInputs<'l> {
    args: &'l [Arg],
    memory: &'l [Option<PartialContent>],
    types: &'l [Option<ScalarType>],
}

/// Returns the byte range of the element with index `at` in a buffer of `bytes` bytes. Returns an error if the element
/// is outside of the buffer.
fn element(ty: ScalarType, at: i128, bytes: usize) -> Result<std::ops::Range<usize>, FormulaError> {
    let at = usize::try_from(at).map_err(|_| FormulaError::Outside)?;
    let start = at.checked_mul(ty.bytes()).ok_or(FormulaError::Outside)?;
    let end =
        start.checked_add(ty.bytes()).filter(|end| *end <= bytes).ok_or(FormulaError::Outside)?;
    Ok(start..end)
}

impl FormulaInputs for LaunchInputs<'_> {
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
            .ok_or(FormulaError::Undefined("the parameter has no buffer"))?;
        let range = element(ty, at, bytes.len())?;
        let known = unknown.part(range.start as u64..range.end as u64).is_empty();
        Ok(Scalar::from_bytes(ty, &bytes[range]).filter(|_| known))
    }
}

impl<'a, B: Bytes> Model<'a, B> {
    pub(super) fn launch_own(
        &mut self,
        now: CurrentStep<'a>,
        name: &str,
        items: u64,
        args: &[Arg],
    ) {
        let none = CaseKernel::default();
        let own = self.plan.own_kernels.get(name).unwrap_or(&none);
        let parameters = own.parameters.as_deref().unwrap_or_default();
        let args = flat_args(parameters, args);
        let mut formulas = Vec::new();
        for text in &own.computes {
            match Formula::parse(text, parameters) {
                Ok(formula) => formulas.push(formula),
                Err(why) => return self.report(now.step, format!("`{text}`: {why}")),
            }
        }
        // All memory is copied before the first write, because a formula reads the content from before the launch.
        let mut memory = Vec::new();
        for arg in &args {
            let content = match arg {
                // A kernel from a code object may ignore its input, so unknown input is allowed.
                Arg::Input(_) if own.code.is_some() => Some(None),
                Arg::Input(place) => self.memory_from(now, place, true),
                Arg::Address(place) if !formulas.is_empty() => self.memory_from(now, place, false),
                Arg::Address(_) | Arg::Number(_) | Arg::Struct(_) | Arg::Bytes(_) => Some(None),
            };
            let Some(content) = content else { return };
            memory.push(content);
        }
        let computed: Vec<usize> = formulas.iter().map(|formula| formula.out).collect();
        for (index, arg) in args.iter().enumerate() {
            for (place, only_read) in arg.places() {
                let Some(state) = self.live_buffer(now.step, &place.buffer) else { return };
                // A kernel from a code object may also write through a pointer to `const`.
                if (!only_read || own.code.is_some()) && !computed.contains(&index) {
                    state.written = true;
                    state.unknown = Ranges::from_range(0..state.bytes.len());
                }
            }
        }
        for formula in &formulas {
            let Some(Arg::Address(out)) = args.get(formula.out) else {
                let message =
                    format!("kernel `{name}` computes an output that has no buffer in this launch");
                return self.report(now.step, message);
            };
            // If the model stores no bytes, it cannot evaluate the formulas to find further mistakes.
            if memory.iter().flatten().next().is_none() {
                self.undecided = true;
                return;
            }
            let Ok(items) = u32::try_from(items) else {
                let message =
                    "a kernel with `computes` takes fewer than 2^32 work-items".to_owned();
                return self.report(now.step, message);
            };
            let found = LaunchInputs { args: &args, memory: &memory, types: &formula.types };
            match evaluate_output(formula, &found, items) {
                Ok((bytes, unknown)) => self.write(now, out, &B::from_bytes(bytes), &unknown),
                Err((item, why)) => {
                    let why = match why {
                        FormulaError::Outside => {
                            let buffers = self.sizes_of(&args);
                            format!("an element is outside of its buffer; {buffers}")
                        }
                        FormulaError::Undefined(why) => why.to_owned(),
                        FormulaError::TooMuch => "the evaluation takes too many steps".to_owned(),
                    };
                    let message = format!(
                        "the formula of kernel `{name}` has no defined result for i = {item}: {why}"
                    );
                    return self.report(now.step, message);
                }
            }
        }
    }

    /// Lists the sizes of the buffers among the arguments of a kernel.
    fn sizes_of(&self, args: &[Arg]) -> String {
        let mut sizes: Vec<String> = Vec::new();
        for (place, _) in args.iter().flat_map(Arg::places) {
            let bytes = self.states.get(place.buffer.as_str()).map_or(0, |state| state.bytes.len());
            let size = format!("`{}` has {bytes} bytes", place.buffer);
            if !sizes.contains(&size) {
                sizes.push(size);
            }
        }
        sizes.join(", ")
    }

    /// Returns the memory from an address to the end of its buffer. `read` is true if the kernel reads the memory.
    /// Returns `Some(None)` if the model does not store the bytes. If the access is a mistake, reports the mistake and
    /// returns `None`.
    fn memory_from(
        &mut self,
        now: CurrentStep<'a>,
        place: &BufferAddress,
        read: bool,
    ) -> Option<Option<PartialContent>> {
        let size = self.live_buffer(now.step, &place.buffer)?.bytes.len();
        let rest = size.saturating_sub(place.offset);
        let (bytes, unknown) = match read {
            true => self.read(now.step, place, rest)?,
            false => {
                let range = self.checked_range(now.step, place, rest)?;
                let state = &self.states[place.buffer.as_str()];
                (state.bytes.part(range.clone()), state.unknown.part(range))
            }
        };
        Some(bytes.kept().map(|bytes| (bytes.to_vec(), unknown)))
    }
}

fn evaluate_output(
    formula: &Formula,
    found: &LaunchInputs<'_>,
    items: u32,
) -> Result<PartialContent, (u32, FormulaError)> {
    let out = found.memory.get(formula.out).and_then(Option::as_ref);
    let (mut bytes, mut unknown) =
        out.cloned().ok_or((0, FormulaError::Undefined("the parameter has no buffer")))?;
    let mut written = vec![false; bytes.len() / formula.element.bytes()];
    formula.evaluate(found, items, |at, value| {
        let range = element(formula.element, at, bytes.len())?;
        let first = range.start / formula.element.bytes();
        if std::mem::replace(&mut written[first], true) {
            return Err(FormulaError::Undefined("the element was already written"));
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
