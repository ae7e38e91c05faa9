//! Executes the steps of a plan and reports an event before and after each call. Applies the faults that are injected
//! at calls.

use std::{collections::HashMap, thread, time::Instant};

use device::{Fault, FaultActivations};
use parking_lot::{Mutex, MutexGuard};
use plan::{BufferAddress, Call, Effect, Event, InjectedFault, Step};

use crate::{
    broken::WorkerError,
    calls, device_look,
    late::DelayInjector,
    machine::{CallResult, Machine},
    needs::FunctionLibrary,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Go,
    /// The plan stops, because a call that must succeed has failed. The worker has reported the failure.
    Stop,
}

/// An injected fault that takes effect at the current call, with its parameters.
struct ActiveFault<'s> {
    fault: Fault,
    opportunity: u64,
    effect: &'s Effect,
}

/// Returns a value that differs from the right one but has the same form, for example another number.
fn other_value(value: &str) -> String {
    match value.trim().parse::<i64>() {
        // Right values are counts, sizes and times, which are never negative.
        Ok(-1) => "-2".to_owned(),
        Ok(_) => "-1".to_owned(),
        Err(_) if value == "none" => "active".to_owned(),
        Err(_) => "none".to_owned(),
    }
}

/// The steps of one plan, and the progress of executing them. Two host threads may share this value.
pub(crate) struct Steps<'a> {
    machine: Machine<'a>,
    /// Delay injection, or `None` if it was not requested.
    delay_injector: Option<DelayInjector>,
    done: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    occurrences: HashMap<u32, u32>,
    opportunities: HashMap<Fault, u64>,
    acts: Vec<FaultActivations>,
    postponed: Vec<Step>,
}

impl<'a> Steps<'a> {
    /// Prepares the execution of a plan. If the order requests delays, compiles and loads the GPU kernel for them.
    ///
    /// # Errors
    /// Fails if the GPU kernel for delay injection cannot be compiled or loaded.
    pub(crate) fn new(machine: Machine<'a>) -> Result<Self, WorkerError> {
        let late = machine.order.late;
        let delay_injector = late.map(|late| DelayInjector::new(&machine, late)).transpose()?;
        Ok(Steps { machine, delay_injector, done: Mutex::default() })
    }

    pub(crate) fn delay_injector(&self) -> Option<&DelayInjector> {
        self.delay_injector.as_ref()
    }

