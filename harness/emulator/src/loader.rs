//! Executables of the HSA interface. The module loads code objects into device memory and returns their symbols.

mod older;

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{c_char, c_void},
    sync::Arc,
};

use device::Fault;

use crate::{
    abi::{Agent, File, InfoOutput, Out, Status, name, pool_flag},
    address_map,
    code_object::{CodeObject, Descriptor, Kind, Problem, RelocationBase},
    config, faults,
    locks::Mutex,
    memory,
    part::DeviceComponent as _,
    report::trace,
};

#[derive(Debug)]
pub(crate) struct Kernel {
    /// Name of the kernel without the suffix `.kd` of its descriptor.
    pub(crate) name: String,
    /// Size of the kernel arguments, in bytes.
    pub(crate) kernarg_bytes: u32,
}

#[derive(Clone)]
struct Symbol {
    agent: Agent,
    name: String,
    address: u64,
    size: u64,
    kernel: Option<Descriptor>,
}

struct Image {
    agent: Agent,
    start: usize,
    len: usize,
    /// Bytes of the code object, which debuggers and the HIP runtime may query.
    storage: Arc<[u8]>,
}

#[derive(Default)]
struct Executable {
    frozen: bool,
    externals: HashMap<String, u64>,
    images: Vec<Image>,
    symbols: Vec<u64>,
}

/// All objects of the loader that have handles. Handles are consecutive numbers that are never reused, so that the use
/// of a destroyed object is detected.
#[derive(Default)]
struct Registry {
    next: u64,
    readers: BTreeMap<u64, Arc<[u8]>>,
    executables: BTreeMap<u64, Executable>,
    symbols: BTreeMap<u64, Symbol>,
    kernels: BTreeMap<u64, Arc<Kernel>>,
}

#[derive(Default)]
pub(crate) struct Loaded(Mutex<Registry>);

fn with<T>(body: impl FnOnce(&mut Registry) -> T) -> T {
    body(&mut Loaded::current().0.lock())
}

