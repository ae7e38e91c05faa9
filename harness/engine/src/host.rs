//! Describes this machine, for `rocrepro doctor` and for issues.

mod system;

use std::{
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use report::issue::{Environment, Identity, NotRead, StackFound, Variable, concerns_rocm};
use supervise::{Cancel, ChildEnd, Limits};

use crate::{card, kernel_log};

/// Time limit for PyTorch's description of the machine.
const TORCH: Duration = Duration::from_secs(60);

/// Describes the machine, and returns the names of people and machines that a published text must not contain. The
/// description lists the files that could not be read.
pub fn describe(with_torch: Option<&Cancel>) -> (Environment, Identity) {
    let mut not_read = Vec::new();
    let mut machine = system::machine(&mut not_read);
    let mut who = system::identity();
    machine.date = report::date(SystemTime::now());
    machine.rocrepro = env!("CARGO_PKG_VERSION").to_owned();
    let (gpus, serials) = card::gpus(Path::new("/"), &mut not_read);
    machine.gpus = gpus;
    who.serials.extend(serials);
    machine.driver = card::driver(Path::new("/"), &mut not_read);
    machine.kernel_log = kernel_log::last_lines(&mut not_read);
    machine.stacks = stacks(&mut not_read);
    machine.variables = variables();
    machine.advice =
        card::advice(Path::new("/"), &machine.gpus, &machine.driver, &machine.variables);
    if let Some(cancel) = with_torch {
        machine.torch = match torch(cancel) {
            Ok(text) => Some(text),
            Err(why) => {
                not_read.push(NotRead { what: "PyTorch".to_owned(), why });
                None
            }
        };
    }
    machine.not_read = not_read;
    (machine, who)
}

/// Returns the names of people and machines that a published text must not contain.
pub fn identity() -> Identity {
    let mut who = system::identity();
    who.serials.extend(card::gpus(Path::new("/"), &mut Vec::new()).1);
    who
}

/// Returns all installed and fetched stacks.
fn stacks(not_read: &mut Vec<NotRead>) -> Vec<StackFound> {
    let fetched = match stacks::StackCache::from_environment() {
        Ok(store) => {
            stacks::list_stacks(&store).debian.into_iter().filter_map(|f| f.stack).collect()
        }
        Err(error) => {
            not_read.push(NotRead { what: "fetched stacks".to_owned(), why: error.to_string() });
            Vec::new()
        }
    };
    let found: Vec<stacks::Stack> = stacks::system_stacks().into_iter().chain(fetched).collect();
    not_read.extend(found.iter().filter_map(|stack| {
        let why = stack.doubt.clone()?;
        Some(NotRead { what: format!("the ROCm version of {}", stack.spec), why })
    }));
    found
        .into_iter()
        .map(|stack| StackFound {
            libraries: stack
                .identify()
                .libraries
                .into_iter()
                .map(|l| (l.name, l.build_id))
                .collect(),
            rocm: stack.rocm.as_ref().map(ToString::to_string),
            root: stack.root.display().to_string(),
            spec: stack.spec,
        })
        .collect()
}

fn variables() -> Vec<Variable> {
    let mut found: Vec<_> = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
        .filter(|(name, _)| concerns_rocm(name))
        .map(|(name, value)| Variable { name, value: value.to_string_lossy().into_owned() })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Returns PyTorch's own description of the machine, or the reason why it is missing.
fn torch(cancel: &Cancel) -> Result<String, String> {
    let mut command = Command::new("python3");
    // `supervise` reads events from the process's standard output, so the module must write to standard error.
    command.args(["-c", "import sys; sys.stdout = sys.stderr; from torch.utils import collect_env; collect_env.main()"]);
    let limits = Limits { total: TORCH, quiet: TORCH, ..Limits::default() };
    let seen = supervise::run(command, b"", &limits, cancel, &mut |_| {});
    let text = seen.stderr.to_text();
    match seen.ended {
        ChildEnd::Exited(0) => Ok(text),
        ChildEnd::SpawnFailed(error) => Err(format!("python3: {error}")),
        ChildEnd::Stopped { .. } | ChildEnd::CouldNotBeKilled { .. } => {
            Err(format!("python3 took longer than {} s", TORCH.as_secs()))
        }
        _ => {
            let last = text.lines().rev().find(|line| !line.trim().is_empty());
            Err(format!("python3: {}", last.unwrap_or("ended without output")))
        }
    }
}
