use std::{
    collections::BTreeSet,
    fs::File,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use case::Body;
use device::{Arch, Config, Sanitize, UnknownSanitize, UnknownSchedule};
use parking_lot::Mutex;
use report::{Line, Record, RecordedRun, ResultStream, RunPlan, Shard, count};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
    process::{Pid, Signal, getppid, set_parent_process_death_signal},
};
use sha2::{Digest, Sha256};

use super::setup::setup_at_any_level;
use crate::{
    args::{Baselines, Emulation, Run},
    console, interrupt, outputs, shell_variables,
};
use engine::{
    CaseLibrary, Job, Session, Stop,
    baseline::Baseline,
    batch::{Batch, RunLimits, run_batch, run_end},
    card, jobs_with,
    library::FaultyCases,
    machine,
    output_files::{ReportFiles, ReportFormat},
    record,
    record_file::{self, RecordFile},
    skipped_record,
};

pub(crate) fn run(args: &Run) -> Result<ExitCode, Stop> {
    args.below.map_or(Ok(()), end_with_parent)?;
    // A baseline may name any trial, so the whole case library must be loaded.
    let (library, faulty) =
        match (args.selection.from.selected_source(), args.known == Baselines::default()) {
            (Some(from), _) => CaseLibrary::load_usable(&from)?,
            (None, true) => (args.selection.library()?, None),
            (None, false) => (CaseLibrary::load(None)?, None),
        };
    if let Some(faulty) = &faulty {
        outputs::note(&faulty.text);
    }
    library.notes().iter().for_each(|note| outputs::note(format!("note: {note}")));
    let selected = args.selection.select(&library);
    let setup = setup_at_any_level(&args.on, Some(&args.emulation), &args.fault);
    let known = Baseline::read(&(&args.known).into(), &library);
    let (selected, setup) = Stop::both(selected, Stop::both(setup, known))?;
    let (mut selected, ((mut options, faults), known)) = (selected, setup);
    known.idle.iter().for_each(outputs::note);
    if let Some(left_out) = known.without_skips(&mut selected)? {
        outputs::note(left_out);
    }
    options.cases_from = args.selection.from.selected_source();
    let results = Arc::new(Mutex::new(ResultStream::default()));
    options.reporting = console::reporting_results(&results);
    let once = jobs_with(&library, &selected, &faults)?;
    let of_cases = once.iter().map(|job| &job.lowered.plan.environment);
    let without_effect = shell_variables::ineffective_variables(&options, of_cases);
    let warnings = shell_variables::dropped_variables(&options).into_iter().chain(without_effect);
    warnings.for_each(outputs::note);
    if args.details.explain_skips {
        return explain_skips(&Session::open(options)?, &once);
    }
    let record = args.record.as_deref();
    let reports = [
        (&args.junit, ReportFormat::Junit),
        (&args.tap, ReportFormat::Tap),
        (&args.annotations, ReportFormat::Annotations),
    ];
    let reports = reports.map(|(path, format)| (path.as_deref(), format));
    let reports = ReportFiles::open(reports, record.as_slice())?;
    if let Some(path) = record.filter(|path| args.resume && path.exists()) {
        record_file::open_regular_file(path)?;
    }
    let journal = record_file::open(record, &options.device, &options.reporting)?;
    let _lock =
        record.filter(|path| path.is_file()).map(|path| lock(path, args.resume)).transpose()?;
    let cancel = interrupt::cancel()?;
    let session = Session::open(options)?;
    let wall = Instant::now();
    let digest = digest(&session, &once, args.repeat, &known.text);
    let all = once.len();
    let once: Vec<_> = once
        .into_iter()
        .filter(|job| args.shard.is_none_or(|shard| shard.contains(&job.id())))
        .collect();
    if let (Some(shard), true) = (args.shard, once.is_empty()) {
        outputs::note(format!(
            "shard {shard} is empty: none of {} belongs to it",
            count(all, "trial")
        ));
    }
    let held = match (record, args.resume) {
        (Some(path), true) => last_run(path, args.shard)?,
        _ => None,
    };
    let opened = RunPlan {
        format: report::FORMAT,
        opened: report::date(SystemTime::now()),
        run: session.run.clone(),
        resumes: held.as_ref().map(|held| held.opened.run.clone()),
        trials: once.iter().map(Job::id).collect(),
        repeat: args.repeat,
        shard: args.shard,
        digest,
        build: session.build().to_owned(),
        merged: Vec::new(),
    };
    let jobs = (0..).zip(once.iter().flat_map(|job| (0..args.repeat).map(|n| job.for_run(n))));
    let ResumedRun { records: held, without_health_check: not_looked, lost, killed, jobs } =
        match held {
            Some(held) => resume(&session, &opened, held, jobs)?,
            None => ResumedRun { jobs: jobs.collect(), ..ResumedRun::default() },
        };
    let lines = not_looked.iter().chain(&lost);
    let lines = lines.map(|record| Line::Trial(Box::new(record.clone())));
    let killed = killed.iter().map(|run| Line::Over(run_end(run)));
    let head: Vec<Line> = [Line::Opened(opened)].into_iter().chain(killed).chain(lines).collect();
    let run_limits = args.run_limits(known);
    let view = args.details.view(args.trials);
    {
        let earlier = || held.iter().chain(&not_looked).chain(&lost);
        let earlier_cases = earlier().map(|record| record.case.as_str());
        let cases = earlier_cases.chain(jobs.iter().map(|(_, job)| job.case.id.as_str()));
        let mut results = results.lock();
        *results = ResultStream::new(view, cases);
        outputs::print(&earlier().map(|record| results.add(record)).collect::<String>())?;
    }
    let Batch { mut records, not_run, left_out, trouble } =
        run_batch(&session, &jobs, &run_limits, &head, journal, &cancel, Record::trim);
    // Puts the earlier records in front. Without earlier records, nothing is copied.
    records.splice(0..0, held.into_iter().chain(not_looked).chain(lost));

    let end = report::run_end(&records, view, Some(wall.elapsed()));
    let shown = outputs::print(&(results.lock().finish() + &end));
    if !reports.is_empty() {
        records.extend(not_run);
        reports.write(&records)?;
    }
    shown?;
    if let Some(FaultyCases { count, .. }) = &faulty {
        let left_out = report::count(*count, "case");
        outputs::note(format!(
            "error: {left_out} did not run, because of the mistakes shown first"
        ));
    }
    match (trouble, left_out) {
        (Some(stop), _) => Err(stop),
        // An unexpected result takes precedence over the mistakes.
        (None, None) if faulty.is_some() && report::exit_status(&records) != 1 => {
            Ok(ExitCode::from(2))
        }
        (None, None) => Ok(ExitCode::from(report::exit_status(&records))),
        (None, Some(why)) => {
            outputs::note(why);
            // The run is incomplete, so it has no verdict, but an unexpected result takes precedence.
            Ok(ExitCode::from(if report::exit_status(&records) == 1 { 1 } else { 3 }))
        }
    }
}

