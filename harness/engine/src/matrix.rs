//! Plans and runs the columns of `rocrepro matrix`: one run for each stack, device and Python environment, each in a
//! process of its own.

use std::{
    io,
    path::PathBuf,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use report::Record;
use rustix::process::{Pid, Signal, kill_process};
use stacks::Hint;
use supervise::Cancel;
use thiserror::Error;

use crate::{
    Stop, environments::Environments, own_program, record_file::RecordFile, stop::explained,
};

/// An error that prevents a column from being planned or run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// The user named architectures, but the columns run on a GPU.
    #[error("`--gfx` and `--on` cannot be used with a GPU, which has its own architecture")]
    ArchitectureOfGpu,
    /// The name of a column does not consist of a stack and an architecture.
    #[error("`--on {0}` is not SPEC@GFX, such as debian:5.7.1@gfx1030")]
    NotAPair(String),
    /// The options choose no column.
    #[error("no stacks given")]
    NoColumn,
    /// The name of a stack is not valid.
    #[error("{0}")]
    Stack(String),
    /// The name of an architecture is not valid.
    #[error("{0}")]
    Architecture(String),
    /// Two columns would have the same record file.
    #[error("`{name}` and `{other}` would write to the same record file, `{}`", record.display())]
    SameFile {
        /// Name of one column.
        name: String,
        /// Name of the other column.
        other: String,
        /// Path of the record file.
        record: PathBuf,
    },
    /// A record file lacks the records of more planned trials than a page can name.
    #[error("`{}` lacks {missing} planned trials, too many to list on a page", record.display())]
    TooManyMissing {
        /// Path of the record file.
        record: PathBuf,
        /// Number of trials without a record.
        missing: u64,
    },
    /// The process of a run cannot be started or watched.
    #[error("cannot start a run: {0}")]
    Run(io::Error),
}

impl Hint for MatrixError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            MatrixError::ArchitectureOfGpu => "remove `--gfx` and `--on`",
            MatrixError::NoColumn => "name stacks with `--rocm` or `--on`",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl From<MatrixError> for Stop {
    fn from(error: MatrixError) -> Stop {
        let message = format!("error: {}", explained(&error));
        match error {
            MatrixError::Run(_) => Stop::no_verdict(message),
            _ => Stop::usage(message),
        }
    }
}

/// Options that choose the columns of a matrix.
#[derive(Clone, Debug)]
pub struct MatrixOptions {
    /// True to run the columns on a GPU instead of the emulated device.
    pub on_gpu: bool,
    /// Names of stacks. Each stack gets one column for each architecture.
    pub rocm: Vec<String>,
    /// Architectures of the emulated device; `gfx1151` if empty.
    pub gfx: Vec<String>,
    /// Further columns, each of the form `SPEC@GFX`.
    pub on: Vec<String>,
    /// Names or folders of Python environments. Each combination of stack and architecture gets one column for each environment.
    pub environments: Vec<String>,
    /// Folder for the record files.
    pub out: PathBuf,
    /// True to accept options that choose no column.
    pub may_be_empty: bool,
}

/// A run whose results become one column of the matrix.
#[derive(Clone, Debug)]
pub struct PlannedColumn {
    /// The heading of the column.
    pub name: String,
    spec: String,
    /// The architecture of the emulated device; `None` on a GPU.
    gfx: Option<String>,
    /// Name or folder of the Python environment of program cases; if `None`, each case names its own.
    environment: Option<String>,
    /// Path of the record file.
    pub record: PathBuf,
}

