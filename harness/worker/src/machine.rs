use std::{
    collections::HashMap,
    ffi::{c_int, c_void},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use device::{Acts, Fault};
use plan::{Call, DEFAULT_STREAM, Effect, Event, Misbehaviour, Order, Place, Plan, Step};

use crate::{
    broken::Broken,
    calls,
    foreign::Given,
    handles::{Handles, Kind},
    late::Lateness,
    libraries::Libraries,
    needs::Home,
    pipe::Events,
};

/// Whether the plan goes on after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Go,
    /// A checked call failed, and the worker has said so.
    Stop,
}

/// What a call answered.
pub(crate) struct Answer {
    /// The status code and the library it belongs to; none for calls without one.
    status: Option<(Home, c_int)>,
    /// What the call gives besides.
    value: Option<String>,
}

impl Answer {
    /// Of a call without a status.
    pub(crate) const NONE: Answer = Answer { status: None, value: None };

    pub(crate) fn of(home: Home, code: c_int) -> Self {
        Answer { status: Some((home, code)), value: None }
    }

    pub(crate) fn hip(code: c_int) -> Self {
        Answer::of(Home::Hip, code)
    }

    pub(crate) fn with(self, value: impl Into<Option<String>>) -> Self {
        Answer { value: value.into(), ..self }
    }

    pub(crate) fn code(&self) -> c_int {
        self.status.map_or(0, |(_, code)| code)
    }
}

/// A planted fault that misbehaves at a call, this time.
struct Drawn<'s> {
    fault: Fault,
    opportunity: u64,
    effect: &'s Effect,
}

/// A value that a call may give in the place of this one, and that is wrong.
fn other_value(value: &str) -> String {
    match value.trim().parse::<i64>() {
        // No count, size or time is negative.
        Ok(-1) => "-2".to_owned(),
        Ok(_) => "-1".to_owned(),
        Err(_) if value == "none" => "active".to_owned(),
        Err(_) => "none".to_owned(),
    }
}

