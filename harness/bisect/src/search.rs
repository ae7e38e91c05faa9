//! Runs a search in the order that the crate `search` decides, writes the journal, and reports events.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use ::search::bisect::{Action, Answer, next_action};
use device::FaultSpec;
use engine::{
    Cancel, CaseLibrary, DeviceChoice, SessionOptions, Stop, card, evidence, select::select,
    stack_source::StackError, which,
};

use crate::{
    answer::FinishedSearch,
    axis::Axis,
    command_spec::CommandSpec,
    error::{OptionError, SearchError},
    events::{BisectEvent, Reporter},
    identity,
    journal::{self, BisectHeader, JournalBudget},
    kind::AxisKind,
    nights::{NightlyBuild, NightlyPair},
    options::{BisectOptions, FailureFilter},
    packages,
    prefetch::NextBuild,
    subject::{self, Subject},
    verdict::Verdicts,
    workbench::Workbench,
};

/// Function that returns the command line that repeats a search on an axis and a device. The third argument contains
/// the points that are excluded, and the last one the two ends of the search: the good point and the bad point.
pub type RerunCommand<'a> = &'a dyn Fn(&Axis, &DeviceChoice, &[usize], (usize, usize)) -> String;

/// A search that is ready to run.
pub struct Bisection<'a> {
    options: &'a BisectOptions,
    subject: Subject<'a>,
    axis: Axis,
    header: BisectHeader,
    folder: PathBuf,
    skipped: Vec<usize>,
    gfx: String,
    before: Option<&'a NightlyPair>,
    cancel: Cancel,
}

/// The result of a finished search.
pub struct BisectResult {
    /// The answer as text for people.
    pub text: String,
    /// Errors that occurred when the files of the answer were written.
    pub problems: Vec<String>,
    /// The answer of the search.
    pub answer: Answer,
    /// The two nightly builds between which the change lies, if the answer names two builds.
    pub nights: Option<NightlyPair>,
}

