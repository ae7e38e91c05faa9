//! Patterns of HIP calls, by which a `known` entry recognises its failure in the log of any program.

use std::{fmt, str::FromStr};

/// A pattern of a HIP call: `hipStreamEndCapture(s) -> hipErrorStreamCaptureInvalidated`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPattern {
    /// Number of calls that must match.
    pub times: Times,
    /// Name of the function, which may end in `*`, such as `hipGraphInstantiate*`; `None` (written `*`) means any
    /// function.
    pub function: Option<String>,
    /// Patterns of arguments. If the function is named, they apply to its first arguments in order, and further
    /// arguments may have any value. If `function` is `None`, each pattern may match an argument at any position.
    pub arguments: Vec<ArgumentPattern>,
    /// Status of the call.
    pub status: StatusPattern,
}

/// Number of calls that must match a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// One call.
    Once,
    /// At least this many calls, possibly with other calls between them; written `at least 20000 hipLaunchKernel`.
    AtLeast(u32),
    /// No call may match between the call that matches the previous pattern of the list and the call that matches the
    /// next one; written `not hipStreamEndCapture(s)`.
    Never,
}

/// A pattern of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentPattern {
    /// Any value, written `_`.
    Any,
    /// The null stream or a null pointer, written `null`.
    Null,
    /// A handle, address or number that must be the same wherever the name occurs, such as `s`.
    Same(String),
    /// The value as the log shows it, such as `0` or `hipMemcpyDeviceToHost`.
    Value(String),
}

/// A pattern of the status of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusPattern {
    /// Any status.
    Any,
    /// One of the named statuses, such as `hipErrorInvalidValue or hipErrorIllegalState`.
    OneOf(Vec<String>),
    /// The call did not return, written `-> no return`.
    NoReturn,
}

impl FromStr for CallPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<CallPattern, String> {
        let (times, rest) = Times::read(text)?;
        let (call, status) = match rest.split_once("->") {
            Some((call, status)) => (call.trim(), Some(status.trim())),
            None => (rest.trim(), None),
        };
        let (name, rest) = call.split_once('(').map_or((call, None), |(n, rest)| (n, Some(rest)));
        let name = name.trim();
        let function = match name {
            "*" => None,
            _ if is_function(name) => Some(name.to_owned()),
            _ => return Err(format!("`{name}` is not a HIP function; use `*` for any function")),
        };
        let arguments = match rest.map(|rest| rest.strip_suffix(')')) {
            None => "",
            Some(Some(inside)) => inside,
            Some(None) => return Err(format!("`{call}` has no closing parenthesis at its end")),
        };
        let arguments = arguments.split(',').map(str::trim).filter(|word| !word.is_empty());
        let arguments = arguments.map(ArgumentPattern::parse).collect();
        let status = match status {
            None => StatusPattern::Any,
            Some("no return") => StatusPattern::NoReturn,
            Some(statuses) => {
                let statuses = statuses.split(" or ").map(|name| is_status(name.trim()));
                StatusPattern::OneOf(statuses.collect::<Result<_, _>>()?)
            }
        };
        if function.is_none() && matches!(status, StatusPattern::Any) {
            return Err(format!("`{text}` matches every call: name a function or a status"));
        }
        Ok(CallPattern { times, function, arguments, status })
    }
}

impl Times {
    /// Reads the words at the beginning of a pattern that state the number of calls (`not`, `at least 20000`, or no
    /// words for one call), and returns the number with the rest of the text.
    fn read(text: &str) -> Result<(Times, &str), String> {
        if let Some(rest) = text.strip_prefix("not ") {
            return Ok((Times::Never, rest));
        }
        let Some(rest) = text.strip_prefix("at least ") else { return Ok((Times::Once, text)) };
        let number = rest.split_once(' ').and_then(|(n, rest)| Some((n.parse().ok()?, rest)));
        let (number, rest) = number.ok_or(format!("`{text}` has no number after `at least`"))?;
        Ok((Times::AtLeast(number), rest))
    }
}

/// Name of the C library's function that ends a process. In the list of HIP calls of a `known` entry, this name means
/// that a signal killed the process while the process was exiting.
pub const EXIT: &str = "exit";

fn is_function(name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(beginning) => {
            device::library_functions().iter().any(|it| it.name.starts_with(beginning))
        }
        None => name == EXIT || device::library_function(name).is_some(),
    }
}

fn is_status(name: &str) -> Result<String, String> {
    if device::hip_statuses().iter().any(|(status, _)| *status == name) {
        return Ok(name.to_owned());
    }
    Err(format!(
        "`{name}` is not a status; write one such as hipErrorInvalidValue after `->`, or `no return`"
    ))
}

impl ArgumentPattern {
    fn parse(word: &str) -> ArgumentPattern {
        let is_name =
            word.starts_with(|c: char| c.is_ascii_lowercase()) && !word.starts_with("hip");
        match word {
            "_" => ArgumentPattern::Any,
            "null" => ArgumentPattern::Null,
            _ if is_name => ArgumentPattern::Same(word.to_owned()),
            _ => ArgumentPattern::Value(word.to_owned()),
        }
    }
}

impl fmt::Display for CallPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.times {
            Times::Once => {}
            Times::AtLeast(number) => write!(f, "at least {number} ")?,
            Times::Never => f.write_str("not ")?,
        }
        f.write_str(self.function.as_deref().unwrap_or("*"))?;
        if !self.arguments.is_empty() {
            let words = self.arguments.iter().map(|argument| match argument {
                ArgumentPattern::Any => "_",
                ArgumentPattern::Null => "null",
                ArgumentPattern::Same(name) | ArgumentPattern::Value(name) => name,
            });
            write!(f, "({})", words.collect::<Vec<_>>().join(", "))?;
        }
        match &self.status {
            StatusPattern::Any => Ok(()),
            StatusPattern::OneOf(statuses) => write!(f, " -> {}", statuses.join(" or ")),
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
            "hipGraphInstantiate* -> no return",
            "at least 20000 hipLaunchKernel(_, _, _, _, _, s)",
            "not hipStreamEndCapture(s)",
            "hipMallocAsync(_, _, null)",
            "exit -> no return",
            "*(s) -> hipErrorIllegalState or hipErrorInvalidValue",
        ] {
            assert_eq!(text.parse::<CallPattern>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("hipStreamBeginCaptur(s)", "is not a HIP function"),
            ("*", "matches every call"),
            ("hipMalloc(a -> hipSuccess", "no closing parenthesis"),
            ("hipMalloc -> success", "is not a status"),
            ("hipMalloc -> hipSuccess or refused", "`refused` is not a status"),
            ("hipMallocTo*", "is not a HIP function"),
            ("at least hipMalloc", "has no number after `at least`"),
        ] {
            assert!(text.parse::<CallPattern>().unwrap_err().contains(why), "{text}");
        }
    }
}
