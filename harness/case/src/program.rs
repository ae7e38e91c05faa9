//! Checks program cases without expanding their trials: which keys the case may have, and which faults can be injected.

use std::slice;

use device::{CaseBody, FaultPlace, FaultSpec, library_function, restriction};

use crate::{
    interposer::interposer,
    read::Reader,
    yaml::{Key, Node, Value},
};

/// Keys that only cases with steps may have.
const STEP_CASE_KEYS: &[&str] = &["streams", "kernels", "buffers", "steps", "expect"];

/// Components that a stack can contain in addition to HIP, named as in `stack fetch --with`.
pub const GROUPS: &[&str] = &[
    "cupy",
    "dev",
    "hipblas",
    "hipblaslt",
    "hipcc",
    "hipcub",
    "hipfft",
    "hiprand",
    "hipsolver",
    "hipsparse",
    "jax",
    "llama",
    "miopen",
    "onnxruntime",
    "rccl",
    "rocblas",
    "rocfft",
    "rocm-smi",
    "rocprim",
    "rocsolver",
    "rocsparse",
    "rocthrust",
    "rocwmma",
    "roctx",
    "tests",
    "torch",
    "triton",
];

/// Reports keys that a program case may not have.
pub(crate) fn check_header(reader: &mut Reader, root: &Node) {
    let Value::Map(entries) = &root.value else { return };
    for (key, _) in entries.iter().filter(|(key, _)| STEP_CASE_KEYS.contains(&key.text.as_str())) {
        let message = format!("a case with a `program` cannot have `{}`", key.text);
        let help = "do that in the program, or write a case with steps".to_owned();
        reader.mistake_with_help(key.at, message, Some(help));
    }
}

/// Returns the extensions of files that can contain a program of this kind, `python` or `cpp`.
fn endings(kind: &str) -> &'static [&'static str] {
    if kind == "python" { &["py"] } else { &["cpp", "hip", "cc", "cxx"] }
}

/// Returns the file name if the text is a file name: a single word with the extension of this kind of program. Returns
/// `None` if the text is the program itself.
pub(crate) fn file_named(text: &str, kind: &str) -> Option<String> {
    let text = text.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let ending = text.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_named = endings(kind).contains(&ending) && text.chars().all(plain);
    is_named.then(|| text.to_owned())
}

/// Returns a hint if a program is a single word that looks like a file name, but cannot be used as one: the word
/// contains a folder, or does not have the extension of this kind of program. Returns `None` for other texts.
pub(crate) fn not_a_program(text: &str, kind: &str) -> Option<String> {
    let text = text.trim();
    let (stem, ending) = text.rsplit_once('.')?;
    let is_word = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
    };
    if !is_word(stem) || !is_word(ending) {
        return None;
    }
    Some(match endings(kind).contains(&ending) {
        true => {
            "the file must be in the folder of the case; give its name without a folder".to_owned()
        }
        false => {
            let right: Vec<_> = endings(kind).iter().map(|ending| format!("`.{ending}`")).collect();
            let right = right.join(", ");
            format!("the name of a file must end in {right}; rename it, or write the program here")
        }
    })
}

pub(crate) fn read_groups(reader: &mut Reader, node: &Node) -> Vec<String> {
    let choices: Vec<(&str, &str)> = GROUPS.iter().map(|name| (*name, *name)).collect();
    let items = reader.list(node).iter();
    items
        .filter_map(|item| reader.choice(item, "a package group of a stack", &choices))
        .map(str::to_owned)
        .collect()
}

pub(crate) fn is_cpp(body: &Node) -> bool {
    matches!(&body.value, Value::Map(entries) if entries.iter().any(|(key, _)| key.text == "cpp"))
}

/// Returns the reason why a fault cannot be injected into a program; `None` if it can. `is_cpp` is true for a C++
/// program.
pub fn injection_refusal(is_cpp: bool, planted: &FaultSpec) -> Option<String> {
    let fault = planted.fault;
    if fault.place() == FaultPlace::Device {
        return None;
    }
    if is_cpp && interposer(slice::from_ref(planted)).is_some() {
        return injection_refusal_at_function(planted, CaseBody::Program);
    }
    Some(format!(
        "`{fault}` can be injected only into a case with steps; a program takes faults of the device, and a C++ program also \
         call.crash, call.hang, call.ignored, call.refused, call.leak and call.slow"
    ))
}

/// Returns the reason why a fault cannot be injected into a case with steps; `None` if it can.
pub fn injection_refusal_in_steps(planted: &FaultSpec) -> Option<String> {
    injection_refusal_at_function(planted, CaseBody::Steps)
}

fn injection_refusal_at_function(planted: &FaultSpec, body: CaseBody) -> Option<String> {
    let call = planted.which("call");
    let reason = restriction(planted.fault, library_function(call)?, Some(body))?;
    let kind = match body {
        CaseBody::Steps => "a case with steps",
        CaseBody::Program => "a program",
    };
    Some(format!("`{}` cannot be injected at `{call}` of {kind}: {reason}", planted.fault))
}

/// Returns the `program` entry of a case.
pub(crate) fn program_entry(root: &Node) -> Option<&(Key, Node)> {
    let Value::Map(entries) = &root.value else { return None };
    entries.iter().find(|(key, _)| key.text == "program")
}
