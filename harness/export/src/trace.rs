//! Reads the HIP calls of a program from the HIP runtime's log, and finds the first difference between two programs.
//!
//! With `AMD_LOG_LEVEL=3` and `AMD_LOG_MASK=1`, libamdhip64 writes each API call with its arguments, and its status
//! when the call returns: `hipMemcpy ( 0x7f.., 0x55.., 64, hipMemcpyHostToDevice )`, `hipMemcpy: Returned hipSuccess
//! :`. The format is the same from release 5.2.3 to 7.2.4 except for details. The log needs no preparation and includes
//! calls from the libraries above HIP, so no interposer library is needed.

mod calls;

use std::collections::BTreeMap;

use plan::{HipRole, hip_function};

pub use calls::{LoggedCall, logged_calls};

/// The HIP calls of one program in order, in a form that does not depend on addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The calls, for example `hipMemcpy(p3, p4, 64, hipMemcpyHostToDevice)`.
    pub calls: Vec<String>,
    /// Call that had not returned when the log ended; `None` if all calls had returned.
    pub open: Option<String>,
}

/// First difference between the trace of a trial and that of the program that was exported from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceDifference {
    /// Number of equal calls before the first difference.
    pub after: usize,
    /// Call of the trial at the difference; `None` if the trial made no further call.
    pub trial: Option<String>,
    /// Call of the program at the difference; `None` if the program made no further call.
    pub program: Option<String>,
}

/// Functions that query the runtime or the device without submitting work. They are left out of traces, because the
/// worker and the printed program call different functions of this kind.
const QUERIES: &[&str] = &[
    "hipInit",
    "hipRuntimeGetVersion",
    "hipGetDeviceCount",
    "hipGetDeviceProperties",
    "hipDeviceGetPCIBusId",
    "hipGetErrorName",
    "hipGetErrorString",
];

/// Functions that concern modules. A program whose kernels are inline code does not call them.
const MODULES: &[&str] = &["hipModuleLoadData", "hipModuleGetFunction", "hipModuleUnload"];

/// Parses a log of HIP calls. If `inline_kernels` is true, leaves out all calls that are made only because kernels are
/// loaded as modules, or only because they are inline code. The logs of these two kinds of programs then compare equal.
pub fn parse_trace(log: &str, inline_kernels: bool) -> Trace {
    let mut trace = Trace::default();
    let mut ids = AddressNumbers::default();
    let mut launched = false;
    for line in log.lines() {
        let Some(entry) = entry(line) else { continue };
        match entry {
            Entry::Returned(name) => {
                if trace.open.as_deref() == Some(name) {
                    trace.open = None;
                }
            }
            Entry::Called(name, arguments) => {
                let after_launch = std::mem::take(&mut launched);
                // The program compiles its kernels, whereas the worker loads compiled kernels from a cache.
                if QUERIES.contains(&name)
                    || name.starts_with("hiprtc")
                    // The compiler calls `__hip...` functions for `<<<>>>`, also in libraries. For some of these
                    // functions, the runtime logs arguments that have not been set yet.
                    || name.starts_with("__hip")
                    || inline_kernels && MODULES.contains(&name)
                {
                    launched = after_launch;
                    continue;
                }
                // This call is the program's check after `<<<>>>`.
                if inline_kernels && after_launch && name == "hipGetLastError" {
                    continue;
                }
                if matches!(
                    name,
                    "hipLaunchKernel"
                        | "hipModuleLaunchKernel"
                        | "hipModuleLaunchCooperativeKernel"
                ) {
                    launched = name == "hipLaunchKernel";
                    trace.calls.push(launch(name, arguments, inline_kernels, &mut ids));
                    // The HIP runtime does not log that a module launch returned.
                    trace.open = None;
                    continue;
                }
                trace.calls.push(call(name, arguments, &mut ids));
                trace.open = Some(name.to_owned());
            }
        }
    }
    trace
}

