//! Compiles random kernels for the GPU and for the host, runs both, and compares the results.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::CString,
    fs,
    process::Command,
    time::Instant,
};

use device::Arch;

use super::{
    Target,
    draw::{ALL, Draw, GROUPS, INPUTS, ITEMS, Kernel},
};
use crate::{
    code_object::CodeObject,
    device_memory::{Device, mapped},
    hiprtc,
};

const PRELUDE: &str = include_str!("prelude.h");
/// Maximum number of instructions that a wave may execute before the test reports an error. Random kernels normally end
/// after a few thousand instructions.
const STEPS: u64 = 10_000_000;

/// Maximum number of kernels that are reported if a compiler rejects a module that contains several kernels.
const REFUSED: usize = 4;

/// Optimisation level of the host's compiler whose results are the reference. If there is a difference, the results at
/// the levels in [`OTHER_HOST_LEVELS`] are compared with the reference.
pub(super) const HOST_LEVEL: &str = "-O1";
pub(super) const OTHER_HOST_LEVELS: [&str; 3] = ["-O0", "-O2", "-O3"];

/// Options of the host's compiler. They make it round each half-float operation separately, as GPUs do.
const HOST: [&str; 12] = [
    "-x",
    "c",
    "-march=x86-64-v3",
    "-ffp-contract=off",
    "-fexcess-precision=16",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-math-errno",
    "-fPIC",
    "-shared",
    "-static-libgcc",
    "-w",
];
const GPU: [&str; 4] = ["-w", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing"];

/// Results of a kernel: the words that each work-item outputs, and the words in global memory.
pub(super) type Results = [Vec<u32>; 2];

/// Statistics of comparisons: the time for compiling and the time for running, in seconds, and the executed opcodes.
#[derive(Default)]
pub(super) struct ComparisonStatistics {
    pub(super) compiling: f64,
    pub(super) running: f64,
    pub(super) opcodes: BTreeMap<Arch, BTreeSet<String>>,
}

pub(super) fn kernels(seed: u64, places: std::ops::Range<u64>) -> Vec<Kernel> {
    places.map(|index| Kernel::draw(format!("k{index}"), seed << 8 | index)).collect()
}

fn inputs(seed: u64) -> Vec<u32> {
    let mut draw = Draw(!seed);
    (0..GROUPS * ITEMS * INPUTS).map(|_| draw.word()).collect()
}

fn empty(kernel: &Kernel) -> Results {
    [vec![0; GROUPS * ITEMS * kernel.outputs().len()], vec![0; GROUPS * ALL]]
}

fn source(kernels: &[Kernel], for_gpu: bool) -> String {
    let each = kernels.iter().map(|kernel| kernel.text(for_gpu));
    std::iter::once(PRELUDE.to_owned()).chain(each).collect()
}

pub(super) fn on_host(kernels: &[Kernel], seed: u64, level: &str) -> Result<Vec<Results>, String> {
    let folder = tempfile::tempdir()
        .map_err(|error| format!("cannot create a temporary folder: {error}"))?;
    let (text, library) = (folder.path().join("kernels.c"), folder.path().join("kernels.so"));
    fs::write(&text, source(kernels, false)).map_err(|error| error.to_string())?;
    let mut cc = Command::new("cc");
    cc.args(HOST).args([level, "-o"]).arg(&library).arg(&text).arg("-lm");
    cc.env_remove("LD_LIBRARY_PATH");
    let output =
        cc.output().map_err(|error| format!("cannot start the C compiler `cc`: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "`cc` rejects the kernels: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let path = CString::new(library.display().to_string()).map_err(|error| error.to_string())?;
    // SAFETY: the library was just compiled from generated kernels, which have no initialisers.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        return Err("the library that `cc` built cannot be loaded".to_owned());
    }
    let input = inputs(seed);
    let run = |kernel: &Kernel| {
        let name = CString::new(kernel.name.clone()).expect("the name contains no NUL");
        let [mut out, mut all] = empty(kernel);
        // SAFETY: the function has the type of `Kernel::host`, and the buffers have the sizes that it requires.
        unsafe {
            let symbol = libc::dlsym(handle, name.as_ptr());
            assert!(!symbol.is_null(), "the library has no function `{}`", kernel.name);
            let function: extern "C" fn(*const u32, *mut u32, *mut u32) =
                std::mem::transmute(symbol);
            function(input.as_ptr(), out.as_mut_ptr(), all.as_mut_ptr());
        }
        [out, all]
    };
    let results = kernels.iter().map(run).collect();
    // SAFETY: nothing uses the library any more.
    unsafe { libc::dlclose(handle) };
    Ok(results)
}

fn compile(kernels: &[Kernel], target: Target) -> Result<Vec<u8>, String> {
    let mut options: Vec<_> = GPU.to_vec();
    options.push(target.level);
    if target.wave64 && target.arch.facts().wave_sizes.len() > 1 {
        options.push("-mwavefrontsize64");
    }
    hiprtc::compile(&source(kernels, true), target.arch.name(), &options)
}

/// Compares the results of kernels with the expected ones. Returns, for each kernel whose results differ, its index and
/// a description of the first difference. Calls `stage` before each step starts, so that the worker can announce the
/// step and the cause of a crash is known.
pub(super) fn compare(
    kernels: &[Kernel],
    expected: &[Results],
    target: Target,
    seed: u64,
    notes: &mut ComparisonStatistics,
    stage: &dyn Fn(&str),
) -> Vec<(usize, String)> {
    stage("compile");
    let begun = Instant::now();
    let code = compile(kernels, target);
    notes.compiling += begun.elapsed().as_secs_f64();
    let code = match code {
        Ok(code) => code,
        Err(log) if kernels.len() == 1 => {
            return vec![(0, format!("{target}: hipRTC does not compile the kernels: {log}"))];
        }
        // If the compiler rejects the module, each kernel is compared alone, because most kernels may be correct. The
        // loop ends after `REFUSED` reports, because the compiler may reject all kernels for the same reason.
        Err(_) => {
            let mut all = Vec::new();
            for (index, (kernel, expected)) in kernels.iter().zip(expected).enumerate() {
                let kernel = std::slice::from_ref(kernel);
                let expected = std::slice::from_ref(expected);
                let found = compare(kernel, expected, target, seed, notes, stage);
                all.extend(found.into_iter().map(|(_, what)| (index, what)));
                if all.len() == REFUSED {
                    break;
                }
            }
            return all;
        }
    };
    let begun = Instant::now();
    let device = Device::new(target.arch, CodeObject::load(&code));
    device.step_limit.set(STEPS);
    let mut input = inputs(seed);
    let mut different = Vec::new();
    for (index, (kernel, expected)) in kernels.iter().zip(expected).enumerate() {
        stage(&format!("run {index}"));
        let [mut out, mut all] = empty(kernel);
        let ranges = [mapped(&input), mapped(&out), mapped(&all)];
        let arguments = [(&mut input).into(), (&mut out).into(), (&mut all).into()];
        let (groups, items) = ([GROUPS as u32, 1, 1], [ITEMS as u32, 1, 1]);
        let run = device.launch(&kernel.name, groups, items, 0, &arguments, &ranges);
        let what = match run {
            Err(trap) => Some(trap.to_string()),
            Ok(()) => first_difference(kernel, &[out, all], expected),
        };
        different.extend(what.map(|what| (index, format!("{target}: {what}"))));
    }
    // SAFETY: the code object belongs to the device and is still loaded.
    let opcodes = unsafe { isa::executed(target.arch, device.code.range()) };
    notes.opcodes.entry(target.arch).or_default().extend(opcodes);
    notes.running += begun.elapsed().as_secs_f64();
    different
}

pub(super) fn first_difference(
    kernel: &Kernel,
    got: &Results,
    expected: &Results,
) -> Option<String> {
    let (names, [out, all]) = (kernel.outputs(), got);
    let at = |got: &[u32], want: &[u32]| got.iter().zip(want).position(|(got, want)| got != want);
    let of_item = at(out, &expected[0]).map(|place| {
        let (item, name) = (place / names.len(), &names[place % names.len()]);
        format!(
            "{name} of work-item {item} is {:#x}, but {:#x} on the host",
            out[place], expected[0][place]
        )
    });
    of_item.or_else(|| {
        let place = at(all, &expected[1])?;
        Some(format!(
            "word {place} of global memory is {:#x}, but {:#x} on the host",
            all[place], expected[1][place]
        ))
    })
}

/// Returns the optimisation levels of the host's compiler at which the results differ from the reference.
pub(super) fn host_votes(kernel: &Kernel, seed: u64) -> Vec<&'static str> {
    let one = std::slice::from_ref(kernel);
    let Ok(usual) = on_host(one, seed, HOST_LEVEL) else { return vec![HOST_LEVEL] };
    let agrees = |level: &str| on_host(one, seed, level).is_ok_and(|other| other == usual);
    OTHER_HOST_LEVELS.into_iter().filter(|level| !agrees(level)).collect()
}

/// Removes and simplifies statements of a kernel as long as its results differ. Returns the remaining kernel as source
/// code for both compilers, with a description of the difference.
pub(super) fn shrink(
    mut kernel: Kernel,
    target: Target,
    seed: u64,
    stage: &dyn Fn(&str),
) -> String {
    let differs = |kernel: &Kernel| {
        let (one, mut notes) = (std::slice::from_ref(kernel), ComparisonStatistics::default());
        let expected = on_host(one, seed, HOST_LEVEL).ok()?;
        compare(one, &expected, target, seed, &mut notes, stage).pop()
    };
    let mut what = differs(&kernel);
    // If a compiler rejects the kernel, its log is returned, which is more useful than a smaller kernel.
    if let Some((_, what)) = what.as_ref().filter(|(_, what)| what.contains("does not compile")) {
        return format!("// {what}\n{}", kernel.text(true));
    }
    let mut number = 0;
    while number < kernel.statements() {
        let less = kernel.without(number);
        match differs(&less) {
            Some((_, now)) => (kernel, what) = (less, Some((0, now))),
            None => number += 1,
        }
    }
    number = 0;
    while let Some(less) = kernel.simpler(number) {
        match differs(&less) {
            Some((_, now)) => (kernel, what) = (less, Some((0, now))),
            None => number += 1,
        }
    }
    let what = what.map_or_else(
        || "the difference does not occur if the kernel is compiled alone".to_owned(),
        |(_, what)| what,
    );
    format!("// {what}\n{}", kernel.text(true))
}
