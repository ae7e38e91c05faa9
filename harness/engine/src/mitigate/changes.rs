//! Lists changes to a trial that may avoid its failure.

use std::{collections::HashSet, fs, path::Path};

use case::{Case, Header, Lowered, Trial, lower};
use report::{Record, evidence::NotTried};
use rewrite::mitigations::{Reader, rewrites, variables};
use supervise::Cancel;

use crate::{Session, Stop, failing_trial::FailingTrial};

/// A change to try.
pub(super) struct TriedChange {
    /// Name of the environment variable or of the resource limit, or a description of the changed calls.
    pub(super) name: String,
    pub(super) meaning: String,
    pub(super) since: Option<String>,
    pub(super) component: String,
    pub(super) change: Change,
}

pub(super) enum Change {
    Variable { name: String, value: String },
    Limit { name: String, value: String },
    Calls(Box<RewrittenTrial>),
}

/// A trial that does the same work with other calls, and the case that contains it.
pub(super) struct RewrittenTrial {
    pub(super) case: Case,
    pub(super) trial: Trial,
    pub(super) lowered: Lowered,
}

impl TriedChange {
    /// Returns a short description of the change.
    pub(super) fn title(&self) -> String {
        match &self.change {
            Change::Variable { name, value } => format!("{name}={value}"),
            Change::Limit { name, value } => format!("--limit {name}={value}"),
            Change::Calls(_) => self.name.clone(),
        }
    }

    /// Returns true if the two changes can be combined. Two values of one variable cannot be combined, and neither can
    /// two edits of the calls.
    pub(super) fn is_compatible_with(&self, other: &TriedChange) -> bool {
        match (&self.change, &other.change) {
            (Change::Calls(_), Change::Calls(_)) => false,
            _ => self.name != other.name,
        }
    }
}

/// Returns the changes that can be tried on a trial, and those that do not apply to it, each with the reason. `failed`,
/// the record of a failing run, names the Python packages that the program uses.
pub(super) fn changes(
    subject: &FailingTrial<'_>,
    session: &Session,
    failed: &Record,
    cancel: &Cancel,
) -> Result<(Vec<TriedChange>, Vec<NotTried>), Stop> {
    let (mut tried, mut not_tried) = (Vec::new(), Vec::new());
    let packages = failed.program.as_ref().map_or(&[][..], |program| &program.packages);
    // A search may end early, so the changes that say most about a cause come first.
    limits(&mut tried);
    if !subject.selected.case.is_program() {
        calls_of(subject, &mut tried, &mut not_tried, cancel)?;
    }
    variables_of(session, packages, &mut tried, &mut not_tried, cancel)?;
    if cancel.is_cancelled() {
        return Err(Stop::no_verdict("interrupted"));
    }
    Ok((tried, not_tried))
}

fn variables_of(
    session: &Session,
    packages: &[String],
    tried: &mut Vec<TriedChange>,
    not_tried: &mut Vec<NotTried>,
    cancel: &Cancel,
) -> Result<(), Stop> {
    let identity = session.stack.identify();
    let words =
        |name: &str| identity.library(name).map(|l| words(&l.path, cancel)).unwrap_or_default();
    let hip = words("libamdhip64");
    let blaslt = words("libhipblaslt");
    let emulated = session.device_library();
    let hsa = match &emulated {
        Some(library) => self::words(library, cancel),
        None => words("libhsa-runtime64"),
    };
    for variable in variables().map_err(Stop::no_verdict)? {
        let name = &variable.name;
        let mut leave = |why: String| not_tried.push(NotTried { name: name.clone(), why });
        let known = match variable.read_by {
            Reader::Torch | Reader::Cupy | Reader::Jax | Reader::Triton => {
                let (_, package) = variable.read_by.framework().unwrap_or_default();
                // Variables of a framework that the program does not use are not worth a line in the report.
                if !packages.iter().any(|name| name.starts_with(package)) {
                    continue;
                }
                true
            }
            Reader::Hip => hip.contains(name),
            Reader::Hipblaslt => blaslt.contains(name),
            // In the emulated device's library, string literals are stored without separators, so a text found in it
            // may consist of several names.
            Reader::Hsa => {
                hsa.iter().any(|w| w == name || (emulated.is_some() && w.contains(name.as_str())))
            }
        };
        if variable.values.is_empty() {
            leave(variable.meaning.clone());
        } else if !known && variable.read_by == Reader::Hsa && emulated.is_some() {
            leave("the emulated device replaces the library that reads this variable".to_owned());
        } else if !known {
            leave("no library of this stack contains the name of this variable".to_owned());
        } else {
            tried.extend(variable.values.iter().map(|value| TriedChange {
                name: name.clone(),
                meaning: variable.meaning.clone(),
                since: variable.since(),
                component: variable.component.clone(),
                change: Change::Variable { name: name.clone(), value: value.clone() },
            }));
        }
    }
    Ok(())
}

