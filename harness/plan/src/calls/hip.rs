//! Calls of any libamdhip64 function in the table that `hip.rs` describes, and reads of the values that these calls
//! returned. The effect of a call follows from the roles of its parameters.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "matches on roles, arguments and effects, not on calls"
)]

use super::{
    Accessor, CaptureHandling, CompletedOnReturn, MemoryEffect, NamedObject, ObjectKind, ObjectUse,
    WorkStream,
};
use crate::{HipArg, HipRole, hip_accesses, hip_function, number_of};

family! { hip

    /// Calls a function from the table in `functions.txt`. The returned value is the first result of the function; for
    /// a function that returns text instead of a status, it is this text.
    Hip { function: Name as plain, args: Vec<HipArg> as given(function) }
        verb: by_hand hip [call, args]
            "call a function of libamdhip64 from the table; `gives` refers to the first value that the function \
             returns. Faults at calls apply if they name a call or concern a stated value; faults of copies and \
             launches do not apply";
        makes: { |_plan| (crate::hip::called(function), &[]) };
        in_capture: hip::in_capture(function, args); by_hand: [];
        gives: Anything;
        effect: {
            memory: hip::memory_effect(function, args),
            captures: Nothing,
            order: ProgramOrder,
            work_stream: hip::work_stream(function, args),
            over: hip::completed_on_return(function, args),
        };
        words: ("{function}"); cpp: Hip;

    /// Reads a value that an earlier `hip` step stored under the name `of`. With `against`, the value is compared with
    /// the value under that name, and the returned value is `same`, `less`, `more` or `other`.
    HipValue {
        of: Name as uses(Value),
        function: Name as plain,
        read: HipRead as plain,
        against: Option<Name> as maybe(Value),
    }
        verb: by_hand hip_value [of, at, type, against]
            "return a value that a `hip` step stored under a name, or how the value compares with another one: \
             `same`, `less`, `more` or `other`";
        makes: ["host look at a value"];
        in_capture: Now; by_hand: []; gives: Anything; effect: nothing;
        words: ("value {of} of {function}"); cpp: Hip;
}

pub(super) fn named<'a>(args: &'a [HipArg], function: &str, see: &mut dyn FnMut(NamedObject<'a>)) {
    let parameters = hip_function(function).map_or(&[][..], |function| &function.parameters);
    for (arg, parameter) in args.iter().zip(parameters) {
        match (arg, &parameter.role) {
            (HipArg::Place(place), role) => {
                let role = match role {
                    HipRole::Reads(_) => ObjectUse::Read,
                    HipRole::Writes(_) | HipRole::Sets { .. } => ObjectUse::Written,
                    _ => ObjectUse::Used,
                };
                see(NamedObject {
                    kind: ObjectKind::Buffer,
                    name: &place.buffer,
                    role,
                    accessor: Accessor::Any,
                });
            }
            (arg, _) => each_name(arg, see),
        }
    }
}

fn each_name<'a>(arg: &'a HipArg, see: &mut dyn FnMut(NamedObject<'a>)) {
    let (thing, name, role) = match arg {
        HipArg::Value(name) => (ObjectKind::Value, name, ObjectUse::Used),
        HipArg::Out { name, .. } => (ObjectKind::Value, name, ObjectUse::Created),
        HipArg::Stream(name) => (ObjectKind::Stream, name, ObjectUse::Used),
        HipArg::Event(name) => (ObjectKind::Event, name, ObjectUse::Used),
        HipArg::Graph(name) => (ObjectKind::Graph, name, ObjectUse::Used),
        HipArg::Kernel(name) => (ObjectKind::Kernel, name, ObjectUse::Used),
        HipArg::Place(place) => (ObjectKind::Buffer, &place.buffer, ObjectUse::Used),
        HipArg::Struct(members) => return members.iter().for_each(|arg| each_name(arg, see)),
        HipArg::Null | HipArg::Number(_) | HipArg::Text(_) | HipArg::Bytes(_) => return,
    };
    see(NamedObject { kind: thing, name, role, accessor: Accessor::Any });
}

