use std::{ffi::OsString, path::PathBuf};

use clap::Args;
use engine::command_line::CommandOptions;

/// A program of the user, for a command that works on a case or on a program.
#[derive(Args)]
pub(crate) struct OwnProgram {
    #[command(flatten)]
    pub(crate) judged: JudgeOptions,

    /// Your own program, run in the current folder instead of a case
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

/// Options that state what a run of a program must show in order to pass.
#[derive(Args)]
pub(crate) struct JudgeOptions {
    /// The exit status that the program must have
    #[arg(long, value_name = "STATUS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=255))]
    pub(crate) exit: u32,

    /// Text that the program's output must contain
    #[arg(long, value_name = "TEXT")]
    pub(crate) says: Vec<String>,

    /// Text that the program's output must not contain
    #[arg(long, value_name = "TEXT")]
    pub(crate) never: Vec<String>,

    /// The expected behaviour in one sentence, for the title of the issue
    #[arg(long, value_name = "SENTENCE")]
    pub(crate) title: Option<String>,

    /// The file with the program's source [default: the first word of the command line that names a text file]
    #[arg(long, value_name = "FILE")]
    pub(crate) source: Option<PathBuf>,
}

impl JudgeOptions {
    /// Returns the name of the first of these options that the user gave; `None` if the user gave none of them.
    pub(crate) fn first_given_option(&self) -> Option<&'static str> {
        let all = [
            ("--exit", self.exit != 0),
            ("--says", !self.says.is_empty()),
            ("--never", !self.never.is_empty()),
            ("--title", self.title.is_some()),
            ("--source", self.source.is_some()),
        ];
        all.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// Combines these options with a program, its arguments and the Python environment that it runs in.
    pub(crate) fn command(
        &self,
        program: PathBuf,
        arguments: Vec<OsString>,
        environment: Option<String>,
    ) -> CommandOptions {
        CommandOptions {
            program,
            arguments,
            environment,
            outside_namespace: false,
            exit: self.exit,
            says: self.says.clone(),
            never: self.never.clone(),
            title: self.title.clone(),
            source: self.source.clone(),
        }
    }
}
