mod at_once;
mod told;

use std::{collections::BTreeMap, path::Path, time::SystemTime};

use case::{Body, Case, Lowered, Trial, analyse, lower};
use device::{Acts, Arch, Place, Planted};
use judge::{
    Context, Ground, Location, Observation, Outcome, Verdict, VerdictKind, judge_everywhere,
    verdict,
};
use plan::{Event, Order, Phase, Plan};
use report::{Asked, Begun, Device, Record};
use supervise::{Cancel, Limits, Usage};

pub(crate) use self::at_once::{at_once, run_at_once};
pub(crate) use self::told::{Told, not_started, observation, observe};
use crate::{
    CaseLibrary, DeviceChoice, Selected, Session, Stop, lacks,
    on_gpu::{Before, on_gpu},
    probe, program,
    rerun::again,
    session::nonce,
    slots::{self, Slot},
    spool::Spool,
};

/// One trial to run once.
#[derive(Clone)]
pub struct Job<'a> {
    /// Its case.
    pub case: &'a Case,
    /// The point of the matrix.
    pub trial: &'a Trial,
    /// Its calls and their right results.
    pub lowered: Lowered,
    /// Which of several runs this is, counted from 0: each draws its own lateness.
    pub run: u32,
    /// Planted faults. Where those at calls concern the plan is already part of it, how often is not.
    pub faults: Vec<Planted>,
}

impl Job<'_> {
    /// The trial's id.
    pub fn id(&self) -> String {
        self.case.trial_id(self.trial)
    }

    /// A digest of what it does: the same for the same calls or program, wherever they stand in the case's file.
    fn text(&self) -> String {
        let mut plan = self.lowered.plan.clone();
        let steps = [&mut plan.setup, &mut plan.body, &mut plan.verify, &mut plan.teardown];
        for step in steps.into_iter().flatten() {
            step.line = 0;
            // Faults are told by themselves.
            step.planted.clear();
        }
        let mut text = serde_json::to_string(&plan).unwrap_or_default();
        if let Body::Program(program) = &self.lowered.body {
            text.push_str(&serde_json::to_string(&program.without_places()).unwrap_or_default());
        }
        plan::digest(text.as_bytes())
    }

    /// How late its work is on purpose.
    pub(crate) fn late(&self, session: &Session) -> Option<plan::Late> {
        session.late.map(|late| late.of_run(self.run.into()))
    }

    /// The same for the n-th of several runs, see [`Planted::of_run`].
    pub(crate) fn of_run(&self, n: u32) -> Self {
        let faults = self.faults.iter().map(|planted| planted.of_run(n.into())).collect();
        Job { faults, run: n, ..self.clone() }
    }
}

/// Each trial without a fault, and under each fault that its case declares for it.
pub fn with_declared_faults<'s, 'a>(
    selected: &'s [Selected<'a>],
) -> Vec<(&'s Selected<'a>, Option<Planted>)> {
    let each = selected.iter().flat_map(|entry| {
        let declared = entry.case.faults.iter().filter(|f| f.on.matches(&entry.trial));
        let faults = declared.map(|f| Some(f.planted.clone()));
        [None].into_iter().chain(faults).map(move |fault| (entry, fault))
    });
    each.collect()
}

/// Lowers trials, all with the same planted faults.
///
/// # Errors
/// Those of [`lower_each`].
pub fn lower_all(
    library: &CaseLibrary,
    selected: &[Selected<'_>],
    faults: impl IntoIterator<Item = Planted> + Clone,
) -> Result<Vec<Lowered>, Stop> {
    lower_each(library, selected.iter().map(|entry| (entry, faults.clone())))
}

/// Lowers trials, each with its planted faults.
///
/// # Errors
/// All mistakes of all cases, shown at their place.
pub fn lower_each<'s, 'a: 's>(
    library: &CaseLibrary,
    planned: impl IntoIterator<Item = (&'s Selected<'a>, impl IntoIterator<Item = Planted>)>,
) -> Result<Vec<Lowered>, Stop> {
    each(library, planned, |entry, faults| {
        let faults: Vec<Planted> = faults.into_iter().collect();
        lower(entry.case, &entry.trial, library.kernels(), &faults)
    })
}

