//! Runs one trial of any kind on any device, or decides to skip it.

use std::collections::BTreeMap;

use case::{Body, Case};
use device::Arch;
use report::Record;
use supervise::Cancel;

use crate::{
    DeviceChoice, Job, Session,
    execute::run_at_once,
    missing_libraries,
    on_gpu::on_gpu,
    program,
    record::{record, skipped},
    session::nonce,
    slots::{self, Slot},
    worker_process::not_started,
};

/// Runs one trial in a new process, or skips it, and judges it. Returns `None` if the run was cancelled.
pub fn run_trial(session: &Session, job: &Job<'_>, cancel: &Cancel) -> Option<Record> {
    run_trial_reporting_end(session, job, &|_| {}, cancel)
}

/// Runs a trial like [`run_trial`], but passes a provisional record to `ended` before the health check, so that the
/// record survives if this program is killed.
pub(crate) fn run_trial_reporting_end(
    session: &Session,
    job: &Job<'_>,
    ended: &dyn Fn(Record),
    cancel: &Cancel,
) -> Option<Record> {
    if let Some(why) = skip_reason(session, job) {
        return Some(skip(session, job, why));
    }
    if let Body::Program(program) = &job.lowered.body {
        return program::run(session, job, program, &nonce(), cancel);
    }
    match session.device {
        DeviceChoice::Emulated(_) => run_at_once(session, job, None, cancel),
        DeviceChoice::Gpu => on_gpu(session, job, ended, cancel),
    }
}

/// Returns the record of a trial that would be skipped, without starting it. Returns `None` if the trial would run, or
/// if only a started trial can find out what it lacks.
pub fn skipped_record(session: &Session, job: &Job<'_>) -> Option<Record> {
    let missing = || match &job.lowered.body {
        Body::Program(program) => program::missing(session, job, program),
        Body::Calls(_) => {
            missing_libraries::missing_library(job.case, session.stack.manifest.as_ref()?)
        }
    };
    skip_reason(session, job).or_else(missing).map(|why| skip(session, job, why))
}

fn skip(session: &Session, job: &Job<'_>, why: String) -> Record {
    let nothing = not_started(String::new());
    record(session, job, "", nothing, None, (skipped(why), Vec::new()))
}

/// Returns the reason for skipping a trial of any kind, if it is known before the trial is prepared.
fn skip_reason(session: &Session, job: &Job<'_>) -> Option<String> {
    unmet_requirement(job.case, session.rocm.as_ref(), session.gfx())
        .or_else(|| missing_devices(job.case, session.devices_for(job.case)))
        .or_else(|| session.missing_properties(job.case, job.trial))
        .or_else(|| {
            conflicting_device_selection(&job.lowered.plan.environment, &session.gpus.slots)
        })
        .or_else(|| {
            missing_libraries::kernels(job.case, session.stack.manifest.as_ref()?, session.gfx()?)
        })
        .or_else(|| match &job.lowered.body {
            Body::Calls(_) => job.faults.iter().find_map(case::injection_refusal_in_steps),
            Body::Program(_) => None,
        })
}

/// Returns the skip reason if the case does not support the stack's release or the device's architecture.
fn unmet_requirement(
    case: &Case,
    rocm: Option<&plan::Version>,
    gfx: Option<&str>,
) -> Option<String> {
    let needs = &case.needs;
    if let (Some(range), Some(version)) = (&needs.rocm, rocm)
        && !range.contains(version)
    {
        return Some(format!("needs ROCm {range}, but this is {version}"));
    }
    match gfx {
        Some(gfx) if needs.images && Arch::has_images(gfx) == Some(false) => {
            Some(format!("needs images, which {gfx} does not support"))
        }
        Some(gfx) if !needs.gfx.is_empty() && !needs.gfx.iter().any(|g| g == gfx) => {
            Some(format!("needs {}, but this is {gfx}", needs.gfx.join(" or ")))
        }
        _ => None,
    }
}

fn missing_devices(case: &Case, devices: u32) -> Option<String> {
    let wanted = case.needs.devices;
    let why = || format!("needs {wanted} devices, but a trial here sees {devices}");
    (wanted > devices).then(|| match devices {
        1 => format!("{}; with `--cards` a trial sees one GPU", why()),
        _ => why(),
    })
}

/// Returns the skip reason if the case itself sets the visible GPUs while `--cards` sets them for the trial.
fn conflicting_device_selection(
    environment: &BTreeMap<String, String>,
    slots: &[Slot],
) -> Option<String> {
    slots.iter().find(|slot| slot.card.is_some())?;
    let name = environment.keys().find(|name| slots::hides(name))?;
    Some(format!("the case sets {name}, but `--cards` chooses the GPU that a trial sees"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::NamedGpu;

    #[test]
    fn skips_cases_that_conflict_with_chosen_gpus() {
        let card = NamedGpu { name: String::new(), bdf: String::new(), visible: "0".to_owned() };
        let slots = |card| [Slot { card, locks: Vec::new() }];
        let check = |name: &str, card: Option<NamedGpu>| {
            conflicting_device_selection(&[(name.to_owned(), "1".to_owned())].into(), &slots(card))
                .is_some()
        };
        for name in ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"] {
            assert!(check(name, Some(card.clone())), "{name}");
            assert!(!check(name, None), "{name}");
        }
        assert!(!check("HSA_ENABLE_SDMA", Some(card)));
    }

    #[test]
    fn skip_reason_states_the_number_of_devices() {
        let case = |needs: &str| {
            let text = format!(
                "title: t\nsource: s\nneeds: {{{needs}}}\nsteps:\n  - sync: device\nfaults: [copy.zero]\n"
            );
            Case::parse("a/b", &text).expect("a case")
        };
        let two = case("devices: 2");
        let reason =
            "needs 2 devices, but a trial here sees 1; with `--cards` a trial sees one GPU";
        assert_eq!(missing_devices(&two, 1).as_deref(), Some(reason));
        assert_eq!(missing_devices(&two, 2), None);
        assert_eq!(missing_devices(&case("alone: true"), 1), None);
        assert_eq!(case("processes: 16").needs.processes, 16);
        for wrong in ["devices: 0", "devices: 9", "devices: two", "processes: 0", "processes: 17"] {
            let text = format!(
                "title: t\nsource: s\nneeds: {{{wrong}}}\nsteps:\n  - sync: device\nfaults: [copy.zero]\n"
            );
            assert!(Case::parse("a/b", &text).is_err(), "{wrong}");
        }
    }
}
