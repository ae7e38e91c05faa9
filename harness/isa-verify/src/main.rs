//! Compiles kernels with the hipRTC of a ROCm release, runs them in the interpreter, and compares the results with
//! references that are computed on the host.
//!
//!     ROCREPRO_ROCM_ROOT=/path/to/root cargo run --release -p isa-verify -- [gfx90a ...]
//!     ROCREPRO_ROCM_ROOT=/path/to/root cargo run --release -p isa-verify -- forms [gfx90a ...]
//!
//!     ROCREPRO_ROCM_ROOT=/path/to/root cargo run --release -p isa-verify -- words [native] [gfx90a ...]
//!
//!     ROCREPRO_ROCM_ROOT=/path/to/root cargo run --release -p isa-verify -- fuzz [seed=1] [batches=10] [jobs=2] [gfx90a ...]
//!
//!     ROCREPRO_ROCM_ROOT=/path/to/root cargo run --release -p isa-verify -- waits [-O3] [loads=3] [gfx90a ...]
//!
//!     ROCREPRO_ROCM_ROOT=/path/to/root cargo run --release -p isa-verify -- races [-O3] [gfx90a ...]
//!
//!     ROCREPRO_ROCM_ROOT=/path/to/root cargo run --release -p isa-verify -- bits [seed=1] [each=3] [gfx90a ...]
//!
//! `bits` passes random words to the interpreter, which must not ignore any bit of them. `races` runs kernels whose
//! workgroups access the same memory. The sanitizer must report a race in those that lack synchronisation, and in no
//! others. `waits` removes one wait, barrier or fence at a time from the code of the kernels, or changes a load to a
//! store. The sanitizer must detect each change. `forms` tests every operand form of some vector instructions against a
//! model of one lane. `words` tests the operand forms of nearly all instructions. Each form must have the same effect
//! as the plain form of the instruction, which has only registers as operands and has no modifiers. `fuzz` compiles
//! random kernels for the GPU and, with `cc`, for the host, and compares the results. `ROCREPRO_ROCM_ROOT` is an
//! unpacked ROCm user space, with or without its own loader. No GPU is needed.

mod bits;
mod cdna4;
mod checks;
mod code_object;
mod device_memory;
mod forms;
mod fuzz;
mod hiprtc;
mod models;
mod opcodes;
mod races;
mod trace;
mod waits;

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use code_object::CodeObject;
use device::Arch;
use device_memory::Device;

const ROOT: &str = "ROCREPRO_ROCM_ROOT";
/// Environment variable that marks the process that uses the libraries of the ROCm root.
const INSIDE: &str = "ROCREPRO_KERNELS_INSIDE";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

fn main() -> ExitCode {
    if env::var_os(INSIDE).is_some() {
        return inside();
    }
    let Some(root) = env::var_os(ROOT).map(PathBuf::from) else {
        println!("SKIPPED: no test ran; set {ROOT} to the folder of an unpacked ROCm user space");
        return ExitCode::from(4);
    };
    let words: Vec<String> = env::args().skip(1).collect();
    if words.first().is_some_and(|name| name == "fuzz") {
        // The main process of `fuzz` uses the libraries of the host. Its worker processes use those of the ROCm root.
        return drawn(&words[1..], &root);
    }
    let status = command(&root).args(env::args_os().skip(1)).env(INSIDE, "1").status();
    match status.map(|status| status.code()) {
        Ok(Some(code)) => ExitCode::from(code as u8),
        other => {
            println!("FAIL: the process in {} ended with {other:?}", root.display());
            ExitCode::FAILURE
        }
    }
}

/// Returns the command that runs this program with the libraries of the ROCm root. If the root contains a loader, the
/// program is started with it.
fn command(root: &Path) -> Command {
    let program = env::current_exe().expect("own path");
    let loader = root.join(LIBRARIES).join("ld-linux-x86-64.so.2");
    if loader.exists() {
        let mut command = Command::new(loader);
        command.arg("--library-path").arg(root.join(LIBRARIES)).arg(program);
        command
    } else {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", root.join("lib"));
        command
    }
}

