//! Judges program cases.
//!
//! The program reports its checks and its end. The emulated device reports which processes have used the device.

mod crash;
mod device_events;
mod reached;

use device::{Config, Witness};
use plan::{Program, program::ProgramBody};
use serde::{Deserialize, Serialize};

use crate::identity::function as function_name;
use crate::proof::other_device;
use crate::{
    End, FailureIdentity, Kind, Limit, Location, Observation, Outcome, SourcePlace, ending, left,
    log, phrases,
};

pub use self::crash::{Crash, CrashedCall, CrashedThread};
pub use self::device_events::device_events;
pub use self::reached::other_hip;

/// Signature of the outcome if a program executed no check.
pub const NO_CHECK: &str = "no-verdict:no-check";

/// Messages that a program sends through the helper: the Python module `rocrepro` or the C++ header `rocrepro.h`. Each
/// message is one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum ProgramMessage {
    /// First message of a process.
    Begin {
        /// Nonce that the harness gave to the program.
        nonce: String,
        /// Language runtime that executes the program, for example `Python 3.11.7`.
        runs_on: String,
        /// Process id of the sender. Each child process that imports the helper sends a `Begin` of its own.
        #[serde(default)]
        pid: u32,
    },
    /// A phase of the program begins. The signature of a later crash or hang contains the name of the phase.
    Phase {
        /// Name of the phase.
        name: String,
    },
    /// The program has compared values with expected values.
    Check {
        /// Name of the check.
        name: String,
        /// Line of the program that contains the check.
        line: u32,
        /// Description of the difference; `None` if the check passed.
        #[serde(default)]
        wrong: Option<FailedCheck>,
    },
    /// The program ends with an uncaught exception.
    Exception {
        /// Type of the exception, for example `KeyError`.
        name: String,
        /// Text of the exception.
        text: String,
        /// Line of the program in which the exception was raised, or through which it passed.
        line: u32,
        /// Innermost place in a user's file at which the exception was raised; `None` in messages of earlier versions
        /// of the helper.
        #[serde(default)]
        place: Option<RaisedAt>,
    },
    /// A prerequisite of the program is missing.
    Skip {
        /// The missing prerequisite, and how to add it.
        why: String,
    },
    /// A HIP function reported a device fault to the program, and the case expects this.
    ToldOfFault,
    /// The program reached its end.
    Done {
        /// Process id of the sender.
        #[serde(default)]
        pid: u32,
    },
}

/// Place at which an exception was raised, as the helper reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaisedAt {
    /// Name of the file, without its folder.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Name of the function, as Python reports it; `<module>` for code outside of functions.
    pub function: String,
}

/// A failed comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedCheck {
    /// Kind of thing that was compared.
    pub about: CheckSubject,
    /// Class of the failure in the signature, for example `zero`, `stale` or `hipErrorInvalidValue`.
    pub class: String,
    /// Description of the difference for people.
    pub text: String,
    /// Actual and expected values, for people.
    #[serde(default)]
    pub details: Vec<String>,
}

/// Kinds of things that a check of a program compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckSubject {
    /// Values in memory.
    Data,
    /// A status or a value that a function returned.
    Answer,
    /// Memory or another resource that had to be released.
    Leak,
}

impl CheckSubject {
    fn kind(self) -> Kind {
        match self {
            CheckSubject::Data => Kind::WrongData,
            CheckSubject::Answer => Kind::ApiError,
            CheckSubject::Leak => Kind::Leak,
        }
    }
}

/// Everything that the harness observed about one program.
pub struct ProgramObservation<'a> {
    /// Messages that the program sent through the helper, in order.
    pub messages: &'a [ProgramMessage],
    /// Reports of the emulated device about the processes that loaded its library.
    pub witnesses: &'a [Witness],
    /// Standard output.
    pub stdout: &'a str,
    /// End of the process, and its standard error.
    pub observation: &'a Observation,
    /// Call stacks of the process that crashed; `None` if no process crashed, or if the stacks could not be read.
    pub crash: Option<&'a Crash>,
}

/// Requested configuration of a program, against which the program is judged.
pub struct ProgramContext<'a> {
    /// Program that was run.
    pub program: &'a Program,
    /// Nonce that the harness gave to the program.
    pub nonce: &'a str,
    /// Requested configuration of the emulated device.
    pub emulated: &'a Config,
    /// GNU build id of the stack's libamdhip64; `None` if it has no build id.
    pub runtime: Option<&'a str>,
    /// GNU build id of the emulated device's library; `None` if it has no build id.
    pub device_build: Option<&'a str>,
    /// Name of the stack, as given on the command line.
    pub spec: &'a str,
}