/// Returns the first difference between two traces; `None` if they are equal. Traces also differ if only one of them
/// ends before its last call has returned: a crash, a hang or a memory fault looks like that.
pub fn first_difference(trial: &Trace, program: &Trace) -> Option<TraceDifference> {
    let (a, b) = (&trial.calls, &program.calls);
    let after = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    if after < a.len().max(b.len()) {
        return Some(TraceDifference {
            after,
            trial: a.get(after).cloned(),
            program: b.get(after).cloned(),
        });
    }
    (trial.open != program.open).then(|| TraceDifference {
        after,
        trial: trial.open.as_ref().map(|call| format!("no return from {call}")),
        program: program.open.as_ref().map(|call| format!("no return from {call}")),
    })
}

enum Entry<'l> {
    Called(&'l str, &'l str),
    Returned(&'l str),
}

fn entry(line: &str) -> Option<Entry<'_>> {
    // A line of the log is `:3:file :line : 123 us: [pid:1 tid:0x7f] hipMalloc ( ...`. Escape sequences for colours
    // surround the call.
    let message = line.split_once(" us: ")?.1;
    let start =
        message.find("hip").map(|at| if message[..at].ends_with("__") { at - 2 } else { at })?;
    let message = &message[start..];
    let end = message.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (name, rest) = message.split_at(end);
    // The suffix of a name is the version of a struct's layout. HIP's headers select the newest version. A name without
    // suffix means the oldest version.
    let layouts = ["R0000", "R0600"];
    let name = layouts.iter().find_map(|it| name.strip_suffix(it)).unwrap_or(name);
    if rest.starts_with(": Returned") {
        return Some(Entry::Returned(name));
    }
    let arguments = rest.trim_start().strip_prefix('(')?;
    let arguments = &arguments[..arguments.rfind(')')?];
    Some(Entry::Called(name, arguments.trim()))
}

/// Numbers that replace addresses, in the order in which the addresses first appear.
#[derive(Default)]
struct AddressNumbers {
    known: BTreeMap<String, u32>,
    next: u32,
}

impl AddressNumbers {
    fn number(&mut self, address: &str) -> String {
        let next = &mut self.next;
        let id = self.known.entry(address.to_owned()).or_insert_with(|| {
            *next += 1;
            *next
        });
        format!("p{id}")
    }
}

fn call(name: &str, arguments: &str, ids: &mut AddressNumbers) -> String {
    let list: Vec<&str> = split(arguments);
    let mut out = Vec::new();
    for (index, argument) in list.iter().enumerate() {
        if is_program_memory(name, index) {
            out.push("place".to_owned());
        } else if index == 0 && name == "hipMemcpy" && list.last() == Some(&"hipMemcpyDeviceToHost")
        {
            // Guards are read into temporary host memory, which may have the address of a freed object.
            out.push("host".to_owned());
        } else if argument.starts_with("Cijk_") {
            out.push("a kernel of Tensile".to_owned());
        } else {
            out.push(normal(argument, ids));
        }
    }
    // After this call, a new object may get the same address.
    if ["Destroy", "Free", "Unload", "Unregister"].iter().any(|word| name.contains(word))
        && let Some(first) = list.first()
    {
        ids.known.remove(*first);
    }
    format!("{name}({})", out.join(", "))
}

/// Returns true if an argument points to memory of the program itself, such as a variable for a result. The address of
/// such memory is arbitrary and does not identify an object.
fn is_program_memory(name: &str, index: usize) -> bool {
    if plan::is_output_argument(name, index) == Some(true) {
        return true;
    }
    if let Some(parameter) = hip_function(name).and_then(|known| known.parameters.get(index)) {
        return match parameter.role {
            HipRole::Out(_) | HipRole::InOut | HipRole::In(_) | HipRole::Keeps => true,
            // The log contains the text to which the pointer points.
            HipRole::Text
            | HipRole::Value
            | HipRole::Asks
            | HipRole::Own
            | HipRole::Works
            | HipRole::At
            | HipRole::Reads(_)
            | HipRole::Writes(_)
            | HipRole::Sets { .. } => false,
        };
    }
    matches!(
        (name, index),
        ("hipMallocAsync" | "hipEventElapsedTime" | "hipThreadExchangeStreamCaptureMode", 0)
            // The address of the code object in memory is arbitrary too.
            | ("hipModuleLoadData", 0 | 1)
            // A library may choose among several kernels of its own. hipBLASLt 7.2.4 does not always choose the same
            // one.
            | ("hipExtModuleLaunchKernel", 0..=7 | 9..)
            // These arguments are the program's callback and the pointer that is passed to it.
            | ("hipStreamAddCallback" | "hipLaunchHostFunc", 1 | 2)
            | ("hipGraphExecUpdate", 2 | 3)
    )
}

