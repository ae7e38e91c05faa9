use std::{
    ffi::{CString, c_void},
    path::Path,
    ptr,
    sync::Arc,
};

use hip_sys::CompileError;
use plan::{Arg, Call, Event, KernelCode, Step};

use crate::{
    broken::WorkerError,
    cache, code_object,
    handles::Kind,
    loaded,
    machine::{CallResult, Machine},
    needs::FunctionLibrary,
};

pub(crate) fn call(machine: &Machine<'_>, step: &Step) -> Result<CallResult, WorkerError> {
    match &step.call {
        Call::Compile { kernel } => compile(machine, kernel),
        Call::Load { kernel } => load(machine, step, kernel),
        Call::Unload { kernel } => {
            let name = module_of(machine, kernel);
            let module = machine.handle(Kind::Module, name);
            if module.is_null() && name != kernel {
                // The module was already unloaded together with another kernel of the same code object.
                machine.drop_handle(Kind::Function, kernel, 0);
                return Ok(CallResult::NONE);
            }
            // SAFETY: the module is null, or it was loaded and has not been unloaded.
            let code = unsafe { machine.libraries.hip.hipModuleUnload(module) }?;
            machine.drop_handle(Kind::Module, name, code);
            machine.drop_handle(Kind::Function, kernel, code);
            Ok(CallResult::hip(code))
        }
        Call::Launch { kernel, grid, block, args, shared, cooperative, stream } => {
            launch(machine, kernel, (*grid, *block, *shared), *cooperative, args, stream)
        }
        Call::FindSymbol { kernel, symbol, variable } => find(machine, kernel, symbol, *variable),
        other => Err(WorkerError(format!("{other:?} is not a call about kernels"))),
    }
}

fn text(what: &str, text: &str) -> Result<CString, WorkerError> {
    CString::new(text).map_err(|_| WorkerError(format!("{what} contains a zero byte")))
}

fn compile(machine: &Machine<'_>, kernel: &str) -> Result<CallResult, WorkerError> {
    if let Some(code) = given_code(machine, kernel) {
        let file = machine.plan().files.get(&code.file);
        let file = file.ok_or_else(|| WorkerError(format!("unknown file `{}`", code.file)))?;
        machine.state().code.insert(kernel.to_owned(), file.bytes().into());
        return Ok(CallResult::NONE);
    }
    let Some(source) = machine.plan().kernels.get(kernel) else {
        return Err(WorkerError(format!("unknown kernel `{kernel}`")));
    };
    match compiled(machine, kernel, source)? {
        Ok(code) => {
            machine.state().code.insert(kernel.to_owned(), code.into());
            Ok(CallResult::with_status(FunctionLibrary::Rtc, 0))
        }
        Err(error) => {
            Ok(CallResult::with_status(FunctionLibrary::Rtc, error.status).with(error.log))
        }
    }
}

/// Returns the code object of a kernel; `None` if the kernel has a source instead.
fn given_code<'p>(machine: &'p Machine<'_>, kernel: &str) -> Option<&'p KernelCode> {
    machine.plan().own_kernels.get(kernel)?.code.as_ref()
}

/// Returns the name of the module that contains a kernel. Kernels of one code object share a module and its variables.
fn module_of<'p>(machine: &'p Machine<'_>, kernel: &'p str) -> &'p str {
    given_code(machine, kernel).map_or(kernel, |code| &code.file)
}

/// Compiles a GPU kernel and returns its code, or reads the code from the cache. The inner error means that the kernel
/// does not compile.
pub(crate) fn compiled(
    machine: &Machine<'_>,
    kernel: &str,
    source: &str,
) -> Result<Result<Vec<u8>, CompileError>, WorkerError> {
    let mut options = vec![format!("--offload-arch={}", machine.gfx), "-O3".to_owned()];
    // If two options contradict each other, the compiler uses the last one, so the options of the case are appended at
    // the end.
    let own = machine.plan().own_kernels.get(kernel);
    options.extend(own.iter().flat_map(|own| own.options.clone()));
    let file = machine.order.code_cache.as_deref().and_then(|folder| {
        let key = cache::key(source, &options, &crate::environment(), &loaded::rocm_libraries())?;
        Some(Path::new(folder).join(key))
    });
    if let Some(code) = file.as_deref().and_then(cache::read) {
        return Ok(Ok(code));
    }
    let name = text("the kernel's name", &format!("{kernel}.hip"))?;
    let source = text("the kernel's source", source)?;
    let options =
        options.iter().map(|option| text("an option", option)).collect::<Result<Vec<_>, _>>()?;
    let compiled = machine.libraries.rtc()?.compile(&source, &name, &options)?;
    if let (Ok(code), Some(file)) = (&compiled, &file) {
        cache::write(file, code);
    }
    Ok(compiled)
}

