//! Decodes the arguments and results of calls according to the declarations of the functions.

use plan::{HipParameter, HipReadType, HipRole, is_struct, pointed, scalar};
use serde_json::Number;

use crate::{
    code_object, launch, memory,
    table::{Passing, Recorded, is_address, passing},
    trace::{Address, Argument, ArgumentValue, CallReturn, Content, TraceCall},
    writer::Writer,
};

/// Registers that contain arguments, in the order in which a stub saves them.
#[repr(C)]
pub(crate) struct Registers {
    integer: [u64; 6],
    rax: u64,
    unused: u64,
    float: [[u64; 2]; 8],
}

/// Directions of copies, `hipMemcpyKind`.
const HOST_TO_HOST: u64 = 0;
const HOST_TO_DEVICE: u64 = 1;
const DEVICE_TO_HOST: u64 = 2;
const DEVICE_TO_DEVICE: u64 = 3;

/// Maximum size in bytes of a memory range whose content is recorded when a call reads or writes it.
const MAX_CONTENT_BYTES: u64 = 1 << 32;

/// Maximum length of a text in the trace, in bytes. A longer text is stored in the same way as the content of memory.
const MAX_TEXT_BYTES: usize = 512;

/// Sizes of the structs to which input pointers point (hip/hip_runtime_api.h and hip/driver_types.h of 7.2.4).
const STRUCTS: &[(&str, usize)] = &[
    ("HIP_ARRAY_DESCRIPTOR", 24),
    ("HIP_ARRAY3D_DESCRIPTOR", 40),
    ("hipChannelFormatDesc", 20),
    ("hipExtent", 24),
    ("hipMemAccessDesc", 12),
    ("hipMemLocation", 8),
    ("hipMemcpy3DParms", 160),
    ("hipMemsetParams", 48),
    ("hip_Memcpy2D", 128),
];

/// Returns the values of the arguments of a call, each as one or more words.
fn values(parameters: &[HipParameter], registers: &Registers, stack: &[u64]) -> Vec<Vec<u64>> {
    let (mut integer, mut float) = (registers.integer.as_slice(), registers.float.as_slice());
    let mut stack = stack;
    let mut from_stack = |words: usize| {
        let (now, rest) = stack.split_at(words.min(stack.len()));
        stack = rest;
        now.to_vec()
    };
    let mut all = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        let value = match passing(parameter) {
            Passing::Float => {
                let (first, rest) = float.split_at(1.min(float.len()));
                float = rest;
                first.iter().map(|register| register[0]).collect()
            }
            Passing::Stack(words) => from_stack(words),
            Passing::Integer | Passing::Words(_) => {
                let words = if let Passing::Words(words) = passing(parameter) { words } else { 1 };
                match integer.split_at_checked(words) {
                    Some((now, rest)) => {
                        integer = rest;
                        now.to_vec()
                    }
                    None => from_stack(words),
                }
            }
        };
        all.push(value);
    }
    all
}

/// A call with the values of its arguments.
struct Values<'a> {
    name: &'a str,
    parameters: &'a [HipParameter],
    words: Vec<Vec<u64>>,
}

impl Values<'_> {
    fn first(&self, index: usize) -> u64 {
        self.words.get(index).and_then(|words| words.first()).copied().unwrap_or_default()
    }

    /// Returns the value of the parameter with this name; `None` if the function has no such parameter.
    fn named(&self, name: &str) -> Option<u64> {
        let index = self.parameters.iter().position(|parameter| parameter.name == name)?;
        let value = self.first(index);
        let bits = scalar(self.parameters[index].ty).map_or(64, |ty| 8 * ty.bytes());
        Some(if bits >= 64 { value } else { value & ((1 << bits) - 1) })
    }

    /// Returns two flags for host memory: true if the call reads it, and true if the call writes it. The direction of a
    /// copy determines the flags. If the arguments do not state the direction of a copy, memory that HIP did not
    /// allocate counts as host memory.
    fn on_host(&self, writer: &Writer) -> (bool, bool) {
        let at = |name| self.named(name).is_some_and(|at| !writer.objects().is_hip_memory(at));
        match self.parameters.iter().position(|p| p.ty == "hipMemcpyKind") {
            _ if self.name.contains("HtoD") || self.name.contains("HtoA") => (true, false),
            _ if self.name.contains("DtoH") || self.name.contains("AtoH") => (false, true),
            _ if self.name.contains("ToSymbol") => (at("src"), false),
            _ if self.name.contains("FromSymbol") => (false, at("dst")),
            Some(kind) => match self.first(kind) & 0xffff_ffff {
                HOST_TO_HOST => (true, true),
                HOST_TO_DEVICE => (true, false),
                DEVICE_TO_HOST => (false, true),
                DEVICE_TO_DEVICE => (false, false),
                _ => (at("src"), at("dst")),
            },
            None => (false, false),
        }
    }

    fn is_asynchronous(&self) -> bool {
        let enqueues = self.parameters.iter().any(|p| matches!(p.role, HipRole::Works));
        enqueues && !self.name.starts_with("hipMemcpyWithStream")
    }
}

