//! What a trial says whose body is a program, and what that means.
//!
//! A program answers for itself: it says what it checks, and that it came to its end. Who it ran on, the device says.

mod reached;

use device::{Config, Witness};
use plan::{Event, LoadedLibrary, Program, program::ProgramBody};
use serde::{Deserialize, Serialize};

use crate::identity::function as function_name;
use crate::proof::other_device;
use crate::{
    End, FailureIdentity, Kind, Limit, Location, Observation, Outcome, SourcePlace, log, words,
};

pub use self::reached::brought;

/// The signature of a program that checked nothing.
pub const NO_CHECK: &str = "no-verdict:no-check";

/// What a program says by the helper that it is given, one line of JSON each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Said {
    /// The first line.
    Begin {
        /// The nonce that it was given.
        nonce: String,
        /// What runs it, such as `Python 3.11.7`.
        runs_on: String,
        /// The process that says it. A child says it again.
        #[serde(default)]
        pid: u32,
    },
    /// What comes next; crashes and hangs are named after it.
    Phase {
        /// Its name.
        name: String,
    },
    /// Something was compared.
    Check {
        /// Its name.
        name: String,
        /// Line of the program.
        line: u32,
        /// What is wrong; none where it is as it must be.
        #[serde(default)]
        wrong: Option<Wrong>,
    },
    /// An exception that nobody caught.
    Exception {
        /// Its type.
        name: String,
        /// What it says.
        text: String,
        /// Line of the program.
        line: u32,
        /// The innermost place in a file of the user's; an earlier version of the helper does not say it.
        #[serde(default)]
        place: Option<RaisedAt>,
    },
    /// Something that it needs is not there.
    Skip {
        /// What, and what would make it run.
        why: String,
    },
    /// A function told it of a fault of the device, which the case is about.
    ToldOfFault,
    /// It came to its end.
    Done {
        /// The process that did.
        #[serde(default)]
        pid: u32,
    },
}

/// The place of an exception, as the helper reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaisedAt {
    /// The name of the file, without its folder.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The function.
    pub function: String,
}

/// What is wrong with something that a program compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrong {
    /// What is wrong.
    pub about: About,
    /// For the signature: `zero`, `stale`, `hipErrorInvalidValue`, ...
    pub class: String,
    /// For people.
    pub text: String,
    /// What was got, and what would be right.
    #[serde(default)]
    pub details: Vec<String>,
}

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// Values.
    Data,
    /// What a function answers.
    Answer,
    /// What was not given back.
    Leak,
}

impl About {
    fn kind(self) -> Kind {
        match self {
            About::Data => Kind::WrongData,
            About::Answer => Kind::ApiError,
            About::Leak => Kind::Leak,
        }
    }
}

/// Everything that was seen of a program.
pub struct ProgramSeen<'a> {
    /// What it said, in order.
    pub said: &'a [Said],
    /// What the device said of the processes that used it.
    pub witnesses: &'a [Witness],
    /// What it wrote on standard output.
    pub stdout: &'a str,
    /// How it ended and what it wrote on standard error.
    pub observation: &'a Observation,
}

/// What it was meant to be.
pub struct ProgramContext<'a> {
    /// The program.
    pub program: &'a Program,
    /// The nonce that it was given.
    pub nonce: &'a str,
    /// What the emulated device was told to be.
    pub emulated: &'a Config,
    /// The build id of the stack's libamdhip64, where it has one.
    pub runtime: Option<&'a str>,
    /// The build id of the emulated device's library, where it has one.
    pub device_build: Option<&'a str>,
    /// How the user names the stack.
    pub spec: &'a str,
}

/// What happened in a trial whose body is a program, and every place that was red, the first one first.
///
/// The rules, in order:
/// 1. A gap of the device, a program that was not started or given up, and one that says that something is missing: no verdict or a skip.
/// 2. No process reached the device, or one of them may have called another one, or ran on another HIP than the others: no verdict.
/// 3. The first check that is wrong decides, then an exception, then how the process ended, then what it had to say.
/// 4. It must have said that it came to its end, and have checked something or have something stated.
pub fn judge_program(
    seen: &ProgramSeen<'_>,
    context: &ProgramContext<'_>,
) -> (Outcome, Vec<Location>) {
    if let Some(outcome) = nothing_to_judge(seen) {
        return (reached::instead_of_skip(seen, context, outcome), Vec::new());
    }
    if let Err(outcome) = proof(seen, context) {
        return (*outcome, Vec::new());
    }
    let red: Vec<Location> = seen.said.iter().filter_map(|said| place_of(said, context)).collect();
    let mut outcome = first_wrong(seen, context)
        .or_else(|| ended(seen, context))
        .or_else(|| unsaid(seen, context))
        .unwrap_or_else(|| proves(seen, context));
    if outcome.kind.is_failure() {
        outcome.details.extend(last_words(seen));
    }
    let refused = seen.said.contains(&Said::ToldOfFault) || red.iter().any(|at| at.api.is_some());
    (log::attribute_fault(outcome, seen.observation, refused), red)
}

