use std::process::ExitCode;

use crate::{args::Env, console, outputs};
use engine::{
    Stop,
    environments::{Environments, PackageSources, TorchBuilds},
};

/// Makes, lists and removes Python environments.
pub(crate) fn env(args: &Env) -> Result<ExitCode, Stop> {
    let all = Environments::open()?;
    let text = match args {
        Env::Create {
            name,
            python,
            torch,
            index_url,
            extra_index_url,
            find_links,
            constraint,
            pre,
            packages,
        } => {
            let of_torch = torch.as_ref().map(TorchBuilds::sources).unwrap_or_default();
            let sources = PackageSources {
                index_url: index_url.clone().or(of_torch.index_url),
                extra_index_urls: extra_index_url.clone(),
                find_links: find_links.clone(),
                constraints: constraint.clone(),
                pre: *pre || of_torch.pre,
            };
            let packages = match torch {
                Some(torch) => torch.packages(packages),
                None => packages.clone(),
            };
            let made = all.create(name, python, &packages, &sources, &console::reporting())?;
            format!("{}\n", made.venv().display())
        }
        Env::List => {
            let line = |it: &engine::environments::PythonEnvironment| {
                format!("{:14} {}{}\n", it.name, it.mark.packages.join(" "), it.incomplete_note())
            };
            all.all().iter().map(line).collect()
        }
        Env::Path { name } => format!("{}\n", all.find_complete(name)?.venv().display()),
        Env::Remove { name } => {
            all.remove(name)?;
            String::new()
        }
    };
    outputs::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
