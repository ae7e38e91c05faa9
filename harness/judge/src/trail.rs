//! Processes the events of a worker in order, and finds the first deviation from the plan.

use std::collections::{HashMap, HashSet};

use plan::{Call, Choice, Event, FirstValueCheck, Phase, Version};

use crate::{
    Context, Kind, Location, Observation, Outcome, data,
    data::BufferRead,
    expect,
    index::Index,
    phrases::{self, EXPECTED},
};

/// Summary of all events that one worker sent.
pub(crate) struct Trail {
    pub(crate) deviation: Option<Outcome>,
    /// Locations of all steps whose results deviated from the plan, the first deviation included.
    pub(crate) deviating_steps: Vec<Location>,
    /// Remarks that do not affect the verdict.
    pub(crate) notes: Vec<String>,
    pub(crate) phase: Phase,
    /// Calls that have begun and not returned, as step id and occurrence. With several threads there can be more than
    /// one.
    pub(crate) open: Vec<(u32, u32)>,
    /// True if all phases before the teardown have completed.
    pub(crate) done: bool,
    pub(crate) said_bye: bool,
    /// True if the worker reported that a failed call ended the plan early.
    pub(crate) stopped: bool,
    /// Checks whose bytes were reported, as step id and occurrence.
    pub(crate) read: HashSet<(u32, u32)>,
    /// True if any call returned a status other than success, even if the case expects that status.
    pub(crate) refused: bool,
}

pub(crate) fn walk(
    seen: &Observation,
    context: &Context<'_>,
    index: &Index<'_>,
    version: &Version,
) -> Trail {
    let mut walker = Walker {
        context,
        index,
        version,
        wanted: context.wanted.iter().map(|(s, o, d)| ((*s, *o), d.as_str())).collect(),
        first_of_pair: HashMap::new(),
        free_at_first: None,
        time_at_first: None,
        trail: Trail {
            deviation: None,
            deviating_steps: Vec::new(),
            notes: Vec::new(),
            phase: Phase::Start,
            open: Vec::new(),
            done: false,
            said_bye: false,
            stopped: false,
            read: HashSet::new(),
            refused: false,
        },
        entered: None,
        begun: HashSet::new(),
    };
    for event in &seen.events {
        walker.event(event);
    }
    walker.trail
}

struct Walker<'a> {
    context: &'a Context<'a>,
    index: &'a Index<'a>,
    version: &'a Version,
    wanted: HashMap<(u32, u32), &'a str>,
    /// Comparisons of two buffers of which only the first one has been reported so far: the bytes of that buffer, by
    /// step id and occurrence.
    first_of_pair: HashMap<(u32, u32), BufferRead<'a>>,
    /// Number of free bytes that the first hipMemGetInfo of the trial returned.
    free_at_first: Option<i128>,
    /// First measured time, in microseconds, for which the case requires later times to be `steady`.
    time_at_first: Option<i128>,
    trail: Trail,
    /// Last phase that the worker reported.
    entered: Option<Phase>,
    begun: HashSet<(u32, u32)>,
}

struct CallResult<'a> {
    code: i32,
    status: &'a str,
    value: Option<&'a str>,
}