/// Makes the checks of lowering, without computing what buffers hold. What can be planted changes nothing about them.
///
/// # Errors
/// Those of [`lower_each`].
pub(crate) fn analyse_each(library: &CaseLibrary, selected: &[Selected<'_>]) -> Result<(), Stop> {
    let analysed = each(library, selected.iter().map(|entry| (entry, ())), |entry, ()| {
        analyse(entry.case, &entry.trial, library.kernels()).map(drop)
    });
    analysed.map(drop)
}

fn each<'s, 'a: 's, With, T>(
    library: &CaseLibrary,
    planned: impl IntoIterator<Item = (&'s Selected<'a>, With)>,
    of: impl Fn(&'s Selected<'a>, With) -> Result<T, Vec<case::Diagnostic>>,
) -> Result<Vec<T>, Stop> {
    let mut good = Vec::new();
    let mut mistakes = std::collections::BTreeMap::<&str, Vec<case::Diagnostic>>::new();
    for (entry, with) in planned {
        match of(entry, with) {
            Ok(one) => good.push(one),
            Err(found) => mistakes.entry(&entry.case.id).or_default().extend(found),
        }
    }
    if mistakes.is_empty() {
        return Ok(good);
    }
    let shown: Vec<_> = mistakes
        .into_iter()
        .map(|(id, mut found)| {
            found.sort();
            // The same mistake shows in many trials; the first one's help names its trial.
            found.dedup_by(|a, b| (a.at, &a.message) == (b.at, &b.message));
            library.show(id, &found)
        })
        .collect();
    Err(Stop::usage(shown.join("\n\n")))
}

/// Runs one trial in a fresh process and judges it; a trial whose needs the stack does not meet is skipped. None
/// where the run was cancelled before the trial was over.
pub fn run_trial(session: &Session, job: &Job<'_>, cancel: &Cancel) -> Option<Record> {
    run_trial_and_tell(session, job, &|_| {}, cancel)
}

/// The same. Where the GPU is looked at after the trial, `ended` is told before that how it ended: whoever is ended while it looks
/// loses nothing.
pub(crate) fn run_trial_and_tell(
    session: &Session,
    job: &Job<'_>,
    ended: &dyn Fn(Record),
    cancel: &Cancel,
) -> Option<Record> {
    let unmet = unmet(job.case, session.rocm.as_ref(), session.gfx())
        .or_else(|| too_few(job.case, session.devices_for(job.case)))
        .or_else(|| chooses(&job.lowered.plan.environment, &session.slots))
        .or_else(|| lacks::kernels(job.case, session.stack.manifest.as_ref()?, session.gfx()?));
    if let Some(unmet) = unmet {
        let nothing = not_started(String::new());
        return Some(record(session, job, "", nothing, None, (skipped(unmet), Vec::new())));
    }
    if let Body::Program(program) = &job.lowered.body {
        return program::run(session, job, program, &nonce(), cancel);
    }
    match session.device {
        DeviceChoice::Emulated(_) => run_at_once(session, job, None, cancel),
        DeviceChoice::Gpu => on_gpu(session, job, ended, cancel),
    }
}

