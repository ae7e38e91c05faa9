use std::process::ExitCode;

use anstream::println;
use device::{Fault, Place};

use crate::{CaseLibrary, Stop, args::Explain, select};

pub(crate) fn explain(args: &Explain) -> Result<ExitCode, Stop> {
    if args.steps {
        explain_steps();
    }
    if args.faults {
        explain_faults();
    }
    if let Some(wanted) = &args.case {
        let library = CaseLibrary::load(args.cases_from.as_deref())?;
        explain_cases(&library, wanted)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn explain_steps() {
    let width = case::VERBS.iter().map(|(verb, ..)| verb.len()).max().unwrap_or(0);
    for (verb, keys, about) in case::VERBS {
        println!("{verb:width$}  {about}");
        if !keys.is_empty() {
            println!("{:width$}  keys: {}", "", keys.join(", "));
        }
    }
    println!("\nEvery step may also have:");
    println!("  returns  the statuses that are right, by name, perhaps per ROCm version");
    println!("  gives    the values that are right, for steps that give one");
    println!("  when     only in trials with these matrix values");
}

fn explain_faults() {
    let width = Fault::ALL.iter().map(|f| f.name().len()).max().unwrap_or(0);
    for fault in Fault::ALL {
        let place = match fault.place() {
            Place::Device => "emulated device",
            Place::Call => "at a call",
        };
        println!("{:width$}  {} ({place})", fault.name(), fault.about());
    }
}

fn explain_cases(library: &CaseLibrary, wanted: &str) -> Result<(), Stop> {
    let selected = select(library, &[wanted.to_owned()])?;
    for case in library.cases() {
        let trials: Vec<_> = selected.iter().filter(|s| s.case.id == case.id).collect();
        let Some(first) = trials.first() else { continue };
        println!("{}", case.id);
        println!("  {}", case.title);
        if let Some(about) = &case.about {
            println!("\n  {}", about.trim());
        }
        println!("\n  file      {}", library.path(&case.id));
        for link in &case.upstream {
            if let Some((repository, number)) = link.split_once('#') {
                println!("  upstream  https://github.com/{repository}/issues/{number}");
            }
        }
        for source in &case.source {
            println!("  source    {source}");
        }
        println!("  trials    {}, from {} on", trials.len(), first.id());
        let needs = &case.needs;
        let libraries = needs.libraries.iter().map(|l| l.name().to_owned());
        let functions = needs.functions.iter().cloned();
        let rocm = needs.rocm.iter().map(|r| format!("ROCm {r}"));
        let wants: Vec<_> =
            libraries.chain(functions).chain(rocm).chain(needs.gfx.iter().cloned()).collect();
        if !wants.is_empty() {
            println!("  needs     {}", wants.join(", "));
        }
        for entry in &case.faults {
            println!("  fault     {}: {}", entry.fault, entry.fault.about());
        }
        for known in &case.known {
            let gfx =
                if known.gfx.is_empty() { "every gfx".to_owned() } else { known.gfx.join(", ") };
            let issue = known.upstream.as_deref().unwrap_or("no issue yet");
            println!("  known     ROCm {} on {gfx}: {} ({issue})", known.rocm, known.signature);
        }
        println!("\n  run it    rocrepro run '{}'", first.id());
        println!("  prove it  rocrepro prove {}\n", case.id);
    }
    Ok(())
}