impl<'a> Walker<'a> {
    fn event(&mut self, event: &'a Event) {
        if self.trail.said_bye && !matches!(event, Event::Loaded { .. }) {
            self.deviate(Some(executed_twice()));
        }
        match event {
            Event::Phase { phase } => {
                if self.entered.is_some_and(|entered| entered >= *phase) {
                    self.deviate(Some(executed_twice()));
                }
                self.entered = Some(*phase);
                self.trail.phase = *phase;
            }
            Event::Begin { step, occurrence } => self.begin(*step, *occurrence),
            Event::End { step, occurrence, code, status, value, function, .. } => {
                self.trail.open.retain(|open| *open != (*step, *occurrence));
                self.trail.refused |= *code != 0;
                let ended = CallResult { code: *code, status, value: value.as_deref() };
                let found = self.end(*step, *occurrence, function.as_deref(), &ended);
                self.deviate(found);
            }
            Event::Data { step, occurrence, buffer, bytes, digest, file } => {
                self.trail.read.insert((*step, *occurrence));
                let read = BufferRead { buffer, bytes: *bytes, digest, file: file.as_deref() };
                let found = self.data(*step, *occurrence, read);
                self.deviate(found);
            }
            Event::Stopped { step } => {
                self.trail.stopped = true;
                let api = self.index.api(*step);
                self.deviate(Some(Outcome::no_verdict(
                    "worker",
                    format!("the worker stopped at {api} for an unknown reason"),
                )));
            }
            Event::Done if self.trail.done => self.deviate(Some(executed_twice())),
            Event::Done => {
                if !self.trail.open.is_empty()
                    || self.entered.is_some_and(|entered| entered != Phase::Verify)
                {
                    self.deviate(Some(event_too_early("that it was done")));
                }
                self.trail.done = true;
                self.trail.phase = Phase::Teardown;
            }
            Event::Bye => self.trail.said_bye = true,
            // If a library or function was missing, `proof` has already judged the run.
            Event::Hello { .. }
            | Event::Confined { .. }
            | Event::Missing { .. }
            | Event::Broken { .. }
            | Event::Mistaken { .. }
            | Event::Delayed { .. }
            | Event::Ended { .. }
            | Event::Loaded { .. }
            | Event::Acted { .. }
            | Event::FreeAtRest { .. }
            | Event::Device { .. } => {}
        }
    }

    fn deviate(&mut self, found: Option<Outcome>) {
        let Some(found) = found else { return };
        if self.trail.deviating_steps.iter().all(|at| at.step != found.at.step) {
            self.trail.deviating_steps.push(found.at.clone());
        }
        self.trail.deviation.get_or_insert(found);
    }

    fn begin(&mut self, step: u32, occurrence: u32) {
        if !self.begun.insert((step, occurrence)) {
            self.deviate(Some(executed_twice()));
        }
        match self.index.step(step).map(|s| &s.call) {
            // A block is not a call that can hang; only the calls inside it can.
            Some(Call::Repeat { .. } | Call::Thread { .. }) => {}
            Some(_) => self.trail.open.push((step, occurrence)),
            None => self.deviate(Some(unknown_step(step))),
        }
    }

    fn end(
        &mut self,
        id: u32,
        occurrence: u32,
        function: Option<&str>,
        &CallResult { code, status, value }: &CallResult<'_>,
    ) -> Option<Outcome> {
        let Some(step) = self.index.step(id) else { return Some(unknown_step(id)) };
        let api = function.unwrap_or(self.index.api(id));
        let at = Location { api: Some(api.to_owned()), ..self.index.location(id, occurrence) };
        let place = self.index.place(id, occurrence);
        if let Some(returns) = &step.returns {
            match returns.at(self.version) {
                Some(names) if expect::status_fits(names, code, status) => {}
                Some(names) => {
                    let wanted = phrases::any_of(names);
                    let summary = format!("{api}{place} returned {status}{EXPECTED}{wanted}");
                    let signature = format!("api-error:{api}:{status}");
                    return Some(Outcome::new(Kind::ApiError, signature, summary).at(at));
                }
                None => self.trail.notes.push(format!(
                    "{api}{place} returned {status}; the case declares no status for ROCm {}",
                    self.version
                )),
            }
        } else if code != 0 {
            if let Call::Compile { kernel } = &step.call {
                let summary = format!("kernel `{kernel}`{place} did not compile: {status}");
                let log = value.unwrap_or_default().lines().take(20).map(str::to_owned);
                let signature = format!("compile-error:{kernel}");
                let outcome = Outcome::new(Kind::CompileError, signature, summary);
                return Some(outcome.at(at).with(log));
            }
            let summary = format!("{api}{place} returned {status}");
            let signature = format!("api-error:{api}:{status}");
            return Some(Outcome::new(Kind::ApiError, signature, summary).at(at));
        }
        // If a call failed as expected, it returned no value to compare.
        if code != 0 { None } else { self.value(id, occurrence, value) }
    }