impl<'a> Bisection<'a> {
    /// Prepares a search. `before` is the result of an earlier search over nightly builds, which this one continues.
    ///
    /// # Errors
    /// Returns an error if options are not valid, or if the history of builds cannot be listed.
    pub fn prepare(
        options: &'a BisectOptions,
        library: &'a CaseLibrary,
        before: Option<&'a NightlyPair>,
        cancel: &Cancel,
        report: Reporter<'_>,
    ) -> Result<Bisection<'a>, Stop> {
        let subject = subject(options, library, options.faults.clone())?;
        let gfx = match options.session.device {
            DeviceChoice::Emulated(arch) => arch.name().to_owned(),
            DeviceChoice::Gpu => card::first(Path::new("/")).unwrap_or_else(|| {
                report(BisectEvent::ArchitectureAssumed { gfx: &options.gfx });
                options.gfx.clone()
            }),
        };
        let axis = axis(options, &subject, &gfx, before, cancel.flag())?;
        let case_name = match &subject {
            Subject::Trial { case, .. } => case.id.as_str(),
            Subject::Command(CommandSpec { program: Some(program), .. }) => {
                program.file_stem().and_then(|name| name.to_str()).unwrap_or("bisect")
            }
            Subject::Command(_) => "bisect",
        };
        let folder = evidence::folder(options.out.as_deref(), case_name)?;
        let mut begun = new_header(options, &subject, &axis, &options.session)?;
        begun.followed = before.and_then(|nights| nights.signature.clone());
        let skipped = axis.indices_of(&options.skip)?;
        let cancel = cancel.clone();
        Ok(Bisection {
            options,
            subject,
            axis,
            header: begun,
            folder,
            skipped,
            gfx,
            before,
            cancel,
        })
    }

    /// Returns the axis with the points that are searched.
    pub fn axis(&self) -> &Axis {
        &self.axis
    }

    /// Returns the task of the search, which begins the journal.
    pub fn header(&self) -> &BisectHeader {
        &self.header
    }

    /// Runs the search.
    ///
    /// # Errors
    /// Returns "no verdict" if another search uses the folder, if the machine prevents the search, or if the search was
    /// cancelled.
    pub fn run(self, rerun: RerunCommand<'_>, report: Reporter<'_>) -> Result<BisectResult, Stop> {
        let Bisection {
            options,
            subject,
            axis,
            header: begun,
            folder,
            skipped,
            gfx,
            before,
            cancel,
        } = self;
        let (wanted, session) = (options, options.session.clone());
        let _device = lock_device(&session)?;
        let position = |label: &str| axis.position_of(label);
        let (journal, past) = journal::open(&folder, &begun, wanted.resume, &position, report)?;
        past.report_excluded(&skipped, report);
        let _journal_lock = lock(&folder.join(journal::FILE), "this bisect is already running")?;
        axis.silent.iter().for_each(|silent| report(BisectEvent::HistoryNote(silent)));
        axis.gaps().for_each(|hole| report(BisectEvent::BuildsMissing(hole)));

        let stacks = stacks::StackCache::from_environment().map_err(StackError::NoCache)?;
        let mut state = begun.state();
        past.seen.iter().for_each(|observation| state.observe(observation.event));
        if !past.seen.is_empty() {
            report(BisectEvent::Resumed { runs: state.runs(), builds: state.installs() });
        }
        let device = session.device.clone();
        let mut bench = Workbench {
            subject: &subject,
            axis: &axis,
            options: session,
            store: match wanted.disk_budget {
                Some(gib) => stacks::BuildStore::new(stacks).with_budget(u64::from(gib) << 30),
                None => stacks::BuildStore::new(stacks),
            },
            cancel,
            journal,
            folder: &folder,
            verdicts: Verdicts::new(wanted.regress, past.threshold, begun.followed.clone()),
            observations: Vec::new(),
            ready: None,
            ahead: NextBuild::default(),
            report,
        };
        for observation in past.seen {
            bench.verdicts.learn(&observation, begun.points - 1);
            bench.observations.push(observation);
        }
        for &point in &skipped {
            if state.tally(point).broken {
                continue;
            }
            bench.observe(&mut state, journal::excluded_observation(point, axis.label(point)))?;
        }
        if wanted.regress == FailureFilter::Perf && !bench.verdicts.has_threshold() {
            bench.measure()?;
        }
        let keep = wanted.disk_budget.is_some();
        let answer = loop {
            match next_action(&state) {
                Action::Finish(answer) => break answer,
                Action::Install(point) => bench.install(&mut state, point)?,
                Action::Run(point) => {
                    bench.ahead.prefetch(&state, point, &axis, &bench.store);
                    bench.run(&mut state, point)?;
                    if keep {
                        bench.pin(&state)?;
                    }
                }
            }
        };
        let crossed = match &answer {
            Answer::Found(edge) | Answer::Increase { edge } if wanted.cross => {
                let tally = state.tally(edge.first_bad);
                bench.cross(edge, f64::from(tally.bad) / f64::from(tally.runs().max(1)))?
            }
            _ => Vec::new(),
        };
        let found = FinishedSearch {
            answer: &answer,
            state: &state,
            header: &begun,
            axis: &axis,
            subject: &subject,
            observations: &bench.observations,
            signature: bench.verdicts.signature(),
            gfx: &gfx,
            emulated: bench.options.device != DeviceChoice::Gpu,
            store: &bench.store,
            stop: bench.cancel.flag(),
            crossed,
            within: before.map(NightlyPair::names),
            goes_on: wanted.goes_on,
            rerun: &|ends| rerun(&axis, &device, &skipped, ends),
        };
        let (text, problems) = found.write(&folder);
        let nights = match answer.edge() {
            Some(edge) => {
                let night = |point: usize| {
                    axis.build(point).map(|build| NightlyBuild {
                        id: build.id.clone(),
                        day: build.date,
                        commit: found.commits(point).map(|commits| commits.therock),
                    })
                };
                let signature = bench.verdicts.signature();
                let followed = wanted.regress == FailureFilter::Signature && !signature.is_empty();
                night(edge.last_good).zip(night(edge.first_bad)).map(|(good, bad)| NightlyPair {
                    good,
                    bad,
                    signature: followed.then(|| signature.to_owned()),
                    folder: folder.clone(),
                })
            }
            None => None,
        };
        Ok(BisectResult { text, problems, answer, nights })
    }
}

