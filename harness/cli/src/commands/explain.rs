use std::process::ExitCode;

use device::{CaseBody, Fault, FaultPlace, RESTRICTIONS, Restriction, library_functions};

use super::list::format_expectation;
use crate::{args::Explain, outputs};
use engine::{CaseLibrary, Stop, rerun::quoted, select};

pub(crate) fn explain(args: &Explain) -> Result<ExitCode, Stop> {
    let mut text = String::new();
    if args.steps {
        explain_steps(&mut text);
    }
    if args.functions {
        explain_functions(&mut text);
    }
    if args.faults {
        explain_faults(&mut text);
    }
    if let Some(wanted) = &args.case {
        let library = CaseLibrary::load_named(args.from.selected_source().as_ref(), &[wanted])?;
        let words = args.from.words().into_iter();
        let words = words.map(|(option, path)| format!(" {option} {}", quoted(&path)));
        let trust = if args.from.is_trusted() { " --trust" } else { "" };
        explain_cases(&library, wanted, &(words.collect::<String>() + trust), &mut text)?;
    }
    outputs::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn explain_steps(text: &mut String) {
    let width = plan::verbs().map(|verb| verb.name.len()).max().unwrap_or(0);
    for verb in plan::verbs() {
        let (keys, about, verb) = (verb.keys(), verb.about, verb.name);
        text.push_str(&format!("{verb:width$}  {about}\n"));
        if !keys.is_empty() {
            text.push_str(&format!("{:width$}  keys: {}\n", "", keys.join(", ")));
        }
    }
    text.push_str(
        "
Every step may also have:
  returns  the expected statuses, by name, perhaps per ROCm version
  gives    the expected values, for steps that return one
  when     only in trials with these matrix values
",
    );
}

fn explain_functions(text: &mut String) {
    for function in plan::hip_functions() {
        let one = |p: &plan::HipParameter| format!("{} {}", p.ty, p.name);
        let all: Vec<_> = function.parameters.iter().map(one).collect();
        text.push_str(&format!("{}({})\n", function.name(), all.join(", ")));
    }
}

fn explain_faults(text: &mut String) {
    let width = Fault::ALL.iter().map(|f| f.name().len()).max().unwrap_or(0);
    for fault in Fault::ALL {
        let place = match fault.place() {
            FaultPlace::Device => "emulated device",
            FaultPlace::Call => "at a call",
        };
        text.push_str(&format!("{:width$}  {} ({place})\n", fault.name(), fault.about()));
        for parameter in fault.parameters() {
            let (name, values) = (parameter.name, parameter.values);
            let line = format!("{name}={} ({values})", values.usual());
            text.push_str(&indented(&line, width + 4));
        }
    }
    text.push_str(
        "
Every fault, of the device or at calls, may also have:
  probability  probability that it acts at an opportunity, above 0 and at most 1; default 1
  per          the opportunity: `call` (each copy, dispatch, allocation or call that the fault applies to) or `process`
  seed         chooses the opportunities: the same seed acts at the same ones; repeated runs use the following seeds
  only         the only opportunity at which it may act, counted from 1 in each process
On the command line: --fault copy.late,ms=50,probability=0.2,seed=7; in a case: {fault: copy.late, with: {ms: 50}}.
Faults compose: --fault may be given several times. If several act at one call, only the first has an effect.

A fault with `call` can be injected at each of these functions. No step calls those with a `*`, but a C++ program may:
",
    );
    let functions = library_functions().iter();
    let marked = functions.map(|f| format!("{}{}", f.name, if f.in_steps { "" } else { "*" }));
    text.push_str(&indented(&marked.collect::<Vec<_>>().join(", "), 2));
    text.push_str("\nThese faults cannot be injected there:\n");
    for restriction in RESTRICTIONS {
        text.push_str(&indented(&restricted(restriction), 2));
    }
    text.push_str("\n`status` is one of:\n");
    text.push_str(&indented(&device::Names::Errors.all().join(", "), 2));
}

/// Describes a restriction: faults that cannot be injected at calls of some functions, and the reason. Lists up to 40
/// functions by name, and otherwise states only their number.
fn restricted(restriction: &Restriction) -> String {
    let faults: Vec<_> = restriction.faults.iter().map(|fault| fault.name()).collect();
    let concerned = library_functions().iter().filter(|f| (restriction.concerns)(f));
    let names: Vec<_> = concerned.map(|function| function.name).collect();
    let of = match restriction.body {
        Some(CaseBody::Steps) => " of a case with steps",
        Some(CaseBody::Program) => " of a C++ program",
        None => "",
    };
    let names =
        if names.len() > 40 { format!("{} functions", names.len()) } else { names.join(", ") };
    format!("{} at a call{of}, because {}: {names}", faults.join(", "), restriction.reason)
}

/// Wraps a text into lines of about 100 characters, and indents each line by `spaces` spaces.
fn indented(text: &str, spaces: usize) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let begins = column == 0 || column + word.len() >= 100;
        let gap = if begins { "\n".to_owned() + &" ".repeat(spaces) } else { " ".to_owned() };
        column = if begins { spaces } else { column + 1 } + word.len();
        lines.push_str(&gap);
        lines.push_str(word);
    }
    lines.trim_start_matches('\n').to_owned() + "\n"
}