    fn value(&mut self, id: u32, occurrence: u32, value: Option<&str>) -> Option<Outcome> {
        let step = self.index.step(id)?;
        let api = self.index.api(id);
        let at = self.index.location(id, occurrence);
        let place = self.index.place(id, occurrence);
        if let Call::AtLeast { buffer, least } = &step.call {
            return data::check_at_least(self.index, (id, occurrence), buffer, *least, value);
        }
        let memory = matches!(step.call, Call::MemGetInfo);
        let free: Option<i128> = value.filter(|_| memory).and_then(|text| text.trim().parse().ok());
        let before = self.free_at_first;
        self.free_at_first = before.or(free);
        let wanted = step.gives.as_ref()?.at(self.version)?;
        let asks = |since: FirstValueCheck| wanted.iter().any(|wanted| wanted == since.word());
        if (asks(FirstValueCheck::Returned) || asks(FirstValueCheck::Unchanged)) && free.is_some() {
            let lost = before? - free?;
            if lost == 0 || (lost < 0 && asks(FirstValueCheck::Returned)) {
                return None;
            }
            let summary = if lost > 0 {
                format!(
                    "{lost} bytes of device memory were not given back: {api}{place} reports less free \
                     memory than the first time"
                )
            } else {
                format!(
                    "{} bytes of device memory are free that should be in use: {api}{place} reports more free \
                     memory than the first time",
                    -lost
                )
            };
            let signature = format!("leak:{api}");
            return Some(Outcome::new(Kind::Leak, signature, summary).at(at));
        }
        if asks(FirstValueCheck::Steady)
            && matches!(step.call, Call::EventElapsed { .. })
            && let Some(time) = value.and_then(|text| text.trim().parse().ok())
        {
            let first = *self.time_at_first.get_or_insert(time);
            if expect::is_steady(first, time) {
                return None;
            }
            let summary = format!(
                "{api}{place} gave {time} us, compared with {first} us at the first measurement"
            );
            let signature = format!("unexpected-value:{api}:slow");
            return Some(Outcome::new(Kind::ApiError, signature, summary).at(at));
        }
        if value.is_some_and(|value| expect::value_fits(wanted, value)) {
            return None;
        }
        let got = value.unwrap_or("nothing");
        let wanted = phrases::any_of(wanted);
        let summary = format!("{api}{place} gave {got}{EXPECTED}{wanted}");
        let signature = format!("unexpected-value:{api}:{got}");
        Some(Outcome::new(Kind::ApiError, signature, summary).at(at))
    }

    fn data(&mut self, id: u32, occurrence: u32, read: BufferRead<'a>) -> Option<Outcome> {
        let Some(step) = self.index.step(id) else { return Some(unknown_step(id)) };
        let key = (id, occurrence);
        match &step.call {
            Call::Equal { .. } | Call::Differ { .. } => {
                let Some(first) = self.first_of_pair.remove(&key) else {
                    self.first_of_pair.insert(key, read);
                    return None;
                };
                let equal = matches!(step.call, Call::Equal { .. });
                let same = first.digest == read.digest && first.bytes == read.bytes;
                if equal == same {
                    return None;
                }
                if self.trail.deviation.is_some() {
                    return Some(self.later_deviation(key));
                }
                Some(data::compared(self.context, self.index, key, &first, &read))
            }
            Call::Check { .. } | Call::Guards { .. } => {
                let wanted = *self.wanted.get(&key)?;
                if wanted == read.digest {
                    return None;
                }
                if self.trail.deviation.is_some() {
                    return Some(self.later_deviation(key));
                }
                Some(data::wrong(self.context, self.index, key, &read))
            }
            _ => None,
        }
    }
}

impl Walker<'_> {
    /// Returns an outcome that has only a location, for wrong bytes that were read after the first deviation. The
    /// origin of these bytes is not determined.
    fn later_deviation(&self, (step, occurrence): (u32, u32)) -> Outcome {
        let at = self.index.location(step, occurrence);
        Outcome::new(Kind::WrongData, String::new(), String::new()).at(at)
    }
}

/// Returns a `no-verdict` outcome for an event that a worker sends only after its last call, but that arrived while
/// calls remained to be made. `what` is the content of the event, as the end of "the worker reported".
fn event_too_early(what: &str) -> Outcome {
    let summary = format!(
        "the worker reported {what} before all calls were made, so another process must have written this"
    );
    Outcome::no_verdict("worker", summary)
}

fn executed_twice() -> Outcome {
    Outcome::no_verdict("worker", "the worker executed its plan more than once".to_owned())
}

fn unknown_step(step: u32) -> Outcome {
    Outcome::no_verdict(
        "worker",
        format!("the worker reports step {step}, which is not in its plan"),
    )
}
