//! Describes the correct behaviour that a failing trial should have shown.

use judge::{Kind, Outcome};

use crate::words::without_lines;

/// Describes, in one sentence without a full stop, what should have happened: `hipMemcpyAsync returns hipSuccess`. The
/// sentence is the title of a reduced case and the expected behaviour in a report.
pub fn expected_behaviour(failure: &Outcome) -> String {
    let summary = without_lines(&failure.summary);
    let parts: Vec<&str> = failure.signature.split(':').collect();
    let part = |n: usize| parts.get(n).copied().unwrap_or_default();
    let call = failure.at.api.as_deref().unwrap_or(part(1));
    match failure.kind {
        Kind::WrongData => bytes(part(1), &summary),
        Kind::ApiError => answer(part(1), part(0) == "unexpected-value", &summary),
        Kind::CompileError => format!("{} compiles", part(1)),
        Kind::Crash | Kind::LibraryExit => format!("{call} returns, and the process goes on"),
        Kind::MemoryFault => format!("{} stays inside its buffers", parts[1..].join(":")),
        Kind::Hang => format!("{call} returns"),
        Kind::TeardownCrash => "The process exits normally".to_owned(),
        Kind::Leak => "Memory is freed".to_owned(),
        Kind::KernelError => "The GPU driver logs no error".to_owned(),
        Kind::Pass | Kind::Skip | Kind::NoVerdict => summary,
    }
}

/// Describes the correct content of a buffer. The step that last wrote the buffer is not named, because it may be
/// another one in a reduced case.
fn bytes(buffer: &str, summary: &str) -> String {
    if let Some(guarded) = buffer.strip_suffix(".guards") {
        return format!("Nothing is written outside of {guarded}");
    }
    if let Some(pair) = summary.strip_suffix(judge::SAME_BYTES) {
        return format!("{pair} hold different bytes");
    }
    if let Some((pair, _)) = summary.split_once(judge::UNEQUAL) {
        return format!("{pair} hold the same bytes");
    }
    if let Some((_, least)) = summary.split_once(judge::AT_LEAST) {
        return format!("Each element of {buffer} is at least {least}");
    }
    format!("{buffer} holds the data that was last written to it")
}

/// Describes the status that a call should have returned, or, if `value` is true, the value that it should have given
/// in addition to its status.
fn answer(call: &str, value: bool, summary: &str) -> String {
    let word = if value { "gives" } else { "returns" };
    match summary.split_once(judge::EXPECTED) {
        Some((_, wanted)) => format!("{call} {word} {wanted}"),
        None if value => format!("{call} reports about the same time as in the first call"),
        // A step without an expected status expects success.
        None if ["hiprand", "hipblas", "rocblas"].iter().any(|l| call.starts_with(l)) => {
            format!("{call} returns success")
        }
        None => format!("{call} returns hipSuccess"),
    }
}

#[cfg(test)]
mod tests {
    use judge::Location;

    use super::*;

    #[track_caller]
    fn check(kind: Kind, signature: &str, summary: &str, expected: &str) {
        let (signature, summary) = (signature.to_owned(), summary.to_owned());
        let at = Location::default();
        let outcome = Outcome { kind, signature, at, summary, details: Vec::new() };
        assert_eq!(expected_behaviour(&outcome), expected);
    }

    #[test]
    fn correct_behaviour_of_calls() {
        check(
            Kind::ApiError,
            "unexpected-value:hipStreamIsCapturing:active",
            "hipStreamIsCapturing (line 9) gave active; expected none",
            "hipStreamIsCapturing gives none",
        );
        check(
            Kind::ApiError,
            "api-error:hipFree:hipSuccess",
            "hipFree (line 3) returned hipSuccess; expected hipErrorInvalidValue or hipErrorInvalidDevicePointer",
            "hipFree returns hipErrorInvalidValue or hipErrorInvalidDevicePointer",
        );
        let status = "api-error:hipMemcpyAsync:hipErrorInvalidValue";
        let summary = "hipMemcpyAsync (line 9) returned hipErrorInvalidValue";
        check(Kind::ApiError, status, summary, "hipMemcpyAsync returns hipSuccess");
        let (status, summary) = ("api-error:hiprandGenerate:102", "hiprandGenerate returned 102");
        check(Kind::ApiError, status, summary, "hiprandGenerate returns success");
        check(
            Kind::ApiError,
            "unexpected-value:hipEventElapsedTime:slow",
            "hipEventElapsedTime gave 90 us, compared with 3 us at the first measurement",
            "hipEventElapsedTime reports about the same time as in the first call",
        );
    }

    #[test]
    fn correct_behaviour_after_crashes_and_hangs() {
        let call = "hipGraphInstantiate";
        check(
            Kind::Crash,
            "crash:hipGraphInstantiate",
            "",
            &format!("{call} returns, and the process goes on"),
        );
        check(Kind::Hang, "hang:hipGraphInstantiate", "", &format!("{call} returns"));
    }

    #[test]
    fn correct_content_of_buffers() {
        check(
            Kind::WrongData,
            "wrong-data:dst.back:zero",
            "dst.back (line 20, iteration 2): 2 of 2 bytes wrong from offset 0: all zero; expected the pattern written at \
             line 17 (fill of src, iteration 2)",
            "dst.back holds the data that was last written to it",
        );
        check(
            Kind::WrongData,
            "wrong-data:out.back:below",
            "out.back (line 20): element 7 is 2; each element must be at least 3",
            "Each element of out.back is at least 3",
        );
        check(
            Kind::WrongData,
            "wrong-data:a.back:same",
            "a.back and b.back (line 12) hold the same bytes; they must differ",
            "a.back and b.back hold different bytes",
        );
        check(
            Kind::WrongData,
            "wrong-data:a.back:unequal",
            "a.back and b.back (line 12) must be equal but differ in 4 bytes, from offset 0 on",
            "a.back and b.back hold the same bytes",
        );
        let guards = "wrong-data:dst.guards:zero";
        check(Kind::WrongData, guards, "dst.guards: 3 bytes", "Nothing is written outside of dst");
        let unknown = "the bytes are wrong; the reference model cannot compute the expected bytes";
        check(
            Kind::WrongData,
            "wrong-data:x:unknown",
            unknown,
            "x holds the data that was last written to it",
        );
    }
}
