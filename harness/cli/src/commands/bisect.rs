//! The search for the point of an axis at which a trial breaks. What to do next is decided in `search`; here it is done, written
//! to a journal, and shown.

mod ahead;
mod answer;
mod axis;
mod bench;
mod cross;
mod finer;
mod identity;
mod journal;
mod outlook;
mod packages;
mod rerun;
mod says;
mod subject;
mod told;
mod verdict;

use std::{fs::File, path::Path, process::ExitCode, sync::atomic::AtomicBool};

use device::Planted;
use report::count;
use search::bisect::{Action, Answer, next};

use self::{
    ahead::Ahead,
    answer::Found,
    axis::{Axis, Kind},
    bench::Bench,
    finer::{Night, Nights},
    journal::{Begun, Limits},
    subject::{Subject, Wanted},
    told::Told,
    verdict::Verdicts,
};
use crate::{
    CaseLibrary, DeviceChoice, SessionOptions, Stop,
    args::{Bisect, Regress},
    card,
    commands::setup::setup,
    evidence, interrupt,
    outputs::{self, note},
    select::select,
    stop::explained,
    which,
};

pub(crate) fn bisect(args: &Bisect) -> Result<ExitCode, Stop> {
    // Exit code 3 means here that an end is not what it should be.
    let ended = match &args.replay {
        Some(path) => replay(path),
        None => phases(args),
    };
    ended.map(ExitCode::from).map_err(Stop::trouble)
}

/// The search, and the second one that `--to` asks for where the first has an answer.
fn phases(args: &Bisect) -> Result<u8, Stop> {
    let (code, nights) = search(args, None)?;
    let (Some(to), Some(nights)) = (&args.to, nights) else { return Ok(code) };
    outputs::print("\n")?;
    let between = format!("between {} and {}", nights.good.id, nights.bad.id);
    note(format_args!("{between} the builds of {to} are searched now"));
    match search(&nights.search(args, to), Some(&nights)) {
        Ok((code, _)) => Ok(code),
        // Not found more exactly than before: that is a range.
        Err(stop) if stop.is_usage() => Err(Stop::nothing(format!(
            "{stop}\n{between} the builds of {to} cannot be searched; the answer above stands"
        ))),
        Err(stop) => Err(stop),
    }
}

