//! Computes library kernels and matrix products in the reference model.

use super::{Bytes, CurrentStep, Model, Ranges, Undecided};
use crate::{Arg, BufferAddress, MatmulProblem, Operands, Parameter, kernel, kernel::size_mistake};

impl<'a, B: Bytes> Model<'a, B> {
    pub(crate) fn launch(
        &mut self,
        now: CurrentStep<'a>,
        name: &str,
        grid: &[u32; 3],
        block: &[u32; 3],
        args: &[Arg],
    ) {
        if let Some(message) = size_mistake(*grid, *block).filter(|_| now.step.returns.is_none()) {
            return self.report(now.step, message);
        }
        let items = grid.iter().chain(block).fold(1, |n: u64, &x| n.saturating_mul(x.into()));
        let Some(kernel) = kernel(name) else { return self.launch_own(now, name, items, args) };
        let places: Vec<&BufferAddress> = args.iter().filter_map(Arg::place).collect();
        let numbers: Vec<u32> = args
            .iter()
            .filter_map(|arg| match arg {
                Arg::Number(number) => Some(number.bits as u32),
                Arg::Address(_) | Arg::Input(_) | Arg::Struct(_) | Arg::Bytes(_) => None,
            })
            .collect();
        let scalars =
            kernel.parameters.iter().filter(|p| matches!(p, Parameter::U32 | Parameter::F32));
        if args.len() != kernel.parameters.len() || numbers.len() != scalars.count() {
            return self.report(now.step, format!("kernel `{name}` takes {:?}", kernel.parameters));
        }
        let workgroups = grid.iter().fold(1, |n: u64, &x| n.saturating_mul(x.into()));
        for input in places[1..].iter().filter(|input| input.buffer == places[0].buffer) {
            let offsets = [places[0].offset, input.offset];
            if let Some(instead) = kernel.overlap(offsets, (&numbers, items), workgroups) {
                let message = format!(
                    "work-items of kernel `{name}` read bytes of buffer `{}` that other work-items of the launch write, so the \
                     result depends on their order; {instead}",
                    input.buffer
                );
                return self.report(now.step, message);
            }
        }
        let [of_out, of_input] = (kernel.reach)(&numbers, items);
        let mut inputs = Vec::new();
        let mut known = true;
        for place in &places[1..] {
            let Some(state) = self.live_buffer(now.step, &place.buffer) else { return };
            let size = state.bytes.len();
            let Some((data, unknown)) =
                self.read(now.step, place, size.saturating_sub(place.offset))
            else {
                return;
            };
            known &= unknown.part(0..of_input).is_empty();
            inputs.push(data);
        }
        let Some(state) = self.live_buffer(now.step, &places[0].buffer) else { return };
        let size = state.bytes.len();
        let range = places[0].offset.min(size)..size;
        let mut out = state.bytes.part(range.clone());
        let mut unknown = state.unknown.part(range.clone());
        let written = 0..of_out.min(out.len());
        match known {
            false => unknown.add(written),
            // If the kernel reads its previous output, unknown bytes of the output stay unknown.
            true if kernel.updates => {}
            true => unknown.remove(written),
        }
        match B::compute(kernel, &mut out, &inputs, &numbers, items) {
            Ok(Some(())) => self.write(now, places[0], &out, &unknown),
            Ok(None) => {
                self.report(now.step, format!("`{name}` accesses memory outside of its buffers"))
            }
            Err(Undecided) => self.undecided = true,
        }
    }

    pub(super) fn multiply(
        &mut self,
        now: CurrentStep<'a>,
        problem: &MatmulProblem,
        operands: &Operands,
    ) {
        let place = |buffer: &String| BufferAddress { buffer: buffer.clone(), offset: 0 };
        let factors = [Some(&operands.a), Some(&operands.b), operands.bias.as_ref()];
        if factors.contains(&Some(&operands.d)) {
            let message = format!(
                "the product is written to buffer `{}`, which is also one of its factors; give the product a buffer of its own",
                operands.d
            );
            return self.report(now.step, message);
        }
        let [a_bytes, b_bytes, _] = problem.bytes();
        let bias_bytes = problem.m * problem.dtype.output().bytes();
        let a = self.read(now.step, &place(&operands.a), a_bytes);
        let b = self.read(now.step, &place(&operands.b), b_bytes);
        let bias = operands.bias.as_ref().map(|bias| self.read(now.step, &place(bias), bias_bytes));
        let (Some((a, not_of_a)), Some((b, not_of_b)), false) = (a, b, matches!(bias, Some(None)))
        else {
            return;
        };
        let (bias, not_of_bias) = bias.flatten().unzip();
        let known = [Some(not_of_a), Some(not_of_b), not_of_bias];
        let known = known.iter().flatten().all(Ranges::is_empty);
        match B::multiply(problem, &a, &b, bias.as_ref()) {
            Err(Undecided) => self.undecided = true,
            Ok(Some(d)) => {
                let unknown = if known { Ranges::default() } else { Ranges::from_range(0..d.len()) };
                self.write(now, &place(&operands.d), &d, &unknown);
            }
            Ok(None) => self.report(
                now.step,
                "this product is not exact in its type, so its result depends on the order of additions; fill the factors with \
                 `numbers`, or use a smaller `k`"
                    .to_owned(),
            ),
        }
    }
}
