//! Kernels drawn at random, compiled for the GPU by the stack's own compiler at every level and for the host by the C
//! compiler `cc`: the results are the same, bit for bit.
//!
//! What differs is a mistake of the interpreter, of one of the compilers, or of the text in `prelude.h`. It is told with
//! its seed, in the smallest form that still shows it, and with all architectures and levels that show it: a mistake that
//! one level alone makes, on all architectures, is mostly the compiler's.

mod draw;

use std::{
    ffi::CString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use device::Arch;
use draw::{Draw, GROUPS, INPUTS, ITEMS, Kernel, SHARED};

use crate::{
    code_object::CodeObject,
    device_memory::{Device, mapped},
    hiprtc,
};

const PRELUDE: &str = include_str!("fuzz/prelude.h");
const LEVELS: [&str; 4] = ["-O0", "-O1", "-O2", "-O3"];
/// Instructions of one wave; what is drawn ends after a few thousand.
const STEPS: u64 = 10_000_000;

/// For the host. Each operation of half floats is rounded by itself, as GPUs do.
const HOST: [&str; 13] = [
    "-x",
    "c",
    "-O1",
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

/// What a kernel leaves: the words of each work-item, and those that all count in.
type Results = [Vec<u32>; 2];

/// What is asked for on the command line.
pub(crate) struct Options {
    architectures: Vec<Arch>,
    seed: u64,
    batches: u64,
    /// How many share a module.
    kernels: u64,
    /// Where kernels that differ are written.
    keep: Option<PathBuf>,
}

impl Options {
    /// `seed=1 batches=10 kernels=16 keep=FOLDER gfx90a ...`, all of them optional.
    pub(crate) fn parse(words: &[String]) -> Result<Options, String> {
        let mut options =
            Options { architectures: Vec::new(), seed: 1, batches: 1, kernels: 16, keep: None };
        for word in words {
            let number = |text: &str| text.parse().map_err(|_| format!("`{word}` has no number"));
            match word.split_once('=') {
                Some(("seed", text)) => options.seed = number(text)?,
                Some(("batches", text)) => options.batches = number(text)?,
                Some(("kernels", text)) => options.kernels = number(text)?,
                Some(("keep", folder)) => options.keep = Some(folder.into()),
                _ => match word.parse() {
                    Ok(arch) => options.architectures.push(arch),
                    Err(_) => {
                        return Err(format!(
                            "`{word}` is no architecture; seed=N, batches=N, kernels=N and keep=FOLDER may stand beside"
                        ));
                    }
                },
            }
        }
        if options.architectures.is_empty() {
            options.architectures = Arch::of_each_generation().collect();
        }
        Ok(options)
    }
}

/// How kernels are compiled for a GPU.
#[derive(Clone, Copy, PartialEq)]
struct Target {
    arch: Arch,
    level: &'static str,
    wave64: bool,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let wave = if self.wave64 && self.arch.wave_size() == 32 { " wave64" } else { "" };
        write!(f, "{} {}{wave}", self.arch, self.level)
    }
}

/// Draws, runs and compares; how many comparisons there were, and what differed.
pub(crate) fn check(options: &Options) -> (usize, Vec<String>) {
    let (mut compared, mut different) = (0, Vec::new());
    for seed in options.seed..options.seed + options.batches {
        let kernels: Vec<_> = (0..options.kernels)
            .map(|index| Kernel::draw(format!("k{index}"), seed << 8 | index))
            .collect();
        let expected = match on_host(&kernels, seed) {
            Ok(expected) => expected,
            Err(problem) => {
                different.push(format!("seed={seed}: {problem}"));
                continue;
            }
        };
        let mut found: Vec<(usize, Target, String)> = Vec::new();
        for target in targets(&options.architectures, seed) {
            let differences = compare(&kernels, &expected, target, seed);
            compared += kernels.len();
            found.extend(differences.into_iter().map(|(index, what)| (index, target, what)));
        }
        for (index, kernel) in kernels.iter().enumerate() {
            let of_it: Vec<_> = found.iter().filter(|(at, ..)| *at == index).collect();
            if let Some((_, target, what)) = of_it.first() {
                let all: Vec<_> = of_it.iter().map(|(_, target, _)| target.to_string()).collect();
                let text = shrink(kernel.clone(), *target, seed);
                different.push(format!(
                    "seed={seed} {}: {what}\n    on {}",
                    kernel.name,
                    all.join(", ")
                ));
                match &options.keep {
                    Some(folder) => keep(folder, &format!("{seed}-{index}.txt"), &text),
                    None => different.push(text),
                }
            }
        }
        println!("seed={seed}: {compared} comparisons, {} differ", different.len());
        different
            .iter()
            .skip(different.len().saturating_sub(2))
            .for_each(|line| println!("    {line}"));
    }
    (compared, different)
}

fn keep(folder: &Path, name: &str, text: &str) {
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(folder.join(name), text));
    written.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
}

/// All levels for all architectures; waves of the other size for every second seed.
fn targets(architectures: &[Arch], seed: u64) -> impl Iterator<Item = Target> {
    let wave64 = seed.is_multiple_of(2);
    architectures
        .iter()
        .flat_map(move |arch| LEVELS.map(|level| Target { arch: *arch, level, wave64 }))
}

fn inputs(seed: u64) -> Vec<u32> {
    let mut draw = Draw(!seed);
    (0..GROUPS * ITEMS * INPUTS).map(|_| draw.word()).collect()
}