/// Runs a trial in a fresh process and judges it; on a GPU, in its slot. None where the run was cancelled before the trial was over.
pub(crate) fn run_here(
    session: &Session,
    job: &Job<'_>,
    limits: &Limits,
    slot: Option<&Slot>,
    cancel: &Cancel,
) -> Option<Record> {
    let nonce = nonce();
    let before = (session.device == DeviceChoice::Gpu).then(Before::now);
    let folder = session.scratch.trial();
    let spool = folder.as_ref().map(|f| f.path().to_path_buf()).unwrap_or_default();
    let expected = job.lowered.body.expected();
    let wanted: Vec<_> =
        expected.iter().map(|e| (e.step, e.occurrence, e.digest.clone())).collect();
    let config = session.device_for(job.case, of_place(&job.faults, Place::Device));
    let order = Order {
        nonce: nonce.clone(),
        plan: job.lowered.plan.clone(),
        faults: of_place(&job.faults, Place::Call),
        late: job.late(session),
        // The folder that it starts in: a path need not be text.
        spool: ".".to_owned(),
        code_cache: session.cache_name().to_str().map(str::to_owned),
        writable: session.writable(),
        wanted: wanted.clone(),
    };
    let told = folder
        .as_ref()
        .map_err(|e| format!("no folder for the trial: {e}"))
        .and_then(|_| Told::new(session, &order, &spool, config.as_ref(), slot));
    let kept = Spool::new(&spool, largest(&job.lowered.plan));
    let (observation, usage) = match &told {
        Ok(told) => observe(session, told, limits, cancel)?,
        Err(error) => (not_started(error.clone()), None),
    };
    let nothing = BTreeMap::new();
    let mut context = Context {
        plan: &job.lowered.plan,
        nonce: &nonce,
        order: told.as_ref().map_or("", |told| &told.digest),
        environment: told.as_ref().map_or(&nothing, |told| &told.environment),
        launched: session.is_launched(),
        late: order.late.is_some(),
        able: session.able(),
        limits: told.as_ref().map_or(&nothing, |told| &told.limits),
        wanted: &wanted,
        spec: &session.stack.spec,
        adding: &|name| lacks::adding(&session.stack.spec, name),
        rocm: session.rocm.clone(),
        expect_gfx: session.gfx(),
        emulated: config.as_ref(),
        stack_root: Some(&session.stack.root),
        spool: &|name| kept.read(name),
    };
    let (mut outcome, mut red) = judge_everywhere(&observation, &context);
    if outcome.signature == judge::NOT_STARTED {
        context.able = probe::able(session, cancel);
        (outcome, red) = judge_everywhere(&observation, &context);
    }
    if observation.events.iter().any(|e| matches!(e, Event::Phase { phase: Phase::Setup })) {
        session.has_started();
    }
    outcome = unless_troubled(session, outcome, &spool, context.environment);
    if let Some(before) = &before {
        outcome = before.with_kernel_log(outcome, session, slot, &observation, &job.lowered.plan);
    }
    let mut record = record(session, job, &nonce, observation, usage, (outcome, red));
    if let Some(before) = before {
        before.describe(&mut record, session, slot);
        record.verdict = judged(session, job, &record);
    }
    Some(record)
}

/// The outcome, unless this machine is at fault: a compiler or runtime that cannot write or start a thread crashes or exits, which is
/// no news of ROCm.
pub(crate) fn unless_troubled(
    session: &Session,
    outcome: Outcome,
    spool: &Path,
    environment: &BTreeMap<String, String>,
) -> Outcome {
    let failed = outcome.kind.is_failure();
    match failed.then(|| session.trouble(spool, environment)).flatten() {
        Some(trouble) => outcome.put_down_to(trouble.signature, trouble.why),
        None => outcome,
    }
}

/// The most bytes that a check of a plan looks at: a buffer, or the guards around one.
fn largest(plan: &Plan) -> u64 {
    let buffers = plan.buffers.values().map(|buffer| buffer.bytes);
    buffers.max().unwrap_or_default().max(2 * plan::GUARD_BYTES)
}

/// The record of a trial that was planned and did not come to its end.
pub(crate) fn not_run(session: &Session, job: &Job<'_>) -> Record {
    without(session, job, "not-run", "the run ended before this trial was over".to_owned())
}

/// The record of a trial during which the machine went down.
pub(crate) fn lost(session: &Session, job: &Job<'_>, begun: &Begun) -> Record {
    let Begun { begun: when, run, .. } = begun;
    let why = format!(
        "it began in run {run} at {when} and has no end: the machine was started again after that, or the run was on another one; \
         `--resume` does not run it again"
    );
    without(session, job, "machine-restarted", why)
}

