//! What two programs called, by the HIP runtime's own log, and where they differ.
//!
//! With `AMD_LOG_LEVEL=3` and `AMD_LOG_MASK=1` libamdhip64 writes each API call with its arguments, and its status when it
//! returns: `hipMemcpy ( 0x7f.., 0x55.., 64, hipMemcpyHostToDevice )`, `hipMemcpy: Returned hipSuccess :`. It is the same in
//! every release from 5.2.3 to 7.2.4 but for details, costs nothing to set up and sees what the libraries above HIP call, so
//! nothing has to be put between the program and its runtime.

use std::collections::BTreeMap;

use plan::{HipRole, hip_function};

/// The calls of one program, in order, in a form that does not depend on addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Such as `hipMemcpy(p3, p4, 64, hipMemcpyHostToDevice)`.
    pub calls: Vec<String>,
    /// The call that had not returned at the end of the log.
    pub open: Option<String>,
}

/// The first place where two traces differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// How many calls were the same before.
    pub after: usize,
    /// The trial's call; none where it made no more.
    pub trial: Option<String>,
    /// The program's call; none where it made no more.
    pub program: Option<String>,
}

/// Calls by which a process looks at its runtime and device, which set up no work: the worker and the program each make
/// their own.
const LOOKS: &[&str] = &[
    "hipInit",
    "hipRuntimeGetVersion",
    "hipGetDeviceCount",
    "hipGetDeviceProperties",
    "hipDeviceGetPCIBusId",
    "hipGetErrorName",
    "hipGetErrorString",
];

/// Calls of modules, which inline kernels do without.
const MODULES: &[&str] = &["hipModuleLoadData", "hipModuleGetFunction", "hipModuleUnload"];

