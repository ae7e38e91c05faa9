//! Executes all instructions on the device of this process. hipRTC compiles the kernels, and HIP launches them.

use std::{
    collections::BTreeMap,
    ffi::{CString, c_void},
    fmt,
    path::Path,
    ptr,
};

use device::{Arch, IDENTITY_SYMBOL};
use hip_sys::{Hip, LoadError, MemcpyKind, Rtc, SharedLibrary};

use crate::{
    Decoder, GROUP, ITEMS, Instruction, InstructionGroup, InstructionResult, ResultFile,
    ResultHeader, Row, instructions, rows, source,
};

/// Maximum number of instructions in a kernel. Several small kernels compile faster than one large kernel, and an error
/// affects fewer instructions.
const BATCH: usize = 40;
const MATRIX_BATCH: usize = 8;

/// Reason why a run failed.
#[derive(Debug)]
pub enum RunError {
    /// The ROCm release lacks a library or function that the run needs.
    Missing(LoadError),
    /// The stack has no disassembler for the architecture.
    Disassembler(String),
    /// A call failed. The string contains the step of the run, the call and its status.
    CallFailed(String),
}

impl From<LoadError> for RunError {
    fn from(missing: LoadError) -> RunError {
        RunError::Missing(missing)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Missing(missing) => missing.fmt(f),
            RunError::Disassembler(why) | RunError::CallFailed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RunError {}

/// Executes all instructions and the tests of all rows on device 0. `gfx` is the architecture with its target features,
/// as the runtime reports it. If the device is emulated, instructions that it does not support are not executed.
fn run(
    (hip, rtc): (&Hip, &Rtc),
    (arch, gfx): (Arch, &str),
    emulated: bool,
    decoder: &Path,
) -> Result<Vec<InstructionResult>, RunError> {
    let runner = Runner { hip, rtc, arch, gfx };
    let all = Decoder::open(decoder).and_then(|decoder| instructions(&decoder, arch));
    let all = all.map_err(RunError::Disassembler)?;
    let mut results = Vec::new();
    for group in [InstructionGroup::Scalar, InstructionGroup::Vector, InstructionGroup::Matrix] {
        let of_group = all.iter().filter(|one| one.group == group);
        let (lacking, there): (Vec<_>, Vec<_>) =
            of_group.cloned().partition(|one| emulated && !one.emulated);
        results.extend(lacking.into_iter().map(|one| InstructionResult {
            name: one.text,
            unspecified: false,
            unsupported: true,
            registers: BTreeMap::new(),
        }));
        let size = if group == InstructionGroup::Matrix { MATRIX_BATCH } else { BATCH };
        for batch in there.chunks(size) {
            results.extend(runner.batch(batch, group)?);
        }
    }
    for row in rows() {
        results.push(runner.row(&row)?);
    }
    Ok(results)
}

struct Runner<'a> {
    hip: &'a Hip,
    rtc: &'a Rtc,
    arch: Arch,
    gfx: &'a str,
}

impl Runner<'_> {
    fn batch(
        &self,
        batch: &[Instruction],
        group: InstructionGroup,
    ) -> Result<Vec<InstructionResult>, RunError> {
        let what = format!("the instructions starting with `{}`", batch[0].text);
        let inputs = source::values(group);
        let words = batch.len() * source::results(group) * ITEMS;
        let text = source::kernel(self.arch, batch, group);
        let shape = [(ITEMS / GROUP) as u32, GROUP as u32, 0];
        let results = self.launch(&what, &text, shape, Some(&inputs), words)?;
        let one = |(number, one): (usize, &Instruction)| {
            let first = number * source::results(group) * ITEMS;
            let registers = (0..source::results(group)).filter_map(|index| {
                let words = &results[first + index * ITEMS..][..ITEMS];
                let name = source::register(group, index);
                let kept = (0..ITEMS).all(|item| {
                    let before = self.before(group, index, item, &inputs);
                    before.map_or(words[item] == words[0], |before| words[item] == before)
                });
                (!kept).then(|| (name, InstructionResult::hex(words)))
            });
            let registers = registers.collect();
            InstructionResult {
                name: one.text.clone(),
                unspecified: false,
                unsupported: false,
                registers,
            }
        };
        Ok(batch.iter().enumerate().map(one).collect())
    }

    /// Returns the value that result register number `index` has in work-item `item` before the instruction; `None` for
    /// the upper half of EXEC in waves of 32 lanes, because its value is unknown.
    fn before(
        &self,
        group: InstructionGroup,
        index: usize,
        item: usize,
        inputs: &[u32],
    ) -> Option<u32> {
        let lanes = self.arch.wave_size() as usize;
        let wide = if group == InstructionGroup::Matrix { 8 } else { 4 };
        let input = |word: usize, item: usize| inputs[word * ITEMS + item];
        let first = item / lanes * lanes;
        let Some(scalar) = index.checked_sub(source::vectors(group)) else {
            return Some(input(2 * wide + index, item));
        };
        match scalar {
            // The registers initially contain the complement of the source operand, so that an instruction that copies
            // the operand changes them.
            0 | 1 => Some(!input(scalar, first)),
            2 => Some(u32::MAX),
            3 => (lanes == 64).then_some(u32::MAX),
            4 | 5 => Some(input(wide + scalar - 4, first)),
            6 => Some(input(wide, first)),
            // In waves of 32 lanes, VCC consists of the lower half. The upper half is an ordinary register.
            7 => Some(input(wide + 1, first)),
            _ => Some(input(0, first) & 1),
        }
    }

