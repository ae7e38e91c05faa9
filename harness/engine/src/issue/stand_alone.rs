//! Makes the stand-alone C++ program of an issue: the shortest program that showed the failure, or otherwise the trial
//! as a program.

use std::{path::Path, time::Instant};

use ::export::Form;
use judge::{Outcome, api};
use plan::Plan;
use report::{
    Record,
    evidence::{ExportEvidence, PassingRuns, Rate, Setting},
    issue::{Identity, Program, Syntax, redact_program},
};
use supervise::Cancel;

use super::{IssueEvent, IssueReporter};
use crate::{
    Session, SessionOptions, Stop, evidence,
    exported::{
        Neighbour, PassingPrograms, ProgramRunner, ShortenBudget, print_program, program_folder,
        shortest, verify,
    },
    failing_trial::FailingTrial,
    passing_release::PassingReleaseSearch,
    probe::release_of_programs,
    toolchain::Toolchain,
};

/// Number of runs by which a program made from the whole trial is verified.
const RUNS: u32 = 3;

/// Makes the stand-alone program for one failure.
pub(super) struct ProgramMaker<'a> {
    /// The trial that the user named. The issue may be about a minimal case that was made from it.
    pub(super) trial: &'a FailingTrial<'a>,
    pub(super) subject: &'a FailingTrial<'a>,
    pub(super) session: &'a Session,
    pub(super) options: &'a SessionOptions,
    pub(super) failed: &'a Record,
    pub(super) rate: Rate,
    pub(super) folder: &'a Path,
    pub(super) who: &'a Identity,
    /// Time at which the search for a shorter program ends.
    pub(super) deadline: Instant,
    pub(super) cancel: &'a Cancel,
    pub(super) events: IssueReporter<'a>,
}

/// A stand-alone program, with the log of one run. The log is `None` if the program was not run.
pub(super) struct StandAloneProgram {
    pub(super) program: Program,
    pub(super) log: Option<String>,
    /// Call stacks of the program's threads when it died or hung; empty if they are unknown.
    pub(super) stacks: String,
}