/// Returns the outcome of a program case's trial, and the location of each failed check in order of time.
///
/// The rules are applied in this order:
/// 1. The outcome is `no-verdict` if the program used something that the emulated device does not support, if it did
///    not start, or if the harness stopped watching it. If the program reports that a prerequisite is missing, the
///    trial is skipped.
/// 2. The outcome is `no-verdict` if no process used the device, if a process may have used another HSA runtime, or if
///    two processes used different builds of HIP.
/// 3. The first failed check decides, then an exception, then the end of the process, then the requirements that the
///    case has on the output.
/// 4. The program must have reported its end. It must have executed a check, unless the case requires an output or an
///    exit status.
pub fn judge_program(
    seen: &ProgramObservation<'_>,
    context: &ProgramContext<'_>,
) -> (Outcome, Vec<Location>) {
    if let Some(outcome) = nothing_to_judge(seen) {
        return (reached::recheck_skip(seen, context, outcome), Vec::new());
    }
    if let Err(outcome) = proof(seen, context) {
        return (*outcome, Vec::new());
    }
    let red: Vec<Location> =
        seen.messages.iter().filter_map(|said| place_of(said, context)).collect();
    let mut outcome = first_failed_check(seen, context)
        .or_else(|| ended(seen, context))
        .or_else(|| check_output(seen, context))
        .unwrap_or_else(|| final_outcome(seen, context));
    if outcome.kind.is_failure() {
        outcome.details.extend(last_words(seen));
    } else {
        outcome.details.extend(seen.observation.left_behind.iter().map(left::describe));
    }
    let refused = seen.messages.contains(&ProgramMessage::ToldOfFault)
        || red.iter().any(|at| at.api.is_some())
        || stopped_as_required(seen, context);
    let mut outcome = log::attribute_fault(outcome, seen.observation, refused);
    if matches!(outcome.kind, Kind::Crash | Kind::TeardownCrash) {
        outcome.at.api = seen.crash.and_then(Crash::call).map(str::to_owned);
    }
    (outcome, red)
}

/// Returns true if the case requires the text that HIP prints when an `assert` of a kernel fails, for example
/// `Device-side assertion`, and the device reported nothing but kernels that stopped themselves.
fn stopped_as_required(seen: &ProgramObservation<'_>, context: &ProgramContext<'_>) -> bool {
    let says = context.program.stated.says.iter();
    says.map(|text| text.to_lowercase()).any(|text| text.contains("assertion"))
        && log::faults_are_aborts(&seen.observation.stderr)
}

fn nothing_to_judge(seen: &ProgramObservation<'_>) -> Option<Outcome> {
    match &seen.observation.end {
        End::NotStarted(why) => {
            let summary = format!("the program could not be started: {why}");
            return Some(Outcome::no_verdict("not-started", summary));
        }
        End::Lost(why) => {
            return Some(Outcome::no_verdict(
                "lost",
                format!("the program could not be watched to its end: {why}"),
            ));
        }
        End::Exited(127) if phrases::not_started(&seen.observation.stderr).is_some() => {
            let why = phrases::not_started(&seen.observation.stderr).unwrap_or_default();
            let summary = format!("the program could not be started: {why}");
            return Some(Outcome::no_verdict("not-started", summary));
        }
        // If a check failed, it decides, even if a signal from outside ended the process later.
        End::Signalled { signal }
            if !phrases::FAULTS.contains(signal) && !has_failed_check(seen) =>
        {
            let summary = phrases::ended_from_outside("the program", *signal);
            return Some(Outcome::no_verdict("killed", summary));
        }
        _ => {}
    }
    if let Some(own) = log::own_failure(&seen.observation.stderr) {
        return Some(own);
    }
    if has_failed_check(seen) {
        return None;
    }
    if let Some(outcome) = ending::waits_for_disk(seen.observation) {
        return Some(outcome);
    }
    seen.messages.iter().find_map(|said| match said {
        ProgramMessage::Skip { why } => {
            Some(Outcome::new(Kind::Skip, "skip:program".to_owned(), why.clone()))
        }
        _ => None,
    })
}

fn has_failed_check(seen: &ProgramObservation<'_>) -> bool {
    seen.messages.iter().any(|said| matches!(said, ProgramMessage::Check { wrong: Some(_), .. }))
}

