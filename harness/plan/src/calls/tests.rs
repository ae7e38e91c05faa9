use super::*;

#[test]
fn cpp_template_placeholders_are_fields_or_results() {
    for (cpp, fields) in IN_CPP {
        let part = |(text, inside): (&str, Option<&str>)| {
            format!("{text}{}", inside.map_or(String::new(), |inside| format!("{{{inside}}}")))
        };
        let whole: String = cpp.parts().into_iter().map(part).collect();
        assert_eq!(whole, if let CppForm::Function(template) = cpp { template } else { "" });
        for (text, inside) in cpp.parts() {
            let Some(inside) = inside else { continue };
            let result = inside.split_once(": ").is_some() && text.ends_with('&');
            assert!(result || fields.contains(&inside), "{cpp:?} has no field `{inside}`");
        }
    }
}

/// A declaration contains the function's name twice, in the rows `makes` and `cpp`. The test compares the two, to find
/// typing errors.
#[test]
fn cpp_function_equals_first_declared_function() {
    assert_eq!(FIRST_FUNCTIONS.len(), 2 * IN_CPP.len());
    for ((cpp, _), made) in IN_CPP.iter().zip(FIRST_FUNCTIONS.iter().step_by(2)) {
        let CppForm::Function(template) = cpp else { continue };
        assert_eq!(template.split('(').next(), made.first().copied(), "{template}");
    }
}

#[test]
fn output_arguments_are_recognised() {
    assert_eq!(is_output_argument("hipGraphGetNodes", 2), Some(true));
    assert_eq!(is_output_argument("hipGraphGetNodes", 0), Some(false));
    assert_eq!(is_output_argument("hipStreamEndCapture", 1), Some(true));
    assert_eq!(is_output_argument("hipGraph", 0), None);
}

#[test]
fn directed_copy_treats_managed_memory_as_device_memory() {
    use Memory::{Device, HostPinned, Managed};
    for (from, to, function) in [
        (HostPinned, Device, "hipMemcpyHtoD"),
        (Device, HostPinned, "hipMemcpyDtoH"),
        (HostPinned, Managed, "hipMemcpyHtoD"),
        (Managed, HostPinned, "hipMemcpyDtoH"),
        (Managed, Device, "hipMemcpyDtoD"),
        (Device, Device, "hipMemcpyDtoD"),
    ] {
        let mut plan = Plan::empty();
        for (name, memory) in [("from", from), ("to", to)] {
            let buffer = crate::Buffer { memory, bytes: 4, guarded: false };
            plan.buffers.insert(name.to_owned(), buffer);
        }
        let place = |name: &str| BufferAddress { buffer: name.to_owned(), offset: 0 };
        let call = Call::Copy {
            to: place("to"),
            from: place("from"),
            bytes: 4,
            api: CopyApi::MemcpyDirected,
            stream: crate::DEFAULT_STREAM.to_owned(),
        };
        assert_eq!(api(&call, &plan), function, "{from:?} to {to:?}");
        assert_eq!(call.functions(&plan), [function]);
    }
}