/// Decodes the arguments at the beginning of a call.
pub(crate) fn call(
    function: &Recorded,
    thread: u32,
    registers: &Registers,
    stack: &[u64],
    writer: &Writer,
) -> TraceCall {
    let mut call = TraceCall {
        number: 0,
        thread,
        function: function.name.to_owned(),
        arguments: None,
        kernel: None,
    };
    let Some(declaration) = function.declaration else { return call };
    let parameters = declaration.parameters.as_slice();
    let given =
        Values { name: function.name, parameters, words: values(parameters, registers, stack) };
    let flat: Vec<u64> = (0..parameters.len()).map(|index| given.first(index)).collect();
    call.kernel = launch::kernel(function.name, &flat, &writer.objects());
    let arguments = parameters.iter().enumerate().map(|(index, parameter)| Argument {
        name: parameter.name.to_owned(),
        value: argument(&given, index, parameter, writer),
    });
    call.arguments = Some(arguments.collect());
    if function.name == "__hipRegisterFunction"
        && let Some(name) = memory::text(given.first(3))
    {
        writer.objects().add_function(given.first(1), given.first(0), name);
    }
    call
}

fn content(at: u64, bytes: u64, writer: &Writer) -> Option<Content> {
    if bytes == 0 || bytes > MAX_CONTENT_BYTES {
        return None;
    }
    Some(writer.store(&memory::bytes(at, usize::try_from(bytes).ok()?)?))
}

fn argument(
    given: &Values<'_>,
    index: usize,
    parameter: &HipParameter,
    writer: &Writer,
) -> ArgumentValue {
    let value = given.first(index);
    let address = ArgumentValue::Address(Address(value));
    let range = |bytes: Option<u64>, is_read: bool| match bytes {
        None => ArgumentValue::Unknown(Address(value), "its size is unknown".to_owned()),
        Some(bytes) => {
            let content = is_read.then(|| content(value, bytes, writer)).flatten();
            ArgumentValue::Memory { at: Address(value), bytes, content }
        }
    };
    match &parameter.role {
        HipRole::Value | HipRole::Asks | HipRole::Own | HipRole::Works | HipRole::At => {
            match passing(parameter) {
                Passing::Words(_) if parameter.ty == "dim3" => {
                    let words = given.words.get(index).map_or(&[][..], Vec::as_slice);
                    ArgumentValue::Bytes(memory::hex(&little_endian(words)[..12]))
                }
                Passing::Words(_) | Passing::Stack(_) => {
                    let words = given.words.get(index).map_or(&[][..], Vec::as_slice);
                    ArgumentValue::Bytes(memory::hex(&little_endian(words)))
                }
                Passing::Float => {
                    let value = f64::from(f32::from_bits(value as u32));
                    Number::from_f64(value).map_or(address, ArgumentValue::Number)
                }
                Passing::Integer if value == 0 && is_address(parameter) => address,
                Passing::Integer
                    if parameter.name == "options" && given.name.starts_with("hiprtc") =>
                {
                    texts(value, given.named("numOptions"))
                }
                Passing::Integer if ["headers", "includeNames"].contains(&parameter.name) => {
                    texts(value, given.named("numHeaders"))
                }
                Passing::Integer if is_address(parameter) => match pointed(parameter.ty) {
                    Some(of) => structure(value, of).unwrap_or(address),
                    None => address,
                },
                Passing::Integer => number(value, parameter.ty),
            }
        }
        HipRole::Text => match memory::text(value) {
            Some(text) if text.len() > MAX_TEXT_BYTES => {
                let content = Some(writer.store(text.as_bytes()));
                let bytes = text.len() as u64;
                ArgumentValue::Memory { at: Address(value), bytes, content }
            }
            Some(text) => ArgumentValue::Text(text),
            None => address,
        },
        HipRole::In(_) | HipRole::Keeps | HipRole::InOut if value == 0 => address,
        HipRole::In(size) => input(
            value,
            parameter,
            size.as_ref().map(|size| size.resolve(|name| given.named(name))),
        ),
        HipRole::Keeps => input(value, parameter, None),
        HipRole::InOut => match pointed(parameter.ty).and_then(scalar) {
            Some(ty) => memory::number(value, ty.bytes())
                .map_or(address, |bits| ArgumentValue::Number(bits.into())),
            None => address,
        },
        HipRole::Out(_) | HipRole::Sets { .. } => address,
        HipRole::Reads(size) => {
            range(size.resolve(|name| given.named(name)), given.on_host(writer).0)
        }
        HipRole::Writes(size) => range(size.resolve(|name| given.named(name)), false),
    }
}

