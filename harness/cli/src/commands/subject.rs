//! Finds the trials that a command works on: the trials of cases, or the single trial of a user's program.

use device::FaultSpec;
use engine::{
    CaseLibrary, SessionOptions, Stop, command_line::CommandLine, failing_trial::Subjects, select,
};

use crate::args::OwnProgram;

/// The subject of a command: cases, or the user's own command line.
pub(super) enum CasesOrProgram {
    Cases { library: Box<CaseLibrary>, named: Vec<String> },
    Program(Box<CommandLine>),
}

impl CasesOrProgram {
    /// Reads the program that the command line contains, or otherwise the cases that it selects.
    ///
    /// # Errors
    /// Mistakes in the cases or in the command line.
    pub(super) fn read(
        own: &OwnProgram,
        session: &SessionOptions,
        named: &[String],
        load: impl FnOnce() -> Result<CaseLibrary, Stop>,
    ) -> Result<CasesOrProgram, Stop> {
        let Some((program, arguments)) = own.command.split_first() else {
            if let Some(option) = own.judged.first_given_option() {
                return Err(Stop::usage(format!(
                    "error: `{option}` needs a program, and none is given\nhint: write the program after `--`"
                )));
            }
            let library = Box::new(load()?);
            return Ok(CasesOrProgram::Cases { library, named: named.to_vec() });
        };
        if let Some(name) = named.first() {
            return Err(Stop::usage(format!(
                "error: both a case (`{name}`) and a program are given\nhint: give only one of them"
            )));
        }
        let environment = session.packages_in.clone();
        let options = own.judged.command(program.into(), arguments.to_vec(), environment);
        CommandLine::read(options, session).map(|line| CasesOrProgram::Program(Box::new(line)))
    }

    /// Returns the options of the session in which the trials run.
    ///
    /// # Errors
    /// The current folder cannot be found.
    pub(super) fn session(&self, options: SessionOptions) -> Result<SessionOptions, Stop> {
        match self {
            CasesOrProgram::Cases { .. } => Ok(options),
            CasesOrProgram::Program(line) => line.in_session(options),
        }
    }

    /// Returns the trials, with these injected faults.
    ///
    /// # Errors
    /// Names that match no trial.
    pub(super) fn subjects(&self, faults: Vec<FaultSpec>) -> Result<Subjects<'_>, Stop> {
        match self {
            CasesOrProgram::Cases { library, named } => {
                let selected = select(library, named)?;
                Ok(Subjects { library, selected, faults, command: None })
            }
            CasesOrProgram::Program(line) => Subjects::of_command(line, faults),
        }
    }
}
