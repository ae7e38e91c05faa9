//! Mutation testing of `plan`, `judge` and `case`, which decide the results of trials. The tests of the mutated crate,
//! or of a crate that depends on it, must detect each mutant.

use std::{collections::BTreeMap, path::Path};

use xshell::{Shell, cmd};

/// Crates to mutate, each with the crates that depend on it and whose tests may also detect its mutants.
const CRATES: [(&str, &str); 3] =
    [("plan", "case,export,rewrite"), ("judge", "report"), ("case", "export")];

/// Mutants that may survive, one per line, with the reason after ` # `. Their names are those of cargo-mutants without
/// line and column.
const ACCEPTED: &str = include_str!("../mutants.txt");

/// Options that limit the time for building and for testing one mutant, in seconds. The limit for testing ends mutants
/// that contain endless loops.
const LIMITS: [&str; 4] = ["--timeout", "300", "--build-timeout", "300"];

/// Tests all mutants of all crates, or of the crates in `only`. This takes hours.
///
/// # Errors
/// Fails if a mutant survives that is not accepted, or if an accepted mutant does not survive.
pub(crate) fn mutants(sh: &Shell, only: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    if cmd!(sh, "cargo mutants --version").quiet().ignore_stdout().ignore_stderr().run().is_err() {
        cmd!(sh, "cargo install --quiet --locked cargo-mutants").run()?;
    }
    if let Some(unknown) = only.iter().find(|name| CRATES.iter().all(|(of, _)| of != name)) {
        return Err(format!(
            "the crate `{unknown}` is not one of {}",
            CRATES.map(|(of, _)| of).join(", ")
        )
        .into());
    }
    let accepted = accepted(ACCEPTED)?;
    // proptest does not have to simplify failing examples, because its messages are not read.
    let _quick = sh.push_env("PROPTEST_MAX_SHRINK_ITERS", "1");
    let mut problems = Vec::new();
    let named = |name: &str| only.is_empty() || only.iter().any(|other| other == name);
    for (name, others) in CRATES.into_iter().filter(|(name, _)| named(name)) {
        let out = format!("target/mutants/{name}");
        sh.remove_path(&out)?;
        sh.create_dir(&out)?;
        // The exit status is ignored, because cargo-mutants exits with 2 if mutants survived and with 3 if tests timed
        // out. Its output files list both kinds of mutants.
        cmd!(sh, "cargo mutants --package {name} --output {out} {LIMITS...} -- --lib --tests")
            .ignore_status()
            .run()?;
        let folder = Path::new(&out).join("mutants.out");
        let came_to_its_end = |file: &str| {
            sh.read_file(folder.join(file)).map_err(|error| {
                format!("cargo-mutants did not finish for the crate `{name}`: {error}")
            })
        };
        // If no mutant was caught, cargo-mutants has not tested any.
        if came_to_its_end("caught.txt")?.trim().is_empty() {
            return Err(format!(
                "cargo-mutants tested no mutant of the crate `{name}`; its output above shows why"
            )
            .into());
        }
        // With `--iterate`, cargo-mutants leaves out the mutants that the crate's own tests have caught.
        cmd!(sh, "cargo mutants --package {name} --output {out} --iterate --test-package {others} {LIMITS...} -- --lib --tests")
            .ignore_status()
            .run()?;
        let survived = came_to_its_end("missed.txt")?;
        let of_crate = |file: &str| file.starts_with(&format!("harness/{name}/"));
        let expected: Vec<&str> = accepted.keys().copied().filter(|m| of_crate(m)).collect();
        problems.extend(differences(&expected, &accepted, &survived));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// Parses the list of accepted mutants. Returns how often each name occurs, because mutants at several places in a
/// function have the same name.
fn accepted(text: &str) -> Result<BTreeMap<&str, usize>, String> {
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once(" # ") {
            Some((mutant, reason)) if !reason.trim().is_empty() => {
                *all.entry(mutant.trim()).or_insert(0) += 1;
            }
            _ => return Err(format!("ci/mutants.txt: the line has no reason after ` # `: {line}")),
        }
    }
    Ok(all)
}

/// Lists surviving mutants that are not accepted, and accepted mutants that did not survive.
fn differences(expected: &[&str], accepted: &BTreeMap<&str, usize>, survived: &str) -> Vec<String> {
    let mut counts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in survived.lines() {
        counts.entry(without_position(line)).or_default().push(line);
    }
    let mut problems = Vec::new();
    for (mutant, places) in &counts {
        let may = accepted.get(mutant.as_str()).copied().unwrap_or(0);
        if places.len() > may {
            problems.push(format!(
                "{} of these mutants survived, but at most {may} may:\n  {}",
                places.len(),
                places.join("\n  ")
            ));
        }
    }
    for mutant in expected {
        let found = counts.get(*mutant).map_or(0, Vec::len);
        if found < accepted[mutant] {
            problems.push(format!(
                "the tests now detect a mutant; remove it from ci/mutants.txt: {mutant}"
            ));
        }
    }
    problems
}

/// Removes line and column from the name of a mutant: `src/a.rs:3:5: replace x` becomes `src/a.rs: replace x`.
fn without_position(line: &str) -> String {
    let mut parts = line.splitn(4, ':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(file), Some(_), Some(_), Some(what)) => format!("{file}:{what}"),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requires_a_reason_and_a_file_for_every_accepted_mutant() {
        let accepted = accepted(ACCEPTED).expect("each line has a reason");
        for mutant in accepted.keys() {
            let (file, _) = mutant.split_once(": ").expect("a mutant has a file and a description");
            assert!(Path::new("..").join(file).is_file(), "{file} does not exist");
        }
        assert!(super::accepted("a.rs: replace f").is_err());
        assert!(super::accepted("a.rs: replace f # ").is_err());
    }

    #[test]
    fn reports_new_survivors_and_stale_entries() {
        let accepted = accepted("# ours\na.rs: replace f # equal\na.rs: replace g # equal\n");
        let accepted = accepted.expect("each line has a reason");
        let check = |survived: &str, expected: &[&str]| {
            let found = differences(&["a.rs: replace f", "a.rs: replace g"], &accepted, survived);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(found.iter().zip(expected).all(|(f, t)| f.contains(t)), "{found:?}");
        };
        check("a.rs:1:2: replace f\na.rs:3:4: replace g\n", &[]);
        check("a.rs:1:2: replace f\n", &["remove it from ci/mutants.txt: a.rs: replace g"]);
        let new = "a.rs:1:2: replace f\na.rs:3:4: replace g\na.rs:9:9: replace h\n";
        check(new, &["a.rs:9:9: replace h"]);
        // A second mutant with an accepted name is not accepted.
        check("a.rs:1:2: replace f\na.rs:3:4: replace g\na.rs:5:6: replace g\n", &["a.rs:5:6"]);
    }
}
