//! Identity of a failure. The identity decides whether two runs failed in the same way: two runs of one trial, of two
//! releases or nightly builds, or of a program and its minimised version.
//!
//! A signature is the text form of an identity, which records and `known` entries contain. For a failure of a worker or
//! a failed check, the signature names a place in the plan or in the program, which suffices to identify the failure. A
//! program that ended without reporting a failed check is identified by its output: the type and place of an exception,
//! the signal and the last call, or the last line of output. An exit status alone does not identify a failure.

mod endings;

use std::fmt;

use crate::phrases;

pub(crate) use endings::{function, python_exception};
pub use endings::{last_words, traceback, without_numbers};

/// A place in the source code of the user's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlace {
    /// Name of the file, without its folder.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Name of the function; empty if it is unknown.
    pub function: String,
}

/// Identity of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureIdentity {
    /// An uncaught exception of a Python program.
    Exception {
        /// Type of the exception without its module, for example `KeyError`.
        name: String,
        /// Innermost place in the user's own files at which the exception was raised; `None` if unknown.
        place: Option<SourcePlace>,
    },
    /// A signal ended the process.
    Crash {
        /// Phase of the program, or the call that the worker was making.
        during: String,
        /// Name of the signal, for example `SIGSEGV`. `None` for a worker, because its call suffices to identify the
        /// crash.
        signal: Option<String>,
        /// Last call that the process made before the signal, according to its output; `None` if the output does not
        /// show it.
        last: Option<LastCall>,
    },
    /// The program exited with a status that means failure.
    Exit {
        /// Exit status.
        status: i32,
        /// Last line that the program printed, without numbers, folders and secrets; `None` if it printed nothing.
        said: Option<String>,
    },
    /// Any other failure. It is identified by its whole signature, which names a check, a call or a buffer.
    Named(String),
}

/// The last call of a process that was killed by a signal: its place in the user's files, or the message of an abort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastCall {
    /// A place in one of the user's files.
    Place(SourcePlace),
    /// Type of a C++ exception, or text of a failed assertion.
    Words(String),
}

/// Result of comparing two failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureComparison {
    /// The two runs failed in the same way.
    Same,
    /// The two runs failed in different ways.
    Different,
    /// Both runs failed with the same exit status, and nothing else is known about the failures.
    Unknown,
}

impl FailureIdentity {
    /// Returns the identity of a failure that ended with an exit status: the exception that Python reported, or the
    /// last line that the process printed.
    pub fn of_exit(status: i32, stderr: &str, stdout: &str) -> FailureIdentity {
        // After an uncaught exception, Python exits with 1. With any other status, the program continued after the
        // traceback.
        if let (1, Some(raised)) = (status, endings::python_exception(stderr)) {
            return FailureIdentity::Exception { name: raised.name, place: raised.place };
        }
        let said = endings::last_words(stderr).or_else(|| endings::last_words(stdout));
        FailureIdentity::Exit {
            status,
            said: said.map(endings::normalised).filter(|said| !said.is_empty()),
        }
    }

    /// Returns the identity of a failure in which a signal ended the program in phase `during`.
    pub fn of_signal(during: &str, signal: i32, stderr: &str) -> FailureIdentity {
        let last = endings::last_place(stderr).map(LastCall::Place);
        let last = last.or_else(|| endings::abort_reason(stderr).map(LastCall::Words));
        FailureIdentity::Crash {
            during: during.to_owned(),
            signal: Some(phrases::signal(signal)),
            last,
        }
    }

