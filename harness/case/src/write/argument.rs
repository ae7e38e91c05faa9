use plan::{Arg, Choice};

use super::scalar::{flow_list, flow_map, plain};

/// Formats a kernel argument as YAML, for example `{buffer: dst, offset: 4}` or `{u32: 7}`.
pub(super) fn argument(arg: &Arg) -> String {
    match arg {
        Arg::Address(place) | Arg::Input(place) if place.offset == 0 => plain(&place.buffer),
        Arg::Address(place) | Arg::Input(place) => {
            flow_map(vec![("buffer", plain(&place.buffer)), ("offset", place.offset.to_string())])
        }
        Arg::Number(number) => flow_map(vec![(number.ty.word(), plain(&number.to_string()))]),
        Arg::Struct(members) => {
            // The definition of the struct may be unknown when the case is read.
            flow_map(vec![("struct", flow_list(members.iter().map(untyped)))])
        }
        Arg::Bytes(bytes) => {
            let pairs: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            flow_map(vec![("bytes", plain(&pairs.join(" ")))])
        }
    }
}

/// Formats an argument for a parameter whose type is unknown when the case is read. If the kernel only reads through a
/// pointer, the argument is written as `{input: buffer}`.
pub(super) fn untyped(arg: &Arg) -> String {
    let Arg::Input(place) = arg else { return argument(arg) };
    let offset = (place.offset != 0).then(|| ("offset", place.offset.to_string()));
    flow_map([("input", plain(&place.buffer))].into_iter().chain(offset).collect())
}