/// One search, printed: its exit code, and the two builds where it is between two.
fn search(args: &Bisect, before: Option<&Nights>) -> Result<(u8, Option<Nights>), Stop> {
    let library = CaseLibrary::load(args.from.chosen().as_ref())?;
    let (mut options, faults) = setup(&args.on, None, &args.fault)?;
    let subject = subject(args, &library, faults)?;
    options.cases_from = args.from.chosen();
    let gfx = match options.device {
        DeviceChoice::Emulated(arch) => arch.name().to_owned(),
        DeviceChoice::Gpu => card::first(Path::new("/")).unwrap_or_else(|| {
            let gfx = args.on.target.gfx.clone();
            note(format_args!(
                "note: the driver does not tell this GPU's architecture; taking builds for {gfx} (--gfx names another)"
            ));
            gfx
        }),
    };
    let cancel = interrupt::cancel()?;
    let axis = axis(args, &subject, &gfx, before, cancel.flag())?;
    let case_name = match &subject {
        Subject::Trial { case, .. } => case.id.as_str(),
        Subject::Command(Wanted { program: Some(program), .. }) => {
            program.file_stem().and_then(|name| name.to_str()).unwrap_or("bisect")
        }
        Subject::Command(_) => "bisect",
    };
    let folder = evidence::folder(args.out.as_deref(), case_name)?;
    let mut begun = begun(args, &subject, &axis, &options)?;
    begun.followed = before.and_then(|nights| nights.signature.clone());
    let skipped = axis.points_of(&args.skip)?;
    if args.list {
        return outputs::print(&outlook::listed(&axis)).map(|()| (0, None));
    }
    if args.dry_run {
        let stacks = stacks::StackCache::from_environment();
        let store = stacks.ok().map(stacks::BuildStore::new);
        let kept = |n: usize| {
            store.as_ref().zip(axis.build(n)).is_some_and(|(store, build)| store.has(build))
        };
        return outputs::print(&outlook::dry_run(&begun, &axis, &kept, args.to.as_deref()))
            .map(|()| (0, None));
    }
    let _device = lock_device(&options)?;
    let position = |label: &str| axis.position_of(label);
    let (journal, past) = journal::open(&folder, &begun, args.resume, &position)?;
    past.stays_left_out(&skipped);
    let _journal_lock = lock(&folder.join(journal::FILE), "this bisect is running already")?;
    axis.silent.iter().for_each(|silent| note(format_args!("note: {silent}")));
    axis.holes().for_each(|hole| note(format_args!("note: builds may be missing: {hole}")));

    let stacks = stacks::StackCache::from_environment()
        .map_err(|e| Stop::usage(format!("error: {}", explained(&e))))?;
    let mut state = begun.state();
    past.seen.iter().for_each(|observation| state.observe(observation.event));
    if !past.seen.is_empty() {
        let (runs, builds) = (count(state.runs(), "run"), count(state.installs(), "build"));
        note(format_args!("resumed after {runs} of {builds}"));
    }
    let mut bench = Bench {
        subject: &subject,
        axis: &axis,
        options,
        store: match args.disk_budget {
            Some(gib) => stacks::BuildStore::new(stacks).with_budget(u64::from(gib) << 30),
            None => stacks::BuildStore::new(stacks),
        },
        cancel,
        journal,
        folder: &folder,
        verdicts: Verdicts::new(args.regress, past.threshold, begun.followed.clone()),
        observations: Vec::new(),
        ready: None,
        ahead: Ahead::default(),
    };
    for observation in past.seen {
        bench.verdicts.learn(&observation, begun.points - 1);
        bench.observations.push(observation);
    }
    for &point in &skipped {
        if state.tally(point).broken {
            continue;
        }
        bench.observe(&mut state, journal::left_out(point, axis.label(point)))?;
    }
    if args.regress == Regress::Perf && !bench.verdicts.has_threshold() {
        bench.measure()?;
    }
    let keep = args.disk_budget.is_some();
    let answer = loop {
        match next(&state) {
            Action::Finish(answer) => break answer,
            Action::Install(point) => bench.install(&mut state, point)?,
            Action::Run(point) => {
                bench.ahead.look(&state, point, &axis, &bench.store);
                bench.run(&mut state, point)?;
                if keep {
                    bench.pin(&state)?;
                }
            }
        }
    };
    let crossed = match &answer {
        Answer::Found(edge) if args.cross => {
            let tally = state.tally(edge.first_bad);
            bench.cross(edge, f64::from(tally.bad) / f64::from(tally.runs().max(1)))?
        }
        _ => Vec::new(),
    };
    let found = Found {
        answer: &answer,
        state: &state,
        begun: &begun,
        axis: &axis,
        subject: &subject,
        observations: &bench.observations,
        signature: bench.verdicts.signature(),
        gfx: &gfx,
        emulated: bench.options.device != DeviceChoice::Gpu,
        store: &bench.store,
        stop: bench.cancel.flag(),
        crossed,
        within: before.map(Nights::names),
        goes_on: args.to.is_some(),
        rerun: &|ends| rerun::command(args, &axis, &bench.options.device, &skipped, ends),
    };
    let (text, problems) = found.write(&folder);
    outputs::print(&text)?;
    problems.iter().for_each(|problem| note(format_args!("{problem}; the answer above is whole")));
    let nights = match &answer {
        Answer::Found(edge) | Answer::Worse { edge, .. } => {
            let night = |point: usize| {
                axis.build(point).map(|build| Night {
                    id: build.id.clone(),
                    day: build.date,
                    commit: found.commits(point).map(|commits| commits.therock),
                })
            };
            let signature = bench.verdicts.signature();
            let followed = args.regress == Regress::Signature && !signature.is_empty();
            night(edge.last_good).zip(night(edge.first_bad)).map(|(good, bad)| Nights {
                good,
                bad,
                signature: followed.then(|| signature.to_owned()),
                folder: folder.clone(),
            })
        }
        _ => None,
    };
    Ok((answer::exit_code(&answer), nights))
}