    /// Parses a signature, including the forms that earlier versions of rocrepro wrote.
    pub fn parse(signature: &str) -> FailureIdentity {
        let named = || FailureIdentity::Named(signature.to_owned());
        let Some((kind, rest)) = signature.split_once(':') else {
            return match signature {
                "timeout" => FailureIdentity::Named("hang:program".to_owned()),
                _ => named(),
            };
        };
        let (first, more) = match rest.split_once(':') {
            Some((first, more)) => (first, Some(more)),
            None => (rest, None),
        };
        match kind {
            "exception" => {
                let place = more.and_then(SourcePlace::parse);
                FailureIdentity::Exception { name: first.to_owned(), place }
            }
            "exit" => match first.parse() {
                Ok(status) => exit(status, more),
                Err(_) => named(),
            },
            "crash" => {
                let (signal, last) =
                    match more.map(|more| more.split_once(':').unwrap_or((more, ""))) {
                        Some((signal, last)) => (Some(signal.to_owned()), last),
                        None => (None, ""),
                    };
                let place = SourcePlace::parse(last).map(LastCall::Place);
                let words = || (!last.is_empty()).then(|| LastCall::Words(last.to_owned()));
                FailureIdentity::Crash {
                    during: first.to_owned(),
                    signal,
                    last: place.or_else(words),
                }
            }
            // `bisect` wrote signatures of the form `signal:NUMBER` until version 0.2.
            "signal" => match first.parse() {
                Ok(number) => FailureIdentity::Crash {
                    during: "program".to_owned(),
                    signal: Some(phrases::signal(number)),
                    last: None,
                },
                Err(_) => named(),
            },
            "timeout" => FailureIdentity::Named("hang:program".to_owned()),
            _ => named(),
        }
    }

    /// Returns true if nothing but an exit status is known about the failure.
    pub fn is_bare_exit(&self) -> bool {
        matches!(self, FailureIdentity::Exit { said: None, .. })
    }

    /// Compares two failures of the same program. A place, signal or last call that only one of them has is ignored,
    /// because earlier versions of rocrepro recorded fewer details.
    pub fn compare(&self, other: &FailureIdentity) -> FailureComparison {
        self.compare_by(other, |one, other| one == other)
    }

    /// Compares the failures of a program before and after an edit. Because an edit moves lines, two places in the
    /// source code count as equal if the function has the same name.
    pub fn compare_edited(&self, other: &FailureIdentity) -> FailureComparison {
        self.compare_by(other, |one, other| one.function == other.function)
    }

    fn compare_by(
        &self,
        other: &FailureIdentity,
        is_there: fn(&SourcePlace, &SourcePlace) -> bool,
    ) -> FailureComparison {
        let is_same = match (self, other) {
            (
                FailureIdentity::Exception { name, place },
                FailureIdentity::Exception { name: name_2, place: place_2 },
            ) => name == name_2 && agree_if_known(place, place_2, is_there),
            (
                FailureIdentity::Crash { during, signal, last },
                FailureIdentity::Crash { during: during_2, signal: signal_2, last: last_2 },
            ) => {
                let is_last = |one: &LastCall, other: &LastCall| match (one, other) {
                    (LastCall::Place(one), LastCall::Place(other)) => is_there(one, other),
                    (LastCall::Words(one), LastCall::Words(other)) => same_words(one, other),
                    _ => false,
                };
                during == during_2
                    && agree_if_known(signal, signal_2, |one, other| one == other)
                    && agree_if_known(last, last_2, is_last)
            }
            (
                FailureIdentity::Exit { status, said },
                FailureIdentity::Exit { status: status_2, said: said_2 },
            ) => match (said, said_2) {
                _ if status != status_2 => false,
                (None, None) => return FailureComparison::Unknown,
                (Some(one), Some(other)) => same_words(one, other),
                _ => false,
            },
            (FailureIdentity::Named(one), FailureIdentity::Named(other)) => one == other,
            _ => false,
        };
        if is_same { FailureComparison::Same } else { FailureComparison::Different }
    }
}

/// Compares two failures of one program by their signatures.
pub fn likeness(one: &str, other: &str) -> FailureComparison {
    FailureIdentity::parse(one).compare(&FailureIdentity::parse(other))
}

/// Returns true unless the signatures of two failures show that the failures differ. Equal exit statuses without
/// further details count as possibly the same failure.
pub fn may_be_same(one: &str, other: &str) -> bool {
    likeness(one, other) != FailureComparison::Different
}