fn load(machine: &Machine<'_>, step: &Step, kernel: &str) -> Result<CallResult, WorkerError> {
    let hip = &machine.libraries.hip;
    let code_object = machine.state().code.get(kernel).map(Arc::clone);
    let Some(code_object) = code_object else {
        return Err(WorkerError(format!("kernel `{kernel}` is loaded before it was compiled")));
    };
    // If the arguments of a launch do not match the kernel, a failure is not a bug of the HIP runtime. Only kernels
    // that the case defines are checked here, because tests check the kernels of rocrepro.
    if let Some(own) = machine.plan().own_kernels.get(kernel) {
        let why = code_object::mistakes(&code_object, kernel, own, machine.plan());
        if !why.is_empty() {
            machine.events.send(&Event::Mistaken { step: step.id, why });
            return Err(WorkerError(format!("kernel `{kernel}` does not match its launches")));
        }
    }
    let module_name = module_of(machine, kernel);
    let mut module = machine.handle(Kind::Module, module_name);
    if module.is_null() || given_code(machine, kernel).is_none() {
        // SAFETY: the image is a complete code object, and `code` keeps it until the end of the process.
        let code = unsafe { hip.hipModuleLoadData(&mut module, code_object.as_ptr().cast()) }?;
        machine.store_handle(Kind::Module, module_name, module, code);
        if code != 0 {
            return Ok(CallResult::hip(code));
        }
    }
    let given = given_code(machine, kernel).map_or(kernel, |code| &code.kernel);
    let name = text("the kernel's name", given)?;
    let mut function = ptr::null_mut();
    // SAFETY: the module was loaded above, and the name is zero-terminated.
    let code = unsafe { hip.hipModuleGetFunction(&mut function, module, name.as_ptr()) }?;
    machine.store_handle(Kind::Function, kernel, function, code);
    Ok(CallResult::hip(code))
}

fn find(
    machine: &Machine<'_>,
    kernel: &str,
    symbol: &str,
    variable: bool,
) -> Result<CallResult, WorkerError> {
    let hip = &machine.libraries.hip;
    let module = machine.handle(Kind::Module, module_of(machine, kernel));
    let name = text("the symbol's name", symbol)?;
    let (mut found, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: the module is loaded, the name is zero-terminated, and results go to separate variables.
    let code = unsafe {
        if variable {
            hip.hipModuleGetGlobal(&mut found, &mut bytes, module, name.as_ptr())?
        } else {
            hip.hipModuleGetFunction(&mut found, module, name.as_ptr())?
        }
    };
    Ok(CallResult::hip(code).with((variable && code == 0).then(|| bytes.to_string())))
}

fn launch(
    machine: &Machine<'_>,
    kernel: &str,
    (grid, block, shared): ([u32; 3], [u32; 3], u32),
    cooperative: bool,
    args: &[Arg],
    stream: &str,
) -> Result<CallResult, WorkerError> {
    let function = machine.handle(Kind::Function, kernel);
    let mut values = values(machine, args);
    let mut parameters = pointers(&mut values);
    let stream = machine.stream(stream);
    let ([gx, gy, gz], [bx, by, bz], parameters) = (grid, block, parameters.as_mut_ptr());
    let hip = &machine.libraries.hip;
    // SAFETY: the function is null or belongs to a loaded module; the parameters outlive the call, which copies them.
    let code = unsafe {
        if cooperative {
            hip.hipModuleLaunchCooperativeKernel(
                function, gx, gy, gz, bx, by, bz, shared, stream, parameters,
            )
        } else {
            let extra = ptr::null_mut();
            hip.hipModuleLaunchKernel(
                function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra,
            )
        }
    }?;
    Ok(CallResult::hip(code))
}

/// Returns the bytes of kernel arguments. The HIP runtime copies as many bytes of each argument as the kernel's
/// metadata states. For kernels that the case defines, [`load`] has compared the metadata with the case. Each argument
/// is padded to a multiple of 8 bytes, so that the runtime cannot read past an argument of a kernel of rocrepro.
pub(crate) fn values(machine: &Machine<'_>, args: &[Arg]) -> Vec<Vec<u8>> {
    let value = |arg: &Arg| {
        let mut bytes = arg.to_bytes(&|place| machine.address(place) as u64);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    };
    args.iter().map(value).collect()
}

pub(crate) fn pointers(values: &mut [Vec<u8>]) -> Vec<*mut c_void> {
    values.iter_mut().map(|value| value.as_mut_ptr().cast()).collect()
}
