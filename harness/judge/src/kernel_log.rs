//! Judges the lines that the driver of the GPU wrote to the log of the Linux kernel.

use crate::{BufferRanges, Kind, Outcome, places::AddressPrecision};

/// Maximum number of log lines that an outcome contains.
const MAX_SHOWN_LINES: usize = 8;

/// If a log line reports a problem, returns the word that signatures use for the problem, for example `page-fault`;
/// otherwise `None`.
///
/// The phrases come from drivers/gpu/drm/amd in Linux: gmc_v9_0.c and similar files (page faults), amdgpu_job.c
/// (rings), amdgpu_device.c (resets), mes_v11_0.c (the scheduler), kfd_device_queue_manager.c (queues), amdgpu_ras.c
/// (hardware errors).
fn trouble(line: &str) -> Option<&'static str> {
    const TROUBLE_PHRASES: [(&str, &str); 8] = [
        ("page fault", "page-fault"),
        ("gpu reset begin", "reset"),
        ("resetting wave fronts", "reset"),
        ("failed to evict queue", "queue"),
        ("mes failed to respond", "scheduler"),
        ("mes might be in unrecoverable state", "scheduler"),
        ("uncorrectable hardware errors", "hardware"),
        ("illegal instruction in shader", "illegal-instruction"),
    ];
    let line = line.to_ascii_lowercase();
    let ring = line.contains("ring ") && line.contains("timeout, signaled seq");
    let said =
        TROUBLE_PHRASES.iter().find(|(words, _)| line.contains(words)).map(|(_, word)| *word);
    said.or(ring.then_some("ring-timeout"))
}

impl Outcome {
    /// Adds log lines of the GPU driver to the outcome. The driver must have logged them during the trial, while no
    /// other trial used the GPU. If a line reports a problem and the trial passed, the outcome becomes a failure of
    /// kind `kernel-error`. The address of a page fault is described relative to the nearest buffers.
    #[must_use]
    pub fn with_kernel_log(mut self, lines: &[String], places: &BufferRanges) -> Outcome {
        let mut shown: Vec<String> =
            lines.iter().take(MAX_SHOWN_LINES).map(|line| format!("kernel log: {line}")).collect();
        if lines.len() > MAX_SHOWN_LINES {
            shown.push(format!("kernel log: {} more lines", lines.len() - MAX_SHOWN_LINES));
        }
        shown.extend(
            lines.iter().find_map(|line| places.describe_in_line(line, AddressPrecision::Page)),
        );
        let found = lines.iter().find_map(|line| Some((trouble(line)?, line)));
        match found {
            Some((word, line)) if self.kind == Kind::Pass => {
                let summary = format!("every check passed, but the GPU driver logged: {line}");
                let signature = format!("{}:{word}", Kind::KernelError);
                let outcome = Outcome::new(Kind::KernelError, signature, summary).at(self.at);
                Outcome { details: shown, ..outcome }
            }
            _ if self.kind.is_failure() => {
                self.details.extend(shown);
                self
            }
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn nowhere() -> BufferRanges {
        let (plan, _) = crate::fixture::recorded();
        BufferRanges::from_events(&[], &plan)
    }

    /// Linux logs the address of a page fault in a line of its own.
    #[test]
    fn page_fault_is_described_by_its_buffer() {
        let (plan, mut events) = crate::fixture::recorded();
        let mut next = 0x7f00_0000_0000;
        for event in &mut events {
            if let plan::Event::End { address, .. } = event {
                next += 1 << 30;
                *address = Some(next);
            }
        }
        let places = BufferRanges::from_events(&events, &plan);
        let log = lines(&[
            "[ 1.0] amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32771)",
            "[ 1.0] amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x00007f0040001000 from client 10",
        ]);
        let seen = Outcome::pass().with_kernel_log(&log, &places);
        assert!(seen.details[2].starts_with("That page was "), "{seen:?}");
        assert_eq!(seen.signature, "kernel-error:page-fault");
    }

    #[test]
    fn passed_trial_fails_if_the_driver_logged_a_problem() {
        for (line, signature) in [
            (
                "[ 1.0] amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32771)",
                "kernel-error:page-fault",
            ),
            (
                "[ 1.0] amdgpu 0000:03:00.0: amdgpu: [mmhub0] no-retry page fault (src_id:0 ring:0 vmid:8)",
                "kernel-error:page-fault",
            ),
            (
                "[ 1.0] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=17, emitted seq=19",
                "kernel-error:ring-timeout",
            ),
            ("[ 1.0] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", "kernel-error:reset"),
            (
                "[ 1.0] amdgpu 0000:c4:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE",
                "kernel-error:scheduler",
            ),
            (
                "[ 1.0] [drm] uncorrectable hardware errors detected in UMC block",
                "kernel-error:hardware",
            ),
        ] {
            let seen = Outcome::pass()
                .with_kernel_log(&lines(&["[ 0.9] amdgpu: harmless", line]), &nowhere());
            assert_eq!((seen.kind, seen.signature.as_str()), (Kind::KernelError, signature));
            assert!(seen.summary.ends_with(line) && seen.details.len() == 2, "{seen:?}");
        }
    }

    #[test]
    fn harmless_log_lines_change_nothing() {
        let harmless = lines(&[
            "[ 1.0] amdgpu 0000:03:00.0: amdgpu: SMU is initialized successfully!",
            "[ 1.0] [drm] ring gfx uses VM inv eng 0 on hub 0",
            "[ 1.0] amdgpu: Freeing queue vital buffer 0x7f0000000000, queue evicted",
        ]);
        assert_eq!(Outcome::pass().with_kernel_log(&harmless, &nowhere()), Outcome::pass());
        assert_eq!(Outcome::pass().with_kernel_log(&[], &nowhere()), Outcome::pass());
        let none = Outcome::no_verdict("disk", "full".to_owned());
        assert_eq!(
            none.clone().with_kernel_log(&lines(&["[ 1.0] amdgpu: GPU reset begin!"]), &nowhere()),
            none
        );
    }

    #[test]
    fn failures_keep_their_kind_and_show_the_log() {
        let failed = Outcome::new(Kind::Hang, "hang:hipMemcpy".to_owned(), "it hung".to_owned());
        let many: Vec<String> =
            (0..20).map(|n| format!("[ {n}.0] amdgpu: GPU reset begin!")).collect();
        let seen = failed.clone().with_kernel_log(&many, &nowhere());
        assert_eq!(
            (seen.kind, &seen.signature, &seen.summary),
            (failed.kind, &failed.signature, &failed.summary)
        );
        assert_eq!(seen.details.len(), MAX_SHOWN_LINES + 1);
        assert_eq!(seen.details[MAX_SHOWN_LINES], "kernel log: 12 more lines");
        let all = failed.with_kernel_log(&many[..MAX_SHOWN_LINES], &nowhere());
        assert_eq!(
            all.details.last().map(String::as_str),
            Some("kernel log: [ 7.0] amdgpu: GPU reset begin!")
        );
    }
}
