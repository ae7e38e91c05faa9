//! Observes a trial's GPU: its identity, its hardware errors, and what the Linux kernel logged about it.

use std::{collections::BTreeSet, path::Path};

use judge::{BufferRanges, Observation, Outcome};
use plan::{Event, Plan};
use report::{Gpu, Record};

use crate::{
    Session, card, kernel_log,
    slots::{NamedGpu, Slot, VISIBLE},
};

pub(crate) const HARDWARE: &str = "no-verdict:hardware";

/// Signature of a trial that ran on the wrong GPU.
const OTHER: &str = "no-verdict:another-gpu";

pub(crate) struct HardwareState {
    cards: Vec<Gpu>,
    uptime: f64,
}

impl HardwareState {
    pub(crate) fn read() -> HardwareState {
        HardwareState { cards: cards(), uptime: kernel_log::uptime() }
    }

    /// Adds to the outcome what the driver logged during the trial. Log lines can be attributed to the trial only if
    /// the trial had exclusive use of its GPU.
    pub(crate) fn with_kernel_log(
        &self,
        outcome: Outcome,
        session: &Session,
        slot: Option<&Slot>,
        observation: &Observation,
        plan: &Plan,
    ) -> Outcome {
        let Some(Ok(mut lines)) =
            session.has_exclusive_gpu().then(|| kernel_log::since(self.uptime))
        else {
            return outcome;
        };
        if let Some(card) = slot.and_then(|slot| slot.card.as_ref()) {
            lines.retain(|line| line.contains(&card.bdf));
        }
        let workers = session.process_name();
        let processes = session.processes.all();
        lines.retain(|line| !names_another_process(line, &workers, &processes));
        let own = observation.events.iter().find_map(|event| match event {
            Event::Device { bdf, .. } if !bdf.is_empty() => Some(bdf),
            _ => None,
        });
        if let Some(own) = own {
            let all: Vec<&str> = self.cards.iter().map(|gpu| gpu.bdf.as_str()).collect();
            lines.retain(|line| !names_another_gpu(line, own, &all));
        }
        outcome.with_kernel_log(&lines, &BufferRanges::from_events(&observation.events, plan))
    }

    /// Adds the GPU and its hardware errors to the record. The record's verdict is computed afterwards.
    pub(crate) fn describe(&self, record: &mut Record, session: &Session, slot: Option<&Slot>) {
        if let Some(card) = slot.and_then(|slot| slot.card.as_ref()) {
            check_card(record, card);
            if let Some((option, all)) = session.cards() {
                let [all, own] =
                    [&all, &card.name].map(|gpus| format!(" {option} {} ", shell::quote(gpus)));
                record.again =
                    format!("{} ", record.again).replacen(&all, &own, 1).trim_end().to_owned();
            }
        }
        describe(record, &self.cards, &cards());
        let linux = rustix::system::uname().release().to_string_lossy().into_owned();
        let driver = card::driver(Path::new("/"), &mut Vec::new());
        record.device.driver = driver.name(&format!("Linux {linux}")).unwrap_or_default();
    }
}

fn names_another_gpu(line: &str, own: &str, all: &[&str]) -> bool {
    let line = line.to_ascii_lowercase();
    let named = |bdf: &str| !bdf.is_empty() && line.contains(&bdf.to_ascii_lowercase());
    !named(own) && all.iter().any(|bdf| named(bdf))
}

/// Returns true if a log line (`in process Xorg pid 17 thread ...`) names a process whose id is not in `own` and whose
/// name is not `ours`, the name of workers. The name counts because in a container the ids differ from those in the
/// log.
fn names_another_process(line: &str, ours: &str, own: &BTreeSet<u32>) -> bool {
    let Some((_, rest)) = line.split_once("process ") else { return false };
    let Some((name, rest)) = rest.split_once(" pid ") else { return false };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let pid: Option<u32> = rest[..digits].parse().ok();
    name != ours && pid.is_some_and(|pid| pid != 0 && !own.contains(&pid))
}

fn cards() -> Vec<Gpu> {
    card::gpus(Path::new("/"), &mut Vec::new()).0
}

/// Withdraws the verdict of a trial that ran on the wrong GPU, because another trial may have used that GPU at the same
/// time.
fn check_card(record: &mut Record, card: &NamedGpu) {
    // The outcome may quote the UUID of the GPU, which contains its serial number.
    if card.visible.parse::<u32>().is_err() {
        let Record { outcome, environment, stderr_tail, stdout_tail, .. } = record;
        let texts = [&mut outcome.summary].into_iter().chain(&mut outcome.details);
        for text in texts.chain(environment.values_mut()).chain([stderr_tail, stdout_tail]) {
            *text = text.replace(&card.visible, &format!("the GPU {}", card.name));
        }
    }
    let bdf = &record.device.bdf;
    if !bdf.is_empty() && !card.bdf.is_empty() && !bdf.eq_ignore_ascii_case(&card.bdf) {
        let why = format!(
            "it ran on the GPU {bdf} and should have run on {}: {VISIBLE} had no effect, or the GPUs were renumbered",
            card.name
        );
        record.outcome = record.outcome.clone().attribute_to(OTHER, why);
    }
}

