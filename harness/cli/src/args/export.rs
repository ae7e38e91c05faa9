use std::path::PathBuf;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use export::Form;

use super::{ExecutionOptions, Selection};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rocrepro export 'copies/small-sizes[bytes=2,host=pageable]'    print it
  rocrepro export graphs/exec-update --form hipcc --out repro.hip
  rocrepro export copies/tensors --fault copy.zero --verify    compile, run, compare
  rocrepro export --all --verify --with dev    every case of the library, one line each

Verifying needs the headers of the stack, which `--with dev` fetches.

Exit codes: 0 exported (and verified), 1 the program differs from its trial, 2 usage, 3 no verdict.";

#[derive(Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) on: ExecutionOptions,

    /// Export every case of the library
    #[arg(long, conflicts_with = "cases")]
    pub(crate) all: bool,

    /// Form of the GPU kernels in the program: strings for hipRTC (any host compiler builds it) or inline for hipcc
    #[arg(long, default_value = Form::Hiprtc.name(), value_parser = form())]
    pub(crate) form: Form,

    /// Where to write the program; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) out: PathBuf,

    /// Inject a fault, such as `copy.zero`; also with parameters: `copy.zero,probability=0.2,seed=7`
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<String>,

    /// With several cases: inject into each case the first fault that it declares
    #[arg(long, conflicts_with = "fault")]
    pub(crate) declared_fault: bool,

    /// Compile the program, run it on the same stack and device, and compare it with the trial
    #[arg(long)]
    pub(crate) verify: bool,

    /// Run the verified program this many times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) repeat: u32,

    /// With several cases: export every trial instead of the first of each case
    #[arg(long)]
    pub(crate) trials: bool,
}

fn form() -> impl TypedValueParser<Value = Form> {
    let names = [Form::Hiprtc.name(), Form::Hipcc.name()];
    PossibleValuesParser::new(names)
        .map(|name| if name == Form::Hipcc.name() { Form::Hipcc } else { Form::Hiprtc })
}
