//! Converts the outcome of an exported program to a form that can be compared with the outcome of its trial.

use judge::{Kind, Outcome};
use supervise::{ChildEnd, Observed, StopReason};

/// Start of the line in which a program reports a failure.
pub(super) const FAILED: &str = "FAIL: ";

/// The facts by which the outcome of a trial is compared with that of its exported program: the kind of outcome, and
/// the buffer, call or kernel that it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObservedProgram {
    pub(super) kind: Kind,
    /// Name of the buffer, call or kernel; empty if this kind of outcome concerns none of them.
    pub(super) place: String,
    /// The unexpected status or value of a call, or the class of wrong bytes: `zero` or `poison`. `None` for other
    /// outcomes.
    pub(super) status: Option<String>,
    /// The line in which the program reported the outcome.
    pub(super) line: String,
}

impl ObservedProgram {
    /// Returns the outcome that the program of a trial should have. The signature of the trial's outcome is
    /// `kind:place:details`.
    pub(super) fn expected(outcome: &Outcome) -> ObservedProgram {
        let place = match outcome.kind {
            // A process that dies during its teardown dies in a random call.
            Kind::Pass | Kind::TeardownCrash | Kind::Skip | Kind::NoVerdict => String::new(),
            _ => outcome.signature.split(':').nth(1).unwrap_or_default().to_owned(),
        };
        let detail = outcome.signature.splitn(3, ':').nth(2).map(str::to_owned);
        let status = match outcome.kind {
            Kind::ApiError => detail,
            Kind::WrongData => detail.filter(|class| matches!(class.as_str(), "zero" | "poison")),
            _ => None,
        };
        ObservedProgram { kind: outcome.kind, place, status, line: outcome.summary.clone() }
    }

    /// Determines the outcome of a program from its end and its output. `open` is the call that had not returned at the
    /// end.
    pub(super) fn from_run(seen: &Observed, open: Option<&str>) -> ObservedProgram {
        // Before this text, the HIP runtime may have printed a part of a line.
        let text = |l: &supervise::Line| String::from_utf8_lossy(&l.text).trim_start().to_owned();
        let lines: Vec<String> = seen.lines.iter().map(text).collect();
        let failed = lines.iter().find(|line| line.starts_with(FAILED));
        let over = lines.iter().any(|line| line == "PASS" || line.starts_with("FAILED: "));
        let stderr = seen.stderr.to_text();
        let place = open.unwrap_or_default().to_owned();
        if let Some(kernel) = memory_fault(&stderr) {
            // A call after the memory fault may have returned an error, which the program printed.
            let line = failed.cloned().unwrap_or_else(|| describe_end(&seen.ended));
            return ObservedProgram { kind: Kind::MemoryFault, place: kernel, status: None, line };
        }
        if let Some(line) = failed {
            let mut found = failure(line);
            if matches!(seen.ended, ChildEnd::Exited(0)) {
                // Exit status 0 would make the failure look like a pass.
                found.kind = Kind::NoVerdict;
                found.line = format!("printed `{line}` and exited with status 0");
                return found;
            }
            if found.kind == Kind::WrongData {
                found.status = wrong_bytes(&lines).map(str::to_owned);
            }
            return found;
        }
        let (kind, line) = match &seen.ended {
            ChildEnd::Exited(0) if over => (Kind::Pass, "PASS".to_owned()),
            end if over => (Kind::TeardownCrash, format!("passed, and then {}", describe_end(end))),
            end @ ChildEnd::Exited(_) => (Kind::LibraryExit, describe_end(end)),
            end @ ChildEnd::Signalled { .. } => (Kind::Crash, describe_end(end)),
            end @ ChildEnd::Stopped { reason: StopReason::Total | StopReason::Quiet, .. } => {
                (Kind::Hang, describe_end(end))
            }
            end => (Kind::NoVerdict, describe_end(end)),
        };
        let place =
            if matches!(kind, Kind::Pass | Kind::TeardownCrash) { String::new() } else { place };
        ObservedProgram { kind, place, status: None, line }
    }

    /// Returns true if this outcome of the program agrees with the outcome `trial` of its trial.
    pub(super) fn agrees_with(&self, trial: &ObservedProgram) -> bool {
        if self.kind != trial.kind {
            return false;
        }
        match self.kind {
            // A program names only HIP calls, but a trial also those of other libraries and of the host. The call
            // traces show whether both were in the same HIP call.
            Kind::Crash | Kind::Hang | Kind::LibraryExit | Kind::MemoryFault => true,
            Kind::ApiError if !is_number(&trial.status) && is_number(&self.status) => {
                self.place == trial.place
            }
            // A trial checks a value in a step of its own, but a program in the call that returned the value.
            Kind::ApiError if trial.place.starts_with("host-") => self.status == trial.status,
            // A program prints only a few of the wrong bytes. They may be all zero or poison although the trial's wrong
            // bytes as a whole are neither.
            Kind::WrongData if trial.status.is_none() => self.place == trial.place,
            _ => self.place == trial.place && self.status == trial.status,
        }
    }

