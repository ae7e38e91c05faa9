use std::{fmt, process::ExitCode};

/// Why the command ends early: a message for the user and the exit code.
#[derive(Debug)]
pub struct Stop {
    code: u8,
    message: String,
}

impl Stop {
    /// The user asked for something that cannot be: exit code 2.
    pub fn usage(message: impl fmt::Display) -> Stop {
        Stop { code: 2, message: message.to_string() }
    }

    /// The machine did not let us find out: exit code 3.
    pub fn no_verdict(message: impl fmt::Display) -> Stop {
        Stop { code: 3, message: message.to_string() }
    }

    /// Nothing was left to run: exit code 4.
    pub fn nothing(message: impl fmt::Display) -> Stop {
        Stop { code: 4, message: message.to_string() }
    }

    /// Both, or what is wrong with either.
    pub(crate) fn both<A, B>(a: Result<A, Stop>, b: Result<B, Stop>) -> Result<(A, B), Stop> {
        match (a, b) {
            (Ok(a), Ok(b)) => Ok((a, b)),
            (Err(a), Err(b)) => Err(Stop { message: format!("{a}\n{b}"), ..a }),
            (Err(stop), _) | (_, Err(stop)) => Err(stop),
        }
    }

    /// Whether the user asked for something that cannot be.
    pub(crate) fn is_usage(&self) -> bool {
        self.code == 2
    }

    /// The same with exit code 5 where no verdict was possible, for commands in which 3 means something else.
    pub(crate) fn trouble(self) -> Stop {
        Stop { code: if self.code == 3 { 5 } else { self.code }, ..self }
    }

    /// Prints the message.
    pub fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            report::note(&self.message);
        }
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Stop {}

/// An error with its causes on one line: `cannot do this: because: of that`.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
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
pub(crate) fn explained(error: &dyn stacks::Hint) -> String {
    let hint = error.hint().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
    chain(error) + &hint
}

/// Returns an error with its causes and its hint on one line.
pub(crate) fn in_one_line(error: &dyn stacks::Hint) -> String {
    let hint = error.hint().map_or_else(String::new, |hint| format!("; {hint}"));
    chain(error) + &hint
}
