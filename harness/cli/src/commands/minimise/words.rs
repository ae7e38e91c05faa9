//! The title of a minimal case: what must hold where the failure is gone.

use judge::{Kind, Outcome};

/// What must hold, in one sentence.
pub(super) fn title(failure: &Outcome) -> String {
    let parts: Vec<&str> = failure.signature.split(':').collect();
    let part = |n: usize| parts.get(n).copied().unwrap_or_default();
    let call = failure.at.api.as_deref().unwrap_or(part(1));
    match failure.kind {
        Kind::WrongData => format!("{} holds what the calls before wrote", part(1)),
        Kind::ApiError if part(0) == "unexpected-value" => {
            format!("{} does not give {}", part(1), part(2))
        }
        Kind::ApiError => format!("{} does not return {}", part(1), part(2)),
        Kind::CompileError => format!("{} compiles", part(1)),
        Kind::Crash | Kind::LibraryExit => format!("The process survives {call}"),
        Kind::MemoryFault => format!("{} stays inside its buffers", part(1)),
        Kind::Hang => format!("{call} comes back"),
        Kind::TeardownCrash => "The process ends well".to_owned(),
        Kind::Leak => "Memory is given back".to_owned(),
        Kind::Pass | Kind::Skip | Kind::NoVerdict => failure.summary.clone(),
    }
}

#[cfg(test)]
mod tests {
    use judge::Location;

    use super::*;

    #[test]
    fn a_title_says_what_must_hold() {
        let check = |kind, signature: &str, api: Option<&str>, expected: &str| {
            let at = Location { api: api.map(str::to_owned), ..Location::default() };
            let (signature, summary) = (signature.to_owned(), String::new());
            let outcome = Outcome { kind, signature, at, summary, details: Vec::new() };
            assert_eq!(title(&outcome), expected);
        };
        let value = "unexpected-value:hipStreamIsCapturing:active";
        check(Kind::ApiError, value, None, "hipStreamIsCapturing does not give active");
        let status = "api-error:hipMemcpyAsync:hipErrorInvalidValue";
        check(Kind::ApiError, status, None, "hipMemcpyAsync does not return hipErrorInvalidValue");
        let api = Some("hipGraphInstantiate");
        check(
            Kind::Crash,
            "crash:hipGraphInstantiate",
            api,
            "The process survives hipGraphInstantiate",
        );
        check(
            Kind::WrongData,
            "wrong-data:dst.back:zero",
            None,
            "dst.back holds what the calls before wrote",
        );
    }
}