fn inside() -> ExitCode {
    let mut names: Vec<String> = env::args().skip(1).collect();
    if names.is_empty() {
        names = ["gfx90a", "gfx1030", "gfx1100", "gfx1151"].map(str::to_owned).to_vec();
    }
    if names.first().is_some_and(|name| name == "forms") {
        return all_forms(&names[1..]);
    }
    if names.first().is_some_and(|name| name == "words") {
        return all_words(&names[1..]);
    }
    if names.first().is_some_and(|name| name == "bits") {
        return all_bits(&names[1..]);
    }
    if names.first().is_some_and(|name| name == "fuzz") {
        return fuzz::serve();
    }
    if names.first().is_some_and(|name| name == "races") {
        return between_workgroups(&names[1..]);
    }
    if names.first().is_some_and(|name| name == "waits") {
        return without_waits(&names[1..]);
    }
    let mut failures = 0;
    for name in &names {
        let Ok(arch) = name.parse::<Arch>() else {
            println!("{name}: not an emulated architecture");
            return ExitCode::from(2);
        };
        let (mut source, mut of_cdna4) = (include_str!("kernels.hip").to_owned(), &[][..]);
        if arch.facts().has_gfx950_instructions {
            source.push_str(cdna4::SOURCE);
            of_cdna4 = cdna4::CHECKS;
        }
        for level in ["-O3", "-O0"] {
            let code = match hiprtc::compile(&source, name, &[level]) {
                Ok(code) => code,
                Err(error) => {
                    println!("{name} {level}: hipRTC does not compile the kernels: {error}");
                    failures += 1;
                    continue;
                }
            };
            let device = Device::new(arch, CodeObject::load(&code));
            for (kernel, check) in checks::CHECKS.iter().chain(of_cdna4) {
                let started = processor_seconds();
                device.executed.take();
                let result = check(&device);
                let (seconds, executed) =
                    (processor_seconds() - started, *device.executed.borrow());
                let rate = executed.instructions as f64 / seconds / 1e6;
                let verdict = result.as_ref().map_or("FAIL", |()| "ok");
                println!(
                    "{name:8} {level} {kernel:12} {verdict:4} {:>9} instructions {:8.3} ms {rate:7.1} M/s",
                    executed.instructions,
                    seconds * 1e3,
                );
                if let Err(reason) = result {
                    failures += 1;
                    println!("    {reason}");
                }
            }
        }
    }
    println!("{failures} kernels failed");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn with_guides() -> Vec<Arch> {
    Arch::of_each_generation().filter(|arch| arch.facts().has_isa_guide).collect()
}

/// Returns true if the user requested the architecture. If `names` is empty, returns true for architectures with an ISA
/// guide.
fn is_asked(arch: Arch, names: &[impl AsRef<str>]) -> bool {
    match names {
        [] => arch.facts().has_isa_guide,
        _ => names.iter().any(|name| name.as_ref() == arch.name()),
    }
}

/// Runs the test `forms` on the architectures in `names`, or on all if `names` is empty, with each wave size.
fn all_forms(names: &[String]) -> ExitCode {
    let (mut forms, mut failures) = (0, 0);
    for arch in Arch::ALL.iter().copied() {
        if !is_asked(arch, names) {
            continue;
        }
        for lanes in arch.facts().wave_sizes {
            let (tried, different) = forms::check(arch, *lanes == 64);
            println!(
                "{arch}, waves of {lanes}: {tried} forms tested, {} give wrong results",
                different.len()
            );
            different.iter().for_each(|line| println!("    {line}"));
            forms += tried;
            failures += different.len();
        }
    }
    println!("{forms} forms tested, {failures} give wrong results");
    // A run that tests no form proves nothing, so it fails.
    if failures == 0 && forms > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the test `words` on the architectures in `words`, or on all if there are none, with each wave size. With the
/// word `native`, waves have only the default size of the architecture. Also compares the results of the two wave sizes
/// with each other.
fn all_words(words: &[String]) -> ExitCode {
    let (native, names): (Vec<String>, Vec<String>) =
        words.iter().cloned().partition(|word| word == "native");
    let (mut held, mut failures) = (0, 0);
    let mut enter = |place: String, table: Result<opcodes::Table, String>| match table {
        Ok(table) => {
            println!(
                "{place}: {} comparisons agree, {} differ\n{table}",
                table.held(),
                table.wrong.len()
            );
            (held, failures) = (held + table.held(), failures + table.wrong.len());
        }
        Err(problem) => {
            println!("{place}: {problem}");
            failures += 1;
        }
    };
    for arch in Arch::ALL.iter().copied() {
        if !is_asked(arch, &names) {
            continue;
        }
        let sizes = arch.facts().wave_sizes;
        for lanes in &sizes[..if native.is_empty() { sizes.len() } else { 1 }] {
            enter(format!("{arch}, waves of {lanes}"), opcodes::check(arch, *lanes == 64));
        }
        if sizes.len() > 1 {
            enter(format!("{arch}, waves of both sizes"), opcodes::sizes(arch));
        }
    }
    println!("{held} comparisons agree, {failures} differ");
    // A run that tests no claim proves nothing, so it fails.
    if failures == 0 && held > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the test `bits` on the architectures in `words`, or on all that the stack supports if there are none.
fn all_bits(words: &[String]) -> ExitCode {
    let (options, names): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| word.contains('='));
    let option = |name: &str, usual: u64| {
        let given = options.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        given.map_or(Some(usual), |value| value.parse().ok())
    };
    let (Some(seed), Some(each)) = (option("seed", 1), option("each", 3)) else {
        println!("the values of `seed` and `each` must be numbers: {options:?}");
        return ExitCode::from(2);
    };
    let (mut tried, mut lost) = (0, 0);
    for arch in Arch::ALL.iter().copied() {
        if !is_asked(arch, &names) {
            continue;
        }
        match bits::check(arch, seed, each as usize) {
            Ok(table) => {
                println!("{arch}: {table}");
                (tried, lost) = (tried + table.words, lost + table.lost.len());
            }
            // Some ROCm releases do not support all architectures.
            Err(reason) => println!("{arch}: not tested: {reason}"),
        }
    }
    println!("{tried} encodings tested, {lost} bits lost");
    // A run that tests no instruction proves nothing, so it fails.
    if lost == 0 && tried > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the test `waits` on the architectures and optimisation levels in `words`. The defaults are all architectures,
/// and -O3 and -O1.
fn without_waits(words: &[String]) -> ExitCode {
    let (loads, words): (Vec<String>, Vec<String>) =
        words.iter().cloned().partition(|word| word.starts_with("loads="));
    // Only one of `loads` loads is tested.
    let loads = loads.first().and_then(|word| word[6..].parse().ok()).unwrap_or(1);
    let (levels, architectures) = match places(&words, &["-O3", "-O1"]) {
        Ok(places) => places,
        Err(code) => return code,
    };
    let mut proven = true;
    for arch in architectures {
        let table = waits::check(arch, &levels, loads);
        print!("{arch}\n{table}");
        table.problems.iter().for_each(|line| println!("    {line}"));
        // A run without reports by the sanitizer proves nothing, so it fails.
        proven &= table.problems.is_empty() && table.proves();
    }
    if proven { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn between_workgroups(words: &[String]) -> ExitCode {
    let (levels, architectures) = match places(words, &["-O3", "-O1"]) {
        Ok(places) => places,
        Err(code) => return code,
    };
    let (mut tried, mut failures) = (0, 0);
    for (arch, level) in architectures.iter().flat_map(|a| levels.iter().map(move |l| (*a, *l))) {
        let (kernels, wrong) = races::check(arch, level);
        println!("{arch} {level}: {kernels} kernels tested, {} unexpected findings", wrong.len());
        wrong.iter().for_each(|line| println!("    {line}"));
        (tried, failures) = (tried + kernels, failures + wrong.len());
    }
    if failures == 0 && tried > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Parses optimisation levels and architectures. The defaults are `usual` and all architectures.
fn places<'a>(
    words: &'a [String],
    usual: &[&'a str],
) -> Result<(Vec<&'a str>, Vec<Arch>), ExitCode> {
    let (levels, names): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| word.starts_with("-O"));
    let levels = if levels.is_empty() { usual.to_vec() } else { levels };
    let mut architectures = Vec::new();
    for name in names {
        let Ok(arch) = name.parse() else {
            println!(
                "{name}: neither an emulated architecture nor an optimisation level such as -O3"
            );
            return Err(ExitCode::from(2));
        };
        architectures.push(arch);
    }
    if architectures.is_empty() {
        architectures = with_guides();
    }
    Ok((levels, architectures))
}

fn drawn(words: &[String], root: &Path) -> ExitCode {
    let options = match fuzz::Options::parse(words) {
        Ok(options) => options,
        Err(problem) => {
            println!("{problem}");
            return ExitCode::from(2);
        }
    };
    let tally = fuzz::check(&options, root);
    println!("{tally}");
    // A run that compares nothing proves nothing, so it fails.
    let is_right = tally.different.is_empty() && tally.compared > 0;
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the processor time of this process in seconds. Other work on the machine does not affect this time.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer refers to a timespec of this function.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