fn empty(kernel: &Kernel) -> Results {
    [vec![0; GROUPS * ITEMS * kernel.outputs().len()], vec![0; GROUPS * SHARED]]
}

fn source(kernels: &[Kernel], for_gpu: bool) -> String {
    let each = kernels.iter().map(|kernel| kernel.text(for_gpu));
    std::iter::once(PRELUDE.to_owned()).chain(each).collect()
}

/// What the host computes.
fn on_host(kernels: &[Kernel], seed: u64) -> Result<Vec<Results>, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
    let (text, library) = (folder.path().join("kernels.c"), folder.path().join("kernels.so"));
    fs::write(&text, source(kernels, false)).map_err(|error| error.to_string())?;
    let mut cc = Command::new("cc");
    cc.args(HOST).arg("-o").arg(&library).arg(&text).arg("-lm").env_remove("LD_LIBRARY_PATH");
    let output = cc.output().map_err(|error| format!("no C compiler `cc`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`cc` refuses it: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let path = CString::new(library.display().to_string()).map_err(|error| error.to_string())?;
    // SAFETY: a plain dlopen of what was just made.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        return Err("what `cc` made cannot be loaded".to_owned());
    }
    let input = inputs(seed);
    let run = |kernel: &Kernel| {
        let name = CString::new(kernel.name.clone()).expect("a plain name");
        let [mut out, mut all] = empty(kernel);
        // SAFETY: the function is the one of `Kernel::host`, and the buffers have the sizes that it counts on.
        unsafe {
            let symbol = libc::dlsym(handle, name.as_ptr());
            assert!(!symbol.is_null(), "no {}", kernel.name);
            let function: extern "C" fn(*const u32, *mut u32, *mut u32) =
                std::mem::transmute(symbol);
            function(input.as_ptr(), out.as_mut_ptr(), all.as_mut_ptr());
        }
        [out, all]
    };
    let results = kernels.iter().map(run).collect();
    // SAFETY: nothing of the library is used any more.
    unsafe { libc::dlclose(handle) };
    Ok(results)
}

fn compile(kernels: &[Kernel], target: Target) -> Result<Vec<u8>, String> {
    let mut options: Vec<_> = GPU.to_vec();
    options.push(target.level);
    if target.wave64 && target.arch.wave_size() == 32 {
        options.push("-mwavefrontsize64");
    }
    hiprtc::compile(&source(kernels, true), target.arch.name(), &options)
}

/// The kernels whose results differ, by their places, with the first word that does.
fn compare(
    kernels: &[Kernel],
    expected: &[Results],
    target: Target,
    seed: u64,
) -> Vec<(usize, String)> {
    let code = match compile(kernels, target) {
        Ok(code) => code,
        Err(log) if kernels.len() == 1 => {
            return vec![(0, format!("{target}: does not compile: {log}"))];
        }
        Err(_) => {
            let each = kernels.iter().zip(expected).enumerate();
            let alone = |(index, (kernel, expected)): (usize, (&Kernel, &Results))| {
                let found = compare(
                    std::slice::from_ref(kernel),
                    std::slice::from_ref(expected),
                    target,
                    seed,
                );
                found.into_iter().next().map(|(_, what)| (index, what))
            };
            return each.filter_map(alone).collect();
        }
    };
    let device = Device::new(target.arch, CodeObject::load(&code));
    device.step_limit.set(STEPS);
    let mut input = inputs(seed);
    let differs = |(index, (kernel, expected)): (usize, (&Kernel, &Results))| {
        let [mut out, mut all] = empty(kernel);
        let ranges = [mapped(&input), mapped(&out), mapped(&all)];
        let arguments = [(&mut input).into(), (&mut out).into(), (&mut all).into()];
        let (groups, items) = ([GROUPS as u32, 1, 1], [ITEMS as u32, 1, 1]);
        let run = device.launch(&kernel.name, groups, items, 0, &arguments, &ranges);
        let what = match run {
            Err(trap) => trap.to_string(),
            Ok(()) => first_difference(kernel, &[out, all], expected)?,
        };
        Some((index, format!("{target}: {what}")))
    };
    kernels.iter().zip(expected).enumerate().filter_map(differs).collect()
}

fn first_difference(kernel: &Kernel, got: &Results, expected: &Results) -> Option<String> {
    let (names, [out, all]) = (kernel.outputs(), got);
    let at = |got: &[u32], want: &[u32]| got.iter().zip(want).position(|(got, want)| got != want);
    let of_item = at(out, &expected[0]).map(|place| {
        let (item, name) = (place / names.len(), &names[place % names.len()]);
        format!(
            "{name} of work-item {item} is {:#x}, on the host {:#x}",
            out[place], expected[0][place]
        )
    });
    of_item.or_else(|| {
        let place = at(all, &expected[1])?;
        Some(format!(
            "shared word {place} is {:#x}, on the host {:#x}",
            all[place], expected[1][place]
        ))
    })
}

/// The smallest kernel that still differs, as text for both.
fn shrink(mut kernel: Kernel, target: Target, seed: u64) -> String {
    let differs = |kernel: &Kernel| {
        let one = std::slice::from_ref(kernel);
        on_host(one, seed).ok().and_then(|expected| compare(one, &expected, target, seed).pop())
    };
    let mut what = differs(&kernel);
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
    let what = what.map_or_else(|| "alone it does not differ".to_owned(), |(_, what)| what);
    format!("// {what}\n{}", kernel.text(true))
}
