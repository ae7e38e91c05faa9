use std::process::ExitCode;

use crate::{args::Env, console, outputs};
use engine::{Stop, environments::Environments};

/// Makes, lists and removes Python environments.
pub(crate) fn env(args: &Env) -> Result<ExitCode, Stop> {
    let all = Environments::open()?;
    let text = match args {
        Env::Create { name, python, packages } => {
            let made = all.create(name, python, packages, &console::reporting())?;
            format!("{}\n", made.venv().display())
        }
        Env::List => {
            let line = |it: &engine::environments::PythonEnvironment| {
                format!("{:14} {}{}\n", it.name, it.mark.packages.join(" "), it.doubt())
            };
            all.all().iter().map(line).collect()
        }
        Env::Path { name } => format!("{}\n", all.whole(name)?.venv().display()),
        Env::Remove { name } => {
            all.remove(name)?;
            String::new()
        }
    };
    outputs::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
