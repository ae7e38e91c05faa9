//! The stand-alone program of a report: the shortest one that showed the failure, or that of the trial.

use std::path::Path;

use export::Form;
use judge::{Outcome, api};
use plan::Plan;
use report::{
    Record,
    evidence::{CASE_FILE, Exported, Minimised, Passes, Rate, Setting},
    issue::{Identity, Program, redact},
};
use supervise::Cancel;

use crate::{interrupt, outputs::note};
use engine::{
    CaseLibrary, CasesFrom, Selected, Session, SessionOptions, Stop, evidence,
    exported::{ProgramRunner, printed, program_folder, shortest, verify},
    probe::release_of_programs, toolchain::Toolchain,
};
use engine::{
    failing_trial::{FailingTrial, TrialRuns},
    passing_release::PassingReleaseSearch,
};

/// Runs of a program before it is shown.
const RUNS: u32 = 3;
/// Runs of a minimal case, for a failure that comes now and then.
const LOOKS: u32 = 20;

/// What a program is made for.
pub(super) struct Wanted<'a> {
    pub(super) subject: &'a FailingTrial<'a>,
    pub(super) session: &'a Session,
    pub(super) options: &'a SessionOptions,
    pub(super) failed: &'a Record,
    pub(super) rate: Rate,
    pub(super) folder: &'a Path,
    pub(super) who: &'a Identity,
}

/// A program with what the runtime logged of it; no log where the program was not run.
pub(super) struct Found {
    pub(super) program: Program,
    pub(super) log: Option<String>,
    /// Where its threads were when it died or hung; empty where that is not known.
    pub(super) stacks: String,
}

