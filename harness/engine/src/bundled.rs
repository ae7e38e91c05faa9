//! Detects a ROCm that a program brings itself, for example in a Python package, and that replaces the stack.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use device::Mapped;
use judge::Observation;
use supervise::Start;

use crate::Session;

const NAME: &str = "bundled:";

/// Returns the reason why the emulated device's library cannot run a program from a Python virtual environment: the
/// ROCm in the environment needs HSA functions that the library does not implement. `None` if the library can run it.
pub fn unsupported_reason(session: &Session, start: &Start) -> Option<String> {
    let (device, venv) = (session.device_library()?, environment_of(start)?);
    let missing = stacks::missing_functions(&venv, &stacks::offered_functions(&device));
    let (library, _) = missing.first()?;
    let names: Vec<_> =
        missing.iter().filter(|(other, _)| other == library).map(|(_, name)| &**name).collect();
    let (library, names) = (library.display(), names.join(", "));
    Some(format!(
        "`{library}` needs the HSA functions {names}, which the emulated device does not implement; use an older \
         version of the package that contains the library, or a newer rocrepro"
    ))
}

fn environment_of(start: &Start) -> Option<PathBuf> {
    let named = |name| start.environment.get(OsStr::new(name)).map(PathBuf::from);
    named("VIRTUAL_ENV").or_else(|| named("CONDA_PREFIX")).or_else(|| {
        let folder = start.program.parent()?.parent()?;
        folder.join("pyvenv.cfg").is_file().then(|| folder.to_owned())
    })
}

pub(crate) fn stack(hip: &Mapped, observation: &Observation) -> report::Stack {
    let file = Path::new(&hip.path);
    let root = file.parent().unwrap_or(file).display().to_string();
    let build_id = hip.build_id.as_deref().map_or(String::new(), |id| format!(", build id {id}"));
    let name = format!("{NAME}{}{build_id}", hip.path);
    report::Stack::from_events(&name, &root, stacks::release_of(file), &observation.events)
}
