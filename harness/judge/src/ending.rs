//! Judges how the worker process ended, depending on how much of its plan it had executed.

use plan::{PIPE_CLOSED, Phase, WORKER_DONE, WORKER_ORPHANED};

use crate::{
    End, Kind, Limit, Location, Observation, Outcome, index::Index, left, phrases, proof::ended,
    trail::Trail,
};

/// Returns the outcome of a worker process that ended abnormally. Returns `None` if the process ended normally, or as a
/// worker does after a failed call has stopped the trial. `launched` is true if a launcher started the worker.
pub(crate) fn ending(
    seen: &Observation,
    launched: bool,
    trail: &Trail,
    index: &Index<'_>,
) -> Option<Outcome> {
    if let Some(own) = external_end(seen) {
        return Some(own);
    }
    if trail.stopped && trail.open.is_empty() && seen.end == End::Exited(WORKER_DONE) {
        return None;
    }
    let site = Site::new(trail, index);
    if seen.end == End::Exited(PIPE_CLOSED) {
        let signature = format!("library-exit:{}", site.name);
        let summary = format!("a library closed the event pipe of the worker, {}", site.text);
        let closed = Outcome::new(Kind::LibraryExit, signature, summary);
        return Some(closed.at(site.at).with(site.others).with(last_words(seen)));
    }
    if trail.done {
        if seen.end == End::Exited(WORKER_DONE)
            && trail.said_bye
            && launched
            && !seen.left_behind.is_empty()
        {
            let summary = "the launcher or the worker left a process running".to_owned();
            return Some(Outcome::no_verdict("launcher", summary));
        }
        return teardown(seen, trail, site);
    }
    let outcome = match &seen.end {
        End::Exited(status) => Outcome::new(
            Kind::LibraryExit,
            format!("library-exit:{}", site.name),
            format!("the process exited with status {status} {}", site.text),
        ),
        End::Signalled { signal } => Outcome::new(
            Kind::Crash,
            format!("crash:{}", site.name),
            format!("the process was killed by {} {}", phrases::signal(*signal), site.text),
        ),
        End::TimedOut { .. } | End::CouldNotBeKilled => Outcome::new(
            Kind::Hang,
            format!("hang:{}", site.name),
            format!("the process hung {}{}", site.text, how_long(seen)),
        ),
        End::NotStarted(why) | End::Lost(why) => Outcome::no_verdict("lost", why.clone()),
    };
    Some(outcome.at(site.at).with(site.others).with(last_words(seen)))
}

/// Returns a `no-verdict` outcome if something other than the stack ended the process, for example a user's Ctrl-C.
fn external_end(seen: &Observation) -> Option<Outcome> {
    match &seen.end {
        // A bug in the process raises one of `FAULTS`. Every other signal was sent by a person, at the end of a login
        // session, or by the Linux kernel because of memory, processor time or file size.
        End::Signalled { signal } if !phrases::FAULTS.contains(signal) => {
            Some(Outcome::no_verdict("killed", phrases::ended_from_outside("the worker", *signal)))
        }
        End::TimedOut { .. } | End::CouldNotBeKilled => waits_for_disk(seen),
        // The harness keeps the worker's pipes open while it waits for the worker, so a launcher must have closed them.
        End::Exited(WORKER_ORPHANED) => Some(Outcome::no_verdict(
            "left-alone",
            "the worker ended because another process closed its standard input or output"
                .to_owned(),
        )),
        _ => None,
    }
}

/// Functions of the Linux kernel in which a process waits for a page of a file, or for one that was swapped out.
const DISK_WAITS: [&str; 3] = ["folio_wait_bit", "folio_lock", "io_schedule"];

/// Returns a `no-verdict` outcome if the harness stopped waiting for a process that was itself waiting for a disk of
/// the machine.
pub(crate) fn waits_for_disk(seen: &Observation) -> Option<Outcome> {
    let waits = |line: &String| {
        DISK_WAITS.iter().any(|function| line.contains(&format!("the kernel's {function}")))
            && line.contains("ignores signals")
    };
    let thread = seen.stacks.iter().find(|line| waits(line))?.trim().to_owned();
    let summary =
        "the harness gave up on a process that waited for a disk of this machine".to_owned();
    Some(Outcome::no_verdict("machine", summary).with([thread]))
}

fn teardown(seen: &Observation, trail: &Trail, site: Site) -> Option<Outcome> {
    let text = if site.in_call { site.text } else { "after the teardown".to_owned() };
    let outcome = match &seen.end {
        End::Exited(WORKER_DONE) if trail.said_bye && seen.left_behind.is_empty() => return None,
        End::Exited(WORKER_DONE) if trail.said_bye => Outcome::new(
            Kind::Leak,
            "leak:process".to_owned(),
            format!("the worker left {} running", left::counted(seen.left_behind.len())),
        )
        .with(seen.left_behind.iter().map(left::describe)),
        End::TimedOut { .. } | End::CouldNotBeKilled => Outcome::new(
            Kind::Hang,
            "hang:teardown".to_owned(),
            format!("the trial had finished, but the process hung {text}{}", how_long(seen)),
        ),
        end => Outcome::new(
            Kind::TeardownCrash,
            "teardown-crash".to_owned(),
            format!("the trial had finished, but the process then failed {text}: {}", ended(end)),
        ),
    };
    Some(outcome.at(site.at).with(site.others).with(last_words(seen)))
}

/// Position in the plan at which the worker process ended.
struct Site {
    /// Name in the signature: the called function, or the phase if the process was between two calls.
    name: String,
    /// Description of the position for a message, for example `in hipMalloc (line 3)`.
    text: String,
    at: Location,
    in_call: bool,
    /// Sentence about the calls in which other threads were; `None` if no other thread was in a call.
    others: Option<String>,
}

impl Site {
    fn new(trail: &Trail, index: &Index<'_>) -> Self {
        let Some((&(step, occurrence), rest)) = trail.open.split_last() else {
            return Site {
                name: trail.phase.to_string(),
                text: between_steps(trail.phase),
                at: Location::phase(trail.phase),
                in_call: false,
                others: None,
            };
        };
        let call = |(s, o): (u32, u32)| format!("{}{}", index.api(s), index.place(s, o));
        let others: Vec<String> = rest.iter().map(|&open| call(open)).collect();
        Site {
            name: index.api(step).to_owned(),
            text: format!("in {}", call((step, occurrence))),
            at: index.location(step, occurrence),
            in_call: true,
            others: (!others.is_empty())
                .then(|| format!("Other threads were in {}.", others.join(", "))),
        }
    }
}

fn between_steps(phase: Phase) -> String {
    match phase {
        Phase::Start => "before it loaded a library".to_owned(),
        Phase::Load => "while it loaded the libraries".to_owned(),
        // In this phase, the worker calls hipInit and queries the devices.
        Phase::Init => "while it initialised HIP and queried the devices".to_owned(),
        phase => format!("between two calls, in phase {phase}"),
    }
}

fn how_long(seen: &Observation) -> String {
    let wall = seen.wall.as_secs_f64();
    match &seen.end {
        End::TimedOut { limit: Limit::Quiet } => {
            format!(" and was killed after making no progress ({wall:.1} s in total)")
        }
        End::CouldNotBeKilled => format!(" and could not be killed ({wall:.1} s in total)"),
        _ => format!(" and was killed at the time limit ({wall:.1} s)"),
    }
}

fn last_words(seen: &Observation) -> Option<String> {
    let last = phrases::last_line_but_warnings(&seen.stderr);
    last.map(|line| format!("Last line on standard error: {line}"))
}
