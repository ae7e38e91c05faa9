//! A trial, whatever its body is and wherever it runs; and those that are skipped here.

use std::collections::BTreeMap;

use case::{Body, Case};
use device::Arch;
use report::Record;
use supervise::Cancel;

use crate::{
    DeviceChoice, Job, Session,
    execute::run_at_once,
    lacks,
    on_gpu::on_gpu,
    program,
    record::{record, skipped},
    session::nonce,
    slots::{self, Slot},
    worker_process::not_started,
};

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
        .or_else(|| session.missing_properties(job.case, job.trial))
        .or_else(|| chooses(&job.lowered.plan.environment, &session.gpus.slots))
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

/// Why a case does not apply, in words that say what would make it run.
fn unmet(case: &Case, rocm: Option<&plan::Version>, gfx: Option<&str>) -> Option<String> {
    let needs = &case.needs;
    if let (Some(range), Some(version)) = (&needs.rocm, rocm)
        && !range.contains(version)
    {
        return Some(format!("needs ROCm {range}, and this is {version}"));
    }
    match gfx {
        Some(gfx) if needs.images && Arch::has_images(gfx) == Some(false) => {
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