/// The record of a trial that has no worker.
pub(crate) fn without(session: &Session, job: &Job<'_>, word: &str, why: String) -> Record {
    let outcome = Outcome {
        kind: judge::Kind::NoVerdict,
        signature: format!("no-verdict:{word}"),
        at: judge::Location::default(),
        summary: why.clone(),
        details: Vec::new(),
    };
    record(session, job, "", not_started(why), None, (outcome, Vec::new()))
}

/// Why a case does not apply, in words that say what would make it run.
fn unmet(case: &Case, rocm: Option<&plan::Version>, gfx: Option<&str>) -> Option<String> {
    let needs = &case.needs;
    if let (Some(range), Some(version)) = (&needs.rocm, rocm)
        && !range.contains(version)
    {
        return Some(format!("needs ROCm {range}, and this is {version}"));
    }
    match gfx {
        Some(gfx) if needs.images && !Arch::has_images(gfx) => {
            Some(format!("needs images, and {gfx} has none"))
        }
        Some(gfx) if !needs.gfx.is_empty() && !needs.gfx.iter().any(|g| g == gfx) => {
            Some(format!("needs {}, and this is {gfx}", needs.gfx.join(" or ")))
        }
        _ => None,
    }
}

/// Likewise of the devices that a trial sees.
fn too_few(case: &Case, devices: u32) -> Option<String> {
    let wanted = case.needs.devices;
    let why = || format!("needs {wanted} devices, and a trial sees {devices} here");
    (wanted > devices).then(|| match devices {
        1 => format!("{}; with `--cards` it is one", why()),
        _ => why(),
    })
}

/// Likewise of a case that says by itself which GPUs its process sees.
fn chooses(environment: &BTreeMap<String, String>, slots: &[Slot]) -> Option<String> {
    slots.iter().find(|slot| slot.card.is_some())?;
    let name = environment.keys().find(|name| slots::hides(name))?;
    Some(format!("the case sets {name}, and `--cards` says which GPU a trial sees"))
}

pub(crate) fn skipped(why: String) -> Outcome {
    Outcome {
        kind: judge::Kind::Skip,
        signature: "skip:needs".to_owned(),
        at: judge::Location::default(),
        summary: why,
        details: Vec::new(),
    }
}

pub(crate) fn record(
    session: &Session,
    job: &Job<'_>,
    nonce: &str,
    observation: Observation,
    usage: Option<Usage>,
    (outcome, red): (Outcome, Vec<Location>),
) -> Record {
    let device = Device::seen(
        &observation.events,
        session.gfx().unwrap_or_default(),
        session.gfx().is_some(),
    );
    let rocm = session.rocm.clone();
    let asked = Asked::new(session.given(), job.text());
    let phases = judge::phases(&observation.events);
    let (environment, limits) = report::found(&observation.events);
    let mut record = Record {
        format: report::FORMAT,
        run: session.run.clone(),
        number: 0,
        date: report::date(SystemTime::now()),
        rocrepro: env!("CARGO_PKG_VERSION").to_owned(),
        case: job.case.id.clone(),
        trial: job.id(),
        title: job.case.title.clone(),
        upstream: job.case.upstream.clone(),
        faults: job.faults.clone(),
        asked: Some(asked),
        red,
        program: None,
        acts: acts(&observation.events),
        late: late(job, session, &observation.events),
        verdict: Verdict { kind: VerdictKind::NoVerdict, known: None },
        outcome,
        stack: report::Stack::seen(
            &session.stack.spec,
            &session.stack.root.display().to_string(),
            rocm,
            &observation.events,
        ),
        calls: phases.iter().map(|p| p.calls).sum(),
        phases,
        wall_ns: observation.wall.as_nanos() as u64,
        cpu_ns: usage.map(|u| (u.user_cpu + u.system_cpu).as_nanos() as u64),
        environment,
        limits,
        max_rss_bytes: usage.map(|u| u.max_rss_bytes),
        stderr_tail: report::stderr_tail(&observation.stderr),
        stacks: observation.stacks,
        exit: observation.end,
        nonce: nonce.to_owned(),
        confined: report::confined(&observation.events),
        again: again(session, job),
        gpu_after: String::new(),
        device,
    };
    record.verdict = judged(session, job, &record);
    record
}