pub(super) fn memory_effect<'a>(name: &'a str, args: &'a [HipArg]) -> MemoryEffect<'a> {
    let Some(function) = hip_function(name) else { return MemoryEffect::Nothing };
    let number = |name: &str| number_of(function, args, name);
    for (arg, parameter) in args.iter().zip(&function.parameters) {
        if let (HipArg::Place(to), HipRole::Sets { value, element, bytes }) = (arg, &parameter.role)
            && let (Some(value), Some(bytes)) = (number(value), bytes.resolve(number))
            && let Ok(value) = u32::try_from(value)
            && *element <= 4
        {
            return MemoryEffect::Set { to, value, element: *element, bytes };
        }
    }
    let sizes = |reads: bool| {
        function.parameters.iter().filter_map(move |parameter| match &parameter.role {
            HipRole::Reads(size) if reads => Some(size),
            HipRole::Writes(size) if !reads => Some(size),
            _ => None,
        })
    };
    let same = sizes(true).zip(sizes(false)).any(|(read, written)| read == written);
    match hip_accesses(name, args)[..] {
        [] => MemoryEffect::Nothing,
        [(true, to, bytes), (false, from, _)] | [(false, from, bytes), (true, to, _)] if same => {
            MemoryEffect::Copy { to, from, bytes }
        }
        _ => MemoryEffect::Foreign { function: name, args },
    }
}

fn work_parameter(function: &str) -> Option<usize> {
    let parameters = &hip_function(function)?.parameters;
    parameters.iter().position(|parameter| matches!(parameter.role, HipRole::Works))
}

pub(super) fn in_capture(function: &str, args: &[HipArg]) -> CaptureHandling {
    let stream = work_parameter(function).and_then(|at| args.get(at));
    if matches!(stream, Some(HipArg::Stream(_))) {
        CaptureHandling::Node
    } else {
        CaptureHandling::Now
    }
}

pub(super) fn work_stream<'a>(function: &str, args: &'a [HipArg]) -> WorkStream<'a> {
    match work_parameter(function).and_then(|at| args.get(at)) {
        Some(HipArg::Stream(stream)) => WorkStream::Stream(stream),
        _ if hip_accesses(function, args).is_empty() => WorkStream::NoStream,
        _ => WorkStream::NullStream,
    }
}

/// Returns the part of the work that HIP guarantees to have completed when a call of the HIP function `function`
/// returns. HIP gives such a guarantee only for copies.
pub(super) fn completed_on_return<'a>(
    function: &'a str,
    args: &'a [HipArg],
) -> CompletedOnReturn<'a> {
    match memory_effect(function, args) {
        MemoryEffect::Copy { to, from, .. } => {
            let asynchronous = work_parameter(function).is_some();
            CompletedOnReturn::Copy { asynchronous, to: &to.buffer, from: &from.buffer }
        }
        _ => CompletedOnReturn::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BufferAddress, Scalar, ScalarType};

    #[test]
    fn hip_copies_and_sets_have_precise_effects() {
        let place = |buffer: &str| BufferAddress { buffer: buffer.to_owned(), offset: 0 };
        let bytes = |n: u64| HipArg::Number(Scalar { ty: ScalarType::U64, bits: n });
        let args = [HipArg::Place(place("a")), HipArg::Place(place("b")), bytes(8), HipArg::Null];
        let MemoryEffect::Copy { to, from, bytes: 8 } = memory_effect("hipMemcpyDtoDAsync", &args)
        else {
            panic!("no copy");
        };
        assert_eq!((to.buffer.as_str(), from.buffer.as_str()), ("a", "b"));
        assert_eq!(work_stream("hipMemcpyDtoDAsync", &args), WorkStream::NullStream);
        let value = HipArg::Number(Scalar { ty: ScalarType::U16, bits: 0x1234 });
        let args = [HipArg::Place(place("a")), value, bytes(3)];
        let MemoryEffect::Set { value: 0x1234, element: 2, bytes: 6, .. } =
            memory_effect("hipMemsetD16", &args)
        else {
            panic!("no set");
        };
    }
}