/// The decisions of a journal, without running anything.
fn replay(path: &std::path::Path) -> Result<u8, Stop> {
    let mut past = journal::read(path)?.ok_or_else(|| {
        Stop::usage(format!("error: `{}` is not the journal of a bisect", path.display()))
    })?;
    let state = past.decide_again()?;
    let mut text = String::new();
    for observation in &past.seen {
        text.push_str(&told::line(observation));
        text.push('\n');
    }
    let (sentence, code) = match next(&state) {
        Action::Finish(answer) => {
            let name = |point: usize| told::label_of(&past.begun, &past.seen, point);
            let told = Told { begun: &past.begun, seen: &past.seen, name: &name };
            (told.sentence(&answer), answer::exit_code(&answer))
        }
        Action::Install(point) | Action::Run(point) => {
            let label = told::label_of(&past.begun, &past.seen, point);
            (format!("not finished: the next run is of {label}"), 4)
        }
    };
    outputs::print(&format!("{text}{sentence}\n"))?;
    Ok(code)
}

fn subject<'a>(
    args: &Bisect,
    library: &'a CaseLibrary,
    faults: Vec<Planted>,
) -> Result<Subject<'a>, Stop> {
    let Some(wanted) = &args.case else { return command(args) };
    let selected = select(library, std::slice::from_ref(wanted))?;
    // An axis of the case takes its values from the axis, so any trial that fits the other values will do.
    let free = args.axis.as_deref().and_then(|axis| axis.split('=').next()).unwrap_or_default();
    let mut trials: Vec<_> = selected.iter().collect();
    if let Some(first) = trials.first().map(|s| (s.case.id.clone(), s.trial.clone())) {
        let same = |s: &crate::Selected<'_>| {
            s.case.id == first.0
                && s.trial.values.iter().zip(&first.1.values).all(|(a, b)| *a.0 == *free || a == b)
        };
        if trials.iter().all(|s| same(s)) {
            trials.truncate(1);
        }
    }
    match trials.as_slice() {
        [one] => Ok(Subject::Trial { library, case: one.case, trial: one.trial.clone(), faults }),
        many => {
            let some: Vec<_> = many.iter().take(3).map(|s| format!("'{}'", s.id())).collect();
            Err(Stop::usage(format!(
                "error: `{wanted}` names {} trials; bisect takes one, such as {}",
                many.len(),
                some.join(", ")
            )))
        }
    }
}

/// The command or the program that is bisected.
fn command<'a>(args: &Bisect) -> Result<Subject<'a>, Stop> {
    let usage = |text: String| Stop::usage(format!("error: {text}"));
    let text = args.matching.as_ref().map(|text| regex::Regex::new(text)).transpose();
    let text = text.map_err(|e| usage(format!("`--match`: {e}")));
    let program = args.program.as_deref().map(which::file).transpose();
    let (text, program) = Stop::both(text, program)?;
    let packaged = along_packages(args).is_some();
    if packaged && program.is_some() {
        return Err(usage(
            "`--program` cannot be used with versions of a package; put the program and its arguments behind `--`"
                .to_owned(),
        ));
    }
    let venv = args.axis.as_ref().is_some_and(|axis| axis.starts_with("venv="));
    if program.is_none() && !packaged && !venv && !args.fault.is_empty() {
        return Err(usage(
            "a command runs without our device, so no fault can be planted; use --program"
                .to_owned(),
        ));
    }
    let kind = clap::ValueEnum::to_possible_value(&args.on.target.device);
    let mut device = vec![format!("--gfx={}", args.on.target.gfx)];
    device.extend(kind.map(|kind| format!("--device={}", kind.get_name())));
    device.extend(args.fault.iter().map(|fault| format!("--fault={fault}")));
    Ok(Subject::Command(Wanted { words: args.command.clone(), program, text, device }))
}

/// The Python package whose versions are searched, where they are.
fn along_packages(args: &Bisect) -> Option<&str> {
    let named = args
        .axis
        .iter()
        .chain(&args.source)
        .find_map(|text| text.strip_prefix(packages::PREFIX))?;
    named.split('=').next()
}