fn little_endian(words: &[u64]) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(bytes.len().max(16), 0);
    bytes
}

fn number(value: u64, ty: &str) -> ArgumentValue {
    use plan::ScalarType::{I8, I16, I32, I64};
    let Some(ty) = scalar(ty) else { return ArgumentValue::Address(Address(value)) };
    let shift = 64 - 8 * ty.bytes().min(8) as u32;
    ArgumentValue::Number(match ty {
        I8 | I16 | I32 | I64 => ((value << shift).cast_signed() >> shift).into(),
        _ => (value << shift >> shift).into(),
    })
}

fn texts(address: u64, count: Option<u64>) -> ArgumentValue {
    let read = |index: u64| memory::text(memory::number(address.wrapping_add(8 * index), 8)?);
    let all: Option<Vec<_>> = (0..count.unwrap_or_default().min(4096)).map(read).collect();
    all.map_or_else(
        || ArgumentValue::Unknown(Address(address), "not a list of texts".to_owned()),
        ArgumentValue::Texts,
    )
}

fn structure(address: u64, ty: &str) -> Option<ArgumentValue> {
    let (_, bytes) = STRUCTS.iter().find(|(name, _)| *name == ty)?;
    Some(ArgumentValue::Bytes(memory::hex(&memory::bytes(address, *bytes)?)))
}

/// Reads the memory to which an input pointer points. `count` is `None` for a pointer to one element. For an array, it
/// contains the number of elements, or `None` if that number is unknown.
fn input(address: u64, parameter: &HipParameter, count: Option<Option<u64>>) -> ArgumentValue {
    let unknown = |why: &str| ArgumentValue::Unknown(Address(address), why.to_owned());
    let Some(of) = pointed(parameter.ty) else { return unknown("it is not a pointer") };
    let size = STRUCTS.iter().find(|(name, _)| *name == of).map(|(_, bytes)| *bytes);
    let size = size.or_else(|| (!is_struct(of)).then(|| scalar(of).map_or(8, |ty| ty.bytes())));
    let Some(size) = size.filter(|_| of != "void" || count.is_some()) else {
        return unknown(&format!("the size of {of} is unknown"));
    };
    let size = if of == "void" { 1 } else { size as u64 };
    let count = match count {
        Some(None) => return unknown("its size is unknown"),
        Some(Some(count)) => count,
        None => 1,
    };
    let length = size.saturating_mul(count).min(1 << 20);
    match memory::bytes(address, length as usize) {
        Some(bytes) => ArgumentValue::Bytes(memory::hex(&bytes)),
        None => unknown("the memory cannot be read"),
    }
}

/// Decodes the results of a call that has returned. `returned` is the value that the function returned.
pub(crate) fn end(
    function: &Recorded,
    number: u64,
    registers: &Registers,
    stack: &[u64],
    returned: u64,
    writer: &Writer,
) -> CallReturn {
    let status = returned as u32 as i32;
    let mut end = CallReturn {
        number,
        status,
        text: None,
        out: Default::default(),
        code: None,
        wrote: None,
        read_backs: Vec::new(),
    };
    let Some(declaration) = function.declaration else { return end };
    let parameters = declaration.parameters.as_slice();
    let given =
        Values { name: function.name, parameters, words: values(parameters, registers, stack) };
    if declaration.gives_text {
        (end.status, end.text) = (0, memory::text(returned));
    }
    let succeeded = end.status == 0;
    for (index, parameter) in parameters.iter().enumerate() {
        let at = given.first(index);
        let value = match &parameter.role {
            HipRole::Out(None) | HipRole::InOut if at != 0 => written(at, parameter),
            HipRole::Out(Some(_))
                if at != 0 && pointed(parameter.ty) == Some("char") && succeeded =>
            {
                memory::text(at).map(ArgumentValue::Text)
            }
            HipRole::Writes(size) if succeeded && given.on_host(writer).1 => {
                let bytes = size.resolve(|name| given.named(name));
                if !given.is_asynchronous() {
                    end.wrote = bytes.and_then(|bytes| content(at, bytes, writer));
                } else if let Some(bytes) = bytes {
                    let stream = given.named("stream").unwrap_or_default();
                    writer.objects().read_backs.enqueue((at, bytes), stream);
                }
                None
            }
            _ => None,
        };
        if let Some(value) = value {
            end.out.insert(parameter.name.to_owned(), value);
        }
    }
    if succeeded || function.name.starts_with("__hip") {
        follow(&given, returned, &mut end, writer);
    }
    if succeeded {
        let stream = given.named("stream").unwrap_or_default();
        let ranges = writer.objects().read_backs.follow(given.name, stream);
        let read = ranges.into_iter().map(|(at, bytes)| (Address(at), content(at, bytes, writer)));
        end.read_backs = read.filter_map(|(at, content)| Some((at, content?))).collect();
    }
    end
}

