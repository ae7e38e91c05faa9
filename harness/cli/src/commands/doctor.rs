use std::process::ExitCode;

use engine::{Stop, host};

use crate::{args::Doctor, interrupt, outputs};

pub(crate) fn doctor(args: &Doctor) -> Result<ExitCode, Stop> {
    let cancel = args.torch.then(interrupt::cancel).transpose()?;
    let (machine, who) = host::describe(cancel.as_ref());
    let machine = machine.redacted(&who);
    let text = if args.json {
        serde_json::to_string_pretty(&machine).map_err(Stop::no_verdict)? + "\n"
    } else {
        machine.text()
    };
    if args.json {
        outputs::print_data(&text)?
    } else {
        outputs::print(&text)?
    }
    Ok(ExitCode::SUCCESS)
}
