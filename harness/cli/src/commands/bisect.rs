//! The search for the point of an axis at which a trial breaks. What to do next is decided in `search`; here it is done, written
//! to a journal, and shown.

mod ahead;
mod answer;
mod axis;
mod cross;
mod journal;
mod outlook;
mod says;
mod subject;
mod verdict;

use std::{
    fs::File,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use device::Planted;
use report::count;
use search::bisect::{Action, Answer, Event, State, next};
use supervise::{Cancel, Journal};

use self::{
    ahead::Ahead,
    answer::Found,
    axis::{Axis, Kind},
    journal::{Begun, Entry, Limits, Observation},
    subject::{Ran, Ready, Refused, Shown, Subject, Wanted},
    verdict::{Sees, Verdicts},
};
use crate::{
    CaseLibrary, DeviceChoice, SessionOptions, Stop,
    args::{Bisect, Regress},
    commands::setup::setup,
    evidence,
    outputs::{self, note},
    rerun::quoted,
    select::select,
    stop::chain,
};

/// Attempts at a run that gives no verdict, until the build counts as one that cannot be tested.
const ATTEMPTS: u32 = 3;

/// Runs of each end by which `--regress perf` finds what is slow.
const MEASURED: u32 = 5;

pub(crate) fn bisect(args: &Bisect) -> Result<ExitCode, Stop> {
    // Exit code 3 means here that an end is not what it should be.
    search_axis(args).map_err(Stop::trouble)
}

fn search_axis(args: &Bisect) -> Result<ExitCode, Stop> {
    if let Some(path) = &args.replay {
        return replay(path);
    }
    let library = CaseLibrary::load(args.from.chosen().as_ref())?;
    let (mut options, faults) = setup(&args.on, None, &args.fault)?;
    let subject = subject(args, &library, faults)?;
    options.cases_from = args.from.chosen();
    let gfx = match options.device {
        DeviceChoice::Emulated(arch) => arch.name().to_owned(),
        DeviceChoice::Gpu => args.on.target.gfx.clone(),
    };
    let axis = axis(args, &subject, &gfx)?;
    let case_name = match &subject {
        Subject::Trial { case, .. } => case.id.as_str(),
        Subject::Command(Wanted { program: Some(program), .. }) => {
            program.file_stem().and_then(|name| name.to_str()).unwrap_or("bisect")
        }
        Subject::Command(_) => "bisect",
    };
    let folder = evidence::folder(args.out.as_deref(), case_name);
    let begun = begun(args, &subject, &axis, &options);
    let skipped = axis.points_of(&args.skip)?;
    if args.list {
        return outputs::print(&outlook::listed(&axis)).map(|()| ExitCode::SUCCESS);
    }
    if args.dry_run {
        let stacks = rocm::Store::from_environment();
        let store = stacks.ok().map(builds::Store::new);
        let kept = |n: usize| {
            store.as_ref().zip(axis.build(n)).is_some_and(|(store, build)| store.has(build))
        };
        return outputs::print(&outlook::dry_run(&begun, &axis, &kept)).map(|()| ExitCode::SUCCESS);
    }
    let _device = lock_device(&options)?;
    let (journal, mut past) = journal::open(&folder, &begun, args.resume)?;
    past.place(&|label| axis.position_of(label));
    let _journal_lock = lock(&folder.join(journal::FILE), "this bisect is running already")?;
    axis.silent.iter().for_each(|silent| note(format_args!("note: {silent}")));
    axis.holes().for_each(|hole| note(format_args!("note: builds may be missing: {hole}")));

    let cancel = Cancel::new()
        .and_then(|cancel| cancel.on_signals().map(|()| cancel))
        .map_err(|e| Stop::no_verdict(format!("error: {}", chain(&e))))?;
    let stacks = rocm::Store::from_environment()
        .map_err(|e| Stop::usage(format!("error: {}", chain(&e))))?;
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
            Some(gib) => builds::Store::new(stacks).with_budget(u64::from(gib) << 30),
            None => builds::Store::new(stacks),
        },
        cancel,
        stop: crate::progress::stop_flag()?,
        journal,
        folder: &folder,
        verdicts: Verdicts::new(args.regress, past.threshold),
        observations: Vec::new(),
        ready: None,
        ahead: Ahead::default(),
    };
    for observation in past.seen {
        bench.verdicts.learn(&observation, begun.points - 1);
        bench.observations.push(observation);
    }
    for point in skipped {
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
        crossed,
        between: &|good, bad| between(args, &axis, good, bad),
    };
    let (text, problems) = found.write(&folder);
    outputs::print(&text)?;
    problems.iter().for_each(|problem| note(format_args!("{problem}; the answer above is whole")));
    Ok(ExitCode::from(answer::exit_code(&answer)))
}