    /// Returns true if the program showed the failure: its outcome agrees, and if it died or hung, it did so in the
    /// same HIP call, as far as the log of its calls shows.
    pub(super) fn shows_failure(&self, failure: &ObservedProgram) -> bool {
        if failure.kind == Kind::MemoryFault {
            let known = !failure.place.is_empty() && !self.place.is_empty();
            return self.agrees_with(failure) && (!known || self.place == failure.place);
        }
        let in_call = matches!(failure.kind, Kind::Crash | Kind::Hang | Kind::LibraryExit);
        let known = failure.place.starts_with("hip") && !self.place.is_empty();
        self.agrees_with(failure) && (!in_call || !known || self.place == failure.place)
    }
}

fn is_number(status: &Option<String>) -> bool {
    status.as_ref().is_some_and(|text| text.parse::<i64>().is_ok())
}

/// Returns the class of the wrong bytes in the program's output: all zero, or all equal to the poison of a fresh
/// buffer. `None` if they are neither.
fn wrong_bytes(lines: &[String]) -> Option<&'static str> {
    let short = lines.iter().find_map(|line| {
        let (_, rest) = line.split_once(": byte ")?;
        Some(rest.split_once(" is ")?.1.split(';').next()?.to_owned())
    });
    let long = || {
        let shown = |label: &str| {
            lines.iter().find_map(|line| Some(line.trim().strip_prefix(label)?.trim().to_owned()))
        };
        let (got, right) = (shown("got ")?, shown("expected ")?);
        let wrong = got.split(' ').zip(right.split(' ')).filter(|(a, b)| a != b);
        Some(wrong.map(|(got, _)| got).collect::<Vec<_>>().join(" "))
    };
    let bytes = short.or_else(long)?;
    let all = |byte: &str| bytes.split(' ').all(|one| one == byte);
    match () {
        () if all("00") => Some("zero"),
        () if all("a5") => Some("poison"),
        () => None,
    }
}

impl std::fmt::Display for ObservedProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.place.is_empty() {
            write!(f, "{}", self.kind)
        } else {
            write!(f, "{}:{}", self.kind, self.place)?;
            self.status.as_ref().map_or(Ok(()), |status| write!(f, ":{status}"))
        }
    }
}

/// Parses the line of a failure, for example `FAIL: buffer back: 2 of 2 bytes ...`, `FAIL: hipMalloc returned ...`,
/// `FAIL: hipGraphGetNodes gave 3 ...`, `FAIL: hipMemGetInfo: 4096 bytes ... were not given back`, `FAIL: kernel k did
/// not compile`.
fn failure(line: &str) -> ObservedProgram {
    let text = line.strip_prefix(FAILED).unwrap_or(line);
    let mut words = text.split([' ', ':', '(']).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let (kind, place) = match first {
        "buffer" => (Kind::WrongData, words.next().unwrap_or_default()),
        "kernel" => (Kind::CompileError, words.next().unwrap_or_default()),
        "launch" => (Kind::ApiError, "hipModuleLaunchKernel"),
        "matmul" => (Kind::ApiError, "hipblasLtMatmul"),
        "matmul_heuristic" => (Kind::ApiError, "hipblasLtMatmulAlgoGetHeuristic"),
        "gemm_ex" => (Kind::ApiError, "rocblas_gemm_ex"),
        _ if text.ends_with("were not given back") || text.ends_with("should be in use") => {
            (Kind::Leak, first)
        }
        function => (Kind::ApiError, function),
    };
    let answered = text.split_once(" returned ").or_else(|| text.split_once(" gave "));
    let status = answered.and_then(|(_, rest)| rest.split(';').next());
    ObservedProgram {
        kind,
        place: place.to_owned(),
        status: status.map(str::to_owned),
        line: line.to_owned(),
    }
}

/// Returns the kernel that caused a memory fault, according to standard error; empty if the device does not name it,
/// and `None` without a memory fault.
fn memory_fault(stderr: &str) -> Option<String> {
    let lines = ["rocrepro-device: finding: ", "rocrepro-device: fault: "];
    let Some((_, rest)) = lines.iter().find_map(|mark| stderr.split_once(mark)) else {
        return stderr.contains("Memory access fault by GPU").then(String::new);
    };
    let kernel = rest.strip_prefix("kernel ").and_then(|rest| rest.split(':').next());
    Some(kernel.unwrap_or_default().to_owned())
}