/// Verifies that the messages come from the program of this run, and which device and HIP runtime the program used.
/// Returns a `no-verdict` outcome as an error if this is not proven.
fn proof(seen: &ProgramObservation<'_>, context: &ProgramContext<'_>) -> Result<(), Box<Outcome>> {
    let no = |word: &str, summary: String| {
        Err(Box::new(Outcome::no_verdict(word, summary).with(last_words(seen))))
    };
    for said in seen.messages {
        if let ProgramMessage::Begin { nonce, .. } = said
            && nonce != context.nonce
        {
            return no("worker", "the program reported a wrong nonce".to_owned());
        }
    }
    if !seen.messages.is_empty() && !matches!(seen.messages[0], ProgramMessage::Begin { .. }) {
        return no("worker", "the program's first report did not contain its nonce".to_owned());
    }
    let unreached =
        reached::device_bypassed(seen).or_else(|| reached::device_never_initialised(seen));
    if let Some(outcome) = unreached.or_else(|| reached::no_device(seen, context)) {
        return Err(Box::new(outcome.with(last_words(seen))));
    }
    if seen.witnesses.is_empty() {
        let how = how_it_ended(seen);
        return no("device", format!("the program {how} without using the device"));
    }
    for witness in seen.witnesses.iter().filter(|witness| witness.reached) {
        let differs = context.emulated.differences(&witness.identity.config);
        if !differs.is_empty() {
            let all = differs.join(", ");
            return no(
                "device",
                format!("the emulated device is not configured as requested: {all}"),
            );
        }
        let mut below =
            witness.libraries.iter().filter(|l| l.name.starts_with("libhsa-runtime64.so"));
        if let Some(wanted) = context.device_build
            && let Some(other) = below.find(|l| l.build_id.as_deref() != Some(wanted))
        {
            return no("device", other_device(&other.path, other.build_id.as_deref(), wanted));
        }
        // Only a C++ program must use the HIP runtime of the stack, because the stack's compiler built it. Other
        // programs may use HSA without HIP, and Python packages may contain a HIP runtime of their own.
        let own = matches!(context.program.what, ProgramBody::Cpp { .. });
        if let (Some(hip), Some(wanted), true) = (witness.hip(), context.runtime, own)
            && hip.build_id.as_deref() != Some(wanted)
        {
            let spec = context.spec;
            return no("stack", format!("`{}` is not the libamdhip64 of `{spec}`", hip.path));
        }
    }
    Ok(())
}

fn place_of(said: &ProgramMessage, context: &ProgramContext<'_>) -> Option<Location> {
    match said {
        ProgramMessage::Check { name, line, wrong: Some(wrong) } => {
            let api = (wrong.about == CheckSubject::Answer).then(|| name.clone());
            Some(at(context, *line, api))
        }
        ProgramMessage::Exception { line, .. } => Some(at(context, *line, None)),
        _ => None,
    }
}

/// Returns a location in the case for a line of the program. If the program is in a file of its own, the location is
/// the line of the key `program`.
fn at(context: &ProgramContext<'_>, line: u32, api: Option<String>) -> Location {
    let program = context.program;
    let within = program.source().filter(|source| source.file.is_none() && line > 0);
    let line = within.map_or(program.line, |source| source.above + line);
    Location { line: Some(line), api, ..Location::default() }
}

/// Returns the line and the file name of the program, for example ` (line 4 of softmax.py)`; an empty text if the line
/// is unknown.
fn in_file(context: &ProgramContext<'_>, line: u32) -> String {
    let file = context.program.source().and_then(|source| source.file.as_deref());
    match (file, line) {
        (Some(file), 1..) => format!(" (line {line} of {file})"),
        (None, 1..) => match context.program.source() {
            Some(source) => format!(" (line {})", source.above + line),
            None => String::new(),
        },
        _ => String::new(),
    }
}

fn first_failed_check(
    seen: &ProgramObservation<'_>,
    context: &ProgramContext<'_>,
) -> Option<Outcome> {
    let mut failed = seen.messages.iter().filter_map(|said| match said {
        ProgramMessage::Check { name, line, wrong: Some(wrong) } => Some((name, *line, wrong)),
        _ => None,
    });
    if let Some((name, line, wrong)) = failed.next() {
        let kind = wrong.about.kind();
        let signature = format!("{}:{name}:{}", kind.name(), wrong.class);
        let text = format!("{name}{}: {}", in_file(context, line), wrong.text);
        let others: Vec<String> = failed
            .flat_map(|(name, line, wrong)| {
                let text = format!("Also: {name}{}: {}", in_file(context, line), wrong.text);
                [text].into_iter().chain(wrong.details.iter().cloned())
            })
            .collect();
        let api = (wrong.about == CheckSubject::Answer).then(|| name.clone());
        let place = at(context, line, api);
        let outcome = Outcome::new(kind, signature, text).at(place);
        let ended = ended(seen, context).map(|end| format!("Afterwards: {}", end.summary));
        return Some(outcome.with(wrong.details.clone()).with(others).with(ended));
    }
    seen.messages.iter().find_map(|said| {
        let ProgramMessage::Exception { name, text, line, place } = said else { return None };
        let place = match place {
            Some(RaisedAt { file, line, function }) => Some(SourcePlace {
                file: file.clone(),
                line: *line,
                function: function_name(function),
            }),
            None if *line > 0 => {
                Some(SourcePlace { file: own_file(context), line: *line, function: String::new() })
            }
            None => None,
        };
        Some(exception(
            context,
            FailureIdentity::Exception { name: name.clone(), place },
            text,
            *line,
        ))
    })
}

