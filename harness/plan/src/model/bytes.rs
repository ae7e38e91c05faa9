//! Content of a buffer in the reference model. One implementation stores all bytes. The other one stores only the size
//! and a few facts, which suffice to find most mistakes in a plan.

use std::ops::Range;

use crate::{Dtype, Kernel, MatmulProblem, matmul, pattern, small_numbers};

/// Error: the result depends on bytes that the model does not store.
pub(crate) struct Undecided;

/// Content of a buffer. Ranges that are passed to the methods must lie inside the buffer.
pub(crate) trait Bytes: Sized {
    fn repeat(value: &[u8], len: u64) -> Self;
    fn from_bytes(bytes: Vec<u8>) -> Self;
    fn len(&self) -> u64;
    fn pattern(&mut self, stamp: u64);
    fn numbers(&mut self, dtype: Dtype, stamp: u64);
    fn count_up(&mut self);
    fn part(&self, range: Range<u64>) -> Self;
    fn put(&mut self, at: u64, data: &Self);
    /// Executes a kernel of the library. [`KernelFunction`](crate::KernelFunction) describes the parameters and the
    /// result `None`.
    fn compute(
        kernel: &Kernel,
        out: &mut Self,
        inputs: &[Self],
        numbers: &[u32],
        items: u64,
    ) -> Result<Option<()>, Undecided>;
    fn multiply(
        problem: &MatmulProblem,
        a: &Self,
        b: &Self,
        bias: Option<&Self>,
    ) -> Result<Option<Self>, Undecided>;
    fn kept(&self) -> Option<&[u8]>;
}

impl Bytes for Vec<u8> {
    fn repeat(value: &[u8], len: u64) -> Self {
        match value {
            [byte] => vec![*byte; len as usize],
            _ => value.iter().copied().cycle().take(len as usize).collect(),
        }
    }

    fn from_bytes(bytes: Vec<u8>) -> Self {
        bytes
    }

    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn pattern(&mut self, stamp: u64) {
        pattern(stamp, self);
    }

    fn numbers(&mut self, dtype: Dtype, stamp: u64) {
        small_numbers(dtype, stamp, self);
    }

    fn count_up(&mut self) {
        self.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
    }

    fn part(&self, range: Range<u64>) -> Self {
        self[range.start as usize..range.end as usize].to_vec()
    }

    fn put(&mut self, at: u64, data: &Self) {
        self[at as usize..][..data.as_slice().len()].copy_from_slice(data);
    }

    fn compute(
        kernel: &Kernel,
        out: &mut Self,
        inputs: &[Self],
        numbers: &[u32],
        items: u64,
    ) -> Result<Option<()>, Undecided> {
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        Ok((kernel.reference)(out, &inputs, numbers, items))
    }

    fn multiply(
        problem: &MatmulProblem,
        a: &Self,
        b: &Self,
        bias: Option<&Self>,
    ) -> Result<Option<Self>, Undecided> {
        Ok(matmul(problem, a, b, bias.map(Vec::as_slice)))
    }

    fn kept(&self) -> Option<&[u8]> {
        Some(self)
    }
}

/// Content of a buffer that stores no bytes: only the size, and whether all elements are small numbers, whose products
/// [`matmul`] computes exactly.
pub(super) struct Extent {
    len: u64,
    /// Type of the elements if all of them are [`small_numbers`]; `None` for any other content.
    numbers: Option<Dtype>,
}

const MAX_SMALL_NUMBER: u64 = 2;

impl Bytes for Extent {
    fn repeat(_: &[u8], len: u64) -> Self {
        Extent { len, numbers: None }
    }

    fn from_bytes(bytes: Vec<u8>) -> Self {
        Extent { len: bytes.len() as u64, numbers: None }
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn pattern(&mut self, _: u64) {
        self.numbers = None;
    }

    fn numbers(&mut self, dtype: Dtype, _: u64) {
        self.numbers = Some(dtype);
    }

    fn count_up(&mut self) {
        self.numbers = None;
    }

    fn part(&self, range: Range<u64>) -> Self {
        let aligned = |dtype: &Dtype| range.start.is_multiple_of(dtype.bytes());
        Extent { len: range.end - range.start, numbers: self.numbers.filter(aligned) }
    }

    fn put(&mut self, at: u64, data: &Self) {
        let whole = at == 0 && data.len == self.len;
        let aligned = |dtype: &Dtype| {
            at.is_multiple_of(dtype.bytes()) && data.len.is_multiple_of(dtype.bytes())
        };
        self.numbers = match whole {
            true => data.numbers,
            false => self.numbers.filter(|of| data.numbers == Some(*of) && aligned(of)),
        };
    }

    fn compute(
        kernel: &Kernel,
        out: &mut Self,
        inputs: &[Self],
        numbers: &[u32],
        items: u64,
    ) -> Result<Option<()>, Undecided> {
        let [of_out, of_input] = (kernel.reach)(numbers, items);
        out.numbers = None;
        if out.len >= of_out && inputs.iter().all(|input| input.len >= of_input) {
            Ok(Some(()))
        } else {
            Err(Undecided)
        }
    }

    fn multiply(
        problem: &MatmulProblem,
        a: &Self,
        b: &Self,
        bias: Option<&Self>,
    ) -> Result<Option<Self>, Undecided> {
        let output = problem.dtype.output();
        let small = [a, b].iter().all(|factor| factor.numbers == Some(problem.dtype))
            && bias.is_none_or(|bias| bias.numbers == Some(output));
        let largest = problem
            .k
            .saturating_mul(MAX_SMALL_NUMBER * MAX_SMALL_NUMBER)
            .saturating_add(MAX_SMALL_NUMBER);
        if small && largest <= output.max_exact_integer() {
            Ok(Some(Extent { len: problem.bytes()[2], numbers: None }))
        } else {
            Err(Undecided)
        }
    }

    fn kept(&self) -> Option<&[u8]> {
        None
    }
}
