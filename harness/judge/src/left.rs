//! Describes the processes that a worker or a program left running, and recognises helper processes that frameworks
//! keep running.

use crate::LeftProcess;

/// Longest part of a command line that is printed, in characters.
const MAX_SHOWN_CHARS: usize = 160;

/// Folder of the program of Inductor's compile workers, below the package of PyTorch
/// (<https://github.com/pytorch/pytorch/tree/v2.6.0/torch/_inductor/compile_worker>).
const COMPILE_WORKER: &str = "/torch/_inductor/compile_worker/";

/// Beginnings of the code that Python's multiprocessing passes to `-c`, each with a description of the process
/// (<https://github.com/python/cpython/blob/v3.11.7/Lib/multiprocessing/resource_tracker.py#L122>,
/// <https://github.com/python/cpython/blob/v3.11.7/Lib/multiprocessing/forkserver.py#L124>). A process that a fork
/// server has forked shows the command line of the server.
const MULTIPROCESSING_HELPERS: [(&str, &str); 2] = [
    (
        "from multiprocessing.resource_tracker import main",
        "the resource tracker of Python's multiprocessing",
    ),
    (
        "from multiprocessing.forkserver import main",
        "a process of the fork server of Python's multiprocessing",
    ),
];

/// Name that a worker of PyTorch's DataLoader gives itself
/// (<https://github.com/pytorch/pytorch/blob/v2.6.0/torch/utils/data/_utils/worker.py#L255>).
const DATA_WORKER: &str = "pt_data_worker";

/// Returns a description of the process if it is a known helper process of a framework; otherwise `None`. Such a
/// process ends by itself some time after the program.
pub(crate) fn worker(process: &LeftProcess) -> Option<&'static str> {
    if process.name == DATA_WORKER {
        return Some("a worker of PyTorch's DataLoader");
    }
    let mut words = process.command.iter();
    let is_python = words.next().is_some_and(|program| {
        program.rsplit('/').next().is_some_and(|name| name.starts_with("python"))
    });
    // Options of the Python interpreter precede the file of the program.
    let program = words.clone().find(|word| !word.starts_with('-'));
    if is_python && program.is_some_and(|file| file.contains(COMPILE_WORKER)) {
        return Some("a compile worker of PyTorch's Inductor");
    }
    let code = words.skip_while(|word| *word != "-c").nth(1)?;
    let known = MULTIPROCESSING_HELPERS.iter().find(|(begin, _)| code.starts_with(begin));
    known.filter(|_| is_python).map(|(_, name)| *name)
}

/// Describes one process for people, in one line.
pub(crate) fn describe(process: &LeftProcess) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let line = process.command.join(" ");
    let line = if line.is_empty() { process.name.clone() } else { line };
    let mut shown: String = line.chars().map(plain).take(MAX_SHOWN_CHARS).collect();
    if line.chars().count() > MAX_SHOWN_CHARS {
        shown.push_str("...");
    }
    let about = worker(process).map(|name| format!(", {name}")).unwrap_or_default();
    format!("Still running: {shown}{about}")
}

/// Returns the number of processes as text: `a process`, or for example `2 processes`.
pub(crate) fn counted(number: usize) -> String {
    if number == 1 { "a process".to_owned() } else { format!("{number} processes") }
}
