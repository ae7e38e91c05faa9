//! The identity by which failures of a command line are compared.

use judge::FailureIdentity;
use regex::Regex;

/// Returns the identity of a failure. If the output matches the regular expression `wanted`, the identity is `match:`
/// with the expression.
pub(crate) fn signature(
    identity: FailureIdentity,
    errors: &str,
    output: &str,
    wanted: Option<&Regex>,
) -> String {
    match wanted.filter(|w| w.is_match(errors) || w.is_match(output)) {
        Some(wanted) => format!("match:{wanted}"),
        None => identity.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_text_becomes_the_signature() {
        let wanted = Regex::new("invalid \\w+").unwrap();
        let named = |errors, output| {
            signature(FailureIdentity::of_exit(1, errors, output), errors, output, Some(&wanted))
        };
        assert_eq!(named("x\ninvalid value\nbye", ""), "match:invalid \\w+");
        assert_eq!(named("", "invalid value"), "match:invalid \\w+");
        assert_eq!(named("out of memory", ""), "exit:1:out of memory");
        let crash = FailureIdentity::of_signal("program", 11, "");
        assert_eq!(signature(crash, "", "", None), "crash:program:SIGSEGV");
    }
}