/// Returns the identity of a failure with this exit status and this last line of output. Earlier versions of rocrepro
/// recorded an exception as such a line, for example `KeyError: 7`. For such a line, returns the identity of an
/// exception.
fn exit(status: i32, said: Option<&str>) -> FailureIdentity {
    let name = said.and_then(|said| said.split_once(':')).map(|(name, _)| name);
    let is_exception = |name: &&str| {
        ["Error", "Exception", "Interrupt"].iter().any(|end| name.ends_with(end))
            && name.chars().all(|c| c.is_alphanumeric() || "._".contains(c))
    };
    match name.filter(is_exception) {
        Some(name) if status == 1 => FailureIdentity::Exception {
            name: endings::without_module(name).to_owned(),
            place: None,
        },
        _ => FailureIdentity::Exit { status, said: said.map(str::to_owned) },
    }
}

/// Returns true if the two values agree according to `agree`, or if at least one of them is unknown.
fn agree_if_known<T>(one: &Option<T>, other: &Option<T>, agree: impl Fn(&T, &T) -> bool) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => agree(one, other),
        _ => true,
    }
}

/// Returns true if two last lines of output are equal. A space and a dash count as equal: a record's signature has
/// dashes in place of spaces, because it is one word, but `bisect` keeps the spaces.
fn same_words(one: &str, other: &str) -> bool {
    let word = |text: &str| text.replace(' ', "-");
    word(one) == word(other)
}

impl SourcePlace {
    fn parse(text: &str) -> Option<SourcePlace> {
        let mut parts = text.splitn(3, ':');
        let (file, line, function) =
            (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
        let line = line.parse().ok()?;
        Some(SourcePlace { file: file.to_owned(), line, function: function.to_owned() })
    }
}

impl fmt::Display for SourcePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if self.function.is_empty() { Ok(()) } else { write!(f, ":{}", self.function) }
    }
}