fn axis(
    args: &Bisect,
    subject: &Subject<'_>,
    gfx: &str,
    before: Option<&Nights>,
    stop: &AtomicBool,
) -> Result<Axis, Stop> {
    let file = args.sources_file.as_deref();
    if along_packages(args).is_some() && args.source.len() > 1 {
        return Err(Stop::usage(
            "error: versions of a package cannot be searched together with another source; name one `--source`",
        ));
    }
    let mut axis = match (before, &args.axis, &args.good, &args.bad) {
        (Some(nights), ..) => Axis::finer(&args.source.concat(), file, gfx, nights, stop)?,
        (None, Some(text), good, bad) => Axis::parse(text, good.as_deref(), bad.as_deref())?,
        (None, None, Some(good), Some(bad)) => match along_packages(args) {
            Some(package) => Axis::versions(package, (good, bad))?,
            None => Axis::builds(&args.source, file, gfx, (good, bad), stop)?,
        },
        _ => {
            return Err(Stop::usage(
                "error: a bisect between builds needs both --good and --bad, such as `--good debian:6.4.3 --bad debian:7.2.4`",
            ));
        }
    };
    match &mut axis.kind {
        Kind::Package { beside, .. } => beside.clone_from(&args.packages),
        _ if !args.packages.is_empty() => {
            return Err(Stop::usage(
                "error: `--packages` needs versions of a package (`pypi:NAME`): it adds other packages to each environment",
            ));
        }
        _ => {}
    }
    if args.fixed && !axis.is_fix() {
        return Err(Stop::usage(format!(
            "error: with --fixed the bad end comes first, but {} is after {}; leave --fixed out, or exchange --good and --bad",
            axis.label(axis.len() - 1),
            axis.label(0)
        )));
    }
    if let (Kind::Package { name, .. }, Subject::Trial { case, .. }) = (&axis.kind, subject)
        && packages::unrelated(name, &subject.imports()?)
    {
        let id = &case.id;
        return Err(Stop::usage(format!(
            "error: `{id}` has no program whose `packages` name {name}, so its version changes nothing there"
        )));
    }
    if let (Kind::Parameter(name), Subject::Trial { case, trial, .. }) = (&axis.kind, subject)
        && trial.value(name).is_none()
    {
        return Err(subject::no_axis(case, trial, name));
    }
    Ok(axis)
}

fn begun(
    args: &Bisect,
    subject: &Subject<'_>,
    axis: &Axis,
    options: &SessionOptions,
) -> Result<Begun, Stop> {
    let place = match &axis.kind {
        Kind::Builds => "builds".to_owned(),
        Kind::Stacks => "rocm".to_owned(),
        Kind::Environment(name) => format!("env:{name} on {}", options.rocm),
        Kind::Parameter(name) => format!("{name} on {}", options.rocm),
        Kind::Package { name, beside } => {
            let beside: String = beside.iter().map(|other| format!(" with {other}")).collect();
            format!("versions of {name}{beside} on {}", options.rocm)
        }
    };
    let device = match &options.device {
        DeviceChoice::Emulated(arch) => format!("the emulated {}", arch.name()),
        DeviceChoice::Gpu => "the GPU".to_owned(),
    };
    let last = axis.len() - 1;
    let ends = (axis.label(0), axis.label(last));
    let name = axis_name(&place, &device, options);
    let mut begun = Begun::new(subject.name(axis), name, ends, axis.len());
    begun.regress = format!("{:?}", args.regress).to_lowercase();
    if let Some(text) = &args.matching {
        begun.regress.push_str(&format!(", match {text}"));
    }
    begun.install_cost = args.install_cost;
    begun.rate = args.rate;
    begun.weights = axis.weights(&|component| subject.depends_on(component));
    begun.budget = Limits {
        runs: Some(args.budget_runs.unwrap_or(search::bisect::DEFAULT_RUNS)),
        installs: args.budget_installs,
        seconds: args.budget_seconds,
    };
    begun.fix = axis.is_fix();
    if let Subject::Command(wanted) = subject {
        begun.files = identity::files(wanted)?;
    }
    Ok(begun)
}

fn axis_name(place: &str, device: &str, options: &SessionOptions) -> String {
    let mut name = format!("{place}, {device}");
    for (key, value) in &options.environment {
        name.push_str(&format!(", {key}={value}"));
    }
    name
}

/// One search at a time on a GPU; emulated devices do not disturb each other.
fn lock_device(options: &SessionOptions) -> Result<Option<File>, Stop> {
    if options.device != DeviceChoice::Gpu {
        return Ok(None);
    }
    let store = stacks::StackCache::from_environment()
        .map_err(|e| Stop::usage(format!("error: {}", explained(&e))))?;
    lock(&store.path().join("gpu-0.lock"), "another bisect has the GPU").map(Some)
}

fn lock(path: &std::path::Path, otherwise: &str) -> Result<File, Stop> {
    let open = File::options().append(true).create(true).open(path);
    let file = open
        .map_err(|e| Stop::no_verdict(format!("error: cannot open `{}`: {e}", path.display())))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| Stop::no_verdict(format!("error: {otherwise} (`{}`)", path.display())))?;
    Ok(file)
}