/// What a record means, by what it says of where it ran.
fn judged(session: &Session, job: &Job<'_>, record: &Record) -> Verdict {
    let here = job.case.known.iter().filter(|known| known.on.matches(job.trial));
    let known: Vec<_> = here.map(window).collect();
    let asked = record.asked.as_ref().is_some_and(Asked::may_avoid_failures);
    let otherwise = asked || !job.faults.is_empty() || job.late(session).is_some();
    let device = &record.device;
    let on = Ground {
        gfx: &device.gfx,
        rocm: session.rocm.as_ref(),
        card: device.card.as_ref().map(|card| card.name.as_str()),
        driver: Some(device.driver.as_str()).filter(|driver| !driver.is_empty()),
    };
    verdict(&record.outcome, &known, &on, otherwise)
}

/// A window of a case, as trials that it concerns are judged by it.
pub(crate) fn window(known: &case::Known) -> judge::Known {
    let case::Known { gfx, rocm, card, driver, on: _, signature, upstream, about: _ } =
        known.clone();
    judge::Known { gfx, rocm, card, driver, signature, upstream }
}

/// How work was late on purpose, and how often, as the worker says.
fn late(job: &Job<'_>, session: &Session, events: &[Event]) -> Option<report::Lateness> {
    let asked = job.late(session)?.to_string();
    let times = events.iter().find_map(|event| match event {
        Event::Delayed { times } => Some(*times),
        _ => None,
    });
    Some(report::Lateness { asked, times })
}

/// How often planted faults misbehaved, as the worker says.
fn acts(events: &[Event]) -> Vec<Acts> {
    let said = events.iter().find_map(|event| match event {
        Event::Acted { acts } => Some(acts.clone()),
        _ => None,
    });
    said.unwrap_or_default()
}

/// The device is told of some faults, and the worker of the others.
pub(crate) fn of_place(faults: &[Planted], place: Place) -> Vec<Planted> {
    faults.iter().filter(|p| p.fault.place() == place).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Named;

    #[test]
    fn a_case_that_chooses_gpus_is_not_run_where_the_command_does() {
        let card = Named { name: String::new(), bdf: String::new(), visible: "0".to_owned() };
        let slots = |card| [Slot { card, locks: Vec::new() }];
        let check = |name: &str, card: Option<Named>| {
            chooses(&[(name.to_owned(), "1".to_owned())].into(), &slots(card)).is_some()
        };
        for name in ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"] {
            assert!(check(name, Some(card.clone())), "{name}");
            assert!(!check(name, None), "{name}");
        }
        assert!(!check("HSA_ENABLE_SDMA", Some(card)));
    }

    #[test]
    fn a_case_that_needs_more_devices_says_how_many_there_are() {
        let case = |needs: &str| {
            let text = format!(
                "title: t\nsource: s\nneeds: {{{needs}}}\nsteps:\n  - sync: device\nfaults: [copy.zero]\n"
            );
            Case::parse("a/b", &text).expect("a case")
        };
        let two = case("devices: 2");
        let told = "needs 2 devices, and a trial sees 1 here; with `--cards` it is one";
        assert_eq!(too_few(&two, 1).as_deref(), Some(told));
        assert_eq!(too_few(&two, 2), None);
        assert_eq!(too_few(&case("alone: true"), 1), None);
        assert_eq!(case("processes: 16").needs.processes, 16);
        for wrong in ["devices: 0", "devices: 9", "devices: two", "processes: 0", "processes: 17"] {
            let text = format!(
                "title: t\nsource: s\nneeds: {{{wrong}}}\nsteps:\n  - sync: device\nfaults: [copy.zero]\n"
            );
            assert!(Case::parse("a/b", &text).is_err(), "{wrong}");
        }
    }
}
