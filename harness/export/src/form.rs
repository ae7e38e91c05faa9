//! The two forms of a program, and which of its kernels are in modules in either.

use plan::{Arg, Call, Plan, ScalarType, Step, may_succeed};

/// How kernels get into the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As strings that hipRTC compiles at run time: a host compiler is enough.
    Hiprtc,
    /// Inline, launched by `<<<>>>`, compiled by hipcc or clang.
    Hipcc,
}

impl Form {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Form::Hiprtc => "hiprtc",
            Form::Hipcc => "hipcc",
        }
    }

    /// The name of the file.
    pub const fn file(self) -> &'static str {
        match self {
            Form::Hiprtc => "repro.cpp",
            Form::Hipcc => "repro.hip",
        }
    }

    /// How a kernel gets into a program of this form. Symbols are looked for in modules, and hipLaunchKernel refuses with other
    /// statuses than hipModuleLaunchKernel, so a kernel that either is about is in a module.
    pub(crate) fn of_kernel(self, plan: &Plan, kernel: &str) -> Form {
        let needs_module_at = |step: &&Step| {
            let looks = matches!(step.call, Call::FindSymbol { .. });
            step.call.kernels().any(|used| used == kernel) && (looks || !may_succeed(step))
        };
        match plan.steps().iter().any(needs_module_at) || needs_module(plan, kernel) {
            true => Form::Hiprtc,
            false => self,
        }
    }
}

/// Whether an argument keeps its bytes only where the program hands over pointers to it.
fn needs_pointer(arg: &Arg) -> bool {
    match arg {
        Arg::Struct(_) | Arg::Bytes(_) => true,
        Arg::Number(number) => matches!(number.ty, ScalarType::F16 | ScalarType::Bf16),
        Arg::Address(_) | Arg::Input(_) => false,
    }
}

/// Whether a kernel of the case's own must be compiled at run time: by options of its own, or because of what it is given.
fn needs_module(plan: &Plan, kernel: &str) -> bool {
    let options = plan.own_kernels.get(kernel).is_some_and(|own| !own.options.is_empty());
    options
        || plan.steps().iter().any(|step| {
            let Call::Launch { kernel: name, args, .. } = step.call.work() else { return false };
            name == kernel && args.iter().any(needs_pointer)
        })
}