/// Lists the trials that would be skipped, by skip reason.
fn explain_skips(session: &Session, jobs: &[Job<'_>]) -> Result<ExitCode, Stop> {
    let records: Vec<_> = jobs.iter().filter_map(|job| skipped_record(session, job)).collect();
    let (skipped, all) = (records.len(), count(jobs.len(), "trial"));
    outputs::print(&format!(
        "{}\n{skipped} of {all} would be skipped; nothing was run\n",
        report::skips(&records, true)
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Makes the Linux kernel send SIGINT to this process when its parent process ends, even if the parent was killed.
fn end_with_parent(parent: i32) -> Result<(), Stop> {
    let cannot =
        |error: Errno| Stop::no_verdict(format!("error: cannot watch process {parent}: {error}"));
    set_parent_process_death_signal(Some(Signal::INT)).map_err(cannot)?;
    // The parent process may have ended before prctl was called.
    match Pid::as_raw(getppid()) == parent {
        true => Ok(()),
        false => Err(Stop::no_verdict(format!(
            "error: process {parent}, which started this run, is gone"
        ))),
    }
}

impl Run {
    fn run_limits(&self, known: Baseline) -> RunLimits {
        RunLimits {
            known,
            fail_fast: self.fail_fast,
            hangs: self.max_hangs,
            time: self.budget_seconds.map(|seconds| Duration::from_secs(seconds.into())),
        }
    }
}

/// Locks a record file: shared for a new run, exclusively (`alone`) for a run that is resumed. While a run is being
/// resumed, no other run can write to the file.
fn lock(path: &Path, alone: bool) -> Result<File, Stop> {
    let file = File::open(path)
        .map_err(|e| Stop::usage(format!("error: cannot read `{}`: {e}", path.display())))?;
    let operation = match alone {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    match flock(&file, operation) {
        Err(Errno::WOULDBLOCK) => Err(Stop::usage(format!(
            "error: another run is writing to `{}`{}",
            path.display(),
            if alone {
                ", so no run can be resumed in this file; wait until that run has ended"
            } else {
                " after this run was resumed; wait until the other run has ended"
            }
        ))),
        // The file system does not support locks, so the file is used without one.
        _ => Ok(file),
    }
}

/// Returns the last run in a record file, or the last run of this shard. Returns `None` if the file does not contain
/// the plan of such a run.
fn last_run(path: &Path, shard: Option<Shard>) -> Result<Option<RecordedRun>, Stop> {
    let file = RecordFile::open(path)?;
    let mut last = file.index.last();
    last.retain(|run| run.identity.shard == shard || shard.is_none());
    let held = last.pop().map(|run| file.read_run(run, true)).transpose()?;
    if held.is_none() {
        outputs::note(format!("no run to continue in `{}`; starting a new run", path.display()));
    }
    Ok(held)
}

/// Returns a digest of the trials, their options and their libraries. A run can be resumed only if its digest is the
/// same. `known` is the text of all baseline files.
fn digest(session: &Session, jobs: &[Job<'_>], repeat: u32, known: &str) -> String {
    let mut sum = Sha256::new();
    let mut add = |text: &str| {
        sum.update(text.len().to_le_bytes());
        sum.update(text);
    };
    add(env!("CARGO_PKG_VERSION"));
    add(&repeat.to_string());
    if !known.is_empty() {
        add(known);
    }
    for library in &session.stack.identify().libraries {
        add(&library.name);
        add(library.build_id.as_deref().unwrap_or_default());
    }
    add(&session.stack.spec);
    match session.gfx() {
        Some(gfx) => add(gfx),
        None => add(&format!("gpu {}", card::first(Path::new("/")).unwrap_or_default())),
    }
    for (option, value) in session.given() {
        add(option);
        add(&value);
    }
    // The summary of a run states whether its workers were confined, even for trials without a record, so runs with and
    // without confinement have different digests.
    match (session.trusts_given_cases(), session.is_foreign()) {
        (true, _) => add("--trust"),
        (false, true) => add("--cases-from"),
        (false, false) => {}
    }
    for job in jobs {
        add(&format!("{:?} {:?} {:?}", job.case, job.late(session.late), job.faults));
        add(&serde_json::to_string(&job.lowered.plan).unwrap_or_default());
        if let Body::Program(program) = &job.lowered.body {
            add(&serde_json::to_string(program).unwrap_or_default());
        }
    }
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// State of an earlier run that is resumed.
#[derive(Default)]
struct ResumedRun<'j> {
    /// Records of trials that the earlier run finished.
    records: Vec<Record>,
    /// Provisional records of trials after which the health check of the GPU was interrupted.
    without_health_check: Vec<Record>,
    /// Records of trials during which the machine crashed or was restarted.
    lost: Vec<Record>,
    /// Ids of runs that were killed while the machine stayed up. Their ends are written to the file, so that a later
    /// crash of the machine is not attributed to their trials.
    killed: BTreeSet<String>,
    /// Trials that remain to be run, with their numbers. Those during which an earlier run was killed come last,
    /// because they may cause this run to be killed too.
    jobs: Vec<(u64, Job<'j>)>,
}

/// Splits the trials of a run into those that an earlier run has finished and those to run.
///
/// # Errors
/// Returns an error if the earlier run had other trials, options, libraries or another build of rocrepro.
fn resume<'j>(
    session: &Session,
    opened: &RunPlan,
    held: RecordedRun,
    all: impl Iterator<Item = (u64, Job<'j>)>,
) -> Result<ResumedRun<'j>, Stop> {
    if !held.opened.merged.is_empty() {
        return Err(Stop::usage(
            "error: the last run in the record file was merged from shards; resume each shard in its own file",
        ));
    }
    if (&held.opened.digest, held.opened.shard) != (&opened.digest, opened.shard) {
        return Err(Stop::usage(format!(
            "error: run {} in the record file has other trials, options, libraries or another shard\nhint: continue \
             it with the command that started it, or start a new run without `--resume`",
            held.opened.run
        )));
    }
    let (ours, theirs) = (&opened.build, &held.opened.build);
    if ours != theirs && !theirs.is_empty() {
        return Err(Stop::usage(format!(
            "error: run {} in the record file was started by another build of rocrepro ({theirs}; this is {ours}), \
             and results of two builds must not be mixed\nhint: continue with that build, or start a new run without \
             `--resume`",
            held.opened.run
        )));
    }
    let boot = machine::boot();
    let (mut lost, mut jobs) = (Vec::new(), Vec::new());
    for (number, job) in all.filter(|(number, _)| !held.records.contains_key(number)) {
        match held.lost.get(&number).filter(|begun| begun.boot != boot) {
            Some(begun) => {
                lost.push(Record { number, ..record::lost_record(session, &job, begun) })
            }
            None => jobs.push((number, job)),
        }
    }
    let ended = |(number, _): &(u64, Job<'_>)| held.lost.contains_key(number);
    jobs.sort_by_key(ended);
    let during = |n: usize, what: &str| match n {
        0 => String::new(),
        n => format!("; {} {what} {}", count(n, "trial"), if n == 1 { "it" } else { "them" }),
    };
    outputs::note(format!(
        "run {}: {} finished, {} to run{}{}",
        held.opened.run,
        count(held.records.len(), "trial"),
        jobs.len(),
        during(
            jobs.iter().filter(|job| ended(job)).count(),
            "will run last, because the run was killed during"
        ),
        during(lost.len(), "will not run again, because the machine may have gone down during"),
    ));
    let (not_looked, records): (Vec<_>, Vec<_>) = held
        .records
        .into_iter()
        .partition(|(number, _)| held.without_health_check.contains(number));
    let [records, not_looked] =
        [records, not_looked].map(|all| all.into_iter().map(|(_, record)| record).collect());
    let here = held.lost.into_values().filter(|begun| begun.boot == boot);
    let killed = here.map(|begun| begun.run).collect();
    Ok(ResumedRun { records, without_health_check: not_looked, lost, killed, jobs })
}

impl Emulation {
    /// Returns the configuration of an emulated device of this architecture.
    ///
    /// # Errors
    /// Returns all invalid options.
    pub(crate) fn config(&self, arch: Arch) -> Result<Config, Stop> {
        let sanitize = self.sanitize.as_deref().map_or(Ok(Sanitize::Off), str::parse);
        let mut config = Config::for_arch(arch, *sanitize.as_ref().unwrap_or(&Sanitize::Off));
        let mut problems: Vec<String> =
            self.device_option.iter().filter_map(|option| config.set(option).err()).collect();
        match self.schedule.parse() {
            Ok(schedule) => config.schedule = schedule,
            Err(problem) => problems.push(UnknownSchedule::to_string(&problem)),
        }
        problems.extend(sanitize.err().map(|problem| UnknownSanitize::to_string(&problem)));
        let problems: Vec<_> = problems.iter().map(|text| format!("error: {text}")).collect();
        if problems.is_empty() { Ok(config) } else { Err(Stop::usage(problems.join("\n"))) }
    }
}