/// The decisions of a journal, without running anything.
fn replay(path: &std::path::Path) -> Result<ExitCode, Stop> {
    let past = journal::read(path)?.ok_or_else(|| {
        Stop::usage(format!("error: `{}` is no bisect's journal", path.display()))
    })?;
    let state = journal::decide_again(&past.begun, &past.seen)?;
    let mut text = String::new();
    for observation in &past.seen {
        text.push_str(&answer::line(observation));
        text.push('\n');
    }
    let (sentence, code) = match next(&state) {
        Action::Finish(answer) => {
            let name = |point: usize| answer::label_of(&past.begun, &past.seen, point);
            (answer::sentence(&answer, false, &name), answer::exit_code(&answer))
        }
        Action::Install(point) | Action::Run(point) => {
            let label = answer::label_of(&past.begun, &past.seen, point);
            (format!("not finished: the next run is of {label}"), 4)
        }
    };
    outputs::print(&format!("{text}{sentence}\n"))?;
    Ok(ExitCode::from(code))
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
                && s.trial.values.iter().zip(&first.1.values).all(|(a, b)| a.0 == free || a == b)
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
                "error: `{wanted}` names {} trials, and a bisect is of one: {}, ...",
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
    let program = args.program.as_ref().map(|path| path.canonicalize()).transpose();
    let program = program.map_err(|e| usage(format!("cannot run the program: {e}")));
    let (text, program) = Stop::both(text, program)?;
    if program.is_none() && !args.fault.is_empty() {
        return Err(usage(
            "a command has no device of ours to plant a fault in; --program has".to_owned(),
        ));
    }
    let kind = clap::ValueEnum::to_possible_value(&args.on.target.device);
    let mut device = vec![format!("--gfx={}", args.on.target.gfx)];
    device.extend(kind.map(|kind| format!("--device={}", kind.get_name())));
    device.extend(args.fault.iter().map(|fault| format!("--fault={fault}")));
    Ok(Subject::Command(Wanted { words: args.command.clone(), program, text, device }))
}

fn axis(args: &Bisect, subject: &Subject<'_>, gfx: &str) -> Result<Axis, Stop> {
    let axis = match (&args.axis, &args.good, &args.bad) {
        (Some(text), good, bad) => Axis::parse(text, good.as_deref(), bad.as_deref())?,
        (None, Some(good), Some(bad)) => {
            Axis::builds(&args.source, args.sources_file.as_deref(), gfx, good, bad)?
        }
        _ => {
            return Err(Stop::usage(
                "error: a bisect between builds needs both --good and --bad, such as `--good debian:6.4.3 --bad debian:7.2.4`",
            ));
        }
    };
    if args.fixed && !axis.is_fix() {
        return Err(Stop::usage(format!(
            "error: with --fixed the bad end comes first, but {} is after {}; leave --fixed out, or exchange them",
            axis.label(axis.len() - 1),
            axis.label(0)
        )));
    }
    if let (Kind::Parameter(name), Subject::Trial { case, trial, .. }) = (&axis.kind, subject)
        && trial.value(name).is_none()
    {
        return Err(subject::no_axis(case, trial, name));
    }
    Ok(axis)
}

