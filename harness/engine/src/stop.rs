//! The error of an operation, with the exit code of the command.

use std::fmt;

/// The early end of a command: a message for the user and the exit code.
#[derive(Debug)]
pub struct Stop {
    code: u8,
    message: String,
}

impl Stop {
    /// Returns a stop with exit code 2: the user asked for something impossible.
    pub fn usage(message: impl fmt::Display) -> Stop {
        Stop { code: 2, message: message.to_string() }
    }

    /// Returns a stop with exit code 3: the machine prevented a verdict.
    pub fn no_verdict(message: impl fmt::Display) -> Stop {
        Stop { code: 3, message: message.to_string() }
    }

    /// Returns a stop with exit code 4: nothing was left to run.
    pub fn nothing(message: impl fmt::Display) -> Stop {
        Stop { code: 4, message: message.to_string() }
    }

    /// Returns both values, or the messages of all failures with the exit code of the first.
    pub fn both<A, B>(a: Result<A, Stop>, b: Result<B, Stop>) -> Result<(A, B), Stop> {
        match (a, b) {
            (Ok(a), Ok(b)) => Ok((a, b)),
            (Err(a), Err(b)) => Err(Stop { message: format!("{a}\n{b}"), ..a }),
            (Err(stop), _) | (_, Err(stop)) => Err(stop),
        }
    }

    /// Returns true if the user asked for something impossible.
    pub fn is_usage(&self) -> bool {
        self.code == 2
    }

    /// Replaces exit code 3 by 5, for commands in which 3 has another meaning.
    pub fn trouble(self) -> Stop {
        Stop { code: if self.code == 3 { 5 } else { self.code }, ..self }
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        self.code
    }
}

/// The meaning of a failed operation for the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// The user asked for something impossible.
    Usage,
    /// The machine did not let the operation finish.
    NoVerdict,
}

/// A failed operation.
pub trait FailedOperation: std::error::Error {
    /// Returns the meaning of the failure for the command.
    fn class(&self) -> FailureClass;

    /// Returns what the user can do about it.
    fn hint(&self) -> Option<String> {
        None
    }
}

impl<F: FailedOperation> From<F> for Stop {
    fn from(failure: F) -> Stop {
        let hint = failure.hint().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
        let message = format!("error: {failure}{hint}");
        match failure.class() {
            FailureClass::Usage => Stop::usage(message),
            FailureClass::NoVerdict => Stop::no_verdict(message),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Stop {}

/// Returns an error with its causes on one line, for example `cannot write a.txt: permission denied`.
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

/// Returns an error with its causes, and its hint on a line of its own.
pub fn explained(error: &dyn stacks::Hint) -> String {
    let hint = error.hint().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
    chain(error) + &hint
}

/// Returns an error with its causes and its hint on one line.
pub fn in_one_line(error: &dyn stacks::Hint) -> String {
    let hint = error.hint().map_or_else(String::new, |hint| format!("; {hint}"));
    chain(error) + &hint
}
