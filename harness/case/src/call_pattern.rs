//! Patterns of HIP calls, by which a `known` entry recognises its failure in the log of any program.

use std::{fmt, str::FromStr};

/// A pattern of a HIP call: `hipStreamEndCapture(s) -> hipErrorStreamCaptureInvalidated`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPattern {
    /// Name of the function; `None` (written `*`) means any function.
    pub function: Option<String>,
    /// Patterns of arguments. If the function is named, they apply to its first arguments in order, and further
    /// arguments may have any value. If `function` is `None`, each pattern may match an argument at any position.
    pub arguments: Vec<ArgumentPattern>,
    /// Status of the call.
    pub status: StatusPattern,
}

/// A pattern of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentPattern {
    /// Any value, written `_`.
    Any,
    /// A handle or address that must be the same wherever the name occurs, such as `s`.
    Same(String),
    /// The value as the log shows it, such as `0` or `hipMemcpyDeviceToHost`.
    Value(String),
}

/// A pattern of the status of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusPattern {
    /// Any status.
    Any,
    /// The named status, such as `hipErrorInvalidValue`.
    Status(String),
    /// The call did not return, written `-> no return`.
    NoReturn,
}

impl FromStr for CallPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<CallPattern, String> {
        let (call, status) = match text.split_once("->") {
            Some((call, status)) => (call.trim(), Some(status.trim())),
            None => (text.trim(), None),
        };
        let (name, rest) = call.split_once('(').map_or((call, None), |(n, rest)| (n, Some(rest)));
        let name = name.trim();
        let function = match name {
            "*" => None,
            _ if device::library_function(name).is_some() => Some(name.to_owned()),
            _ => return Err(format!("`{name}` is not a HIP function; use `*` for any function")),
        };
        let arguments = match rest.map(|rest| rest.strip_suffix(')')) {
            None => "",
            Some(Some(inside)) => inside,
            Some(None) => return Err(format!("`{call}` has no closing parenthesis at its end")),
        };
        let arguments = arguments.split(',').map(str::trim).filter(|word| !word.is_empty());
        let arguments = arguments.map(ArgumentPattern::of).collect();
        let status = match status {
            None => StatusPattern::Any,
            Some("no return") => StatusPattern::NoReturn,
            Some(status) if device::hip_statuses().iter().any(|(name, _)| *name == status) => {
                StatusPattern::Status(status.to_owned())
            }
            Some(status) => {
                return Err(format!(
                    "`{status}` is not a status; write one such as hipErrorInvalidValue after `->`, or `no return`"
                ));
            }
        };
        if function.is_none() && matches!(status, StatusPattern::Any) {
            return Err(format!("`{text}` matches every call: name a function or a status"));
        }
        Ok(CallPattern { function, arguments, status })
    }
}

impl ArgumentPattern {
    fn of(word: &str) -> ArgumentPattern {
        let is_name =
            word.starts_with(|c: char| c.is_ascii_lowercase()) && !word.starts_with("hip");
        match word {
            "_" => ArgumentPattern::Any,
            _ if is_name => ArgumentPattern::Same(word.to_owned()),
            _ => ArgumentPattern::Value(word.to_owned()),
        }
    }
}

impl fmt::Display for CallPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function.as_deref().unwrap_or("*"))?;
        if !self.arguments.is_empty() {
            let words = self.arguments.iter().map(|argument| match argument {
                ArgumentPattern::Any => "_",
                ArgumentPattern::Same(name) | ArgumentPattern::Value(name) => name,
            });
            write!(f, "({})", words.collect::<Vec<_>>().join(", "))?;
        }
        match &self.status {
            StatusPattern::Any => Ok(()),
            StatusPattern::Status(status) => write!(f, " -> {status}"),
            StatusPattern::NoReturn => f.write_str(" -> no return"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CallPattern;

    #[test]
    fn patterns_are_read_and_written() {
        for text in [
            "hipStreamBeginCapture(s)",
            "* -> hipErrorStreamCaptureUnsupported",
            "hipMemsetAsync(_, _, 0, s) -> hipErrorInvalidValue",
            "hipGraphInstantiate -> no return",
        ] {
            assert_eq!(text.parse::<CallPattern>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("hipStreamBeginCaptur(s)", "is not a HIP function"),
            ("*", "matches every call"),
            ("hipMalloc(a -> hipSuccess", "no closing parenthesis"),
            ("hipMalloc -> success", "is not a status"),
        ] {
            assert!(text.parse::<CallPattern>().unwrap_err().contains(why), "{text}");
        }
    }
}
