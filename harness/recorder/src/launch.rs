//! Reads the arguments of a kernel launch.

use ::code_object::CodeParameter;

use crate::{
    memory,
    objects::Objects,
    trace::{KernelArgument, KernelLaunch},
};

/// Functions that launch one kernel, each with the index of the parameter that points to the kernel's arguments.
const LAUNCHES: &[(&str, usize)] = &[
    ("hipExtLaunchKernel", 3),
    ("hipExtModuleLaunchKernel", 9),
    ("hipHccModuleLaunchKernel", 9),
    ("hipLaunchCooperativeKernel", 3),
    ("hipLaunchCooperativeKernel_spt", 3),
    ("hipLaunchKernel", 3),
    ("hipLaunchKernel_spt", 3),
    ("hipModuleLaunchCooperativeKernel", 9),
    ("hipModuleLaunchKernel", 9),
];

/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, `HIP_LAUNCH_PARAM_BUFFER_SIZE` and `HIP_LAUNCH_PARAM_END`, see
/// hip/hip_runtime_api.h.
const BUFFER: u64 = 1;
const SIZE: u64 = 2;

/// Maximum size of a kernel's arguments that are read, in bytes.
const MAX_ARGUMENT_BYTES: u64 = 1 << 16;

/// Returns the kernel that a call launches, with its arguments; `None` if the function does not launch a kernel.
/// `words` contains the first word of each argument of the call.
pub(crate) fn kernel(function: &str, words: &[u64], objects: &Objects) -> Option<KernelLaunch> {
    let (_, at) = LAUNCHES.iter().find(|(name, _)| *name == function)?;
    let found = objects.function(*words.first()?);
    let Some(kernel) = found else {
        return Some(KernelLaunch { name: String::new(), arguments: None });
    };
    let parameters = kernel.parameters.as_deref();
    let arguments = parameters.and_then(|parameters| {
        let pointers = words.get(*at).copied().unwrap_or_default();
        if pointers != 0 || parameters.is_empty() {
            return by_pointers(pointers, parameters);
        }
        in_buffer(words.get(at + 1).copied().unwrap_or_default(), parameters)
    });
    Some(KernelLaunch { name: kernel.name.clone(), arguments })
}

fn argument(parameter: &CodeParameter, bytes: &[u8]) -> KernelArgument {
    KernelArgument { kind: parameter.kind.clone(), bytes: memory::hex(bytes) }
}

/// Reads kernel arguments from an array that contains a pointer to each of them.
fn by_pointers(pointers: u64, parameters: &[CodeParameter]) -> Option<Vec<KernelArgument>> {
    let read = parameters.iter().enumerate().map(|(index, parameter)| {
        let at = memory::number(pointers.wrapping_add(8 * index as u64), 8)?;
        let size = usize::try_from(parameter.size.min(MAX_ARGUMENT_BYTES)).ok()?;
        Some(argument(parameter, &memory::bytes(at, size)?))
    });
    read.collect()
}

/// Reads kernel arguments from a buffer. `extra` is the address of an array of keys and values, which contains the
/// buffer's address and size.
fn in_buffer(extra: u64, parameters: &[CodeParameter]) -> Option<Vec<KernelArgument>> {
    let (mut buffer, mut size) = (None, None);
    for index in 0..2 {
        let pair = extra.wrapping_add(16 * index);
        match memory::number(pair, 8)? {
            BUFFER => buffer = Some(memory::number(pair.wrapping_add(8), 8)?),
            SIZE => size = memory::number(memory::number(pair.wrapping_add(8), 8)?, 8),
            _ => break,
        }
    }
    let bytes = memory::bytes(buffer?, size.filter(|size| *size <= MAX_ARGUMENT_BYTES)? as usize)?;
    let read = parameters.iter().map(|parameter| {
        let start = parameter.offset as usize;
        Some(argument(parameter, bytes.get(start..start + parameter.size as usize)?))
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects() -> Objects {
        let parameter = |size, offset, kind: &str| CodeParameter {
            size,
            offset,
            kind: kind.to_owned(),
            access: None,
        };
        let parameters = vec![parameter(8, 0, "global_buffer"), parameter(4, 8, "by_value")];
        let mut objects = Objects::default();
        objects.load(1, [("k".to_owned(), parameters)].into());
        objects.add_function(2, 1, "k".to_owned());
        objects
    }

    #[test]
    fn both_forms_of_arguments_are_read() {
        let buffer = [0x1234_u64, 7];
        let pointers = [buffer.as_ptr() as u64, buffer.as_ptr() as u64 + 8];
        let size = 12_u64;
        let extra = [BUFFER, buffer.as_ptr() as u64, SIZE, &raw const size as u64, 3];
        for (pointers, extra) in [(pointers.as_ptr() as u64, 0), (0, extra.as_ptr() as u64)] {
            let words = [2, 1, 1, 1, 1, 1, 1, 0, 0, pointers, extra];
            let launch = kernel("hipModuleLaunchKernel", &words, &objects()).unwrap();
            let arguments = launch.arguments.unwrap();
            let bytes: Vec<_> = arguments.iter().map(|argument| argument.bytes.as_str()).collect();
            assert_eq!(
                (launch.name.as_str(), &bytes[..]),
                ("k", &["3412000000000000", "07000000"][..])
            );
        }
        let unknown = kernel("hipModuleLaunchKernel", &[3, 1], &objects()).unwrap();
        assert_eq!((unknown.name.as_str(), unknown.arguments), ("", None));
        assert!(kernel("hipMalloc", &[2, 1], &objects()).is_none());
    }
}