/// Adds changes that set a larger limit of the stack size. The default limit bounds the recursion of a library, for
/// example along the nodes of a graph.
fn limits(tried: &mut Vec<TriedChange>) {
    tried.extend(["64M", "512M"].map(|value| TriedChange {
        name: "stack".to_owned(),
        meaning: "Makes the stack of the main thread larger than the usual 8 MiB.".to_owned(),
        since: None,
        component: "recursion in the runtime (stack overflow)".to_owned(),
        change: Change::Limit { name: "stack".to_owned(), value: value.to_owned() },
    }));
}

/// Returns all texts in the file of a library that may be names of environment variables.
fn words(library: &Path, cancel: &Cancel) -> HashSet<String> {
    let bytes = fs::read(library).unwrap_or_default();
    let part = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_';
    bytes
        .split(|b| !part(b))
        .take_while(|_| !cancel.is_cancelled())
        .filter(|word| word.len() >= 6)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

fn calls_of(
    subject: &FailingTrial<'_>,
    tried: &mut Vec<TriedChange>,
    not_tried: &mut Vec<NotTried>,
    cancel: &Cancel,
) -> Result<(), Stop> {
    let (case, trial) = (subject.selected.case, &subject.selected.trial);
    let kernels = subject.library.kernels();
    let Ok(plan) = lower(case, trial, kernels, &[]) else { return Ok(()) };
    let header = Header::for_trial(case, trial);
    for rewrite in rewrites(&plan.plan) {
        if cancel.is_cancelled() {
            break;
        }
        let text = case::write(&rewrite.plan, &header, kernels);
        let lowered = Case::parse(&case.id, &text).and_then(|case| {
            let trial = case.trials().into_iter().next().unwrap_or_else(|| trial.clone());
            let lowered = lower(&case, &trial, kernels, &subject.faults)?;
            Ok(RewrittenTrial { case, trial, lowered })
        });
        match lowered {
            Ok(rewritten) => tried.push(TriedChange {
                name: rewrite.name.to_owned(),
                meaning: rewrite.meaning.to_owned(),
                since: None,
                component: rewrite.component.to_owned(),
                change: Change::Calls(Box::new(rewritten)),
            }),
            Err(mistakes) => {
                let why = mistakes.first().map_or(String::new(), |m| m.message.clone());
                not_tried.push(NotTried {
                    name: rewrite.name.to_owned(),
                    why: format!("the changed case is not valid: {why}"),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_names_in_a_library() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lib");
        fs::write(&file, b"\x7fELF\0HSA_XNACK\0lower_CASE_X\x01GPU_0\0").unwrap();
        let cancel = Cancel::new().unwrap();
        let words = words(&file, &cancel);
        assert!(words.contains("HSA_XNACK") && !words.contains("GPU_0"), "{words:?}");
        assert!(super::words(&folder.path().join("none"), &cancel).is_empty());
    }
}
