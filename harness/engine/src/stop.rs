//! The error type of a command: its failures, hints and exit code.

use std::fmt;

/// The early end of a command: the failures that are reported to the user, and the exit code.
#[derive(Debug)]
pub struct Stop {
    code: u8,
    parts: Vec<StopPart>,
}

#[derive(Debug)]
enum StopPart {
    Failure(Box<dyn FailedOperation + Send + Sync>),
    /// A text that is printed as it is.
    Text(String),
}

impl Stop {
    /// Returns a stop with exit code 2: the user asked for something that is not possible.
    pub fn usage(text: impl fmt::Display) -> Stop {
        Stop::text(2, text)
    }

    /// Returns a stop with exit code 3: the machine prevented a verdict.
    pub fn no_verdict(text: impl fmt::Display) -> Stop {
        Stop::text(3, text)
    }

    /// Returns a stop with exit code 4: there was nothing to run.
    pub fn nothing(text: impl fmt::Display) -> Stop {
        Stop::text(4, text)
    }

    fn text(code: u8, text: impl fmt::Display) -> Stop {
        Stop { code, parts: vec![StopPart::Text(text.to_string())] }
    }

    /// Returns both values if both results are successes. Otherwise returns the failures of both, with the exit code of
    /// the first.
    pub fn both<A, B>(a: Result<A, Stop>, b: Result<B, Stop>) -> Result<(A, B), Stop> {
        match (a, b) {
            (Ok(a), Ok(b)) => Ok((a, b)),
            (Err(a), Err(b)) => Err(a.and(b)),
            (Err(stop), _) | (_, Err(stop)) => Err(stop),
        }
    }

    /// Succeeds if `failures` is empty. Otherwise returns all of them, with the exit code of the first.
    pub fn unless_empty<F: Into<Stop>>(failures: impl IntoIterator<Item = F>) -> Result<(), Stop> {
        match failures.into_iter().map(Into::into).reduce(Stop::and) {
            Some(stop) => Err(stop),
            None => Ok(()),
        }
    }

    /// Adds the failures of another stop, and keeps the exit code.
    pub fn and(mut self, other: Stop) -> Stop {
        self.parts.extend(other.parts);
        self
    }

    /// Returns true if the user asked for something that is not possible (exit code 2).
    pub fn is_usage(&self) -> bool {
        self.code == 2
    }

    /// Returns this stop with exit code 5 in place of 3 (no verdict), for commands in which exit code 3 has another
    /// meaning.
    pub fn with_trouble_code(self) -> Stop {
        Stop { code: if self.code == 3 { 5 } else { self.code }, ..self }
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Returns the failures and their hints on one line, to be quoted in another message.
    pub fn reason(&self) -> String {
        let each = self.parts.iter().map(|part| match part {
            StopPart::Failure(failure) => with_hint(&**failure, "; "),
            StopPart::Text(text) => text.trim_start_matches(ERROR).to_owned(),
        });
        each.collect::<Vec<_>>().join("; ")
    }
}

/// The class of a failed operation, which decides the exit code of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// The user asked for something that is not possible.
    Usage,
    /// The machine prevented the operation from finishing.
    NoVerdict,
    /// There was nothing to run.
    Nothing,
}

impl FailureClass {
    /// Returns the class of a failure: no verdict if the environment caused it, and otherwise a usage error.
    pub fn from_cause(is_environment: bool) -> FailureClass {
        if is_environment { FailureClass::NoVerdict } else { FailureClass::Usage }
    }
}

/// An error with a class and a hint for the user.
pub trait FailedOperation: std::error::Error {
    /// Returns the class of the failure, which decides the exit code of the command.
    fn class(&self) -> FailureClass;

    /// Returns advice for the user, if there is any.
    fn hint(&self) -> Option<String> {
        None
    }
}

impl<F: FailedOperation + Send + Sync + 'static> From<F> for Stop {
    fn from(failure: F) -> Stop {
        let code = match failure.class() {
            FailureClass::Usage => 2,
            FailureClass::NoVerdict => 3,
            FailureClass::Nothing => 4,
        };
        Stop { code, parts: vec![StopPart::Failure(Box::new(failure))] }
    }
}

/// Prefix of a printed line that reports a failure.
const ERROR: &str = "error: ";

fn with_hint(failure: &dyn FailedOperation, separator: &str) -> String {
    let hint = failure.hint().map_or_else(String::new, |hint| format!("{separator}{hint}"));
    format!("{failure}{hint}")
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, part) in self.parts.iter().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            match part {
                StopPart::Failure(failure) => {
                    write!(f, "{ERROR}{}", with_hint(&**failure, "\nhint: "))?;
                }
                StopPart::Text(text) => f.write_str(text)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Stop {}

/// Returns an error and its causes on one line, for example `cannot write a.txt: permission denied`.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// Returns an error and its causes on one line, and its hint on a line of its own.
pub fn explained(error: &dyn stacks::Hint) -> String {
    let hint = error.hint().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
    chain(error) + &hint
}

/// Returns an error, its causes and its hint on one line.
pub fn in_one_line(error: &dyn stacks::Hint) -> String {
    let hint = error.hint().map_or_else(String::new, |hint| format!("; {hint}"));
    chain(error) + &hint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no space left in {0}")]
    struct Full(&'static str);

    impl FailedOperation for Full {
        fn class(&self) -> FailureClass {
            FailureClass::NoVerdict
        }

        fn hint(&self) -> Option<String> {
            Some("free some space".to_owned())
        }
    }

    #[test]
    fn prints_failures_with_hints_and_quotes_them_in_one_line() {
        let stop = Stop::from(Full("/a")).and(Stop::usage("error: b"));
        assert_eq!(stop.to_string(), "error: no space left in /a\nhint: free some space\nerror: b");
        assert_eq!(stop.reason(), "no space left in /a; free some space; b");
        assert_eq!((stop.code(), stop.with_trouble_code().code()), (3, 5));
        assert!(Stop::unless_empty(Vec::<Full>::new()).is_ok());
        assert!(Stop::unless_empty([Full("/a"), Full("/b")]).is_err_and(|stop| stop.code() == 3));
    }
}