/// Executes the steps of one plan. Two host threads may share it: what changes is behind one lock, which is never
/// held across a call.
pub(crate) struct Machine<'a> {
    pub(crate) order: &'a Order,
    pub(crate) events: &'a Events,
    pub(crate) libraries: &'a Libraries,
    /// Architecture of device 0 with its features.
    pub(crate) gfx: String,
    /// What makes work late on purpose; none where that was not ordered.
    pub(crate) lateness: Option<Lateness>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) handles: Handles,
    /// Compiled kernels. They stay until the end, as a runtime may read an image after it was loaded.
    pub(crate) code: HashMap<String, Arc<[u8]>>,
    /// How many files the spool has.
    pub(crate) spooled: u32,
    occurrences: HashMap<u32, u32>,
    opportunities: HashMap<Fault, u64>,
    acts: Vec<Acts>,
    postponed: Vec<Step>,
    /// What calls of any function have given.
    pub(crate) given: Given,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(
        order: &'a Order,
        events: &'a Events,
        libraries: &'a Libraries,
        gfx: String,
    ) -> Self {
        Machine { order, events, libraries, gfx, lateness: None, state: Mutex::default() }
    }

    pub(crate) fn plan(&self) -> &'a Plan {
        &self.order.plan
    }

    /// The state, for a look-up or a change, never for the time of a call.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handle of a name; null where it was never made.
    pub(crate) fn handle(&self, kind: Kind, name: &str) -> *mut c_void {
        self.state().handles.get(kind, name)
    }

    /// Where a buffer was before it was freed; null where it never was.
    pub(crate) fn old_buffer(&self, name: &str) -> *mut c_void {
        self.state().handles.old(Kind::Buffer, name)
    }

    /// The handle of a name, or what it was before it was destroyed, as a C program has it.
    pub(crate) fn handle_or_old(&self, kind: Kind, name: &str) -> *mut c_void {
        let state = self.state();
        let live = state.handles.get(kind, name);
        if live.is_null() { state.handles.old(kind, name) } else { live }
    }

    /// The handle of a stream; the null stream's is null.
    pub(crate) fn stream(&self, name: &str) -> *mut c_void {
        match name {
            DEFAULT_STREAM => std::ptr::null_mut(),
            name => self.handle(Kind::Stream, name),
        }
    }

    /// Keeps a handle that a successful call made.
    pub(crate) fn made(&self, kind: Kind, name: &str, handle: *mut c_void, code: c_int) {
        if code == 0 {
            self.state().handles.put(kind, name, handle);
        }
    }

    /// Forgets a handle that a successful call destroyed.
    pub(crate) fn gone(&self, kind: Kind, name: &str, code: c_int) {
        if code == 0 {
            self.state().handles.remove(kind, name);
        }
    }

    /// The address of a place; null where its buffer was never allocated.
    pub(crate) fn address(&self, place: &Place) -> *mut c_void {
        let base = self.handle(Kind::Buffer, &place.buffer);
        match self.plan().buffers.get(&place.buffer) {
            Some(buffer) if !base.is_null() => {
                base.wrapping_byte_add((buffer.guard() + place.offset) as usize)
            }
            _ => std::ptr::null_mut(),
        }
    }

    /// Makes the steps in order, until one of them stops the plan.
    pub(crate) fn run(&self, steps: &[Step]) -> Result<Flow, Broken> {
        for step in steps {
            let flow = match &step.call {
                Call::Repeat { count, body } => self.repeat(*count, body)?,
                Call::Thread { body } => self.on_second_thread(body)?,
                _ => self.step(step)?,
            };
            if flow == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Go)
    }

    fn repeat(&self, count: u32, body: &[Step]) -> Result<Flow, Broken> {
        for _ in 0..count {
            if self.run(body)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Go)
    }

    fn on_second_thread(&self, body: &[Step]) -> Result<Flow, Broken> {
        thread::scope(|scope| {
            let thread = thread::Builder::new()
                .name("second".into())
                .spawn_scoped(scope, || self.run(body))?;
            thread.join().map_err(|_| Broken("the second thread panicked".into()))?
        })
    }

    fn step(&self, step: &Step) -> Result<Flow, Broken> {
        let drawn = self.drawn(step);
        if let Some(drawn) = &drawn
            && *drawn.effect == Effect::AfterNextLaunch
        {
            self.acted(drawn, step.line);
            self.state().postponed.push(step.clone());
            return Ok(Flow::Go);
        }
        let flow = self.make(step, drawn.as_ref())?;
        match step.call {
            Call::GraphLaunch { .. } if flow == Flow::Go => self.make_postponed(),
            _ => Ok(flow),
        }
    }

    /// Makes the steps that a planted effect held back, oldest first.
    pub(crate) fn make_postponed(&self) -> Result<Flow, Broken> {
        let postponed = std::mem::take(&mut self.state().postponed);
        for step in &postponed {
            if self.make(step, None)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Go)
    }

    /// How the call misbehaves this time. Each planted fault counts the calls that it concerns, whether or not another one is
    /// drawn there.
    fn drawn<'s>(&self, step: &'s Step) -> Option<Drawn<'s>> {
        if step.planted.is_empty() {
            return None;
        }
        let mut state = self.state();
        let mut drawn = None;
        for Misbehaviour { fault, effect } in &step.planted {
            let next = state.opportunities.entry(*fault).or_insert(0);
            let planted = self.order.faults.iter().find(|planted| planted.fault == *fault);
            if planted.is_none_or(|planted| planted.takes(*next)) {
                drawn = drawn.or(Some(Drawn { fault: *fault, opportunity: *next, effect }));
            }
            *next += 1;
        }
        drawn
    }

    /// How often each planted fault has misbehaved, at calls and in the device.
    pub(crate) fn acts(&self) -> Vec<Acts> {
        let mut acts = crate::device_look::acts();
        let state = self.state();
        let at_calls = self.order.faults.iter().map(|planted| {
            let found = state.acts.iter().find(|acts| acts.fault == planted.fault);
            found.cloned().unwrap_or_else(|| Acts::none(planted.fault))
        });
        acts.extend(at_calls);
        acts
    }

    fn acted(&self, drawn: &Drawn<'_>, line: u32) {
        let acts = &mut self.state().acts;
        let known = acts.iter().position(|acts| acts.fault == drawn.fault);
        let at = known.unwrap_or_else(|| {
            acts.push(Acts::none(drawn.fault));
            acts.len() - 1
        });
        acts[at].note(drawn.opportunity, line);
    }

    /// Makes one call between its two events.
    fn make(&self, step: &Step, drawn: Option<&Drawn<'_>>) -> Result<Flow, Broken> {
        let occurrence = {
            let mut state = self.state();
            let next = state.occurrences.entry(step.id).or_insert(0);
            *next += 1;
            *next - 1
        };
        self.events.say(&Event::Begin { step: step.id, occurrence });
        crate::device_look::at_line(step.line);
        hip_sys::first_failure();
        let delayed = match &self.lateness {
            Some(lateness) => lateness.before(self, step, occurrence)?,
            None => 0,
        };
        let start = Instant::now();
        let home = || {
            let functions = step.call.functions(self.plan());
            functions.first().map_or(Home::Hip, |f| Home::of(f))
        };
        let mut acts = true;
        let answer = match drawn.map(|drawn| drawn.effect.clone()) {
            _ if delayed != 0 => Answer::hip(delayed),
            Some(Effect::Return(code)) => Answer::of(home(), code),
            Some(Effect::Accept) => {
                let answer = calls::call(self, step, occurrence)?;
                acts = answer.code() != 0;
                if acts { Answer::of(home(), 0) } else { answer }
            }
            Some(Effect::Deny(code)) => {
                let answer = calls::call(self, step, occurrence)?;
                acts = answer.code() == 0;
                if acts { Answer::of(home(), code) } else { answer }
            }
            Some(Effect::OtherValue) => {
                let answer = calls::call(self, step, occurrence)?;
                acts = answer.value.is_some();
                Answer { value: answer.value.as_deref().map(other_value), ..answer }
            }
            Some(Effect::Abort) => std::process::abort(),
            Some(Effect::Exit(code)) => std::process::exit(code),
            Some(Effect::Late(ms)) => {
                std::thread::sleep(std::time::Duration::from_millis(ms));
                calls::call(self, step, occurrence)?
            }
            Some(Effect::Twice) => {
                calls::call(self, step, occurrence)?;
                calls::call(self, step, occurrence)?
            }
            Some(Effect::AfterNextLaunch) | None => calls::call(self, step, occurrence)?,
        };
        if let Some(drawn) = drawn.filter(|_| acts) {
            self.acted(drawn, step.line);
        }
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let code = answer.code();
        if let Some(lateness) = &self.lateness {
            lateness.after(&step.call, code);
        }
        let status =
            answer.status.map_or_else(String::new, |(home, c)| self.libraries.status_name(home, c));
        let named = plan::api(&step.call, self.plan());
        let function = hip_sys::first_failure()
            .filter(|(function, failed)| *failed == code && *function != named)
            .map(|(function, _)| function.to_owned());
        let value = answer.value;
        let address = match &step.call {
            Call::Alloc { buffer, .. } if code == 0 => {
                let address = self.address(&Place { buffer: buffer.clone(), offset: 0 });
                Some(address as u64).filter(|address| *address > 0)
            }
            _ => None,
        };
        self.events.say(&Event::End {
            step: step.id,
            occurrence,
            code,
            status,
            value,
            function,
            address,
            ns,
        });
        if code != 0 && step.checked() {
            self.events.say(&Event::Stopped { step: step.id });
            return Ok(Flow::Stop);
        }
        Ok(Flow::Go)
    }
}