/// Returns the outcome of a program that an exception ended. `line` is a line of the program, or 0 if it is unknown.
fn exception(
    context: &ProgramContext<'_>,
    identity: FailureIdentity,
    text: &str,
    line: u32,
) -> Outcome {
    let name = match &identity {
        FailureIdentity::Exception { name, .. } => name.as_str(),
        _ => "",
    };
    let colon = if text.is_empty() { "" } else { ": " };
    let place = in_file(context, line);
    let summary = format!("the program ended with an exception{place}: {name}{colon}{text}");
    Outcome::new(Kind::ApiError, identity.to_string(), summary).at(at(context, line, None))
}

fn own_file(context: &ProgramContext<'_>) -> String {
    let file = context.program.source().and_then(|source| source.file.clone());
    let cpp = matches!(context.program.what, ProgramBody::Cpp { .. });
    file.unwrap_or_else(|| if cpp { "program.cpp" } else { "program.py" }.to_owned())
}

/// Returns true if the first process of the program reported its end. Reports by child processes do not count.
fn is_done(seen: &ProgramObservation<'_>) -> bool {
    done_at(seen).is_some()
}

/// Returns the index of the message with which the first process of the program reported its end.
fn done_at(seen: &ProgramObservation<'_>) -> Option<usize> {
    let first = seen.messages.iter().find_map(|said| match said {
        ProgramMessage::Begin { pid, .. } => Some(*pid),
        _ => None,
    });
    let done =
        |said: &ProgramMessage| matches!(said, ProgramMessage::Done { pid } if Some(*pid) == first);
    seen.messages.iter().position(done)
}

/// Returns true if a check was reported after the first process of the program had reported its end.
fn checks_after_done(seen: &ProgramObservation<'_>) -> bool {
    let after = done_at(seen).map_or(&[][..], |at| &seen.messages[at..]);
    after.iter().any(|said| matches!(said, ProgramMessage::Check { .. }))
}

/// Returns the outcome of a program that ended abnormally; `None` if it ended normally.
fn ended(seen: &ProgramObservation<'_>, context: &ProgramContext<'_>) -> Option<Outcome> {
    let phase = phase(seen);
    let done = is_done(seen);
    let how = how_it_ended(seen);
    let wanted = context.program.stated.exit.unwrap_or(0);
    let outcome = match seen.observation.end {
        End::Exited(status) if status == wanted => {
            return left_behind(seen).or_else(|| {
                let early = context.program.reports() && !done;
                early.then(|| {
                    let child = seen.messages.iter().any(|said| matches!(said, ProgramMessage::Done { .. }));
                    let child = if child { " (one of its child processes did)" } else { "" };
                    let summary = format!(
                        "the program {how} in phase {phase}, before it reported that it had finished{child}"
                    );
                    Outcome::new(Kind::LibraryExit, format!("library-exit:{phase}"), summary)
                        .at(at(context, 0, None))
                })
            });
        }
        End::TimedOut { .. } | End::CouldNotBeKilled => {
            let phase = if done { "teardown" } else { &phase };
            Outcome::new(
                Kind::Hang,
                format!("hang:{phase}"),
                format!("the program {how} in phase {phase}"),
            )
        }
        // A process that exits by itself did not crash, whatever its status is.
        End::Exited(status) => {
            let stderr = &seen.observation.stderr;
            let identity = FailureIdentity::of_exit(status, stderr, seen.stdout);
            if let (FailureIdentity::Exception { place, .. }, Some(raised)) =
                (&identity, crate::identity::python_exception(stderr))
            {
                let own = place.as_ref().filter(|place| place.file == own_file(context));
                let line = own.map_or(0, |place| place.line);
                return Some(exception(context, identity, &raised.text, line));
            }
            let said = if done { "reported its end and " } else { "" };
            let bare = match identity.is_bare_exit() {
                true => ", and printed nothing that identifies the failure",
                false => "",
            };
            let summary = format!("the program {said}{how} instead of {wanted}{bare}");
            // Shells exit with 128 plus the number of the signal that ended their last command.
            let child = seen.crash.filter(|crash| status == 128 + crash.signal);
            let child = child.map(|crash| format!("Process {}: {}", crash.pid, crash.sentence()));
            Outcome::new(Kind::ApiError, identity.to_string(), summary).with(child)
        }
        End::Signalled { signal } => crash::outcome(seen, signal, &phase, done),
        // For these two ways of ending, `nothing_to_judge` has already returned an outcome.
        End::NotStarted(_) | End::Lost(_) => return None,
    };
    Some(outcome.at(at(context, 0, None)))
}