/// Adds the GPU to the record. A failure together with uncorrected hardware errors gets no verdict.
fn describe(record: &mut Record, before: &[Gpu], after: &[Gpu]) {
    let device = &mut record.device;
    let here = |gpu: &&Gpu| !device.bdf.is_empty() && gpu.bdf.eq_ignore_ascii_case(&device.bdf);
    let then = before.iter().find(here);
    let Some(now) = after.iter().find(here) else { return };
    device.errors = then.map_or_else(Vec::new, |then| now.errors_since(then));
    let bad: Vec<_> = device.errors.iter().filter(|errors| errors.uncorrected > 0).collect();
    let bad: Vec<_> = bad.iter().map(ToString::to_string).collect();
    device.card = Some(Box::new(now.clone()));
    if !bad.is_empty() && record.outcome.kind.is_failure() {
        let why = format!(
            "the hardware of the GPU counted uncorrected errors during the trial ({}), so its failure says nothing about ROCm",
            bad.join("; ")
        );
        record.outcome = record.outcome.clone().attribute_to(HARDWARE, why);
    }
}

#[cfg(test)]
mod tests {
    use judge::Kind;
    use report::Errors;

    use super::*;

    #[test]
    fn ignores_log_lines_of_other_processes() {
        let other = |line: &str| names_another_process(line, "ld-linux-x86-64", &[17].into());
        assert!(other(
            "amdgpu 0000:03:00.0: amdgpu:  in process Xorg pid 18 thread Xorg:cs0 pid 19"
        ));
        assert!(!other("amdgpu:  in process Xorg pid 17 thread Xorg:cs0 pid 19"));
        assert!(!other("amdgpu: for process ld-linux-x86-64 pid 4711 thread x pid 4712"));
        assert!(!other("amdgpu: in process  pid 0 thread  pid 0"));
        assert!(!other("amdgpu: ring gfx_0.0.0 timeout, signaled seq=17"));
    }

    #[test]
    fn ignores_log_lines_of_other_gpus() {
        let all = ["0000:03:00.0", "0000:43:00.0", ""];
        let line = "amdgpu 0000:43:00.0: amdgpu: ring gfx_0.0.0 timeout";
        assert!(names_another_gpu(line, "0000:03:00.0", &all));
        assert!(!names_another_gpu(line, "0000:43:00.0", &all));
        assert!(!names_another_gpu("amdgpu: process repro pid 17", "0000:03:00.0", &all));
        assert!(!names_another_gpu(line, "0000:03:00.0", &["0000:03:00.0"]));
    }

    fn record(kind: &str, verdict: &str) -> Record {
        let record = serde_json::json!({
            "format": 1, "date": "", "rocrepro": "", "case": "a/b", "trial": "a/b", "title": "",
            "stack": {"spec": "", "root": "", "libraries": []},
            "device": {"name": "", "gfx": "gfx942", "bdf": "0000:0C:00.0", "emulated": false, "proven": true},
            "outcome": {"kind": kind, "signature": "s", "at": {}, "summary": "12 bytes are wrong"},
            "verdict": {"kind": verdict}, "exit": {"exited": 0}, "phases": [], "calls": 0, "wall_ns": 0, "nonce": "", "again": "",
        });
        serde_json::from_value(record).unwrap()
    }

    fn card(bdf: &str, uncorrected: u64, corrected: u64) -> Gpu {
        let errors = vec![Errors { unit: "umc".to_owned(), uncorrected, corrected }];
        Gpu { bdf: bdf.to_owned(), errors, ..Gpu::default() }
    }

    #[test]
    fn hardware_errors_withdraw_the_verdict() {
        let before = [card("0000:0b:00.0", 0, 0), card("0000:0c:00.0", 3, 5)];
        let mut other = record("wrong-data", "news-fail");
        let after = [card("0000:0b:00.0", 9, 0), card("0000:0c:00.0", 3, 6)];
        describe(&mut other, &before, &after);
        assert_eq!(other.outcome.kind, Kind::WrongData);
        assert_eq!(other.device.errors[0].to_string(), "umc: 0 uncorrected, 1 corrected");
        assert_eq!(other.device.card.as_deref(), Some(&after[1]));

        let after = [card("0000:0c:00.0", 4, 5)];
        let mut failed = record("wrong-data", "news-fail");
        describe(&mut failed, &before, &after);
        assert_eq!(failed.outcome.kind, Kind::NoVerdict);
        assert_eq!(failed.outcome.signature, "no-verdict:hardware");
        assert_eq!(failed.outcome.details, ["12 bytes are wrong"]);
        assert!(failed.outcome.summary.contains("umc: 1 uncorrected, 0 corrected"));

        let mut elsewhere = record("pass", "pass");
        let card =
            |bdf: &str| NamedGpu { name: bdf.into(), bdf: bdf.into(), visible: "GPU-1".into() };
        elsewhere.environment.insert(VISIBLE.to_owned(), "GPU-1".to_owned());
        check_card(&mut elsewhere, &card("0000:0C:00.0"));
        assert_eq!(elsewhere.outcome.kind, Kind::Pass);
        assert_eq!(elsewhere.environment[VISIBLE], "the GPU 0000:0C:00.0");
        check_card(&mut elsewhere, &card("0000:0b:00.0"));
        assert_eq!(elsewhere.outcome.signature, "no-verdict:another-gpu");
        assert_eq!(elsewhere.outcome.kind, Kind::NoVerdict);

        let mut passed = record("pass", "pass");
        describe(&mut passed, &before, &after);
        assert_eq!((passed.outcome.kind, passed.device.errors.len()), (Kind::Pass, 1));
    }
}