fn describe_end(end: &ChildEnd) -> String {
    match end {
        ChildEnd::Exited(status) => format!("ended with exit status {status}"),
        ChildEnd::Signalled { signal, .. } => format!("died of {}", judge::signal(*signal)),
        ChildEnd::Stopped { reason: StopReason::Total | StopReason::Quiet, .. } => {
            "hung and was killed".to_owned()
        }
        ChildEnd::SpawnFailed(error) | ChildEnd::Lost(error) => error.to_string(),
        _ => "ended in an unknown way".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> ObservedProgram {
        let found = lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        let said = failure(lines[0]);
        if said.kind != Kind::WrongData {
            return said;
        }
        ObservedProgram { status: wrong_bytes(&found).map(str::to_owned), ..said }
    }

    #[test]
    fn only_the_same_failure_shows_a_failure() {
        let trial = |kind, signature: &str| {
            ObservedProgram::expected(&Outcome {
                kind,
                signature: signature.to_owned(),
                at: judge::Location::default(),
                summary: String::new(),
                details: Vec::new(),
            })
        };
        let three = trial(Kind::ApiError, "unexpected-value:host-look-at-a-value:3");
        assert!(of(&["FAIL: hipGetDeviceCount gave 3; expected 2"]).shows_failure(&three));
        assert!(!of(&["FAIL: hipGetDeviceCount gave 4; expected 2"]).shows_failure(&three));
        let zero = trial(Kind::WrongData, "wrong-data:dst.back:zero");
        assert!(of(&["FAIL: buffer dst.back: byte 3 is 00; expected 4f"]).shows_failure(&zero));
        assert!(!of(&["FAIL: buffer dst.back: byte 3 is a5; expected 4f"]).shows_failure(&zero));
        let long = [
            "FAIL: buffer dst.back: 1 of 2 bytes are wrong",
            "  got      01 00",
            "  expected 01 4f",
        ];
        assert!(of(&long).shows_failure(&zero));
        let pass = ObservedProgram {
            kind: Kind::Pass,
            place: String::new(),
            status: None,
            line: "PASS".to_owned(),
        };
        assert!(!pass.shows_failure(&zero));
        let active = trial(Kind::ApiError, "unexpected-value:hipStreamIsCapturing:active");
        assert!(
            of(&["FAIL: hipStreamIsCapturing gave active; expected none"]).shows_failure(&active)
        );
        assert!(
            !of(&["FAIL: hipStreamIsCapturing gave invalidated; expected none"])
                .shows_failure(&active)
        );
        let crash = trial(Kind::Crash, "crash:hipGraphInstantiate");
        let died = |place: &str| ObservedProgram {
            kind: Kind::Crash,
            place: place.to_owned(),
            status: None,
            line: String::new(),
        };
        assert!(died("hipGraphInstantiate").shows_failure(&crash));
        assert!(!died("hipMalloc").shows_failure(&crash));
    }

    #[test]
    fn memory_faults_name_their_kernel() {
        let of_device =
            "rocrepro-device: fault: kernel __amd_rocclr_copyBuffer: page fault: no memory";
        assert_eq!(memory_fault(of_device).as_deref(), Some("__amd_rocclr_copyBuffer"));
        let found = "rocrepro-device: finding: kernel k: LDS race at 0x0";
        assert_eq!(memory_fault(found).as_deref(), Some("k"));
        assert_eq!(memory_fault("Memory access fault by GPU node-1").as_deref(), Some(""));
        assert_eq!(memory_fault("PASS"), None);
        let seen = |place: &str| ObservedProgram {
            kind: Kind::MemoryFault,
            place: place.to_owned(),
            status: None,
            line: String::new(),
        };
        assert!(seen("k").shows_failure(&seen("k")) && seen("").shows_failure(&seen("k")));
        assert!(!seen("other").shows_failure(&seen("k")));
    }

    #[test]
    fn parses_kind_and_place_of_a_line() {
        let check = |line: &str, expected: &str| {
            assert_eq!(failure(line).to_string(), expected, "{line}");
        };
        check(
            "FAIL: buffer dst.back: 2 of 2 bytes are wrong, the first at offset 0",
            "wrong-data:dst.back",
        );
        check(
            "FAIL: hipMalloc returned hipErrorOutOfMemory; expected success (line 7)",
            "api-error:hipMalloc:hipErrorOutOfMemory",
        );
        check("FAIL: hipGraphGetNodes gave 3; expected 4", "api-error:hipGraphGetNodes:3");
        check(
            "FAIL: hipStreamQuery(s) returned hipErrorUnknown; expected hipSuccess (line 7)",
            "api-error:hipStreamQuery:hipErrorUnknown",
        );
        check("FAIL: buffer dst.back: byte 3 is 00; expected 4f", "wrong-data:dst.back");
        check(
            "FAIL: launch returned hipErrorUnknown; expected success (line 7)",
            "api-error:hipModuleLaunchKernel:hipErrorUnknown",
        );
        check(
            "FAIL: hipMemGetInfo: 64 bytes of device memory were not given back",
            "leak:hipMemGetInfo",
        );
        check("FAIL: kernel add_u32 did not compile", "compile-error:add_u32");
    }
}