/// Returns a failure if the program left processes running that are not workers of a framework.
fn left_behind(seen: &ProgramObservation<'_>) -> Option<Outcome> {
    let left = &seen.observation.left_behind;
    let others = left.iter().filter(|process| left::worker(process).is_none()).count();
    (others > 0).then(|| {
        Outcome::new(
            Kind::Leak,
            "leak:process".to_owned(),
            format!("the program left {} running", left::counted(others)),
        )
        .with(left.iter().map(left::describe))
    })
}

/// Returns a failure if a required text is missing from the output, or if the output contains a forbidden text.
fn check_output(seen: &ProgramObservation<'_>, context: &ProgramContext<'_>) -> Option<Outcome> {
    let stated = &context.program.stated;
    let has =
        |text: &&String| seen.stdout.contains(*text) || seen.observation.stderr.contains(*text);
    let missing = stated.says.iter().find(|text| !has(text));
    let there = stated.never.iter().find(has);
    let (class, summary) = match (missing, there) {
        (Some(text), _) => ("missing", format!("the output does not contain `{text}`")),
        (None, Some(text)) => {
            ("forbidden", format!("the output contains the forbidden text `{text}`"))
        }
        (None, None) => return None,
    };
    let signature = format!("wrong-data:output:{class}");
    Some(Outcome::new(Kind::WrongData, signature, summary).at(at(context, 0, None)))
}

fn final_outcome(seen: &ProgramObservation<'_>, context: &ProgramContext<'_>) -> Outcome {
    let checks =
        seen.messages.iter().filter(|said| matches!(said, ProgramMessage::Check { .. })).count();
    if checks_after_done(seen) {
        let why = "the program made a check after `done`, which must be its last call, so further checks may be \
                   missing";
        return Outcome::no_verdict("done-early", why.to_owned());
    }
    match (checks, context.program.stated.is_empty()) {
        (0, true) => Outcome::no_verdict(
            "no-check",
            "the program reached its end but made no check, so it proves nothing".to_owned(),
        ),
        (0, false) => Outcome {
            summary: "the program ended with the required output".to_owned(),
            ..Outcome::pass()
        },
        (n, _) => Outcome {
            summary: format!(
                "{} passed, and the program reached its end",
                phrases::count(n, "check")
            ),
            ..Outcome::pass()
        },
    }
}

/// Returns the last phase that the program reported; `program` if the program reported no phase.
fn phase(seen: &ProgramObservation<'_>) -> String {
    let names = seen.messages.iter().rev();
    let mut names = names.filter_map(|said| match said {
        ProgramMessage::Phase { name } => Some(name.clone()),
        _ => None,
    });
    names.next().unwrap_or_else(|| "program".to_owned())
}

fn how_it_ended(seen: &ProgramObservation<'_>) -> String {
    let wall = seen.observation.wall.as_secs_f64();
    match &seen.observation.end {
        End::Exited(status) => format!("ended with exit status {status}"),
        End::Signalled { signal } => format!("was killed by {}", phrases::signal(*signal)),
        End::TimedOut { limit: Limit::Quiet } => {
            format!("hung and was killed after making no progress ({wall:.1} s in total)")
        }
        End::TimedOut { limit: Limit::Total } => {
            format!("hung and was killed at the time limit ({wall:.1} s)")
        }
        End::CouldNotBeKilled => format!("hung and could not be killed ({wall:.1} s in total)"),
        End::NotStarted(why) | End::Lost(why) => why.clone(),
    }
}

fn last_words(seen: &ProgramObservation<'_>) -> Vec<String> {
    let line = |about: &str, last: Option<String>| {
        last.map(|line| format!("Last line on standard {about}: {line}"))
    };
    let error = phrases::last_line_but_warnings(&seen.observation.stderr);
    [line("error", error), line("output", phrases::last_line(seen.stdout))]
        .into_iter()
        .flatten()
        .collect()
}
