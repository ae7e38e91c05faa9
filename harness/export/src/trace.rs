//! What two programs called, by the HIP runtime's own log, and where they differ.
//!
//! With `AMD_LOG_LEVEL=3` and `AMD_LOG_MASK=1` libamdhip64 writes each API call with its arguments, and its status when it
//! returns: `hipMemcpy ( 0x7f.., 0x55.., 64, hipMemcpyHostToDevice )`, `hipMemcpy: Returned hipSuccess :`. It is the same in
//! every release from 5.2.3 to 7.2.4 but for details, costs nothing to set up and sees what the libraries above HIP call, so
//! nothing has to be put between the program and its runtime.

use std::collections::BTreeMap;

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
    "hipGetDevicePropertiesR0600",
    "hipGetErrorName",
    "hipGetErrorString",
];

/// What inline kernels have in the place of modules, apart from the launch itself.
const REGISTRATION: &[&str] = &[
    "__hipRegisterFatBinary",
    "__hipUnregisterFatBinary",
    "__hipRegisterFunction",
    "__hipRegisterVar",
    "__hipPushCallConfiguration",
    "__hipPopCallConfiguration",
    "hipModuleLoadData",
    "hipModuleGetFunction",
    "hipModuleUnload",
];

/// Functions whose first argument is the place for the result, which lies anywhere.
const MAKES: &[&str] = &[
    "hipMalloc",
    "hipMallocAsync",
    "hipMallocManaged",
    "hipHostMalloc",
    "hipHostAlloc",
    "hipExtMallocWithFlags",
    "hipStreamCreate",
    "hipStreamCreateWithFlags",
    "hipStreamCreateWithPriority",
    "hipEventCreate",
    "hipEventCreateWithFlags",
    "hipGraphInstantiate",
    "hipModuleLoadData",
    "hipModuleGetFunction",
    "hipDeviceGetDefaultMemPool",
    "hipMemGetInfo",
    "hipGetDevice",
    "hipDeviceGetAttribute",
];

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
                if LOOKS.contains(&name) || inline_kernels && REGISTRATION.contains(&name) {
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

/// The first difference of two traces. With `whole` both must end at the same call; else the shorter one decides, as where a
/// crash or a hang ended both.
pub fn differences(trial: &Trace, program: &Trace) -> Option<Difference> {
    let (a, b) = (&trial.calls, &program.calls);
    let after = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    if after == a.len() && after == b.len() {
        return None;
    }
    Some(Difference { after, trial: a.get(after).cloned(), program: b.get(after).cloned() })
}

enum Entry<'l> {
    Called(&'l str, &'l str),
    Returned(&'l str),
}

fn entry(line: &str) -> Option<Entry<'_>> {
    // `:3:file :line : 123 us: [pid:1 tid:0x7f] hipMalloc ( ...`, with escapes for colour around the call.
    let message = line.split_once(" us: ")?.1;
    let start = message.find("hip").map(|at| if message[..at].ends_with("__") { at - 2 } else { at })?;
    let message = &message[start..];
    let end = message.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (name, rest) = message.split_at(end);
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
        if index == 0 && MAKES.contains(&name) || is_result(name, index) {
            out.push("result".to_owned());
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

/// Results that are not the first argument.
fn is_result(name: &str, index: usize) -> bool {
    matches!(
        (name, index),
        ("hipStreamEndCapture" | "hipStreamIsCapturing" | "hipMemGetInfo", 1)
            | ("hipGraphGetNodes", 2)
            | ("hipGraphInstantiate", 2)
            | ("hipGraphExecUpdate", 2 | 3)
            // hipMalloc's kin print what the image or the log is, at addresses of the process.
            | ("hipModuleLoadData", 1)
    )
}

fn normal(argument: &str, ids: &mut Ids) -> String {
    let (prefix, value) = argument.rsplit_once(':').unwrap_or(("", argument));
    match value.trim() {
        "nullptr" | "<null>" | "0x0" | "(nil)" | "00000000" => "null".to_owned(),
        // `stream:<null>` and the like.
        text if text.starts_with("0x") => ids.of(text),
        _ if !prefix.is_empty() && !prefix.contains(' ') && value.starts_with('<') => "null".to_owned(),
        _ => argument.trim().to_owned(),
    }
}

/// A launch in either form: its grid, block and stream, and for modules the function.
fn launch(name: &str, arguments: &str, inline_kernels: bool, ids: &mut Ids) -> String {
    let list = split(arguments);
    let flat: Vec<String> = list
        .iter()
        .flat_map(|argument| {
            let inner = argument.trim().trim_start_matches('{').trim_end_matches('}');
            inner.split(',').map(|part| part.trim().trim_matches(['{', '}']).to_owned()).collect::<Vec<_>>()
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