fn explain_cases(
    library: &CaseLibrary,
    wanted: &str,
    from: &str,
    text: &mut String,
) -> Result<(), Stop> {
    let selected = select(library, &[wanted.to_owned()])?;
    for case in library.cases() {
        let trials: Vec<_> = selected.iter().filter(|s| s.case.id == case.id).collect();
        let Some(first) = trials.first() else { continue };
        text.push_str(&format!("{}\n", case.id));
        text.push_str(&format!("  {}\n", case.title));
        if let Some(about) = &case.about {
            text.push_str(&format!("\n  {}\n", about.trim().replace('\n', "\n  ")));
        }
        text.push_str(&format!("\n  file      {}\n", library.path(&case.id)));
        for (word, links) in [("upstream", &case.upstream), ("related ", &case.related)] {
            for link in links {
                if let Some((repository, number)) = link.split_once('#') {
                    let by = case.shown_by(link);
                    let by = match by.is_empty() {
                        true => String::new(),
                        false => format!(" (shown by {})", by.join("; ")),
                    };
                    text.push_str(&format!(
                        "  {word}  https://github.com/{repository}/issues/{number}{by}\n"
                    ));
                }
            }
        }
        for source in &case.source {
            text.push_str(&format!(
                "  source    {}\n",
                source.trim().replace('\n', "\n            ")
            ));
        }
        for entry in &case.expectation {
            let words = format_expectation(entry).replace('\t', "; ");
            text.push_str(&format!("  expected  {words}\n"));
        }
        text.push_str(&format!("  trials    {}, for example {}\n", trials.len(), first.id()));
        if let Some(kind) = case.program_kind() {
            let file = case
                .program_file()
                .map_or("in the case".to_owned(), |file| format!("`{file}` beside the case"));
            text.push_str(&format!("  program   {kind}, {file}\n"));
        }
        let needs = &case.needs;
        let libraries = needs.libraries.iter().map(|l| l.name().to_owned());
        let functions = needs.functions.iter().cloned();
        let rocm = needs.rocm.iter().map(|r| format!("ROCm {r}"));
        let wants = libraries.chain(functions).chain(rocm).chain(needs.gfx.iter().cloned());
        let groups = needs.groups.iter().map(|group| format!("a stack fetched --with {group}"));
        let flags = [(needs.images, "images"), (needs.alone, "exclusive use of a GPU")];
        let flags =
            flags.into_iter().filter(|(needed, _)| *needed).map(|(_, name)| name.to_owned());
        let devices = (needs.devices > 1).then(|| format!("{} devices", needs.devices));
        let properties =
            needs.device.iter().map(|(name, value)| format!("a device with {name}={value}"));
        let at_once = (needs.processes > 1)
            .then(|| format!("{} processes at the same time", needs.processes));
        let counts = devices.into_iter().chain(properties).chain(at_once);
        let wants: Vec<_> = wants.chain(groups).chain(flags).chain(counts).collect();
        if !wants.is_empty() {
            text.push_str(&format!("  needs     {}\n", wants.join(", ")));
        }
        for entry in &case.faults {
            let planted = &entry.planted;
            text.push_str(&format!("  fault     {planted}: {}\n", planted.fault.about()));
        }
        for known in &case.known {
            let gfx =
                if known.gfx.is_empty() { "every gfx".to_owned() } else { known.gfx.join(", ") };
            let issue = known.upstream.as_deref().unwrap_or("no issue yet");
            let by = [&known.card, &known.driver].map(|name| match name {
                Some(name) => format!(" with {name}"),
                None => String::new(),
            });
            let about = known.about.iter().map(|about| format!("            {about}\n"));
            text.push_str(&format!(
                "  known     ROCm {} on {gfx}{}: {} ({issue})\n{}",
                known.rocm,
                by.concat(),
                known.signature,
                about.collect::<String>()
            ));
        }
        let (trial, case) = (quoted(&first.id()), quoted(&case.id));
        text.push_str(&format!("\n  run it    rocrepro run {trial}{from}\n"));
        text.push_str(&format!("  prove it  rocrepro prove {case}{from}\n\n"));
    }
    Ok(())
}
