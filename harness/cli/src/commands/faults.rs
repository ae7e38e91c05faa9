//! The faults that a command plants.

use device::{BadPlanted, Fault, Planted};

use crate::{Stop, select::meant};

/// Which faults are planted.
pub(super) fn names(faults: &[Planted]) -> Vec<Fault> {
    faults.iter().map(|planted| planted.fault).collect()
}

/// Reads all `--fault` options.
pub(super) fn faults(texts: &[String]) -> Result<Vec<Planted>, Stop> {
    let mut faults: Vec<Planted> = Vec::new();
    let mut problems = Vec::new();
    for text in texts {
        match planted(text) {
            Ok(planted) if faults.iter().any(|other| other.fault == planted.fault) => {
                problems.push(format!("error: `{}` is planted twice", planted.fault));
            }
            Ok(planted) => faults.push(planted),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(faults) } else { Err(Stop::usage(problems.join("\n"))) }
}

/// Reads `copy.zero` or `copy.late,ms=50,probability=0.2,seed=7`.
fn planted(text: &str) -> Result<Planted, String> {
    text.parse().map_err(|problem| match problem {
        BadPlanted::Fault(name) => {
            let known = Fault::ALL.iter().map(|fault| fault.name());
            format!("error: no fault is called `{name}`; {}", meant(&name, known))
        }
        BadPlanted::Parameter(problem) => format!("error: {problem}"),
    })
}
