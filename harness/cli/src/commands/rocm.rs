use std::{path::Path, process::ExitCode};

use stacks::{Build, BuildQuery, Extra, Sources, Stack, StackCache, list_stacks};

use crate::{args::Rocm, console, interrupt, outputs};
use engine::{Stop, card, missing_libraries::mb, stack_source, stop::explained};

pub(crate) fn rocm(args: Rocm) -> Result<ExitCode, Stop> {
    let mut text = String::new();
    match args {
        Rocm::List { source, .. } if source.is_empty() => show_list(&mut text)?,
        Rocm::List { source, sources_file, gfx } => {
            show_builds(&source, sources_file.as_deref(), &gfx, &mut text)?;
        }
        Rocm::Fetch { spec, with, gfx, mirrors } => {
            let (flag, architectures) = (interrupt::flag_for(&spec), architectures(&spec, gfx));
            let reporting = console::reporting();
            let stack = stack_source::find_or_fetch(
                &spec,
                &with,
                architectures,
                mirrors.mirror,
                &flag,
                &reporting,
            )?;
            describe(&stack, &mut text);
        }
        Rocm::Path { spec, gfx } => {
            let gfx = || architectures(&spec, gfx.clone().into_iter().collect()).into_iter().next();
            let (flag, reporting) = (interrupt::flag_for(&spec), console::reporting());
            let folder = stack_source::find_folder(&spec, &gfx, &flag, &reporting)?;
            text.push_str(&format!("{}\n", folder.display()));
        }
    }
    outputs::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the architectures for which to fetch the stack `spec`. These are the architectures that the user named
/// (`said`). If the user named none and `spec` is a build from a download source, it is the architecture of this
/// machine's GPU. Otherwise, or if the machine has no GPU, they are those on which the built-in cases are tested.
fn architectures(spec: &str, said: Vec<String>) -> Vec<String> {
    let here = || card::first(Path::new("/")).filter(|_| stack_source::is_night(spec));
    match said.is_empty() {
        false => said,
        true => {
            here().map_or_else(|| ["gfx1151", "gfx90a"].map(str::to_owned).into(), |gfx| vec![gfx])
        }
    }
}

/// Appends to `text` a line for each build of the download sources `names`, the oldest first. `file` defines further
/// download sources.
fn show_builds(
    names: &[String],
    file: Option<&Path>,
    gfx: &str,
    text: &mut String,
) -> Result<(), Stop> {
    let sources =
        Sources::load(file).and_then(|all| all.select(names)).map_err(stack_source::bad_sources)?;
    let wanted = BuildQuery { gfx: gfx.to_owned(), from: None, to: None, beside_main: Vec::new() };
    let cancel = interrupt::cancel()?;
    let history =
        stacks::list_builds(&sources, &wanted, cancel.flag()).map_err(stack_source::unlisted)?;
    history.builds.iter().for_each(|build| text.push_str(&line(build)));
    history.silent.iter().for_each(|silent| outputs::note(format_args!("note: {silent}")));
    for hole in &history.holes {
        outputs::note(format_args!("note: builds may be missing: {hole}"));
    }
    Ok(())
}

/// Formats a build with its date, size and architecture family, as far as they are known.
pub(super) fn line(build: &Build) -> String {
    let day = build.date.map_or_else(String::new, |day| day.to_string());
    let size = build.size().map_or_else(String::new, |n| format!("{:.1} MB", n as f64 / 1e6));
    format!("{:28} {day:10} {size:>11}  {}", build.id, build.family).trim_end().to_owned() + "\n"
}

fn show_list(text: &mut String) -> Result<(), Stop> {
    let store = StackCache::from_environment()
        .map_err(|e| Stop::usage(format!("error: {}", explained(&e))))?;
    let listing = list_stacks(&store);
    for stack in &listing.system {
        let version =
            stack.rocm.as_ref().map_or_else(|| "of unknown version".to_owned(), |v| v.to_string());
        let doubt = stack.doubt.as_ref().map_or_else(String::new, |doubt| format!("  ({doubt})"));
        text.push_str(&format!(
            "{:14} installed  ROCm {version}  {}{doubt}\n",
            "system",
            stack.root.display()
        ));
    }
    for entry in &listing.debian {
        let (name, release) = (entry.release.to_string(), entry.release);
        let has = |extra: &Extra| match entry.stack.as_ref().and_then(|s| s.manifest.as_ref()) {
            Some(manifest) => manifest.with.contains(extra),
            None => release.standard.contains(extra),
        };
        let (with, more): (Vec<Extra>, Vec<Extra>) = entry.extras.iter().partition(|e| has(e));
        match &entry.stack {
            Some(stack) => {
                let with: String = with.iter().map(|extra| format!(" +{extra}")).collect();
                text.push_str(&format!("{name:14} fetched    {}{with}\n", stack.root.display()));
            }
            None => {
                let more =
                    more.iter().map(|extra| format!("{extra} {}", mb(release.size_of(*extra))));
                let more = more.collect::<Vec<_>>().join(", ");
                text.push_str(&format!(
                    "{name:14} can be fetched, {}; more with --with: {more}\n",
                    mb(release.size())
                ));
            }
        }
    }
    Ok(())
}

/// Appends a description of a stack to `text`: its folder, and the build ids of the libraries on which results depend.
fn describe(stack: &Stack, text: &mut String) {
    text.push_str(&format!("{}\n", stack.root.display()));
    for library in &stack.identify().libraries {
        let id = library.build_id.as_deref().unwrap_or("no build id");
        text.push_str(&format!("  {:28} {id}\n", library.name));
    }
}