    /// Locks the progress for a short access. The lock must not be held during a HIP call.
    fn done(&self) -> MutexGuard<'_, Progress> {
        self.done.lock()
    }

    /// Executes steps in order until a step stops the plan.
    pub(crate) fn run(&self, steps: &[Step]) -> Result<Flow, WorkerError> {
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

    fn repeat(&self, count: u32, body: &[Step]) -> Result<Flow, WorkerError> {
        for _ in 0..count {
            if self.run(body)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Go)
    }

    fn on_second_thread(&self, body: &[Step]) -> Result<Flow, WorkerError> {
        thread::scope(|scope| {
            let thread = thread::Builder::new()
                .name("second".into())
                .spawn_scoped(scope, || self.run(body))?;
            thread.join().map_err(|_| WorkerError("the second thread panicked".into()))?
        })
    }

    fn step(&self, step: &Step) -> Result<Flow, WorkerError> {
        let drawn = self.active_fault(step);
        if let Some(drawn) = &drawn
            && *drawn.effect == Effect::AfterNextLaunch
        {
            self.acted(drawn, step.line);
            self.done().postponed.push(step.clone());
            return Ok(Flow::Go);
        }
        let flow = self.make(step, drawn.as_ref())?;
        match step.call {
            Call::GraphLaunch { .. } if flow == Flow::Go => self.make_postponed(),
            _ => Ok(flow),
        }
    }

    /// Executes the steps that an injected fault has postponed, the oldest first.
    pub(crate) fn make_postponed(&self) -> Result<Flow, WorkerError> {
        let postponed = std::mem::take(&mut self.done().postponed);
        for step in &postponed {
            if self.make(step, None)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Go)
    }

    /// Returns the fault that takes effect at this call, if any. Each injected fault counts all calls to which it
    /// applies, including calls at which another fault takes effect.
    fn active_fault<'s>(&self, step: &'s Step) -> Option<ActiveFault<'s>> {
        if step.planted.is_empty() {
            return None;
        }
        let mut done = self.done();
        let mut drawn = None;
        for InjectedFault { fault, effect } in &step.planted {
            let next = done.opportunities.entry(*fault).or_insert(0);
            let planted = self.machine.order.faults.iter().find(|planted| planted.fault == *fault);
            if planted.is_none_or(|planted| planted.takes_effect_at(*next)) {
                drawn = drawn.or(Some(ActiveFault { fault: *fault, opportunity: *next, effect }));
            }
            *next += 1;
        }
        drawn
    }

    /// Returns how often each injected fault took effect, both at calls and in the emulated device.
    pub(crate) fn acts(&self) -> Vec<FaultActivations> {
        let mut acts = device_look::acts();
        let done = self.done();
        let at_calls = self.machine.order.faults.iter().map(|planted| {
            let found = done.acts.iter().find(|acts| acts.fault == planted.fault);
            found.cloned().unwrap_or_else(|| FaultActivations::new(planted.fault))
        });
        acts.extend(at_calls);
        acts
    }

    fn acted(&self, drawn: &ActiveFault<'_>, line: u32) {
        let acts = &mut self.done().acts;
        let known = acts.iter().position(|acts| acts.fault == drawn.fault);
        let at = known.unwrap_or_else(|| {
            acts.push(FaultActivations::new(drawn.fault));
            acts.len() - 1
        });
        acts[at].note(drawn.opportunity, line);
    }

    /// Executes one call, and reports an event before it and after it. `drawn` is the injected fault that takes effect
    /// at the call.
    fn make(&self, step: &Step, drawn: Option<&ActiveFault<'_>>) -> Result<Flow, WorkerError> {
        let occurrence = {
            let mut done = self.done();
            let next = done.occurrences.entry(step.id).or_insert(0);
            *next += 1;
            *next - 1
        };
        self.machine.events.send(&Event::Begin { step: step.id, occurrence });
        device_look::at_line(step.line);
        hip_sys::take_first_failure();
        let delayed = match &self.delay_injector {
            Some(delay_injector) => delay_injector.before(&self.machine, step, occurrence)?,
            None => 0,
        };
        let start = Instant::now();
        let home = || {
            let functions = step.call.functions(self.machine.plan());
            functions.first().map_or(FunctionLibrary::Hip, |f| FunctionLibrary::for_function(f))
        };
        let mut acts = true;
        let answer = match drawn.map(|drawn| drawn.effect.clone()) {
            _ if delayed != 0 => CallResult::hip(delayed),
            Some(Effect::Return(code)) => CallResult::with_status(home(), code),
            Some(Effect::Accept) => {
                let answer = calls::call(&self.machine, step, occurrence)?;
                acts = answer.code() != 0;
                if acts { CallResult::with_status(home(), 0) } else { answer }
            }
            Some(Effect::Deny(code)) => {
                let answer = calls::call(&self.machine, step, occurrence)?;
                acts = answer.code() == 0;
                if acts { CallResult::with_status(home(), code) } else { answer }
            }
            Some(Effect::OtherValue) => {
                let answer = calls::call(&self.machine, step, occurrence)?;
                acts = answer.value.is_some();
                CallResult { value: answer.value.as_deref().map(other_value), ..answer }
            }
            Some(Effect::Abort) => std::process::abort(),
            Some(Effect::Exit(code)) => std::process::exit(code),
            Some(Effect::Late(ms)) => {
                std::thread::sleep(std::time::Duration::from_millis(ms));
                calls::call(&self.machine, step, occurrence)?
            }
            Some(Effect::Twice) => {
                calls::call(&self.machine, step, occurrence)?;
                calls::call(&self.machine, step, occurrence)?
            }
            Some(Effect::AfterNextLaunch) | None => calls::call(&self.machine, step, occurrence)?,
        };
        if let Some(drawn) = drawn.filter(|_| acts) {
            self.acted(drawn, step.line);
        }
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let code = answer.code();
        if let Some(delay_injector) = &self.delay_injector {
            delay_injector.after(&step.call, code);
        }
        let status = answer
            .status
            .map_or_else(String::new, |(home, c)| self.machine.libraries.status_name(home, c));
        let named = plan::api(&step.call, self.machine.plan());
        let function = hip_sys::take_first_failure()
            .filter(|(function, failed)| *failed == code && *function != named)
            .map(|(function, _)| function.to_owned());
        let value = answer.value;
        let address = match &step.call {
            Call::Alloc { buffer, .. } if code == 0 => {
                let address =
                    self.machine.address(&BufferAddress { buffer: buffer.clone(), offset: 0 });
                Some(address as u64).filter(|address| *address > 0)
            }
            _ => None,
        };
        self.machine.events.send(&Event::End {
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
            self.machine.events.send(&Event::Stopped { step: step.id });
            return Ok(Flow::Stop);
        }
        Ok(Flow::Go)
    }
}