fn normal(argument: &str, ids: &mut AddressNumbers) -> String {
    let (prefix, value) = argument.rsplit_once(':').unwrap_or(("", argument));
    match value.trim() {
        "nullptr" | "<null>" | "0x0" | "(nil)" | "00000000" => "null".to_owned(),
        // An example of such an argument is `stream:0x7f00`.
        text if text.starts_with("0x") => ids.number(text),
        _ if !prefix.is_empty() && !prefix.contains(' ') && value.starts_with('<') => {
            "null".to_owned()
        }
        text if text.starts_with('{') => inner(text, ids),
        _ => argument.trim().to_owned(),
    }
}

/// Returns the text of a struct with its addresses replaced by numbers.
fn inner(text: &str, ids: &mut AddressNumbers) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("0x") {
        let digits = rest[at + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let end = at + 2 + digits;
        out.push_str(&rest[..at]);
        out.push_str(&ids.number(&rest[at..end]));
        rest = &rest[end..];
    }
    out + rest
}

/// Returns the grid, block and stream of a launch as text, in the same form for all launch functions. The text also
/// contains the kernel, unless `inline_kernels` is true.
fn launch(name: &str, arguments: &str, inline_kernels: bool, ids: &mut AddressNumbers) -> String {
    let list = split(arguments);
    let flat: Vec<String> = list
        .iter()
        .flat_map(|argument| {
            let inner = argument.trim().trim_start_matches('{').trim_end_matches('}');
            inner
                .split(',')
                .map(|part| part.trim().trim_matches(['{', '}']).to_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    let number = |index: usize| flat.get(index).cloned().unwrap_or_default();
    // The parameters are: hipModuleLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, args, extra),
    // hipModuleLaunchCooperativeKernel without `extra`, hipLaunchKernel(f, grid, block, args, shared, stream).
    let stream = if name == "hipLaunchKernel" { number(9) } else { number(8) };
    let function =
        if inline_kernels { String::new() } else { format!("{}, ", ids.number(&number(0))) };
    let sizes: Vec<String> = (1..7).map(number).collect();
    let verb = match name {
        "hipModuleLaunchCooperativeKernel" => "launch_cooperative",
        _ => "launch",
    };
    format!("{verb}({function}{}, {})", sizes.join(", "), normal(&stream, ids))
}

/// Splits a list of arguments at the commas that are outside braces and parentheses.
fn split(arguments: &str) -> Vec<&str> {
    let (mut out, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in arguments.char_indices() {
        match c {
            '{' | '(' => depth += 1,
            '}' | ')' => depth -= 1,
            ',' if depth == 0 => {
                out.push(arguments[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !arguments[start..].trim().is_empty() {
        out.push(arguments[start..].trim());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines that libamdhip64 would log for these calls.
    fn log(calls: &[&str]) -> String {
        calls.iter().map(|call| format!(":3:     :0   : 12390869966 us:  {call}\n")).collect()
    }

    #[track_caller]
    fn check(calls: &[&str], inline_kernels: bool, expected: &[&str]) {
        assert_eq!(parse_trace(&log(calls), inline_kernels).calls, expected);
    }

    #[test]
    fn structure_addresses_and_layout_suffixes_are_normalised() {
        check(
            &[
                "hipGetDevicePropertiesR0000 ( 0x7ffe00000010, 0 )",
                "hipChooseDeviceR0600 ( 0x7ffe00000020, 0x7ffe00000010 )",
                "hipGetTextureObjectResourceDesc ( {0,{0}, 0x7f7138066000}, 0x7f7138066000 )",
            ],
            false,
            &["hipChooseDevice(place, place)", "hipGetTextureObjectResourceDesc(place, p1)"],
        );
    }

    #[test]
    fn addresses_are_numbered_by_first_appearance() {
        check(
            &[
                "Initializing runtime stack, Enumerated GPU agents = 1",
                "\u{1b}[32m hipInit ( 0 ) \u{1b}[0m",
                "\u{1b}[32m hipMalloc ( 0x7ffcde16fdb8, 4608 ) \u{1b}[0m",
                "hipMalloc: Returned hipSuccess : 0x7fa57f28c000: duration: 12 us",
                "\u{1b}[32m hipMemset ( 0x7fa57f28c000, 92, 4608 ) \u{1b}[0m",
                "hipMemset: Returned hipSuccess : ",
                "\u{1b}[32m hipMemcpy ( 0x7fa57f28c100, 0x5555853a0300, 4096, hipMemcpyHostToDevice ) \u{1b}[0m",
                "\u{1b}[32m hipFree ( 0x7fa57f28c000 ) \u{1b}[0m",
                "\u{1b}[32m hipMemset ( 0x7fa57f28c000, 0, 8 ) \u{1b}[0m",
            ],
            false,
            &[
                "hipMalloc(place, 4608)",
                "hipMemset(p1, 92, 4608)",
                "hipMemcpy(p2, p3, 4096, hipMemcpyHostToDevice)",
                "hipFree(p1)",
                "hipMemset(p4, 0, 8)",
            ],
        );
    }

    #[test]
    fn streams_are_normalised_for_all_releases() {
        let stream = ["hipStreamSynchronize ( 0x5555 )", "hipStreamSynchronize ( stream:0x5555 )"];
        for call in stream {
            check(&[call], false, &["hipStreamSynchronize(p1)"]);
        }
        let null = ["hipStreamSynchronize ( stream:<null> )", "hipStreamSynchronize ( <null> )"];
        for call in null {
            check(&[call], false, &["hipStreamSynchronize(null)"]);
        }
    }

    #[test]
    fn module_and_inline_launches_compare_equal() {
        let module = [
            "hipModuleLoadData ( 0x7ffc, 0x5555 )",
            "hipModuleLaunchKernel ( 0x5557, 4, 1, 1, 256, 1, 1, 0, stream:0x5558, 0x5559, char array:<null> )",
        ];
        let inline = [
            "__hipPushCallConfiguration ( {4,1,1}, {256,1,1}, 0, stream:0x6558 )",
            "hipLaunchKernel ( 0x6557, {4,1,1}, {256,1,1}, 0x6559, 0, stream:0x6558 )",
            "hipGetLastError (  )",
        ];
        let expected = ["launch(4, 1, 1, 256, 1, 1, p1)"];
        check(&module, true, &expected);
        check(&inline, true, &expected);
    }

    #[test]
    fn different_missing_and_unreturned_calls_are_differences() {
        let all = ["hipDeviceSynchronize (  )", "hipMemset ( 0x1, 0, 8 )"];
        let other = ["hipDeviceSynchronize (  )", "hipMemset ( 0x1, 0, 9 )"];
        let read = |calls: &[&str]| parse_trace(&log(calls), false);
        assert_eq!(first_difference(&read(&all), &read(&all)), None);
        let difference = |trial: Option<&str>, program: Option<&str>| {
            let (trial, program) = (trial.map(str::to_owned), program.map(str::to_owned));
            Some(TraceDifference { after: 1, trial, program })
        };
        let (eight, nine) = ("hipMemset(p1, 0, 8)", "hipMemset(p1, 0, 9)");
        assert_eq!(
            first_difference(&read(&all), &read(&other)),
            difference(Some(eight), Some(nine))
        );
        assert_eq!(first_difference(&read(&all), &read(&all[..1])), difference(Some(eight), None));
        assert_eq!(first_difference(&read(&all[..1]), &read(&all)), difference(None, Some(eight)));
        let returned = [all[0], "hipDeviceSynchronize: Returned hipSuccess : "];
        let open = "no return from hipDeviceSynchronize";
        assert_eq!(
            first_difference(&read(&all[..1]), &read(&returned)),
            difference(Some(open), None),
            "one died in the call and the other after it"
        );
    }
}