fn subject<'a>(
    options: &BisectOptions,
    library: &'a CaseLibrary,
    faults: Vec<FaultSpec>,
) -> Result<Subject<'a>, Stop> {
    let Some(wanted) = &options.case else { return command(options) };
    let selected = select(library, std::slice::from_ref(wanted))?;
    // The search sets this axis itself, so trials that differ only in it are the same trial here.
    let free = options.axis.as_deref().and_then(|axis| axis.split('=').next()).unwrap_or_default();
    let mut trials: Vec<_> = selected.iter().collect();
    if let Some(first) = trials.first().map(|s| (s.case.id.clone(), s.trial.clone())) {
        let same = |s: &engine::Selected<'_>| {
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
            let some = some.join(", ");
            Err(OptionError::SeveralTrials(wanted.clone(), many.len(), some).into())
        }
    }
}

fn command<'a>(options: &BisectOptions) -> Result<Subject<'a>, Stop> {
    let text = options.matching.as_ref().map(|text| regex::Regex::new(text)).transpose();
    let text = text.map_err(|e| OptionError::Match(e).into());
    let program = options.program.as_deref().map(which::file).transpose().map_err(Stop::from);
    let first = options.command.first().filter(|_| options.program.is_none());
    let is_text = first.map(|word| which::refuse_text(Path::new(word)).map_err(Stop::from));
    let ((text, program), _) = Stop::both(Stop::both(text, program), is_text.transpose())?;
    let packaged = package_axis(options).is_some();
    if packaged && program.is_some() {
        return Err(OptionError::ProgramAndPackage.into());
    }
    let venv = options.axis.as_ref().is_some_and(|axis| axis.starts_with("venv="));
    if program.is_none() && !packaged && !venv && !options.faults.is_empty() {
        return Err(OptionError::FaultsOfCommand.into());
    }
    let device = options.device_options.clone();
    Ok(Subject::Command(CommandSpec { words: options.command.clone(), program, text, device }))
}

fn package_axis(options: &BisectOptions) -> Option<&str> {
    let named = options
        .axis
        .iter()
        .chain(&options.source)
        .find_map(|text| text.strip_prefix(packages::PREFIX))?;
    named.split('=').next()
}

fn axis(
    options: &BisectOptions,
    subject: &Subject<'_>,
    gfx: &str,
    before: Option<&NightlyPair>,
    stop: &AtomicBool,
) -> Result<Axis, Stop> {
    let file = options.sources_file.as_deref();
    if package_axis(options).is_some() && options.source.len() > 1 {
        return Err(OptionError::SourceAndPackage.into());
    }
    let mut axis = match (before, &options.axis, &options.good, &options.bad) {
        (Some(nights), ..) => Axis::from_nights(&options.source.concat(), file, gfx, nights, stop)?,
        (None, Some(text), good, bad) => Axis::parse(text, good.as_deref(), bad.as_deref())?,
        (None, None, Some(good), Some(bad)) => match package_axis(options) {
            Some(package) => Axis::versions(package, (good, bad))?,
            None => Axis::builds(&options.source, file, gfx, (good, bad), stop)?,
        },
        _ => return Err(OptionError::NoEnds.into()),
    };
    match &mut axis.kind {
        AxisKind::Package { beside, .. } => beside.clone_from(&options.packages),
        _ if !options.packages.is_empty() => {
            return Err(OptionError::PackagesOfNothing.into());
        }
        _ => {}
    }
    if options.fixed && !axis.is_fix() {
        let bad = axis.label(axis.point_count() - 1);
        return Err(OptionError::NotFixed(bad, axis.label(0)).into());
    }
    if let (AxisKind::Package { name, .. }, Subject::Trial { case, .. }) = (&axis.kind, subject)
        && packages::is_unrelated(name, &subject.imports()?)
    {
        return Err(OptionError::UnrelatedPackage(case.id.clone(), name.clone()).into());
    }
    if let (AxisKind::Parameter(name), Subject::Trial { case, trial, .. }) = (&axis.kind, subject)
        && trial.value(name).is_none()
    {
        return Err(subject::missing_axis(case, trial, name).into());
    }
    Ok(axis)
}