/// Reads the value that a call wrote through a pointer; `None` if its type is unknown or the memory cannot be read.
fn written(at: u64, parameter: &HipParameter) -> Option<ArgumentValue> {
    if let Some(of) = pointed(parameter.ty)
        && is_address_type(of)
    {
        return memory::number(at, 8).map(|value| ArgumentValue::Address(Address(value)));
    }
    match parameter.gives()? {
        HipReadType::Number(ty) => {
            let bits = memory::number(at, ty.bytes())?;
            Some(number(bits, pointed(parameter.ty)?))
        }
        HipReadType::Text => memory::text(at).map(ArgumentValue::Text),
        HipReadType::TextAt => memory::text(memory::number(at, 8)?).map(ArgumentValue::Text),
        HipReadType::Pointer => {
            memory::number(at, 8).map(|value| ArgumentValue::Address(Address(value)))
        }
    }
}

fn is_address_type(ty: &str) -> bool {
    (ty.ends_with('*') && !ty.contains("char")) || ty == "hiprtcProgram"
}

/// Remembers the objects that a call created, and records the code that the call loaded.
fn follow(given: &Values<'_>, returned: u64, end: &mut CallReturn, writer: &Writer) {
    let out = |name: &str| match end.out.get(name) {
        Some(ArgumentValue::Address(Address(value))) => Some(*value),
        _ => None,
    };
    let pointer = || ["ptr", "devPtr", "dev_ptr", "dptr"].into_iter().find_map(out);
    match given.name {
        "hipModuleLoadData" | "hipModuleLoadDataEx" => {
            let (module, code) = (out("module"), code_object::at(given.first(1)));
            if let (Some(module), Some(code)) = (module, code) {
                writer.objects().load(module, code_object::kernels(&code));
                end.code = Some(writer.store(&code));
            }
        }
        "hipModuleLoad" => {
            let code = memory::text(given.first(1)).and_then(|path| std::fs::read(path).ok());
            if let (Some(module), Some(code)) = (out("module"), code) {
                writer.objects().load(module, code_object::kernels(&code));
                end.code = Some(writer.store(&code));
            }
        }
        "hiprtcGetCode" => {
            let code = code_object::at(given.first(1));
            end.code = code.map(|code| writer.store(&code));
        }
        "__hipRegisterFatBinary" => {
            // `struct { int magic, version; const void *binary; void *unused; }`
            let binary = memory::number(given.first(0).wrapping_add(8), 8);
            if let Some(code) = binary.and_then(code_object::at) {
                writer.objects().load(returned, code_object::kernels(&code));
                end.code = Some(writer.store(&code));
            }
            end.out.insert("modules".to_owned(), ArgumentValue::Address(Address(returned)));
        }
        "hipModuleGetFunction" => {
            if let (Some(function), Some(name)) = (out("function"), memory::text(given.first(2))) {
                writer.objects().add_function(function, given.first(1), name);
            }
        }
        "hipFree" | "hipFreeAsync" | "hipHostFree" | "hipFreeHost" => {
            writer.objects().free(given.first(0));
        }
        "hipMallocPitch" => {
            let pitch = match end.out.get("pitch") {
                Some(ArgumentValue::Number(pitch)) => pitch.as_u64(),
                _ => None,
            };
            if let (Some(at), Some(pitch), Some(rows)) = (pointer(), pitch, given.named("height")) {
                writer.objects().allocate(at, pitch.saturating_mul(rows));
            }
        }
        name if name.contains("Malloc") || name == "hipHostAlloc" => {
            let bytes = ["size", "sizeBytes", "bytesize"].iter().find_map(|name| given.named(name));
            if let (Some(at), Some(bytes)) = (pointer(), bytes) {
                writer.objects().allocate(at, bytes);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{functions, index};

    fn registers(integer: [u64; 6]) -> Registers {
        Registers { integer, rax: 0, unused: 0, float: [[0; 2]; 8] }
    }

    fn recorded(name: &str) -> &'static Recorded {
        &functions()[index(name.as_bytes()).unwrap()]
    }

    fn writer() -> (tempfile::TempDir, Writer) {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::create(folder.path(), "").unwrap();
        (folder, writer)
    }

    fn value<'a>(call: &'a TraceCall, name: &str) -> &'a ArgumentValue {
        let all = call.arguments.as_ref().unwrap();
        &all.iter().find(|argument| argument.name == name).unwrap().value
    }

    #[test]
    fn content_of_a_copy_from_the_host_is_recorded() {
        let (_folder, writer) = writer();
        let host = *b"from the host";
        let at = host.as_ptr() as u64;
        for (kind, is_recorded) in [(1, true), (2, false), (3, false), (4, true)] {
            let registers = registers([0x1000, at, 13, kind, 0, 0]);
            let call = call(recorded("hipMemcpy"), 1, &registers, &[], &writer);
            let ArgumentValue::Memory { at: Address(from), bytes: 13, content } =
                value(&call, "src")
            else {
                panic!("{call:?}")
            };
            assert_eq!((*from, content.is_some()), (at, is_recorded), "{kind}");
            assert_eq!(value(&call, "kind"), &ArgumentValue::Number(kind.into()));
        }
        writer.objects().allocate(at, 13);
        let registers = registers([0x1000, at, 13, 4, 0, 0]);
        let call = call(recorded("hipMemcpy"), 1, &registers, &[], &writer);
        assert!(matches!(value(&call, "src"), ArgumentValue::Memory { content: None, .. }));
    }

    #[test]
    fn wrong_addresses_are_recorded_and_not_read() {
        let (_folder, writer) = writer();
        let registers = registers([8, 8, 64, 1, 0, 0]);
        let call = call(recorded("hipMemcpy"), 1, &registers, &[], &writer);
        let at = Address(8);
        assert_eq!(value(&call, "src"), &ArgumentValue::Memory { at, bytes: 64, content: None });
        let end = end(recorded("hipMalloc"), 0, &registers, &[], 1, &writer);
        assert_eq!((end.status, end.out.len()), (1, 0));
    }

    #[test]
    fn structs_are_read_where_the_abi_passes_them() {
        let (_folder, writer) = writer();
        let registers = registers([5, 2 | 3 << 32, 4, 6 | 7 << 32, 8, 0]);
        let launch = call(recorded("hipLaunchKernel"), 1, &registers, &[96, 0x77], &writer);
        let text = |value: &ArgumentValue| serde_json::to_string(value).unwrap();
        assert_eq!(text(value(&launch, "numBlocks")), r#"{"bytes":"020000000300000004000000"}"#);
        assert_eq!(text(value(&launch, "dimBlocks")), r#"{"bytes":"060000000700000008000000"}"#);
        assert_eq!(value(&launch, "sharedMemBytes"), &ArgumentValue::Number(96.into()));
        assert_eq!(value(&launch, "stream"), &ArgumentValue::Address(Address(0x77)));
        let negative =
            call(recorded("hipSetDevice"), 1, &registers_of(u64::from(u32::MAX)), &[], &writer);
        assert_eq!(value(&negative, "deviceId"), &ArgumentValue::Number((-1).into()));
    }

    fn registers_of(first: u64) -> Registers {
        registers([first, 0, 0, 0, 0, 0])
    }

    #[test]
    fn results_are_read_through_their_pointers() {
        let (_folder, writer) = writer();
        let given: u64 = 0x7f00_0000_1000;
        let registers = registers([&raw const given as u64, 64, 0, 0, 0, 0]);
        let end = end(recorded("hipMalloc"), 3, &registers, &[], 0, &writer);
        assert_eq!(end.out["ptr"], ArgumentValue::Address(Address(given)));
        assert!(
            writer.objects().is_hip_memory(given + 63)
                && !writer.objects().is_hip_memory(given + 64)
        );
    }
}