fn nothing_to_judge(seen: &ProgramSeen<'_>) -> Option<Outcome> {
    match &seen.observation.end {
        End::NotStarted(why) => {
            let summary = format!("the program could not be started: {why}");
            return Some(Outcome::no_verdict("not-started", summary));
        }
        End::Lost(why) => {
            return Some(Outcome::no_verdict("lost", format!("the program was given up: {why}")));
        }
        End::Exited(127) if words::not_started(&seen.observation.stderr).is_some() => {
            let why = words::not_started(&seen.observation.stderr).unwrap_or_default();
            let summary = format!("the program could not be started: {why}");
            return Some(Outcome::no_verdict("not-started", summary));
        }
        // What was wrong before is wrong whoever ended it.
        End::Signalled { signal } if !words::FAULTS.contains(signal) && !found_wrong(seen) => {
            let summary = words::ended_from_outside("the program", *signal);
            return Some(Outcome::no_verdict("killed", summary));
        }
        _ => {}
    }
    if let Some(own) = log::own_failure(&seen.observation.stderr) {
        return Some(own);
    }
    if found_wrong(seen) {
        return None;
    }
    seen.said.iter().find_map(|said| match said {
        Said::Skip { why } => {
            Some(Outcome::new(Kind::Skip, "skip:program".to_owned(), why.clone()))
        }
        _ => None,
    })
}

/// Whether a check was wrong.
fn found_wrong(seen: &ProgramSeen<'_>) -> bool {
    seen.said.iter().any(|said| matches!(said, Said::Check { wrong: Some(_), .. }))
}

