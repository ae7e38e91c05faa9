//! The probe on the device of this process: kernels compiled by hipRTC and launched by HIP.

use std::{
    collections::BTreeMap,
    ffi::{CString, c_void},
    fmt,
    path::Path,
    ptr,
};

use device::{Arch, IDENTITY_SYMBOL};
use hip_sys::{Hip, MemcpyKind, Missing, Rtc, Shared};

use crate::{
    Decoder, File, GROUP, Group, Header, ITEMS, Instruction, Probe, Row, instructions, rows, source,
};

/// Instructions of one kernel. A few kernels compile faster than one, and a mistake concerns less.
const BATCH: usize = 40;
const MATRIX_BATCH: usize = 8;

/// Why there is no result.
#[derive(Debug)]
pub enum Failed {
    /// The release lacks a function.
    Missing(Missing),
    /// The stack has no disassembler for the architecture.
    Disassembler(String),
    /// Something was refused, while this was tried.
    Refused(String),
}

impl From<Missing> for Failed {
    fn from(missing: Missing) -> Failed {
        Failed::Missing(missing)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Missing(missing) => missing.fmt(f),
            Failed::Disassembler(why) | Failed::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Failed {}

/// Executes everything on device 0, whose architecture is given with its features as the device says them. What an emulated device
/// lacks is not executed.
fn run(
    (hip, rtc): (&Hip, &Rtc),
    (arch, gfx): (Arch, &str),
    emulated: bool,
    decoder: &Path,
) -> Result<Vec<Probe>, Failed> {
    let bench = Bench { hip, rtc, arch, gfx };
    let all = Decoder::open(decoder).and_then(|decoder| instructions(&decoder, arch));
    let all = all.map_err(Failed::Disassembler)?;
    let mut probes = Vec::new();
    for group in [Group::Scalar, Group::Vector, Group::Matrix] {
        let of_group = all.iter().filter(|one| one.group == group);
        let (lacking, there): (Vec<_>, Vec<_>) =
            of_group.cloned().partition(|one| emulated && !one.emulated);
        probes.extend(lacking.into_iter().map(|one| Probe {
            probe: one.text,
            free: false,
            lacking: true,
            results: BTreeMap::new(),
        }));
        let size = if group == Group::Matrix { MATRIX_BATCH } else { BATCH };
        for batch in there.chunks(size) {
            probes.extend(bench.batch(batch, group)?);
        }
    }
    for row in rows() {
        probes.push(bench.row(&row)?);
    }
    Ok(probes)
}

struct Bench<'a> {
    hip: &'a Hip,
    rtc: &'a Rtc,
    arch: Arch,
    gfx: &'a str,
}

impl Bench<'_> {
    fn batch(&self, batch: &[Instruction], group: Group) -> Result<Vec<Probe>, Failed> {
        let what = format!("the instructions from `{}` on", batch[0].text);
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
                (!kept).then(|| (name, Probe::hex(words)))
            });
            let results = registers.collect();
            Probe { probe: one.text.clone(), free: false, lacking: false, results }
        };
        Ok(batch.iter().enumerate().map(one).collect())
    }

    /// What a register holds before the instruction: of the upper half of EXEC in waves of 32 lanes nothing is known.
    fn before(&self, group: Group, index: usize, item: usize, inputs: &[u32]) -> Option<u32> {
        let lanes = self.arch.wave_size() as usize;
        let wide = if group == Group::Matrix { 8 } else { 4 };
        let input = |word: usize, item: usize| inputs[word * ITEMS + item];
        let first = item / lanes * lanes;
        let Some(scalar) = index.checked_sub(source::vectors(group)) else {
            return Some(input(2 * wide + index, item));
        };
        match scalar {
            // Not what a move would put there.
            0 | 1 => Some(!input(scalar, first)),
            2 => Some(u32::MAX),
            3 => (lanes == 64).then_some(u32::MAX),
            4 | 5 => Some(input(wide + scalar - 4, first)),
            6 => Some(input(wide, first)),
            // Waves of 32 lanes have half of VCC, and the other half as a register.
            7 => Some(input(wide + 1, first)),
            _ => Some(input(0, first) & 1),
        }
    }

    fn row(&self, row: &Row) -> Result<Probe, Failed> {
        let shape = [row.groups, row.items, row.lds];
        let words = self.launch(row.name, &row.kernel(), shape, None, row.words())?;
        let results = BTreeMap::from([("words".to_owned(), Probe::hex(&words))]);
        Ok(Probe { probe: row.name.to_owned(), free: row.is_free, lacking: false, results })
    }

    /// Compiles and launches one kernel, and gives the words that it wrote.
    fn launch(
        &self,
        what: &str,
        text: &str,
        [groups, items, lds]: [u32; 3],
        inputs: Option<&[u32]>,
        words: usize,
    ) -> Result<Vec<u32>, Failed> {
        let refused = |call: &str, status: i32| {
            let name = self.hip.error_name(status);
            Failed::Refused(format!("{what}: {call} gives {name}"))
        };
        let check = |call: &str, status: Result<i32, Missing>| match status? {
            0 => Ok(()),
            status => Err(refused(call, status)),
        };
        let c_string = |text: &str| CString::new(text).unwrap_or_default();
        let options = [c_string(&format!("--offload-arch={}", self.gfx)), c_string("-O1")];
        let code = self.rtc.compile(&c_string(text), c"probe.hip", &options)?.map_err(|error| {
            let status = self.rtc.error_name(error.status);
            Failed::Refused(format!("{what}: hipRTC gives {status}: {}", error.log.trim()))
        })?;
        let hip = self.hip;
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        let mut results = vec![0u32; words];
        // Some rows count behind what they write.
        let bytes = (words + GROUP) * size_of::<u32>();
        let (mut out, mut input): (*mut c_void, *mut c_void) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the image is a whole code object of hipRTC that lives to the end of this function; the names are terminated, and
        // what was made goes to places of this function. Sizes of copies are those of the allocations and of the vectors.
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

/// Looks at device 0 of the HIP runtime that this process finds, and executes everything on it.
///
/// # Errors
/// What the stack refuses, and at what; there is no device; or its architecture is none that is known here.
pub fn on_device(stack: String, date: String, decoder: &Path) -> Result<File, Failed> {
    let hip = Hip::load(&Hip::SONAMES)?;
    let rtc = Rtc::load(hip.shared())?;
    let refused = |call: &str, status| {
        Err(Failed::Refused(format!("{call} gives {}", hip.error_name(status))))
    };
    let mut count = 0;
    // SAFETY: the calls need no state, and the count goes to a place of this function.
    let (init, counted) = unsafe { (hip.hipInit(0)?, hip.hipGetDeviceCount(&mut count)?) };
    for (call, status) in [("hipInit", init), ("hipGetDeviceCount", counted)] {
        if status != 0 {
            return refused(call, status);
        }
    }
    if count == 0 {
        return Err(Failed::Refused("the HIP runtime sees no device".to_owned()));
    }
    let properties = match hip.properties(0)? {
        Ok(properties) => properties,
        Err(status) => return refused("hipGetDeviceProperties", status),
    };
    let gfx = properties.gcn_arch_name;
    let arch: Arch = gfx.split(':').next().unwrap_or_default().parse().map_err(|error| {
        Failed::Refused(format!("{error}, so nothing could be compared with this device"))
    })?;
    // The runtime has loaded it; only our own has the symbol.
    let hsa = Shared::open("libhsa-runtime64", &["libhsa-runtime64.so.1"])?;
    let emulated = hsa.has(IDENTITY_SYMBOL);
    let probes = run((&hip, &rtc), (arch, &gfx), emulated, decoder)?;
    let header = Header::new(stack, properties.name, gfx, emulated, date);
    Ok(File { header, probes })
}