/// Returns the columns that the options choose, without duplicates.
///
/// # Errors
/// All mistakes in the options.
pub fn planned_columns(options: &MatrixOptions) -> Result<Vec<PlannedColumn>, Stop> {
    let (mut columns, mut problems) = (Vec::<PlannedColumn>::new(), Vec::<Stop>::new());
    if options.on_gpu && !(options.gfx.is_empty() && options.on.is_empty()) {
        problems.push(MatrixError::ArchitectureOfGpu.into());
    }
    let usual = ["gfx1151".to_owned()];
    let gfx = if options.gfx.is_empty() { &usual[..] } else { &options.gfx };
    let mut pairs: Vec<(&str, Option<&str>)> = Vec::new();
    for spec in &options.rocm {
        match options.on_gpu {
            true => pairs.push((spec, None)),
            false => pairs.extend(gfx.iter().map(|gfx| (spec.as_str(), Some(gfx.as_str())))),
        }
    }
    for on in &options.on {
        match on.rsplit_once('@') {
            Some((spec, gfx)) => pairs.push((spec, Some(gfx))),
            None => problems.push(MatrixError::NotAPair(on.clone()).into()),
        }
    }
    if pairs.is_empty() && problems.is_empty() && !options.may_be_empty {
        problems.push(MatrixError::NoColumn.into());
    }
    let named = |name: &String| Environments::named(name);
    problems.extend(options.environments.iter().filter_map(|name| named(name).err()));
    let each_case: [Option<&String>; 1] = [None];
    let named: Vec<_> = options.environments.iter().map(Some).collect();
    let environments = if named.is_empty() { &each_case[..] } else { &named };
    let each = pairs.iter().flat_map(|pair| environments.iter().map(move |it| (*pair, *it)));
    for ((spec, gfx), environment) in each {
        if let Err(error) = spec.parse::<stacks::Spec>() {
            problems.push(MatrixError::Stack(explained(&error)).into());
        }
        if let Some(Err(error)) = gfx.map(str::parse::<device::Arch>) {
            problems.push(MatrixError::Architecture(error.to_string()).into());
        }
        let short = spec.strip_prefix("debian:").unwrap_or(spec);
        let mut name = gfx.map_or_else(|| format!("{short} GPU"), |gfx| format!("{short} {gfx}"));
        name.extend(environment.map(|environment| format!(" in {environment}")));
        let plain = |c: char| if c.is_ascii_alphanumeric() || ".-".contains(c) { c } else { '_' };
        let file = format!("{}.jsonl", name.chars().map(plain).collect::<String>());
        let record = options.out.join(file);
        match columns.iter().find(|column| column.record == record) {
            Some(same) if same.name == name => {}
            Some(other) => {
                let other = other.name.clone();
                problems.push(MatrixError::SameFile { name, other, record }.into());
            }
            None => {
                let (spec, gfx) = (spec.to_owned(), gfx.map(str::to_owned));
                let environment = environment.cloned();
                columns.push(PlannedColumn { name, spec, gfx, environment, record });
            }
        }
    }
    let mut problems: Vec<_> = problems.iter().map(Stop::to_string).collect();
    problems.dedup();
    if problems.is_empty() { Ok(columns) } else { Err(Stop::usage(problems.join("\n"))) }
}

impl PlannedColumn {
    /// Runs those trials of the column that have no record yet, in a `rocrepro run` process with the additional
    /// arguments `words`. Returns the reason if the run did not end as it should.
    ///
    /// # Errors
    /// A process that cannot be started.
    pub fn run(&self, words: &[String], cancel: &Cancel) -> Result<Option<String>, MatrixError> {
        let mut command = Command::new(own_program::stable_path().map_err(MatrixError::Run)?);
        command.arg("run").args(words);
        let mut option = |name: &str, value: &str| _ = command.arg(format!("{name}={value}"));
        option("--rocm", &self.spec);
        option("--device", if self.gfx.is_some() { "emulated" } else { "gpu" });
        self.gfx.iter().for_each(|gfx| option("--gfx", gfx));
        self.environment.iter().for_each(|name| option("--in", name));
        command.arg("--record").arg(&self.record);
        if self.record.exists() {
            command.arg("--resume");
        }
        command.arg("--below").arg(std::process::id().to_string());
        // The matrix page shows the results, so the output of the run is dropped.
        let run = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut run = run.map_err(MatrixError::Run)?;
        let mut interrupted = false;
        let status = loop {
            if let Some(status) = run.try_wait().map_err(MatrixError::Run)? {
                break status;
            }
            // Ctrl-C in a terminal interrupts both processes, but a signal to this process alone has to be passed on.
            if cancel.is_cancelled() && !interrupted {
                interrupted = kill_process(Pid::from_child(&run), Signal::INT).is_ok();
            }
            sleep(Duration::from_millis(20));
        };
        Ok(match status.code() {
            Some(0 | 1 | 3 | 4) => None,
            Some(2) => Some("its options were rejected".to_owned()),
            Some(code) => Some(format!("it ended with exit code {code}")),
            None => Some(format!("it was killed: {status}")),
        })
    }

    /// Returns the records of the column, and the ids of planned trials without a record.
    ///
    /// # Errors
    /// A file that cannot be read, or more trials without a record than a page can name.
    pub fn read(&self) -> Result<(Vec<Record>, Vec<String>), Stop> {
        let record = &self.record;
        if !record.exists() {
            return Ok(Default::default());
        }
        let file = RecordFile::open(record)?;
        let held = file.index.last().pop().map(|run| file.read_run(run, false)).transpose()?;
        let Some(held) = held else { return Ok(Default::default()) };
        let missing = held.missing();
        if missing.count > missing.listed.len() as u64 {
            let (record, missing) = (record.clone(), missing.count);
            return Err(MatrixError::TooManyMissing { record, missing }.into());
        }
        let names = missing.listed.into_iter().map(|(_, trial)| trial).collect();
        Ok((held.records.into_values().collect(), names))
    }
}
