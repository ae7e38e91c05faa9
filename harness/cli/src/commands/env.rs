use std::process::ExitCode;

use crate::{args::Env, console, outputs};
use engine::{
    Stop,
    environments::{Environments, PackageSources},
};

/// Makes, lists and removes Python environments.
pub(crate) fn env(args: &Env) -> Result<ExitCode, Stop> {
    let all = Environments::open()?;
    let text = match args {
        Env::Create {
            name,
            python,
            index_url,
            extra_index_url,
            find_links,
            constraint,
            pre,
            packages,
        } => {
            let sources = PackageSources {
                index_url: index_url.clone(),
                extra_index_urls: extra_index_url.clone(),
                find_links: find_links.clone(),
                constraints: constraint.clone(),
                pre: *pre,
            };
            let made = all.create(name, python, packages, &sources, &console::reporting())?;
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