    fn row(&self, row: &Row) -> Result<InstructionResult, RunError> {
        let shape = [row.groups, row.items, row.lds];
        let words = self.launch(row.name, &row.kernel(), shape, None, row.words())?;
        let registers = BTreeMap::from([("words".to_owned(), InstructionResult::hex(&words))]);
        Ok(InstructionResult {
            name: row.name.to_owned(),
            unspecified: row.is_unspecified,
            unsupported: false,
            registers,
        })
    }

    fn launch(
        &self,
        what: &str,
        text: &str,
        [groups, items, lds]: [u32; 3],
        inputs: Option<&[u32]>,
        words: usize,
    ) -> Result<Vec<u32>, RunError> {
        let refused = |call: &str, status: i32| {
            let name = self.hip.error_name(status);
            RunError::CallFailed(format!("{what}: {call} returned {name}"))
        };
        let check = |call: &str, status: Result<i32, LoadError>| match status? {
            0 => Ok(()),
            status => Err(refused(call, status)),
        };
        let c_string = |text: &str| CString::new(text).unwrap_or_default();
        let options = [c_string(&format!("--offload-arch={}", self.gfx)), c_string("-O1")];
        let code = self.rtc.compile(&c_string(text), c"probe.hip", &options)?.map_err(|error| {
            let status = self.rtc.error_name(error.status);
            RunError::CallFailed(format!("{what}: hipRTC returned {status}: {}", error.log.trim()))
        })?;
        let hip = self.hip;
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        let mut results = vec![0u32; words];
        // The kernels of some rows use the memory after their results as a counter.
        let bytes = (words + GROUP) * size_of::<u32>();
        let (mut out, mut input): (*mut c_void, *mut c_void) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the image is a complete code object of hipRTC, which exists until the end of this function. The names
        // are terminated strings, and results are written to local variables. The sizes of the copies are those of the
        // allocations and of the vectors.
        unsafe {
            check("hipModuleLoadData", hip.hipModuleLoadData(&mut module, code.as_ptr().cast()))?;
            let name = c"probe".as_ptr();
            check("hipModuleGetFunction", hip.hipModuleGetFunction(&mut function, module, name))?;
            check("hipMalloc", hip.hipMalloc(&mut out, bytes))?;
            check("hipMemset", hip.hipMemset(out, 0, bytes))?;
            if let Some(inputs) = inputs {
                let bytes = size_of_val(inputs);
                check("hipMalloc", hip.hipMalloc(&mut input, bytes))?;
                let to_device = MemcpyKind::HostToDevice as i32;
                check("hipMemcpy", hip.hipMemcpy(input, inputs.as_ptr().cast(), bytes, to_device))?;
            }
            let mut parameters =
                [ptr::from_mut(&mut out).cast::<c_void>(), ptr::from_mut(&mut input).cast()];
            let launched = hip.hipModuleLaunchKernel(
                function,
                groups,
                1,
                1,
                items,
                1,
                1,
                lds,
                ptr::null_mut(),
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            );
            check("hipModuleLaunchKernel", launched)?;
            check("hipDeviceSynchronize", hip.hipDeviceSynchronize())?;
            let (to, bytes) = (results.as_mut_ptr().cast(), size_of_val(&results[..]));
            let to_host = MemcpyKind::DeviceToHost as i32;
            check("hipMemcpy", hip.hipMemcpy(to, out, bytes, to_host))?;
            check("hipFree", hip.hipFree(out))?;
            if !input.is_null() {
                check("hipFree", hip.hipFree(input))?;
            }
            check("hipModuleUnload", hip.hipModuleUnload(module))?;
        }
        Ok(results)
    }
}

/// Executes all instructions and the tests of all rows on device 0 of the HIP runtime that this process finds.
/// `decoder` is the path of the emulated device's library.
///
/// # Errors
/// Fails if a call fails, if the runtime reports no device, or if the architecture of the device is not supported.
pub fn run_on_device(stack: String, date: String, decoder: &Path) -> Result<ResultFile, RunError> {
    let hip = Hip::load(&Hip::SONAMES)?;
    let rtc = Rtc::load(hip.shared())?;
    let refused = |call: &str, status| {
        Err(RunError::CallFailed(format!("{call} returned {}", hip.error_name(status))))
    };
    let mut count = 0;
    // SAFETY: the calls have no requirements, and the count is written to a local variable.
    let (init, counted) = unsafe { (hip.hipInit(0)?, hip.hipGetDeviceCount(&mut count)?) };
    for (call, status) in [("hipInit", init), ("hipGetDeviceCount", counted)] {
        if status != 0 {
            return refused(call, status);
        }
    }
    if count == 0 {
        return Err(RunError::CallFailed("the HIP runtime reports no device".to_owned()));
    }
    let properties = match hip.properties(0)? {
        Ok(properties) => properties,
        Err(status) => return refused("hipGetDeviceProperties", status),
    };
    let gfx = properties.gcn_arch_name;
    let arch: Arch = gfx.split(':').next().unwrap_or_default().parse().map_err(|error| {
        RunError::CallFailed(format!("{error}, so this device cannot be tested"))
    })?;
    // The HIP runtime has already loaded this library. Only the library of the emulated device has this symbol.
    let hsa = SharedLibrary::open("libhsa-runtime64", &["libhsa-runtime64.so.1"])?;
    let emulated = hsa.has(IDENTITY_SYMBOL);
    let results = run((&hip, &rtc), (arch, &gfx), emulated, decoder)?;
    let header = ResultHeader::new(stack, properties.name, gfx, emulated, date);
    Ok(ResultFile { header, results })
}