/// Reads a log. `inline_kernels` leaves out what only one of the two forms of kernels has.
pub fn trace(log: &str, inline_kernels: bool) -> Trace {
    let mut trace = Trace::default();
    let mut ids = Ids::default();
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
                // The worker takes compiled kernels from a cache, where the program compiles.
                if LOOKS.contains(&name)
                    || name.starts_with("hiprtc")
                    // Part of `<<<>>>`, in libraries too; some print what they have not set yet.
                    || name.starts_with("__hip")
                    || inline_kernels && MODULES.contains(&name)
                {
                    launched = after_launch;
                    continue;
                }
                // The check after `<<<>>>`.
                if inline_kernels && after_launch && name == "hipGetLastError" {
                    continue;
                }
                if matches!(name, "hipLaunchKernel" | "hipModuleLaunchKernel") {
                    launched = name == "hipLaunchKernel";
                    trace.calls.push(launch(name, arguments, inline_kernels, &mut ids));
                    // The log has no return of a module launch.
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

/// The first difference of two traces, which must also end in the same call, or between two calls: a crash, a hang or a
/// memory fault shows itself there.
pub fn differences(trial: &Trace, program: &Trace) -> Option<Difference> {
    let (a, b) = (&trial.calls, &program.calls);
    let after = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    if after < a.len().max(b.len()) {
        return Some(Difference {
            after,
            trial: a.get(after).cloned(),
            program: b.get(after).cloned(),
        });
    }
    (trial.open != program.open).then(|| Difference {
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
    // `:3:file :line : 123 us: [pid:1 tid:0x7f] hipMalloc ( ...`, with escapes for colour around the call.
    let message = line.split_once(" us: ")?.1;
    let start =
        message.find("hip").map(|at| if message[..at].ends_with("__") { at - 2 } else { at })?;
    let message = &message[start..];
    let end = message.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (name, rest) = message.split_at(end);
    // Names of the layout of a structure: the headers choose the newest, a name alone the oldest.
    let layouts = ["R0000", "R0600"];
    let name = layouts.iter().find_map(|it| name.strip_suffix(it)).unwrap_or(name);
    if rest.starts_with(": Returned") {
        return Some(Entry::Returned(name));
    }
    let arguments = rest.trim_start().strip_prefix('(')?;
    let arguments = &arguments[..arguments.rfind(')')?];
    Some(Entry::Called(name, arguments.trim()))
}

/// Numbers for addresses, by first appearance.
#[derive(Default)]
struct Ids {
    known: BTreeMap<String, u32>,
    next: u32,
}

impl Ids {
    fn of(&mut self, address: &str) -> String {
        let next = &mut self.next;
        let id = self.known.entry(address.to_owned()).or_insert_with(|| {
            *next += 1;
            *next
        });
        format!("p{id}")
    }
}

fn call(name: &str, arguments: &str, ids: &mut Ids) -> String {
    let list: Vec<&str> = split(arguments);
    let mut out = Vec::new();
    for (index, argument) in list.iter().enumerate() {
        if is_place(name, index) {
            out.push("place".to_owned());
        } else if index == 0 && name == "hipMemcpy" && list.last() == Some(&"hipMemcpyDeviceToHost")
        {
            // Guards are read into memory of the moment, whose address may have been another object's before.
            out.push("host".to_owned());
        } else if argument.starts_with("Cijk_") {
            out.push("a kernel of Tensile".to_owned());
        } else {
            out.push(normal(argument, ids));
        }
    }
    // An address may come back for another object, or not.
    if ["Destroy", "Free", "Unload", "Unregister"].iter().any(|word| name.contains(word))
        && let Some(first) = list.first()
    {
        ids.known.remove(*first);
    }
    format!("{name}({})", out.join(", "))
}

/// Whether an argument is memory of the program itself, for a result or of what the call reads: it lies anywhere, and says
/// nothing of the objects that the call is about.
fn is_place(name: &str, index: usize) -> bool {
    if plan::is_output_argument(name, index) == Some(true) {
        return true;
    }
    if let Some(parameter) = hip_function(name).and_then(|known| known.parameters.get(index)) {
        return match parameter.role {
            HipRole::Out(_) | HipRole::InOut | HipRole::In(_) | HipRole::Keeps => true,
            // The log shows the text.
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
            // Where the image of the code lies, too.
            | ("hipModuleLoadData", 0 | 1)
            // Which of its kernels a library takes is its own affair: hipBLASLt 7.2.4 takes another at times.
            | ("hipExtModuleLaunchKernel", 0..=7 | 9..)
            // A function of each program's own, and what it is given.
            | ("hipStreamAddCallback" | "hipLaunchHostFunc", 1 | 2)
            | ("hipGraphExecUpdate", 2 | 3)
    )
}

fn normal(argument: &str, ids: &mut Ids) -> String {
    let (prefix, value) = argument.rsplit_once(':').unwrap_or(("", argument));
    match value.trim() {
        "nullptr" | "<null>" | "0x0" | "(nil)" | "00000000" => "null".to_owned(),
        // `stream:<null>` and the like.
        text if text.starts_with("0x") => ids.of(text),
        _ if !prefix.is_empty() && !prefix.contains(' ') && value.starts_with('<') => {
            "null".to_owned()
        }
        text if text.starts_with('{') => inner(text, ids),
        _ => argument.trim().to_owned(),
    }
}

/// A structure as it is printed, with numbers for the addresses in it.
fn inner(text: &str, ids: &mut Ids) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("0x") {
        let digits = rest[at + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let end = at + 2 + digits;
        out.push_str(&rest[..at]);
        out.push_str(&ids.of(&rest[at..end]));
        rest = &rest[end..];
    }
    out + rest
}

/// A launch in either form: its grid, block and stream, and for modules the function.
fn launch(name: &str, arguments: &str, inline_kernels: bool, ids: &mut Ids) -> String {
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
    // hipModuleLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, args, extra), hipLaunchKernel(f, grid, block, args, shared, stream).
    let stream = if name == "hipLaunchKernel" { number(9) } else { number(8) };
    let function = if inline_kernels { String::new() } else { format!("{}, ", ids.of(&number(0))) };
    let sizes: Vec<String> = (1..7).map(number).collect();
    format!("launch({function}{}, {})", sizes.join(", "), normal(&stream, ids))
}

/// Splits arguments at commas outside of braces.
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

    /// Lines as libamdhip64 writes them.
    fn log(calls: &[&str]) -> String {
        calls.iter().map(|call| format!(":3:     :0   : 12390869966 us:  {call}\n")).collect()
    }

    #[track_caller]
    fn check(calls: &[&str], inline_kernels: bool, expected: &[&str]) {
        assert_eq!(trace(&log(calls), inline_kernels).calls, expected);
    }

    #[test]
    fn structures_and_the_names_of_their_layouts_are_alike() {
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
    fn addresses_become_numbers_in_the_order_of_their_appearance() {
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
    fn streams_are_named_alike_in_all_releases() {
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
    fn both_forms_of_a_launch_are_the_same_call() {
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
    fn another_call_is_a_difference() {
        let all = ["hipDeviceSynchronize (  )", "hipMemset ( 0x1, 0, 8 )"];
        let other = ["hipDeviceSynchronize (  )", "hipMemset ( 0x1, 0, 9 )"];
        let read = |calls: &[&str]| trace(&log(calls), false);
        assert_eq!(differences(&read(&all), &read(&all)), None);
        let difference = |trial: Option<&str>, program: Option<&str>| {
            let (trial, program) = (trial.map(str::to_owned), program.map(str::to_owned));
            Some(Difference { after: 1, trial, program })
        };
        let (eight, nine) = ("hipMemset(p1, 0, 8)", "hipMemset(p1, 0, 9)");
        assert_eq!(differences(&read(&all), &read(&other)), difference(Some(eight), Some(nine)));
        assert_eq!(differences(&read(&all), &read(&all[..1])), difference(Some(eight), None));
        assert_eq!(differences(&read(&all[..1]), &read(&all)), difference(None, Some(eight)));
        let returned = [all[0], "hipDeviceSynchronize: Returned hipSuccess : "];
        let open = "no return from hipDeviceSynchronize";
        assert_eq!(
            differences(&read(&all[..1]), &read(&returned)),
            difference(Some(open), None),
            "one died in the call and the other after it"
        );
    }
}
