//! Defines the two forms of a printed program, and selects the form for each kernel.

use plan::{Arg, Call, Plan, ScalarType, Step, may_succeed};

/// Form in which a program contains its kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Strings that hipRTC compiles at run time; a host compiler is enough to build the program.
    Hiprtc,
    /// Inline code that is launched by `<<<>>>`; hipcc or clang builds the program.
    Hipcc,
}

impl Form {
    /// Returns the name of the form on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Form::Hiprtc => "hiprtc",
            Form::Hipcc => "hipcc",
        }
    }

    /// Returns the file name of a program in this form.
    pub const fn file(self) -> &'static str {
        match self {
            Form::Hiprtc => "repro.cpp",
            Form::Hipcc => "repro.hip",
        }
    }

    /// Returns the form in which a program of this form contains a kernel. Usually this is the same form. The result is
    /// always [`Form::Hiprtc`] in three cases: the program looks up symbols of the kernel, which is possible only in
    /// modules; the case depends on the error statuses of launches, which differ between hipLaunchKernel and
    /// hipModuleLaunchKernel; or `<<<>>>` cannot express the launches or the options of the kernel.
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

/// Returns true if the program must pass a pointer to the argument, because passing it by value with `<<<>>>` could
/// change its bytes.
fn needs_pointer(arg: &Arg) -> bool {
    match arg {
        Arg::Struct(_) | Arg::Bytes(_) => true,
        Arg::Number(number) => matches!(number.ty, ScalarType::F16 | ScalarType::Bf16),
        Arg::Address(_) | Arg::Input(_) => false,
    }
}

/// Returns true if a kernel that the case defines must be compiled at run time, because of its options, its arguments,
/// or a cooperative launch, which cannot be written with `<<<>>>`.
fn needs_module(plan: &Plan, kernel: &str) -> bool {
    let options = plan.own_kernels.get(kernel).is_some_and(|own| !own.options.is_empty());
    options
        || plan.steps().iter().any(|step| {
            let Call::Launch { kernel: name, args, cooperative, .. } = step.call.work() else {
                return false;
            };
            name == kernel && (*cooperative || args.iter().any(needs_pointer))
        })
}
