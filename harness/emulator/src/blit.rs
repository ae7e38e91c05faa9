//! Copies that the HIP runtime makes with kernels of its own.

use isa::{Executed, Trap};

use crate::loader::Kernel;

/// Whether the kernel belongs to the HIP runtime and not to the program under test.
pub(crate) fn is_of_the_runtime(kernel: &str) -> bool {
    kernel.starts_with("__amd_rocclr_")
}

pub(crate) fn run(
    _kernel: &Kernel,
    _kernarg: u64,
    execute: impl FnOnce() -> Result<Executed, Trap>,
) -> Result<Executed, Trap> {
    execute()
}