fn new_header(
    wanted: &BisectOptions,
    subject: &Subject<'_>,
    axis: &Axis,
    options: &SessionOptions,
) -> Result<BisectHeader, Stop> {
    let place = match &axis.kind {
        AxisKind::Builds => "builds".to_owned(),
        AxisKind::Stacks => "rocm".to_owned(),
        AxisKind::Environment(name) => format!("env:{name} on {}", options.rocm),
        AxisKind::Parameter(name) => format!("{name} on {}", options.rocm),
        AxisKind::Package { name, beside } => {
            let beside: String = beside.iter().map(|other| format!(" with {other}")).collect();
            format!("versions of {name}{beside} on {}", options.rocm)
        }
    };
    let device = match &options.device {
        DeviceChoice::Emulated(arch) => format!("the emulated {}", arch.name()),
        DeviceChoice::Gpu => "the GPU".to_owned(),
    };
    let last = axis.point_count() - 1;
    let ends = (axis.label(0), axis.label(last));
    let name = axis_name(&place, &device, options);
    let mut begun = BisectHeader::new(subject.name(axis), name, ends, axis.point_count());
    begun.regress = format!("{:?}", wanted.regress).to_lowercase();
    if let Some(text) = &wanted.matching {
        begun.regress.push_str(&format!(", match {text}"));
    }
    begun.install_cost = wanted.install_cost;
    begun.rate = wanted.rate;
    begun.weights = axis.weights(&|component| subject.depends_on(component));
    begun.budget = JournalBudget {
        runs: Some(wanted.budget_runs.unwrap_or(::search::bisect::DEFAULT_RUNS)),
        installs: wanted.budget_installs,
        seconds: wanted.budget_seconds,
    };
    begun.fix = axis.is_fix();
    begun.other_line = axis.other_line();
    begun.files = match subject {
        Subject::Command(command) => identity::program_digests(command)?,
        Subject::Trial { library, case, .. } => {
            identity::case_digest(&case.id, library.text(&case.id))
        }
    };
    Ok(begun)
}

fn axis_name(place: &str, device: &str, options: &SessionOptions) -> String {
    let mut name = format!("{place}, {device}");
    for (key, value) in &options.environment {
        name.push_str(&format!(", {key}={value}"));
    }
    // Runs with and without confinement must not be mixed.
    if options.cases_from.as_ref().is_some_and(|from| from.trusted) {
        name.push_str(", trusted");
    }
    name
}

/// Locks the GPU, because two searches on one GPU would disturb each other.
fn lock_device(options: &SessionOptions) -> Result<Option<File>, Stop> {
    if options.device != DeviceChoice::Gpu {
        return Ok(None);
    }
    let store = stacks::StackCache::from_environment().map_err(StackError::NoCache)?;
    Ok(Some(lock(&store.path().join("gpu-0.lock"), "another bisect is using the GPU")?))
}

fn lock(path: &Path, otherwise: &'static str) -> Result<File, SearchError> {
    let open = File::options().append(true).create(true).open(path);
    let file = open.map_err(|error| SearchError::LockFile(path.to_owned(), error))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| SearchError::Locked(otherwise, path.to_owned()))?;
    Ok(file)
}