impl ProgramMaker<'_> {
    /// Makes a program from the subject of the issue and writes it to the evidence folder; `None` if the subject cannot
    /// be written as a program.
    pub(super) fn program(&self) -> Result<Option<StandAloneProgram>, Stop> {
        self.of(self.subject, &self.failed.outcome, self.rate)
    }

    fn of(
        &self,
        subject: &FailingTrial<'_>,
        goal: &Outcome,
        rate: Rate,
    ) -> Result<Option<StandAloneProgram>, Stop> {
        match self.shortest_program(subject, goal, rate) {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => {}
            Err(stop) if self.cancel.is_cancelled() => return Err(stop),
            Err(stop) => (self.events)(IssueEvent::NoShortProgram(&stop)),
        }
        self.full_program(subject, goal)
    }

    fn shortest_program(
        &self,
        subject: &FailingTrial<'_>,
        goal: &Outcome,
        rate: Rate,
    ) -> Result<Option<StandAloneProgram>, Stop> {
        let mut job = subject.job()?;
        // The program names the reported trial, even if it is made from a minimal case.
        job.lowered.plan.trial = self.trial.id();
        let version = release_of_programs(self.session);
        let runner = ProgramRunner::new(self.session, version.clone())?;
        let releases = PassingReleaseSearch { options: self.options.clone(), named: None };
        let release = match job.faults.is_empty() {
            // A smaller case may pass on a release on which the trial fails in another way.
            true => releases.find(self.session, &self.trial.job()?, self.cancel)?,
            false => None,
        };
        let other = match &release {
            Some(release) => ProgramRunner::new(release, version)
                .map_err(|why| {
                    let release = &release.stack.spec;
                    (self.events)(IssueEvent::NotTriedOn { release, why: &why });
                })
                .ok(),
            None => None,
        };
        let tried = |tries| {
            let left = self.deadline.saturating_duration_since(Instant::now());
            (self.events)(IssueEvent::ShorterProgramTried { tries, left });
        };
        let budget = ShortenBudget { deadline: self.deadline, tried: &tried };
        let rates = [rate, self.rate];
        // If the trial fails on every release, a passing trial of the case is the control. A trial that fails only
        // sometimes has no such control, because it passes itself.
        let neighbour = match other.is_none() && job.faults.is_empty() && rate.failed == rate.runs {
            true => Neighbour::find(subject, goal.at.step, &runner, self.cancel)?,
            false => None,
        };
        let passing = match (&other, &neighbour) {
            (Some(runner), _) => PassingPrograms::OnRelease(runner),
            (None, Some(neighbour)) => PassingPrograms::OfNeighbour(neighbour),
            (None, None) => PassingPrograms::None,
        };
        let Some(short) = shortest(&runner, passing, &job, goal, rates, budget, self.cancel)?
        else {
            return Ok(None);
        };
        let passes = short.elsewhere.map(|rate| {
            let mut on = Setting::from_record(self.failed);
            let mut otherwise = Vec::new();
            on.faults.clear();
            if let (Some(release), Some(_)) = (&release, &other) {
                on.stack = release.stack.spec.clone();
                on.rocm = release.rocm.as_ref().map(ToString::to_string);
                on.gfx = release.gfx().unwrap_or(&on.gfx).to_owned();
                otherwise = changed_results(&job.lowered.plan, goal, [self.session, release]);
            }
            PassingRuns { on, rate, otherwise }
        });
        let exported = ExportEvidence {
            verified: Some(short.failed),
            on: Some(Setting::from_record(self.failed)),
            ended: Some(short.ended),
            passes,
            tries: Some(short.tries),
            cut_short: !short.complete,
            ..self.written(&short.text)
        };
        let (log, stacks) = (Some(short.log), short.stacks);
        Ok(Some(StandAloneProgram {
            program: self.write_program(&short.text, exported)?,
            log,
            stacks,
        }))
    }

    /// Makes a program from the whole trial, with all of its checks. Returns `None` if the trial cannot be written as a
    /// program.
    fn full_program(
        &self,
        subject: &FailingTrial<'_>,
        goal: &Outcome,
    ) -> Result<Option<StandAloneProgram>, Stop> {
        let job = subject.job()?;
        let (form, session) = (Form::Hiprtc, self.session);
        let tools = program_folder(session)?;
        let toolchain = Toolchain::find(&session.stack, form, tools.path()).map_err(Stop::from);
        let verified = toolchain.and_then(|toolchain| {
            verify(session, &toolchain, &job, form, RUNS, Some(goal), self.cancel)
        });
        let verified = match verified {
            Err(stop) if self.cancel.is_cancelled() => return Err(stop),
            verified => verified,
        };
        // Without HIP headers or a compiler, the issue contains the program and says that it was not run.
        let verified = verified.map_err(|stop| (self.events)(IssueEvent::NotVerified(&stop))).ok();
        let text = match &verified {
            Some(done) => done.text.clone(),
            None => match print_program(session, &job, form, Vec::new(), Vec::new()) {
                Ok(text) => text,
                Err(error) => {
                    (self.events)(IssueEvent::NotExported(&error.into()));
                    return Ok(None);
                }
            },
        };
        let exported = ExportEvidence {
            verified: verified.as_ref().map(|done| Rate { failed: done.verified, runs: done.runs }),
            on: verified.as_ref().map(|_| Setting::from_record(self.failed)),
            traces_equal: verified.as_ref().map(|done| done.difference.is_none()),
            ..self.written(&text)
        };
        let stacks = String::new();
        Ok(Some(StandAloneProgram {
            program: self.write_program(&text, exported)?,
            log: None,
            stacks,
        }))
    }

    /// Returns evidence for a program that has not been run yet, with the commands that build and run it. The commands
    /// are read from the program's header.
    fn written(&self, text: &str) -> ExportEvidence {
        let line = |label: &str| {
            let found = text.lines().find_map(|l| l.strip_prefix("// ")?.strip_prefix(label));
            found.unwrap_or_default().trim().to_owned()
        };
        ExportEvidence {
            trial: self.trial.id(),
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

    /// Writes the program to the evidence folder.
    fn write_program(&self, text: &str, exported: ExportEvidence) -> Result<Program, Stop> {
        let text = redact_program(text, Syntax::Cpp, self.who);
        let file = Form::Hiprtc.file();
        evidence::write_text(self.folder, file, &text)?;
        evidence::write(self.folder, &exported)?;
        let (file, exported) = (file.to_owned(), Some(exported));
        Ok(Program { file, language: "cpp", text, exported, own: None })
    }
}

/// Returns those calls before the failing one whose expected results differ between the failing and the passing
/// release.
fn changed_results(plan: &Plan, goal: &Outcome, sessions: [&Session; 2]) -> Vec<String> {
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