fn begun(args: &Bisect, subject: &Subject<'_>, axis: &Axis, options: &SessionOptions) -> Begun {
    let place = match &axis.kind {
        Kind::Builds => "builds".to_owned(),
        Kind::Stacks => "rocm".to_owned(),
        Kind::Environment(name) => format!("env:{name} on {}", options.rocm),
        Kind::Parameter(name) => format!("{name} on {}", options.rocm),
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
    begun
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
    let store = rocm::Store::from_environment()
        .map_err(|e| Stop::usage(format!("error: {}", chain(&e))))?;
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

/// Where the search's wishes are carried out.
struct Bench<'a> {
    subject: &'a Subject<'a>,
    axis: &'a Axis,
    options: SessionOptions,
    store: builds::Store,
    cancel: Cancel,
    /// Raised with `cancel`, for whoever waits for a network.
    stop: Arc<AtomicBool>,
    journal: Journal,
    folder: &'a std::path::Path,
    verdicts: Verdicts,
    observations: Vec<Observation>,
    ready: Option<(usize, Ready<'a>)>,
    ahead: Ahead,
}

impl Bench<'_> {
    /// Writes an observation down, then takes it into account, then shows it.
    fn observe(&mut self, state: &mut State, observation: Observation) -> Result<(), Stop> {
        journal::write(&mut self.journal, &Entry::Seen(observation.clone()))?;
        state.observe(observation.event);
        note(answer::progress(state, &observation, &|n| self.axis.label(n)));
        self.observations.push(observation);
        Ok(())
    }

    /// Keeps the last build that passed and the first that failed from being evicted for others.
    fn pin(&self, state: &State) -> Result<(), Stop> {
        let usable = || state.tallies().filter(|(_, tally)| !tally.unusable());
        let good = usable().filter(|(_, tally)| tally.good > 0 && tally.bad == 0).last();
        let bad = usable().find(|(_, tally)| tally.bad > 0);
        let pair = [good, bad].into_iter().flatten();
        let builds: Vec<_> = pair.filter_map(|(point, _)| self.axis.build(point)).collect();
        self.store.pin(&builds).map_err(|e| interrupted(&format!("error: {}", chain(&e))))
    }

    fn prepare(&mut self, point: usize) -> Result<Result<(), String>, Stop> {
        self.ready = None;
        // What was fetched ahead is waited for if it is this build, and called off if it is another.
        let _ahead = self.ahead.take(self.axis, point);
        match self.subject.prepare(self.axis, point, &self.options, (&self.store, &self.stop))? {
            Ok(ready) => {
                self.refuse_rebuilt(point, &ready)?;
                self.ready = Some((point, ready));
                Ok(Ok(()))
            }
            Err(Refused::Unusable(why)) => Ok(Err(why)),
            Err(Refused::Trouble(why)) => Err(interrupted(&format!("error: {why}"))),
        }
    }

    /// What was seen of a build is not mixed with what another of the same name shows.
    fn refuse_rebuilt(&self, point: usize, ready: &Ready<'_>) -> Result<(), Stop> {
        let label = self.axis.label(point);
        let now = ready.sha256();
        let known = |o: &&Observation| o.label == label && !o.sha256.is_empty();
        match self.observations.iter().find(known) {
            Some(before) if !now.is_empty() && before.sha256 != now => {
                Err(Stop::no_verdict(format!(
                    "error: {label} was built again: its sha256 is {now}, and was {} when this bisect ran it; what was seen of the two is \
                     not mixed: begin anew in another folder (--out)",
                    before.sha256
                )))
            }
            _ => Ok(()),
        }
    }

    fn install(&mut self, state: &mut State, point: usize) -> Result<(), Stop> {
        let begun = Instant::now();
        let prepared = self.prepare(point)?;
        let seconds = begun.elapsed().as_secs_f64();
        let (event, why) = match prepared {
            Ok(()) => (Event::Installed { build: point, seconds }, String::new()),
            Err(why) => (Event::Unusable { build: point, seconds }, why),
        };
        let label = self.axis.label(point);
        let sha256 = self.ready.as_ref().map(|(_, ready)| ready.sha256()).unwrap_or_default();
        self.observe(state, Observation { event, label, signature: String::new(), why, sha256 })
    }

    fn run(&mut self, state: &mut State, point: usize) -> Result<(), Stop> {
        let begun = Instant::now();
        let label = self.axis.label(point);
        let unusable = |seconds, why| Observation {
            event: Event::Unusable { build: point, seconds },
            label: label.clone(),
            signature: String::new(),
            why,
            sha256: String::new(),
        };
        // After a resume nothing is active yet.
        if self.ready.as_ref().is_none_or(|(active, _)| *active != point)
            && let Err(why) = self.prepare(point)?
        {
            return self.observe(state, unusable(begun.elapsed().as_secs_f64(), why));
        }
        let ran = self.attempt(state.runs())?;
        let seconds = begun.elapsed().as_secs_f64();
        let signature = match &ran.shown {
            Shown::Failed { signature, .. } => signature.clone(),
            _ => String::new(),
        };
        let observation = match self.verdicts.see(&ran, point == state.setup().bad()) {
            Sees::Run(seen) => Observation {
                event: Event::Ran { build: point, seen, seconds },
                label: label.clone(),
                signature,
                why: ran.why,
                sha256: String::new(),
            },
            Sees::Nothing => unusable(seconds, ran.why),
        };
        self.verdicts.learn(&observation, state.setup().bad());
        self.observe(state, observation)
    }

    /// Runs the active point until there is a verdict.
    fn attempt(&mut self, number: u32) -> Result<Ran, Stop> {
        let Some((point, ready)) = &self.ready else { unreachable!("a point was prepared") };
        let label = self.axis.label(*point);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let Some(ran) = ready.run(number, &self.cancel) else {
                return Err(interrupted("interrupted"));
            };
            if let Some(record) = &ran.record {
                answer::keep_record(self.folder, &label, record)?;
            }
            if matches!(ran.shown, Shown::Trouble) {
                return Err(interrupted(&format!("error: {}", ran.why)));
            }
            let no_verdict = ran
                .record
                .as_ref()
                .is_some_and(|record| record.outcome.kind == judge::Kind::NoVerdict);
            last = Some(ran);
            if !no_verdict {
                break;
            }
        }
        Ok(last.unwrap_or_else(|| unreachable!("at least one attempt was made")))
    }

    /// Finds the time that tells slow from fast.
    fn measure(&mut self) -> Result<(), Stop> {
        let mut medians = Vec::new();
        for point in [0, self.axis.len() - 1] {
            if let Err(why) = self.prepare(point)? {
                return Err(Stop::no_verdict(format!("error: {}: {why}", self.axis.label(point))));
            }
            let mut times = Vec::new();
            for number in 0..MEASURED {
                let ran = self.attempt(number)?;
                if !matches!(ran.shown, Shown::Passed) {
                    return Err(Stop::no_verdict(format!(
                        "error: {} does not pass, so its time says nothing: {}",
                        self.axis.label(point),
                        ran.why
                    )));
                }
                times.push(ran.time);
            }
            times.sort_by(f64::total_cmp);
            medians.push(times[times.len() / 2]);
            note(format_args!(
                "{}: {:.3} s in the middle of {MEASURED} runs",
                self.axis.label(point),
                times[times.len() / 2]
            ));
        }
        let seconds = (medians[0] * medians[1]).sqrt();
        journal::write(&mut self.journal, &Entry::Threshold { seconds })?;
        self.verdicts.set_threshold(seconds);
        Ok(())
    }
}