impl fmt::Display for FailureIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureIdentity::Exception { name, place } => {
                write!(f, "exception:{name}")?;
                place.as_ref().map_or(Ok(()), |place| write!(f, ":{place}"))
            }
            FailureIdentity::Crash { during, signal, last } => {
                write!(f, "crash:{during}")?;
                signal.as_ref().map_or(Ok(()), |signal| write!(f, ":{signal}"))?;
                match last {
                    Some(LastCall::Place(place)) => write!(f, ":{place}"),
                    Some(LastCall::Words(words)) => write!(f, ":{words}"),
                    None => Ok(()),
                }
            }
            FailureIdentity::Exit { status, said } => {
                write!(f, "exit:{status}")?;
                said.as_ref().map_or(Ok(()), |said| write!(f, ":{said}"))
            }
            FailureIdentity::Named(signature) => f.write_str(signature),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACEBACK: &str = "warming up\nTraceback (most recent call last):\n  File \"/home/a/train.py\", line 30, in <module>\n    \
        main()\n  File \"/home/a/train.py\", line 12, in main\n    y = torch.relu(x)\n  File \
        \"/venv/lib/python3.12/site-packages/torch/functional.py\", line 9, in relu\n    return f(x)\nRuntimeError: HIP error: \
        invalid device function\nCompile with `TORCH_USE_HIP_DSA` to see more.\n";

    #[track_caller]
    fn check(one: &str, other: &str, expected: FailureComparison) {
        assert_eq!(likeness(one, other), expected, "{one} and {other}");
        assert_eq!(likeness(other, one), expected, "{other} and {one}");
    }

    #[test]
    fn exceptions_have_one_identity_with_and_without_the_helper() {
        let by_exit = FailureIdentity::of_exit(1, TRACEBACK, "");
        assert_eq!(by_exit.to_string(), "exception:RuntimeError:train.py:12:main");
        // Earlier versions of the helper and of `bisect` wrote the signatures below.
        for old in
            ["exception:RuntimeError", "exit:1:RuntimeError: HIP error: invalid device function"]
        {
            check(&by_exit.to_string(), old, FailureComparison::Same);
        }
        check(&by_exit.to_string(), "exception:KeyError", FailureComparison::Different);
        check(
            &by_exit.to_string(),
            "exception:RuntimeError:train.py:30:main",
            FailureComparison::Different,
        );
        check(&by_exit.to_string(), "exit:1", FailureComparison::Different);
    }

    #[test]
    fn different_exceptions_with_one_exit_status_are_different() {
        let raised = |last: &str| {
            let text = format!(
                "Traceback (most recent call last):\n  File \"x.py\", line 3, in <module>\n    f()\n{last}\n"
            );
            FailureIdentity::of_exit(1, &text, "").to_string()
        };
        check(&raised("RuntimeError: a"), &raised("RuntimeError: b"), FailureComparison::Same);
        check(
            &raised("RuntimeError: a"),
            &raised("FileNotFoundError: [Errno 2]"),
            FailureComparison::Different,
        );
    }

    #[test]
    fn bare_exit_statuses_are_not_known_to_be_the_same() {
        check("exit:1", "exit:1", FailureComparison::Unknown);
        check("exit:1", "exit:2", FailureComparison::Different);
        check("exit:1:wrong bytes", "exit:1:wrong-bytes", FailureComparison::Same);
        check("exit:1:wrong bytes", "exit:1:no device", FailureComparison::Different);
        check("exit:1:wrong bytes", "exit:1", FailureComparison::Different);
        assert!(FailureIdentity::of_exit(1, "", "\n").is_bare_exit());
        assert_eq!(
            FailureIdentity::of_exit(2, "", "sum 7 wrong\n").to_string(),
            "exit:2:sum # wrong"
        );
        // If the program continued after a traceback, the exception is not the cause of the program's end.
        assert_eq!(
            FailureIdentity::of_exit(3, TRACEBACK, "").to_string().split(':').next(),
            Some("exit")
        );
    }

    #[test]
    fn crashes_are_known_by_signal_and_last_call() {
        let of = |signal, stderr| FailureIdentity::of_signal("copy", signal, stderr).to_string();
        assert_eq!(of(11, ""), "crash:copy:SIGSEGV");
        let python = "Fatal Python error: Segmentation fault\n\nThread 0x7f01 (most recent call first):\n  File \"/a/other.py\", line 2 in \
            wait\n\nCurrent thread 0x7f00 (most recent call first):\n  File \"/usr/lib/python3.12/ctypes/__init__.py\", line 5 in \
            string_at\n  File \"/a/b/train.py\", line 8 in launch\n  File \"/a/b/train.py\", line 20 in <module>\n\nExtension modules: x\n";
        assert_eq!(of(11, python), "crash:copy:SIGSEGV:train.py:8:launch");
        let thrown = "terminate called after throwing an instance of 'std::runtime_error'\n  what():  no device 7\n";
        assert_eq!(of(6, thrown), "crash:copy:SIGABRT:std::runtime_error");
        let assertion = "a.out: /src/a.cpp:12: int main(): Assertion `n == 3' failed.\n";
        assert_eq!(of(6, assertion), "crash:copy:SIGABRT:Assertion `n == #' failed.");
        check(&of(6, thrown), &of(6, assertion), FailureComparison::Different);
        check(&of(6, ""), &of(11, ""), FailureComparison::Different);
        check(&of(11, ""), "crash:copy", FailureComparison::Same);
        check("signal:11", "crash:program:SIGSEGV:x.py:3:f", FailureComparison::Same);
        check("crash:hipMalloc", "crash:hipFree", FailureComparison::Different);
        check("timeout:last line", "hang:program", FailureComparison::Same);
    }

    #[test]
    fn lines_may_move_in_an_edited_program() {
        let (one, other) = ("exception:KeyError:x.py:12:main", "exception:KeyError:x.py:7:main");
        let compare =
            |one, other| FailureIdentity::parse(one).compare_edited(&FailureIdentity::parse(other));
        assert_eq!(compare(one, other), FailureComparison::Same);
        assert_eq!(compare(one, "exception:KeyError:x.py:12:load"), FailureComparison::Different);
        check(one, other, FailureComparison::Different);
    }

    #[test]
    fn parsed_signatures_are_printed_unchanged() {
        for signature in [
            "exception:KeyError",
            "exception:KeyError:x.py:3",
            "exception:hipErrorUnknown:program.cpp:7",
            "crash:hipMalloc",
            "crash:copy:SIGABRT:std::runtime_error",
            "crash:copy:SIGSEGV:x.py:8:launch",
            "exit:7",
            "exit:1:wrong at #: #",
            "wrong-data:dst.back:zero",
            "match:invalid \\w+",
        ] {
            assert_eq!(FailureIdentity::parse(signature).to_string(), signature);
        }
    }
}
