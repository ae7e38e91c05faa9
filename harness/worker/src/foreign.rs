//! Makes the calls of `hip` steps, which may name any function in the table of the crate `plan`.

use std::ffi::{CStr, c_char};

use plan::{
    HipArg, HipFunction, HipRead, HipReadType, HipRole, MAX_VALUE_BYTES, Scalar, hip_function,
};

use crate::{
    broken::WorkerError,
    given::word_of,
    handles::Kind,
    machine::{CallResult, Machine},
};

/// Returns the 64-bit value of an argument; 0 for arguments that do not fit into 64 bits.
fn word(machine: &Machine<'_>, arg: &HipArg) -> u64 {
    let address = match arg {
        HipArg::Number(number) => return number.bits,
        HipArg::Value(name) => return word_of(&machine.state().given.value(name)),
        HipArg::Stream(name) => machine.stream(name),
        HipArg::Event(name) => machine.handle(Kind::Event, name),
        HipArg::Graph(name) => machine.handle(Kind::Graph, name),
        HipArg::Kernel(name) => machine.handle(Kind::Function, name),
        HipArg::Place(place) => machine.address(place),
        HipArg::Null
        | HipArg::Text(_)
        | HipArg::Out { .. }
        | HipArg::Struct(_)
        | HipArg::Bytes(_) => return 0,
    };
    address as u64
}

/// Returns the machine word that is passed for an argument. An argument that does not fit into a word is stored in a
/// [`ValueMemory`](crate::given::ValueMemory), and the address of that memory is passed. `place` identifies the memory
/// if the argument has no name.
fn argument(machine: &Machine<'_>, place: &str, arg: &HipArg, role: &HipRole) -> usize {
    let behind = matches!(role, HipRole::In(_) | HipRole::Keeps | HipRole::Text);
    let (key, bytes) = match arg {
        HipArg::Text(text) => (place, text.clone().into_bytes()),
        HipArg::Out { name, before } => (name.as_str(), before.to_le_bytes().to_vec()),
        HipArg::Struct(_) => (place, arg.to_bytes(&|member| word(machine, member))),
        HipArg::Value(name) if behind => return machine.state().given.room(name).as_ptr() as usize,
        _ => return word(machine, arg) as usize,
    };
    machine.state().given.store_bytes(key, &bytes)
}

/// Calls a function with the given arguments. Returns its status and the value of its first output parameter.
pub(crate) fn call(
    machine: &Machine<'_>,
    step: u32,
    function: &str,
    args: &[HipArg],
) -> Result<CallResult, WorkerError> {
    let function = hip_function(function)
        .ok_or_else(|| WorkerError(format!("the table of functions has no {function}")))?;
    let HipFunction { parameters, gives_text, .. } = function;
    if parameters.len() != args.len() {
        return Err(WorkerError(format!(
            "{} takes {} arguments",
            function.name(),
            parameters.len()
        )));
    }
    let given = args.iter().zip(parameters).enumerate();
    let words: Vec<usize> = given
        .map(|(at, (arg, p))| argument(machine, &format!("{step} {at}"), arg, &p.role))
        .collect();
    let shared = machine.libraries.hip.shared();
    // SAFETY: applies to both calls. The table declares the parameters as the header does, which a test compares, and
    // each parameter is an integer or a pointer. A machine word is an integer, null, a handle or address from the HIP
    // runtime, the address of a buffer of the plan, or the address of a room. A room is never freed. It is larger than
    // any struct of the header and than any count that is passed with its address.
    let code = unsafe {
        if *gives_text {
            return Ok(CallResult::NONE.with(shared.call_for_text(function.name(), &words)?));
        }
        shared.call_for_status(function.name(), &words)?
    };
    let mut value = None;
    if code == 0 {
        let first = function.first_given();
        if let Some(at) = first
            && let HipArg::Out { name, .. } = &args[at]
            && let Some(sort) = parameters[at].gives()
        {
            value = Some(text(&machine.state().given.value(name), sort));
        }
    }
    Ok(CallResult::hip(code).with(value))
}

/// Formats the value of type `sort` at the start of `bytes`.
fn text(bytes: &[u8], sort: HipReadType) -> String {
    match sort {
        HipReadType::Number(ty) => {
            let bits = word_of(&bytes[..ty.bytes()]);
            Scalar { ty, bits }.to_string()
        }
        HipReadType::Text => {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        }
        HipReadType::TextAt => match word_of(bytes) {
            0 => "null".to_owned(),
            address => {
                // SAFETY: the function returned the address of a string that is never freed, as the header declares
                // with `const char**` for a few functions. Values of other types are not read as such an address.
                let text = unsafe { CStr::from_ptr(address as *const c_char) };
                text.to_string_lossy().into_owned()
            }
        },
        HipReadType::Pointer => if word_of(bytes) == 0 { "null" } else { "set" }.to_owned(),
    }
}

/// Returns the value that an earlier call stored under the name `of`. If `against` is given, returns the result of
/// comparing this value with the value under that name.
pub(crate) fn look(
    machine: &Machine<'_>,
    of: &str,
    read: &HipRead,
    against: Option<&str>,
) -> CallResult {
    let (mut value, other) = {
        let given = &mut machine.state().given;
        (given.value(of), against.map(|name| given.value(name)))
    };
    let value = value.split_off((read.at as usize).min(MAX_VALUE_BYTES - 8));
    let Some(other) = other else { return CallResult::NONE.with(text(&value, read.sort)) };
    let compared = match read.sort {
        HipReadType::Pointer => word_of(&value).cmp(&word_of(&other)),
        sort => {
            let (a, b) = (text(&value, sort), text(&other, sort));
            match (a.parse::<i128>(), b.parse::<i128>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Err(_), _) | (_, Err(_)) => a.cmp(&b),
            }
        }
    };
    let orders = matches!(read.sort, HipReadType::Number(_));
    let word = match compared {
        std::cmp::Ordering::Equal => "same",
        _ if !orders => "other",
        std::cmp::Ordering::Less => "less",
        std::cmp::Ordering::Greater => "more",
    };
    CallResult::NONE.with(word.to_owned())
}