/// Who answered, on which device, by which runtime.
fn proof(seen: &ProgramSeen<'_>, context: &ProgramContext<'_>) -> Result<(), Box<Outcome>> {
    let no = |word: &str, summary: String| {
        Err(Box::new(Outcome::no_verdict(word, summary).with(last_words(seen))))
    };
    for said in seen.said {
        if let Said::Begin { nonce, .. } = said
            && nonce != context.nonce
        {
            return no("worker", "the program answered with another nonce".to_owned());
        }
    }
    if !seen.said.is_empty() && !matches!(seen.said[0], Said::Begin { .. }) {
        return no("worker", "the program did not begin by answering with its nonce".to_owned());
    }
    if let Some(outcome) = reached::astray(seen).or_else(|| reached::never(seen)) {
        return Err(Box::new(outcome.with(last_words(seen))));
    }
    if seen.witnesses.is_empty() {
        let how = how_it_ended(seen);
        return no("device", format!("the program {how} and never used the device"));
    }
    for witness in seen.witnesses.iter().filter(|witness| witness.reached) {
        let differs = context.emulated.differences(&witness.identity.config);
        if !differs.is_empty() {
            let all = differs.join(", ");
            return no(
                "device",
                format!("the emulated device is not set up as it was told: {all}"),
            );
        }
        let mut below =
            witness.libraries.iter().filter(|l| l.name.starts_with("libhsa-runtime64.so"));
        if let Some(wanted) = context.device_build
            && let Some(other) = below.find(|l| l.build_id.as_deref() != Some(wanted))
        {
            return no("device", other_device(&other.path, other.build_id.as_deref(), wanted));
        }
        // A program may use HSA without HIP, and packages for Python and programs of the user's may bring HIP themselves. A program
        // that the stack's compiler made does neither.
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

fn place_of(said: &Said, context: &ProgramContext<'_>) -> Option<Location> {
    match said {
        Said::Check { name, line, wrong: Some(wrong) } => {
            let api = (wrong.about == About::Answer).then(|| name.clone());
            Some(at(context, *line, api))
        }
        Said::Exception { line, .. } => Some(at(context, *line, None)),
        _ => None,
    }
}

/// A place in the case: the line of the program where that stands in the case, else the line of `program`.
fn at(context: &ProgramContext<'_>, line: u32, api: Option<String>) -> Location {
    let program = context.program;
    let within = program.source().filter(|source| source.file.is_none() && line > 0);
    let line = within.map_or(program.line, |source| source.above + line);
    Location { line: Some(line), api, ..Location::default() }
}

/// ` (line 4 of softmax.py)`, where the line is one of a file.
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

fn first_wrong(seen: &ProgramSeen<'_>, context: &ProgramContext<'_>) -> Option<Outcome> {
    let mut failed = seen.said.iter().filter_map(|said| match said {
        Said::Check { name, line, wrong: Some(wrong) } => Some((name, *line, wrong)),
        _ => None,
    });
    if let Some((name, line, wrong)) = failed.next() {
        let kind = wrong.about.kind();
        let signature = format!("{}:{name}:{}", kind.name(), wrong.class);
        let text = format!("{name}{}: {}", in_file(context, line), wrong.text);
        let others: Vec<String> = failed
            .map(|(name, line, wrong)| {
                format!("Also: {name}{}: {}", in_file(context, line), wrong.text)
            })
            .collect();
        let api = (wrong.about == About::Answer).then(|| name.clone());
        let place = at(context, line, api);
        let outcome = Outcome::new(kind, signature, text).at(place);
        let ended = ended(seen, context).map(|end| format!("Afterwards: {}", end.summary));
        return Some(outcome.with(wrong.details.clone()).with(others).with(ended));
    }
    seen.said.iter().find_map(|said| {
        let Said::Exception { name, text, line, place } = said else { return None };
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

/// The program ended by an exception; `line` is one of the program itself, or 0.
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
    let summary = format!("the program ended by an exception{place}: {name}{colon}{text}");
    Outcome::new(Kind::ApiError, identity.to_string(), summary).at(at(context, line, None))
}

/// The name of the file that the program itself is in.
fn own_file(context: &ProgramContext<'_>) -> String {
    let file = context.program.source().and_then(|source| source.file.clone());
    let cpp = matches!(context.program.what, ProgramBody::Cpp { .. });
    file.unwrap_or_else(|| if cpp { "program.cpp" } else { "program.py" }.to_owned())
}

/// Whether the process that began said that it came to its end; a child that imports the same module says so for itself alone.
fn is_done(seen: &ProgramSeen<'_>) -> bool {
    done_at(seen).is_some()
}

/// Where among all that was said it said so first.
fn done_at(seen: &ProgramSeen<'_>) -> Option<usize> {
    let first = seen.said.iter().find_map(|said| match said {
        Said::Begin { pid, .. } => Some(*pid),
        _ => None,
    });
    let done = |said: &Said| matches!(said, Said::Done { pid } if Some(*pid) == first);
    seen.said.iter().position(done)
}

/// Whether something was checked after these last words.
fn checks_after_done(seen: &ProgramSeen<'_>) -> bool {
    let after = done_at(seen).map_or(&[][..], |at| &seen.said[at..]);
    after.iter().any(|said| matches!(said, Said::Check { .. }))
}

/// None where the process ended as it should.
fn ended(seen: &ProgramSeen<'_>, context: &ProgramContext<'_>) -> Option<Outcome> {
    let phase = phase(seen);
    let done = is_done(seen);
    let how = how_it_ended(seen);
    let wanted = context.program.stated.exit.unwrap_or(0);
    let outcome = match seen.observation.end {
        End::Exited(status) if status == wanted => {
            return left_behind(seen).or_else(|| {
                let early = context.program.reports() && !done;
                early.then(|| {
                    let child = seen.said.iter().any(|said| matches!(said, Said::Done { .. }));
                    let child = if child { " (one of its children did)" } else { "" };
                    let summary = format!(
                        "the program {how} in phase {phase}, before it said that it was done{child}"
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
        // Whoever chooses a status does not crash.
        End::Exited(status) => {
            let stderr = &seen.observation.stderr;
            let identity = FailureIdentity::of_exit(status, stderr, seen.stdout);
            if let (FailureIdentity::Exception { place, .. }, Some(raised)) =
                (&identity, crate::identity::raised(stderr))
            {
                let own = place.as_ref().filter(|place| place.file == own_file(context));
                let line = own.map_or(0, |place| place.line);
                return Some(exception(context, identity, &raised.text, line));
            }
            let said = if done { "said that it was done, and " } else { "" };
            let bare = match identity.is_bare_exit() {
                true => ", and said nothing by which the failure could be recognised",
                false => "",
            };
            let summary = format!("the program {said}{how} instead of {wanted}{bare}");
            Outcome::new(Kind::ApiError, identity.to_string(), summary)
        }
        End::Signalled { .. } if done => {
            let summary = format!("the program said that it was done, and {how}");
            Outcome::new(Kind::TeardownCrash, "teardown-crash".to_owned(), summary)
        }
        End::Signalled { signal } => Outcome::new(
            Kind::Crash,
            FailureIdentity::of_signal(&phase, signal, &seen.observation.stderr).to_string(),
            format!("the program {how} in phase {phase}"),
        ),
        // Nothing of these is judged.
        End::NotStarted(_) | End::Lost(_) => return None,
    };
    Some(outcome.at(at(context, 0, None)))
}

fn left_behind(seen: &ProgramSeen<'_>) -> Option<Outcome> {
    (seen.observation.left_behind > 0).then(|| {
        let n = seen.observation.left_behind as usize;
        let some = if n == 1 { "a process".to_owned() } else { format!("{n} processes") };
        Outcome::new(
            Kind::Leak,
            "leak:process".to_owned(),
            format!("the program left {some} behind"),
        )
    })
}

/// What its output had to say, and does not, or says and may not.
fn unsaid(seen: &ProgramSeen<'_>, context: &ProgramContext<'_>) -> Option<Outcome> {
    let stated = &context.program.stated;
    let has =
        |text: &&String| seen.stdout.contains(*text) || seen.observation.stderr.contains(*text);
    let missing = stated.says.iter().find(|text| !has(text));
    let there = stated.never.iter().find(has);
    let (class, summary) = match (missing, there) {
        (Some(text), _) => ("missing", format!("its output does not have `{text}`")),
        (None, Some(text)) => {
            ("forbidden", format!("its output has `{text}`, which it must not have"))
        }
        (None, None) => return None,
    };
    let signature = format!("wrong-data:output:{class}");
    Some(Outcome::new(Kind::WrongData, signature, summary).at(at(context, 0, None)))
}

fn proves(seen: &ProgramSeen<'_>, context: &ProgramContext<'_>) -> Outcome {
    let checks = seen.said.iter().filter(|said| matches!(said, Said::Check { .. })).count();
    if checks_after_done(seen) {
        let why = "the program checked something after `done`, which must be its last call: nobody knows what else it had to \
                   check";
        return Outcome::no_verdict("done-early", why.to_owned());
    }
    match (checks, context.program.stated.is_empty()) {
        (0, true) => Outcome::no_verdict(
            "no-check",
            "the program came to its end and checked nothing, which proves nothing".to_owned(),
        ),
        (0, false) => Outcome {
            summary: "the program ended and said what it must".to_owned(),
            ..Outcome::pass()
        },
        (n, _) => Outcome {
            summary: format!(
                "{} of the program held, and it came to its end",
                words::count(n, "check")
            ),
            ..Outcome::pass()
        },
    }
}

/// The phase that it said last, as a word.
fn phase(seen: &ProgramSeen<'_>) -> String {
    let names = seen.said.iter().rev();
    let mut names = names.filter_map(|said| match said {
        Said::Phase { name } => Some(name.clone()),
        _ => None,
    });
    names.next().unwrap_or_else(|| "program".to_owned())
}

fn how_it_ended(seen: &ProgramSeen<'_>) -> String {
    let wall = seen.observation.wall.as_secs_f64();
    match &seen.observation.end {
        End::Exited(status) => format!("ended with exit status {status}"),
        End::Signalled { signal } => format!("died of {}", words::signal(*signal)),
        End::TimedOut { limit: Limit::Quiet } => {
            format!("hung and was killed after a long silence ({wall:.1} s in all)")
        }
        End::TimedOut { limit: Limit::Total } => {
            format!("hung and was killed at the time limit ({wall:.1} s)")
        }
        End::CouldNotBeKilled => format!("hung and could not even be killed ({wall:.1} s in all)"),
        End::NotStarted(why) | End::Lost(why) => why.clone(),
    }
}

fn last_words(seen: &ProgramSeen<'_>) -> Vec<String> {
    let line = |about: &str, text: &str| {
        words::last_line(text).map(|line| format!("Last line on standard {about}: {line}"))
    };
    [line("error", &seen.observation.stderr), line("output", seen.stdout)]
        .into_iter()
        .flatten()
        .collect()
}

/// What the device says of a program, as a worker would say it, for records.
pub fn told_of_device(witnesses: &[Witness]) -> Vec<Event> {
    let Some(first) = witnesses.iter().find(|witness| witness.reached) else { return Vec::new() };
    let libraries = first.libraries.iter().map(|library| LoadedLibrary {
        name: library.name.clone(),
        path: library.path.clone(),
        build_id: library.build_id.clone(),
    });
    let config = &first.identity.config;
    vec![
        Event::Loaded { libraries: libraries.collect() },
        Event::Device {
            hip_runtime: 0,
            count: i32::try_from(config.devices).unwrap_or(i32::MAX),
            name: String::new(),
            gfx: config.arch.name().to_owned(),
            memory: config.memory,
            bdf: String::new(),
            nodes: Vec::new(),
            refused: None,
            emulated: Some(first.identity.clone()),
        },
    ]
}