impl Registry {
    fn handle(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

pub(crate) fn kernel(descriptor: u64) -> Option<Arc<Kernel>> {
    with(|registry| registry.kernels.get(&descriptor).cloned())
}

fn new_reader(bytes: Arc<[u8]>, reader: Out<u64>) -> Status {
    if reader.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    reader.put(with(|registry| {
        let handle = registry.handle();
        registry.readers.insert(handle, bytes);
        handle
    }))
}

/// `hsa_code_object_reader_create_from_memory`.
///
/// # Safety
/// As HSA requires, `pointer` must be valid for `bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_code_object_reader_create_from_memory(
    pointer: *const u8,
    bytes: usize,
    reader: Out<u64>,
) -> Status {
    if pointer.is_null() || bytes == 0 {
        return Status::INVALID_ARGUMENT;
    }
    // SAFETY: the pointer is not null, and HSA requires the caller to keep `bytes` bytes valid during this call.
    new_reader(unsafe { std::slice::from_raw_parts(pointer, bytes) }.into(), reader)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_code_object_reader_create_from_file(file: File, reader: Out<u64>) -> Status {
    use std::os::{fd::BorrowedFd, unix::fs::FileExt};
    if file < 0 {
        return Status::INVALID_ARGUMENT;
    }
    // SAFETY: HSA requires an open file, which stays open during the call.
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    let read = || {
        let file = std::fs::File::from(file.try_clone_to_owned()?);
        let mut bytes = vec![0; file.metadata()?.len() as usize];
        file.read_exact_at(&mut bytes, 0)?;
        std::io::Result::Ok(bytes)
    };
    match read() {
        Ok(bytes) => new_reader(bytes.into(), reader),
        Err(_) => Status::ERROR,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_code_object_reader_destroy(reader: u64) -> Status {
    match with(|registry| registry.readers.remove(&reader)) {
        Some(_) => Status::SUCCESS,
        None => Status::INVALID_CODE_OBJECT_READER,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_executable_create_alt(
    _profile: u32,
    _rounding: u32,
    _options: *const c_char,
    executable: Out<u64>,
) -> Status {
    if executable.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    executable.put(with(|registry| {
        let handle = registry.handle();
        registry.executables.insert(handle, Executable::default());
        handle
    }))
}

#[unsafe(no_mangle)]
extern "C" fn hsa_executable_destroy(executable: u64) -> Status {
    let images = with(|registry| {
        let removed = registry.executables.remove(&executable)?;
        for symbol in &removed.symbols {
            if let Some(symbol) = registry.symbols.remove(symbol) {
                registry.kernels.remove(&symbol.address);
            }
        }
        Some(removed.images)
    });
    let Some(images) = images else { return Status::INVALID_EXECUTABLE };
    trace!("executable_destroy {executable}");
    for image in images {
        memory::free(image.start);
    }
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_executable_freeze(executable: u64, _options: *const c_char) -> Status {
    with(|registry| match registry.executables.get_mut(&executable) {
        None => Status::INVALID_EXECUTABLE,
        Some(executable) if executable.frozen => Status::FROZEN_EXECUTABLE,
        Some(executable) => {
            executable.frozen = true;
            Status::SUCCESS
        }
    })
}

/// `hsa_executable_agent_global_variable_define`.
///
/// # Safety
/// As HSA requires, `variable` must be a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_executable_agent_global_variable_define(
    executable: u64,
    _agent: Agent,
    variable: *const c_char,
    address: u64,
) -> Status {
    // SAFETY: HSA requires the caller to pass a C string.
    let Some(variable) = (unsafe { name(variable) }) else { return Status::INVALID_ARGUMENT };
    with(|registry| match registry.executables.get_mut(&executable) {
        None => Status::INVALID_EXECUTABLE,
        Some(executable) if executable.frozen => Status::FROZEN_EXECUTABLE,
        Some(executable) => match executable.externals.insert(variable, address) {
            None => Status::SUCCESS,
            Some(_) => Status::VARIABLE_ALREADY_DEFINED,
        },
    })
}

#[unsafe(no_mangle)]
extern "C" fn hsa_executable_load_agent_code_object(
    executable: u64,
    agent: Agent,
    reader: u64,
    _options: *const c_char,
    loaded: Out<u64>,
) -> Status {
    if !agent.is_gpu() {
        return Status::INVALID_AGENT;
    }
    with(|registry| {
        let Some(storage) = registry.readers.get(&reader).cloned() else {
            return Status::INVALID_CODE_OBJECT_READER;
        };
        match registry.executables.get(&executable) {
            None => return Status::INVALID_EXECUTABLE,
            Some(executable) if executable.frozen => return Status::FROZEN_EXECUTABLE,
            Some(_) => {}
        }
        match CodeObject::parse(&storage, config::get().arch) {
            Ok(object) => {
                let status = load(registry, executable, agent, &object, &storage);
                if status == Status::SUCCESS {
                    loaded.put_if_wanted(executable);
                }
                status
            }
            Err(Problem::OtherArch(machine)) => {
                trace!("code object for machine {machine:#x}");
                Status::INCOMPATIBLE_ARGUMENTS
            }
            Err(Problem::Malformed(what)) => {
                trace!("malformed code object: {what}");
                Status::INVALID_CODE_OBJECT
            }
        }
    })
}

fn load(
    registry: &mut Registry,
    handle: u64,
    agent: Agent,
    object: &CodeObject<'_>,
    storage: &Arc<[u8]>,
) -> Status {
    let Some(executable) = registry.executables.get(&handle) else {
        return Status::INVALID_EXECUTABLE;
    };
    let mut patches = Vec::new();
    for relocation in &object.relocations {
        let base = match &relocation.base {
            RelocationBase::Image(offset) => Ok(*offset),
            RelocationBase::External(name) => {
                Err(executable.externals.get(name).copied().unwrap_or(0))
            }
        };
        if base == Err(0) {
            trace!("a relocation needs the undefined {:?}", relocation.base);
            return Status::VARIABLE_UNDEFINED;
        }
        patches.push((relocation, base));
    }
    let len = object.size as usize;
    let kind = address_map::Kind::Internal;
    let Some(start) = memory::allocate(len, agent, pool_flag::COARSE_GRAINED, kind) else {
        return Status::OUT_OF_RESOURCES;
    };
    let write = |offset: u64, bytes: &[u8]| {
        // SAFETY: the parser has checked that segments and relocations are inside the image, and the target is a fresh
        // allocation of the image's size.
        unsafe {
            let to = (start as *mut u8).add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    };
    let zeroed = faults::is_active(Fault::ModuleZeroed);
    for segment in &object.segments {
        if zeroed && segment.writable {
            write(segment.address, &vec![0; segment.data.len()]);
        } else {
            write(segment.address, segment.data);
        }
    }
    for (relocation, base) in patches {
        let base = base.map_or_else(|external| external, |offset| start as u64 + offset);
        let value = base.wrapping_add_signed(relocation.addend);
        let place = start as u64 + relocation.place;
        let form = relocation.form;
        write(relocation.place, &form.bytes(value, place)[..form.len()]);
    }
    let mut handles = Vec::new();
    for symbol in &object.symbols {
        let address = start as u64 + symbol.address;
        let kernel = (symbol.kind == Kind::Kernel).then(|| object.descriptor(symbol));
        if let Some(descriptor) = &kernel {
            let name = symbol.name.trim_end_matches(".kd").to_owned();
            let kernel = Kernel { name, kernarg_bytes: descriptor.kernarg_bytes };
            registry.kernels.insert(address, Arc::new(kernel));
        }
        let (name, size) = (symbol.name.clone(), symbol.size);
        let symbol = Symbol { agent, name, address, size, kernel };
        let symbol_handle = registry.handle();
        registry.symbols.insert(symbol_handle, symbol);
        handles.push(symbol_handle);
    }
    trace!("loaded {len} bytes with {} symbols at {start:#x}", handles.len());
    if let Some(executable) = registry.executables.get_mut(&handle) {
        executable.symbols.extend(handles);
        executable.images.push(Image { agent, start, len, storage: Arc::clone(storage) });
    }
    Status::SUCCESS
}

/// `hsa_executable_get_symbol_by_name`.
///
/// # Safety
/// As HSA requires, `wanted` must be a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_executable_get_symbol_by_name(
    executable: u64,
    wanted: *const c_char,
    _agent: *const Agent,
    symbol: Out<u64>,
) -> Status {
    // SAFETY: HSA requires the caller to pass a C string.
    let Some(wanted) = (unsafe { name(wanted) }) else { return Status::INVALID_ARGUMENT };
    let found = with(|registry| {
        let executable = registry.executables.get(&executable)?;
        let is_wanted = |handle: &&u64| {
            registry.symbols.get(handle).is_some_and(|symbol| symbol.name == wanted)
        };
        executable.symbols.iter().find(is_wanted).copied()
    });
    match found {
        Some(handle) => symbol.put(handle),
        None => {
            trace!("no symbol {wanted}");
            Status::INVALID_SYMBOL_NAME
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_executable_iterate_symbols(
    executable: u64,
    callback: Option<extern "C" fn(u64, u64, *mut c_void) -> Status>,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else { return Status::INVALID_ARGUMENT };
    let symbols = with(|registry| registry.executables.get(&executable).map(|e| e.symbols.clone()));
    let Some(symbols) = symbols else { return Status::INVALID_EXECUTABLE };
    for symbol in symbols {
        let status = callback(executable, symbol, data);
        if status != Status::SUCCESS {
            return status;
        }
    }
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_executable_symbol_get_info(
    symbol: u64,
    attribute: u32,
    value: InfoOutput,
) -> Status {
    let Some(symbol) = with(|registry| registry.symbols.get(&symbol).cloned()) else {
        return Status::INVALID_EXECUTABLE_SYMBOL;
    };
    match (attribute, symbol.kernel) {
        // TYPE: variable is 0, kernel 1.
        (0, kernel) => value.put(u32::from(kernel.is_some())),
        // NAME_LENGTH and NAME, both without a terminating zero.
        (1, _) => value.put(symbol.name.len() as u32),
        (2, _) => value.bytes(&symbol.name, false),
        // AGENT
        (20, _) => value.put(symbol.agent),
        // VARIABLE_ADDRESS, VARIABLE_SIZE
        (21, None) => value.put(symbol.address),
        (9, None) => value.put(symbol.size as u32),
        // LINKAGE: program. IS_DEFINITION.
        (5, _) => value.put(1u32),
        (17, _) => value.put(true),
        // VARIABLE_IS_CONST, which HIP queries for every symbol.
        (10, _) => value.put(false),
        // KERNEL_OBJECT and the sizes of the kernel's segments.
        (22, Some(_)) => value.put(symbol.address),
        (11, Some(kernel)) => value.put(kernel.kernarg_bytes),
        // KERNEL_KERNARG_SEGMENT_ALIGNMENT
        (12, Some(_)) => value.put(16u32),
        (13, Some(kernel)) => value.put(kernel.group_bytes),
        (14, Some(kernel)) => value.put(kernel.private_bytes),
        (15, Some(kernel)) => value.put(kernel.dynamic_stack),
        _ => {
            trace!("executable_symbol_get_info: attribute {attribute} of {}", symbol.name);
            Status::INVALID_ARGUMENT
        }
    }
}

/// `hsa_ven_amd_loader_1_03_pfn_t`: table of the functions of the loader extension.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ExtensionTable {
    host_address: extern "C" fn(u64, Out<u64>) -> Status,
    segments: extern "C" fn(*mut c_void, Out<usize>) -> Status,
    executable: extern "C" fn(u64, Out<u64>) -> Status,
    iterate_objects: extern "C" fn(u64, Option<ObjectCallback>, *mut c_void) -> Status,
    object_info: extern "C" fn(u64, u32, InfoOutput) -> Status,
    reader: extern "C" fn(File, usize, usize, Out<u64>) -> Status,
    iterate_executables: extern "C" fn(Option<ExecutableCallback>, *mut c_void) -> Status,
}

type ObjectCallback = extern "C" fn(u64, u64, *mut c_void) -> Status;
type ExecutableCallback = extern "C" fn(u64, *mut c_void) -> Status;

/// Table of the loader extension that `hsa_system_get_major_extension_table` returns.
pub(crate) const EXTENSION_TABLE: ExtensionTable = ExtensionTable {
    host_address: query_host_address,
    segments: query_segment_descriptors,
    executable: query_executable,
    iterate_objects: iterate_loaded_code_objects,
    object_info: loaded_code_object_info,
    reader: reader_from_part_of_file,
    iterate_executables,
};

extern "C" fn query_host_address(device_address: u64, host_address: Out<u64>) -> Status {
    let found = with(|registry| {
        let mut images = registry.executables.values().flat_map(|e| &e.images);
        images.any(|image| {
            (image.start..image.start + image.len).contains(&(device_address as usize))
        })
    });
    // Device memory has the same address on the host and on the device.
    if found { host_address.put(device_address) } else { Status::INVALID_ARGUMENT }
}

extern "C" fn query_segment_descriptors(_descriptors: *mut c_void, count: Out<usize>) -> Status {
    count.put(0)
}

extern "C" fn query_executable(device_address: u64, executable: Out<u64>) -> Status {
    let address = device_address as usize;
    let found = with(|registry| {
        let holds = |image: &Image| (image.start..image.start + image.len).contains(&address);
        let mut all = registry.executables.iter();
        all.find(|(_, e)| e.images.iter().any(holds)).map(|(handle, _)| *handle)
    });
    found.map_or(Status::INVALID_ARGUMENT, |handle| executable.put(handle))
}

extern "C" fn iterate_loaded_code_objects(
    executable: u64,
    callback: Option<ObjectCallback>,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else { return Status::INVALID_ARGUMENT };
    let loaded = with(|r| r.executables.get(&executable).map(|e| !e.images.is_empty()));
    match loaded {
        None => Status::INVALID_EXECUTABLE,
        // An executable of HIP contains exactly one code object, which is represented by the handle of the executable.
        Some(true) => callback(executable, executable, data),
        Some(false) => Status::SUCCESS,
    }
}

extern "C" fn loaded_code_object_info(object: u64, attribute: u32, value: InfoOutput) -> Status {
    let image = with(|registry| {
        let image = registry.executables.get(&object)?.images.first()?;
        Some((image.start as u64, image.len as u64, Arc::clone(&image.storage), image.agent))
    });
    let Some((start, len, storage, agent)) = image else { return Status::INVALID_ARGUMENT };
    let uri = format!(
        "memory://{}#offset={:#x}&size={}",
        std::process::id(),
        storage.as_ptr() as usize,
        storage.len()
    );
    match attribute {
        // EXECUTABLE, KIND: agent. AGENT
        1 => value.put(object),
        2 => value.put(2u32),
        3 => value.put(agent),
        // CODE_OBJECT_STORAGE_TYPE: memory, with its base and size.
        4 => value.put(2u32),
        5 => value.put(storage.as_ptr() as u64),
        6 => value.put(storage.len() as u64),
        // LOAD_DELTA, LOAD_BASE, LOAD_SIZE. The delta equals the base, because images start at virtual address zero.
        8 | 9 => value.put(start),
        10 => value.put(len),
        // URI_LENGTH, URI
        11 => value.put(uri.len() as u32),
        12 => value.bytes(&uri, false),
        _ => Status::INVALID_ARGUMENT,
    }
}

extern "C" fn reader_from_part_of_file(
    _file: File,
    _offset: usize,
    _bytes: usize,
    _reader: Out<u64>,
) -> Status {
    trace!("code_object_reader_create_from_file_with_offset_size is not implemented");
    Status::ERROR
}

extern "C" fn iterate_executables(
    callback: Option<ExecutableCallback>,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else { return Status::INVALID_ARGUMENT };
    for executable in with(|r| r.executables.keys().copied().collect::<Vec<_>>()) {
        let status = callback(executable, data);
        if status != Status::SUCCESS {
            return status;
        }
    }
    Status::SUCCESS
}
