//! Reads the calls of a log with their arguments and statuses, as the log shows them.

use std::collections::HashMap;

use super::{Entry, entry, split};

/// A HIP call in the log of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCall {
    /// Id of the process as the log shows it; empty if the log contains none.
    pub process: String,
    /// Name of the function.
    pub name: String,
    /// The arguments as the log shows them, such as addresses and names of enumerators.
    pub arguments: Vec<String>,
    /// Name of the status; `None` if the log does not contain the return of the call.
    pub status: Option<String>,
}

/// Returns the calls of a log in the order in which they began. The runtime does not log the return of some functions;
/// calls of these functions have no status.
pub fn logged_calls(log: &str) -> Vec<LoggedCall> {
    let mut calls: Vec<LoggedCall> = Vec::new();
    let mut open: HashMap<&str, Vec<usize>> = HashMap::new();
    for line in log.lines() {
        let of_thread = open.entry(process_and_thread(line)).or_default();
        match entry(line) {
            Some(Entry::Called(name, arguments)) => {
                of_thread.push(calls.len());
                let arguments = split(arguments).into_iter().map(str::to_owned).collect();
                let process = process_and_thread(line).split(' ').next().unwrap_or_default();
                calls.push(LoggedCall {
                    process: process.to_owned(),
                    name: name.to_owned(),
                    arguments,
                    status: None,
                });
            }
            Some(Entry::Returned(name)) => {
                if let Some(at) = of_thread.iter().rposition(|n| calls[*n].name == name) {
                    let status = line.split_once(": Returned ").map_or("", |(_, rest)| rest);
                    let status = status.split([' ', ':']).next().unwrap_or_default();
                    calls[of_thread[at]].status = Some(status.to_owned());
                    // Calls that began later in this thread have ended, too, although the log has no line for their
                    // end.
                    of_thread.truncate(at);
                }
            }
            None => {}
        }
    }
    calls
}

/// Returns the ids of the process and the thread that wrote a line of the log, such as `7 tid: 0x7f`; an empty text if
/// the line contains none. The runtime writes these ids at AMD_LOG_LEVEL=4. The id of the process is needed, because
/// the first thread of a process and that of a child that it forked have the same thread id.
fn process_and_thread(line: &str) -> &str {
    let ids = line.split_once("[pid:").map_or("", |(_, rest)| rest.trim_start());
    ids.split_once(']').map_or("", |(ids, _)| ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_status_of_their_own_return() {
        let log = "\
:3:a.cpp :1 : 1 us: [pid:1 tid: 0xa]  hipMalloc ( 0x7f, 64 ) 
:3:a.cpp :1 : 2 us: [pid:1 tid: 0xb]  hipMalloc ( 0x8f, 32 ) 
:3:a.cpp :1 : 3 us: [pid:1 tid: 0xa]  hipMalloc: Returned hipErrorOutOfMemory : 0x1
:3:a.cpp :1 : 4 us: [pid:1 tid: 0xb]  hipMalloc: Returned hipSuccess : 0x2: duration: 6 us
:3:a.cpp :1 : 5 us: [pid:1 tid: 0xa]  hipGraphLaunch ( 0x9, stream:<null> ) 
";
        let calls = logged_calls(log);
        let shown: Vec<_> =
            calls.iter().map(|c| (c.arguments[1].as_str(), c.status.as_deref())).collect();
        let out_of_memory = ("64", Some("hipErrorOutOfMemory"));
        assert_eq!(shown, [out_of_memory, ("32", Some("hipSuccess")), ("stream:<null>", None)]);
    }

    #[test]
    fn calls_of_a_forked_process_have_their_own_statuses() {
        let log = "\
:3:     :0   : 1 us: [pid:7 tid: 0xa] hipMalloc ( 0x7f, 64 ) 
:3:     :0   : 2 us: [pid:8 tid: 0xa] hipMalloc ( 0x7f, 32 ) 
:3:     :0   : 3 us: [pid:7 tid: 0xa] hipMalloc: Returned hipErrorOutOfMemory : duration: 2 us
:3:     :0   : 4 us: [pid:8 tid: 0xa] hipMalloc: Returned hipSuccess : 0x1: duration: 2 us
";
        let calls = logged_calls(log);
        let shown: Vec<_> =
            calls.iter().map(|c| (c.process.as_str(), c.status.as_deref().unwrap())).collect();
        assert_eq!(shown, [("7", "hipErrorOutOfMemory"), ("8", "hipSuccess")]);
    }
}