fn interrupted(why: &str) -> Stop {
    Stop::no_verdict(format!(
        "{why}\nwhat was seen is kept; the same command with --resume goes on"
    ))
}

/// The command that searches between two neighbours only, and so repeats both.
fn between(args: &Bisect, axis: &Axis, good: &str, bad: &str) -> String {
    let mut words = vec!["rocrepro".to_owned(), "bisect".to_owned()];
    words.extend(args.case.clone());
    let pairs = [good, bad];
    match &axis.kind {
        Kind::Builds => {
            words.extend(args.source.iter().map(|source| format!("--source={source}")));
            let file = args.sources_file.iter();
            words.extend(file.map(|path| format!("--sources-file={}", path.display())));
        }
        Kind::Stacks => words.push(format!("--axis=rocm={}", pairs.join(","))),
        Kind::Environment(name) => words.push(format!("--axis=env:{name}={}", pairs.join(","))),
        Kind::Parameter(name) => words.push(format!("--axis={name}={}", pairs.join(","))),
    }
    if axis.kind == Kind::Builds {
        words.extend([format!("--good={good}"), format!("--bad={bad}")]);
    } else {
        words.push(format!("--rocm={}", args.on.target.rocm));
    }
    words.push(format!("--gfx={}", args.on.target.gfx));
    words.extend(args.on.target.env.iter().map(|pair| format!("--env={pair}")));
    words.extend(args.on.target.launcher.iter().map(|launcher| format!("--launcher={launcher}")));
    words.extend(args.on.limit.iter().map(|limit| format!("--limit={limit}")));
    words.extend(args.fault.iter().map(|fault| format!("--fault={fault}")));
    if let Some(from) = args.from.chosen() {
        words.push(format!("--cases-from={}", from.path.display()));
        words.extend(from.trusted.then(|| "--trust".to_owned()));
    }
    words.extend(args.matching.iter().map(|text| format!("--match={text}")));
    words.extend(args.program.iter().map(|path| format!("--program={}", path.display())));
    if !args.command.is_empty() {
        words.push("--".to_owned());
        words.extend(args.command.iter().cloned());
    }
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    quoted.join(" ")
}