impl Wanted<'_> {
    /// Makes a program of the minimal case where there is one, or of the trial, and puts it into the folder; none where it cannot
    /// be written as a program.
    pub(super) fn program(&self, minimised: Option<&Minimised>) -> Result<Option<Found>, Stop> {
        let case = self.folder.join(CASE_FILE);
        if minimised.is_some()
            && let Ok(library) = CaseLibrary::load(Some(&CasesFrom { path: case, trusted: false }))
            && let Some(case) = library.cases().next()
            && let Some(trial) = case.trials().into_iter().next()
        {
            let faults = self.subject.faults.clone();
            let minimal =
                FailingTrial { library: &library, selected: Selected { case, trial }, faults };
            let signature = Some(self.failed.outcome.signature.clone());
            let runs = TrialRuns::with_signature(
                minimal.run(
                    self.session,
                    LOOKS.min(self.looks()),
                    0,
                    &[],
                    &interrupt::cancel()?,
                )?,
                signature,
            );
            if let Some(failed) = runs.failed()
                && let Some(found) = self.of(&minimal, &failed.outcome, runs.rate)?
            {
                return Ok(Some(found));
            }
        }
        self.of(self.subject, &self.failed.outcome, self.rate)
    }

    /// Runs that show whether a minimal case fails every time, or often enough to see it once.
    fn looks(&self) -> u32 {
        if self.rate.failed == self.rate.runs { RUNS } else { LOOKS }
    }

    fn of(
        &self,
        subject: &FailingTrial<'_>,
        goal: &Outcome,
        rate: Rate,
    ) -> Result<Option<Found>, Stop> {
        match self.short(subject, goal, rate) {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => {}
            Err(stop) => note(format_args!("no short program: {stop}")),
        }
        self.long(subject, goal)
    }

    fn short(
        &self,
        subject: &FailingTrial<'_>,
        goal: &Outcome,
        rate: Rate,
    ) -> Result<Option<Found>, Stop> {
        let mut job = subject.job()?;
        // The program is of the trial that was reported, however small it became.
        job.lowered.plan.trial = self.subject.id();
        let cancel = Cancel::new().map_err(|e| Stop::no_verdict(format!("error: {e}")))?;
        let version = release_of_programs(self.session);
        let runner = ProgramRunner::new(self.session, version.clone())?;
        let elsewhere = PassingReleaseSearch { options: self.options.clone(), named: None };
        let release = match job.faults.is_empty() {
            // A smaller case may pass where the trial fails in another way.
            true => elsewhere.find(self.session, &self.subject.job()?, &cancel)?,
            false => None,
        };
        let other = match &release {
            Some(release) => ProgramRunner::new(release, version)
                .map_err(|stop| note(format_args!("not tried on {}: {stop}", release.stack.spec)))
                .ok(),
            None => None,
        };
        let Some(short) = shortest(&runner, other.as_ref(), &job, goal, [rate, self.rate], &cancel)?
        else {
            return Ok(None);
        };
        let passes = short.elsewhere.map(|rate| {
            let mut on = Setting::of(self.failed);
            let mut otherwise = Vec::new();
            on.faults.clear();
            if let (Some(release), Some(_)) = (&release, &other) {
                on.stack = release.stack.spec.clone();
                on.rocm = release.rocm.as_ref().map(ToString::to_string);
                on.gfx = release.gfx().unwrap_or(&on.gfx).to_owned();
                otherwise = answers(&job.lowered.plan, goal, [self.session, release]);
            }
            Passes { on, rate, otherwise }
        });
        let exported = Exported {
            verified: Some(short.failed),
            on: Some(Setting::of(self.failed)),
            ended: Some(short.ended),
            passes,
            tries: Some(short.tries),
            cut_short: !short.complete,
            ..self.written(&short.text)
        };
        let (log, stacks) = (Some(short.log), short.stacks);
        Ok(Some(Found { program: self.keep(&short.text, exported)?, log, stacks }))
    }

    /// The trial as it is, with everything that it looks at.
    fn long(&self, subject: &FailingTrial<'_>, goal: &Outcome) -> Result<Option<Found>, Stop> {
        let job = subject.job()?;
        let (form, session) = (Form::Hiprtc, self.session);
        let tools = program_folder(session)?;
        let cancel = Cancel::new().map_err(|e| Stop::no_verdict(format!("error: {e}")))?;
        let verified = Toolchain::find(&session.stack, form, tools.path()).and_then(|toolchain| {
            verify(session, &toolchain, &job, form, RUNS, Some(goal), &cancel)
        });
        // Without headers or compiler the program is shown all the same, as one that nobody has tried.
        let verified = verified
            .map_err(|stop| note(format_args!("the program was not verified: {stop}")))
            .ok();
        let text = match &verified {
            Some(done) => done.text.clone(),
            None => match printed(session, &job, form, Vec::new(), Vec::new()) {
                Ok(text) => text,
                Err(stop) => {
                    note(format_args!("{stop}"));
                    return Ok(None);
                }
            },
        };
        let exported = Exported {
            verified: verified.as_ref().map(|done| Rate { failed: done.verified, runs: done.of }),
            on: verified.as_ref().map(|_| Setting::of(self.failed)),
            traces_equal: verified.as_ref().map(|done| done.difference.is_none()),
            ..self.written(&text)
        };
        let stacks = String::new();
        Ok(Some(Found { program: self.keep(&text, exported)?, log: None, stacks }))
    }

    /// What the program's own header says of how it is built and run.
    fn written(&self, text: &str) -> Exported {
        let line = |label: &str| {
            let found = text.lines().find_map(|l| l.strip_prefix("// ")?.strip_prefix(label));
            found.unwrap_or_default().trim().to_owned()
        };
        Exported {
            trial: self.subject.id(),
            form: Form::Hiprtc.name().to_owned(),
            path: Form::Hiprtc.file().to_owned(),
            build: line("Build:"),
            run: line("Run:"),
            verified: None,
            on: None,
            ended: None,
            passes: None,
            traces_equal: None,
            tries: None,
            cut_short: false,
        }
    }

    /// Puts the program into the folder.
    fn keep(&self, text: &str, exported: Exported) -> Result<Program, Stop> {
        // A name in the program's text is no name of a person.
        let nobody = Identity { user: String::new(), host: String::new(), ..self.who.clone() };
        let text = redact(text, &nobody);
        let file = Form::Hiprtc.file();
        evidence::write_text(self.folder, file, &text)?;
        evidence::write(self.folder, &exported)?;
        let (file, exported) = (file.to_owned(), Some(exported));
        Ok(Program { file, language: "cpp", text, exported, own: None })
    }
}

/// Calls before the failing one of which the case wants one answer on the failing release and another one where it passes.
fn answers(plan: &Plan, goal: &Outcome, sessions: [&Session; 2]) -> Vec<String> {
    let versions = sessions.map(release_of_programs);
    let steps = plan.steps();
    let before = steps.iter().take_while(|step| Some(step.id) != goal.at.step);
    let mut found = Vec::new();
    for step in before {
        for wanted in [&step.returns, &step.gives].into_iter().flatten() {
            let [here, there] = [0, 1].map(|n| wanted.at(&versions[n]));
            if let (Some(here), Some(there)) = (here, there)
                && !here.iter().any(|answer| there.contains(answer))
            {
                let (here, there) = (here.join(" or "), there.join(" or "));
                found.push(format!("{}: {there} there, {here} here", api(&step.call, plan)));
            }
        }
    }
    found.dedup();
    found
}
