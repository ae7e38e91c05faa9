//! Tasks for developers and CI, run as `cargo run -p ci -- TASK`. `.ci/run` and the workflows only call these tasks, so
//! a developer can run everything that CI runs.

mod amd_tests;
mod architectures;
mod bisects;
mod checks;
mod circles;
mod containers;
mod evidence;
mod examples;
mod exports;
mod filing;
mod foreign;
mod frameworks;
mod gate;
mod issues;
mod launchers;
mod levels;
mod licences;
mod matching;
mod miri;
mod module_cycles;
mod mutants;
mod night;
mod nightly;
mod page;
mod quick;
mod readme;
mod recipes;
mod recorded;
mod release;
mod reports;
mod shipped_code;
mod style;
mod tidy;
mod wheel;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use xshell::{PushEnv, Shell, cmd};

const STACK: &str = "debian:7.2.4";

/// Components of [`STACK`] to fetch in addition to HIP: libraries for the cases, the compiler for exported programs,
/// and AMD's tests.
const STACK_COMPONENTS: &str = "hiprand,hipblaslt,rocblas,dev,tests";

/// ROCm releases on which every change is tested, each with an architecture that its runtime supports, and with
/// arguments of `rocrepro run`. `cargo test` runs all cases on the first release, except those that need large
/// libraries. Therefore the argument `gemm` selects these cases here. The short timeout on the oldest release saves
/// minutes, because some trials are expected to hang there.
const STACKS: [(&str, &str, &[&str]); 4] = [
    (STACK, "gfx1151", &["--with", STACK_COMPONENTS, "gemm"]),
    ("debian:6.4.3", "gfx1151", &[]),
    ("debian:5.7.1", "gfx1100", &[]),
    ("debian:5.2.3", "gfx90a", &["--quiet-timeout", "4"]),
];

/// Options that exclude cases whose programs import Python packages. The gate does not install these packages.
const EXCLUDE_PACKAGED: &[&str] = &[
    "--exclude",
    "programs/cupy-*",
    "--exclude",
    "programs/triton-*",
    "--exclude",
    "programs/torch-*",
    "--exclude",
    "programs/jax-*",
    "--exclude",
    "programs/onnxruntime-*",
    "--exclude",
    "programs/openmm-*",
    "--exclude",
    "programs/iree-*",
    "--exclude",
    "programs/hip-python-*",
    "--exclude",
    "programs/numba-hip-*",
];

/// Options that limit the time without output to 20 seconds. With the default, each fault that makes a program hang
/// would take two minutes.
const QUIET_TIMEOUT: &[&str] = &["--quiet-timeout", "20"];

/// Cases that take minutes, because they are slow to compile, or because their long programs are run once for each
/// injected fault.
const SLOW_CASES: &[&str] =
    &["programs/rocblas-shapes", "programs/eigenvectors-through-lds", "capture/every-call"];

/// Arguments of `isa-verify fuzz` in the gate. The random kernels are the same each time and take less than half a
/// minute.
const FUZZ_SAMPLE: &[&str] = &["seed=1", "batches=1", "kernels=32", "jobs=2", "gfx90a", "gfx1151"];
const WAITS: &[&str] = &["waits", "-O3", "loads=4", "gfx90a", "gfx1151"];
/// Arguments of `isa-verify races` in the gate: four of nine architectures.
const RACES: &[&str] = &["races", "-O3", "gfx90a", "gfx942", "gfx1151", "gfx1201"];
/// Architectures on which the gate runs the kernels of `isa-verify` and compares their results with the expected ones.
const KERNELS: &[&str] = &["gfx908", "gfx90a", "gfx950", "gfx1151", "gfx1201"];
/// Arguments of `isa-verify forms` in the gate. The task runs instructions with each kind of operand and modifier, and
/// compares their results with those of a model of one lane.
const FORMS: &[&str] = &["forms", "gfx908"];
/// Arguments of `isa-verify words` in the gate. The task runs each encoding of an instruction, and compares the results
/// with those of the instruction's plain form, which has registers as operands and no modifiers.
const WORDS: &[&str] = &["words", "native", "gfx90a", "gfx1100", "gfx1201"];
/// Arguments of `isa-verify bits` in the gate, for each of two releases. The task compares how the interpreter and the
/// disassembler of the release decode random instruction words. Two releases are used because their disassemblers
/// accept different bits.
const BITS: [(&str, &[&str]); 2] = [
    (STACK, &["bits", "each=1", "gfx90a", "gfx1201"]),
    ("debian:6.4.3", &["bits", "each=1", "gfx1151"]),
];
/// Arguments of `isa-verify fuzz` in the task `fuzz`: about 100 000 comparisons, which take more than an hour on one
/// processor.
const FUZZ: &[&str] = &["seed=1000", "batches=50", "jobs=2"];

/// Number of random programs that the order tests draw in the gate. `cargo test` alone draws 300, and `ci -- order`
/// draws 5000.
const ORDER_PROGRAMS: &str = "75";

/// Sampling interval for `exports` and `prove` in the gate (`ci -- all`): one case in eight.
const SAMPLE_INTERVAL: usize = 8;
/// Sampling interval for `prove --mutate` in the gate: one case in twenty.
const MUTATION_SAMPLE_INTERVAL: usize = 20;

const USAGE: &str = "\
usage: cargo run -p ci -- TASK
  lint     formatting, clippy, doc links, licences, rules of the project, cycles of modules; also compiles the fuzz targets
  quick    a check for frequent use, which takes two minutes after the first build: texts, formatting, the tests of the
           changed crates, and a sample of the case library
  style    lists violations of STYLE.md in all crates or in the named ones; `style --write` accepts the current counts
  test     the tests of every crate, and the case library on ROCm 7.2.4 (cargo test)
  stacks   every case on every ROCm release that Debian carries, except those on 7.2.4 that `test` runs
  prove    every case fails with each fault that it declares, when that fault is injected
  mutate   every check, status and value of every case is needed to detect a declared fault
  levels   runs every case, or the named ones, with the emulated device in place of the HSA runtime and below it, and
           compares the results: `levels gfx=gfx90a copies`
  checks   prints which device features that programs need work, on every release and architecture
  shipped-code  lists the kernels of shipped libraries that lack a wait before a barrier, or those of the named files
  exports  exports every case as a stand-alone program, compiles and runs the program, and compares the result with the
           trial
  recorded records programs, replays each recording 20 times under a fault, minimises it, and writes
           reports/recorded-programs.md; leaves out Triton if `stack env` has no environment `triton`
  filing   makes a report of an injected fault for every case: minimise, export, verify, report
  issues   makes a report for each of twelve failures, or for the named ones, within 5 minutes each, and tests its
           statements: runs the printed program, and repeats the trial with each stated control, setting and release
  filed    makes the reports of `filing`, but only for three cases
  coverage writes docs/coverage.md; `test` fails if that page is out of date
  evidence runs every case on four releases and their architectures, and writes docs/matrix.html; options of `rocrepro
           matrix` may follow
  ages     for each report in reports/, prints how many commits have changed the measured code since the measurement
  page     tests docs/matrix.html, or the given page, in Chromium, wide and narrow, light and dark: choice, search,
           comparison and links; also makes pictures of the page
  examples makes the reports of reports/examples
  bisects  twelve bisects of cases between the releases, and five of programs, whose answers are known; needs gcc
  recipes  compares the output of the commands of docs/recipes with the pages; `recipes --write` updates the pages
  amd      a sample of AMD's own test programs on the emulated device, on two architectures; with a seed, random tests
           of every library: `amd seed=7 gfx=gfx90a,gfx1201 tests=24 limit=60 rocprim hipcub/test_hipcub_grid` (all: 7 GB)
  frameworks  runs the cases about frameworks of PyPI on three releases and two architectures, and writes
           reports/frameworks.md; uses the records in target/frameworks of an earlier run; downloads 10 GB. `frameworks
           prove`: every case about them fails with each fault that it declares. `frameworks PATH` uses the program PATH
  containers  the programs of docs/programs in podman: plain, as an ordinary user, and without namespaces; needs root
  foreign  random tests of CuPy and JAX, drawn by a seed, on the emulated device: `foreign cupy at=FOLDER seed=7
           gfx=gfx90a files=20 tests=15 limit=120 cupy_tests/core_tests`; FOLDER is `tests` in the source of that release
  first-run  updates the output of the two commands in docs/first-run.md, with an empty cache
  readme   runs every command of README.md as an ordinary user in the root of a new Debian, and each cell of its table;
           needs root, debootstrap and g++; with another program than the release build: `readme target/debug/rocrepro`
  matching runs 20 PyTorch programs that hit a known bug and 100 that hit none, and writes reports/known-bug-matching.md:
           how many are matched to the bug by their HIP calls; needs ROCREPRO_TORCH. `matching reports`: a report about
           each of the 20 names the bug
  release  makes and tests the release archive; fails if the program needs a newer C library than the given version:
           `release 2.31`
  wheel    makes a Python wheel of the release build, or of the given program, and installs it in an empty environment
           with pip and uv: `wheel target/debug/rocrepro`
  locks    writes the current packages of each Debian release, or of the named ones, to harness/stacks/locks; needs apt
  order    draws random programs: those that `rocrepro check` accepts have no race on any schedule
  fuzz     draws random kernels, for every architecture at every optimisation level: the emulated device computes the
           same results as the host
  mutants  mutates every line of the crates plan, judge and case, or of the named ones: a test must detect each mutant;
           takes hours
  miri     tests the unsafe code of the interpreter, and runs the unit tests of the crate plan, under Miri
  waits    removes a wait or barrier from kernels, or changes a load to a store, on every architecture: the sanitizer
           reports each change that causes an error
  races    kernels whose workgroups access the same memory, on every architecture: the sanitizer reports the racy ones
  words    forms of vector and scalar instructions, on every architecture: each form must have the same effect as the
           plain form with accordingly changed registers
  bits     random instructions of all encodings, on every architecture, with the disassembler of each release: every bit
           of an instruction has an effect; with more encodings of each instruction: `bits each=8 seed=2`
  chaos    runs the command with every kind of trouble from its environment, and with 3000 combinations of troubles
  interrupts  SIGINT and SIGTERM at random moments of every long command, which must end within 2 s, leave nothing behind
           and keep the best result so far; 7 moments for each command; with 20 other moments of one command:
           `interrupts 20 seed=3 of=mitigate`
  launchers  trials that are started by Slurm with one node, ssh, bubblewrap, podman and sudo, which must be installed;
           needs root
  soak     runs one command after another for an hour, or for the given number of minutes: no process, file or folder
           is left behind
  night    a run of 10 000 trials, or of the given number: prints the memory of the run, and compares the time per trial
           with nextest and libtest-mimic
  nightly  runs the cases on the newest build and this machine's GPU, reports unexpected results and bisects new
           failures
  all      the gate, two parts at a time: lint, test, and samples of the others: a quarter of the trials of `stacks`, each on one of
           the older releases, an eighth of the cases of `prove` and a twentieth of `mutate`, each architecture of `checks` on one
           release, an eighth of `exports`, `filed`, half of `amd`, two cases of `frameworks`, and samples of `fuzz`, `waits`,
           `races`, `words` and `bits`
  part     runs one of the parts of `all`: `part stacks`";

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let done = match task.as_str() {
        "lint" => lint(),
        "quick" => shell().and_then(|sh| quick::run(&sh)),
        "style" => {
            let words: Vec<String> = std::env::args().skip(2).collect();
            shell().and_then(|sh| style::list(&sh, &words))
        }
        "test" => test(),
        "stacks" => stacks(),
        "prove" => prove(),
        "mutate" => mutate(),
        "levels" => {
            let words: Vec<String> = std::env::args().skip(2).collect();
            shell().and_then(|sh| levels::levels(&sh, &words))
        }
        "shipped-code" => {
            let files: Vec<String> = std::env::args().skip(2).collect();
            shell().and_then(|sh| shipped_code::shipped_code(&sh, &files))
        }
        "checks" => shell().and_then(|sh| checks::checks(&sh)),
        "exports" => shell().and_then(|sh| exports::exports(&sh)),
        "recorded" => shell().and_then(|sh| recorded::recorded(&sh)),
        "filing" => shell().and_then(|sh| filing::filing(&sh)),
        "issues" => {
            let only: Vec<String> = std::env::args().skip(2).collect();
            shell().and_then(|sh| issues::issues(&sh, &only))
        }
        "filed" => shell().and_then(|sh| filing::sample(&sh)),
        "coverage" => coverage(),
        "evidence" => {
            let more: Vec<String> = std::env::args().skip(2).collect();
            shell().and_then(|sh| evidence::evidence(&sh, &more))
        }
        "ages" => shell().and_then(|sh| reports::ages(&sh)),
        "page" => shell().and_then(|sh| page::page(&sh, std::env::args().nth(2).as_deref())),
        "examples" => shell().and_then(|sh| examples::examples(&sh)),
        "bisects" => shell().and_then(|sh| bisects::bisects(&sh)),
        "first-run" => shell().and_then(|sh| evidence::first_run(&sh)),
        "readme" => shell().and_then(|sh| readme::readme(&sh, std::env::args().nth(2).as_ref())),
        "release" => shell().and_then(|sh| release::release(&sh, std::env::args().nth(2).as_ref())),
        "wheel" => shell().and_then(|sh| wheel::wheel(&sh, std::env::args().nth(2).as_ref())),
        "recipes" => shell().and_then(|sh| recipes::recipes(&sh, has_argument("--write"))),
        "amd" => {
            let words: Vec<String> = std::env::args().skip(2).collect();
            shell().and_then(|sh| amd_tests::amd_tests(&sh, &words))
        }
        "containers" => shell().and_then(|sh| containers::containers(&sh)),
        "frameworks" => shell().and_then(|sh| match std::env::args().nth(2).as_deref() {
            None => build_program(&sh).and_then(|program| frameworks::table(&sh, &program)),
            Some("prove") => frameworks::all(&sh),
            Some(program) => frameworks::table(&sh, Path::new(program)),
        }),
        "foreign" => {
            let words: Vec<String> = std::env::args().skip(2).collect();
            shell().and_then(|sh| foreign::foreign(&sh, &words))
        }
        "matching" => {
            let words: Vec<String> = std::env::args().skip(2).collect();
            shell().and_then(|sh| matching::matching(&sh, &words))
        }
        "locks" => locks(),
        "order" => order(),
        "mutants" => {
            let only: Vec<String> = std::env::args().skip(2).collect();
            shell().and_then(|sh| mutants::mutants(&sh, &only))
        }
        "miri" => shell().and_then(|sh| miri::miri(&sh)),
        "fuzz" => shell().and_then(|sh| run_random_kernels(&sh, FUZZ)),
        "waits" => shell().and_then(|sh| kernels(&sh, &["waits"])),
        "races" => shell().and_then(|sh| kernels(&sh, &["races"])),
        "words" => shell().and_then(|sh| kernels(&sh, &["words"])),
        "bits" => bits(),
        "chaos" => chaos(),
        "interrupts" => interrupts(std::env::args().skip(2)),
        "launchers" => shell().and_then(|sh| launchers::launchers(&sh)),
        "soak" => soak(std::env::args().nth(2)),
        "night" => shell().and_then(|sh| night::night(&sh, std::env::args().nth(2).as_ref())),
        "nightly" => shell().and_then(|sh| nightly::nightly(&sh)),
        "all" => gate::run_all(),
        "part" => gate::run_task(&std::env::args().nth(2).unwrap_or_default()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ci {task}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn has_argument(word: &str) -> bool {
    std::env::args().skip(2).any(|argument| argument == word)
}

/// Builds rocrepro and fetches [`STACK`]. Returns the path of the program.
fn build_and_fetch(sh: &Shell) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let program = build_program(sh)?;
    fetch_stack(sh, &program)?;
    Ok(program)
}

fn fetch_stack(sh: &Shell, program: &Path) -> xshell::Result<()> {
    cmd!(sh, "{program} rocm fetch {STACK} --with {STACK_COMPONENTS}").run()
}

/// Builds rocrepro with the profile of `cargo test`, which optimises the crates that need much computing time. Returns
/// the path of the program.
fn build_program(sh: &Shell) -> Result<PathBuf, Box<dyn std::error::Error>> {
    // Building only some packages would select other features of the dependencies, and therefore cause a second build.
    cmd!(sh, "cargo test --quiet --workspace --locked --no-run --test cli").run()?;
    Ok(debug_program(sh))
}

fn debug_program(sh: &Shell) -> PathBuf {
    sh.current_dir().join(target_folder()).join("debug/rocrepro")
}

fn target_folder() -> String {
    std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned())
}

type TaskResult = Result<(), Box<dyn std::error::Error>>;

fn shell() -> Result<Shell, Box<dyn std::error::Error>> {
    let shell = Shell::new()?;
    shell.change_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    Ok(shell)
}

/// Selects the oldest supported Rust (`rust-version`) until the returned value is dropped. If rustup cannot install
/// this version, prints a message and keeps the current Rust.
fn oldest_rust(sh: &Shell) -> Result<Option<PushEnv<'_>>, Box<dyn std::error::Error>> {
    let manifest = sh.read_file("Cargo.toml")?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let version = version.ok_or("Cargo.toml has no rust-version")?.trim_matches('"');
    let install =
        ["toolchain", "install", version, "--profile", "minimal", "--component", "clippy"];
    // Without a network, rustup would retry for a long time.
    match cmd!(sh, "timeout 240 rustup {install...} --no-self-update").quiet().ignore_stderr().run()
    {
        Ok(()) => Ok(Some(sh.push_env("RUSTUP_TOOLCHAIN", version))),
        Err(error) => {
            println!("NOT CHECKED: whether Rust {version} compiles the workspace: {error}");
            Ok(None)
        }
    }
}

fn lint() -> TaskResult {
    let sh = shell()?;
    cmd!(sh, "cargo fmt --all --check").run()?;
    // clippy also reports code that the oldest Rust cannot compile.
    let _oldest = oldest_rust(&sh)?;
    let all = ["--workspace", "--all-targets", "--features", "fuzz/targets", "--locked"];
    cmd!(sh, "cargo clippy {all...} -- -D warnings").run()?;
    // With `--examples`, dependencies have the same features as for clippy, so they are not compiled a second time.
    cmd!(sh, "cargo doc --quiet --workspace --no-deps --locked --lib --bin ci --examples")
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    licences::check(&sh)?;
    quick::check_texts(&sh)
}

fn build() -> TaskResult {
    let sh = shell()?;
    cmd!(sh, "cargo test --quiet --workspace --locked --no-run").run()?;
    Ok(())
}

/// Fetches the stack for all parts of the gate. Uses the program that has already been built, because `cargo run` would
/// wait for `lint`.
fn stack() -> TaskResult {
    let sh = shell()?;
    fetch_stack(&sh, &debug_program(&sh))?;
    Ok(())
}

fn test() -> TaskResult {
    let sh = shell()?;
    // Tests of hangs mostly wait. Therefore one thread more than there are processors keeps all processors busy.
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    cmd!(sh, "cargo test --workspace --locked")
        .env("RUST_TEST_THREADS", (processors + 1).to_string())
        .env("ROCREPRO_ORDER_PROGRAMS", ORDER_PROGRAMS)
        // With a fixed seed, only a change can make the gate fail, and not new random examples. Runs outside of the
        // gate draw new examples.
        .env("PROPTEST_RNG_SEED", "2026")
        .run()?;
    Ok(())
}

/// Runs the part of the interpreter's verification that belongs to the gate. It needs no emulated device, always uses
/// the same kernels, and takes two minutes.
fn kernels_sample() -> TaskResult {
    let sh = shell()?;
    kernels(&sh, KERNELS)?;
    kernels(&sh, FORMS)?;
    kernels(&sh, WORDS)?;
    BITS.into_iter().try_for_each(|(stack, words)| kernels_of(&sh, stack, words))?;
    kernels(&sh, WAITS)?;
    kernels(&sh, RACES)?;
    run_random_kernels(&sh, FUZZ_SAMPLE)
}

/// Runs random kernels in the interpreter, and compares their results with those that the host computes.
fn run_random_kernels(sh: &Shell, words: &[&str]) -> TaskResult {
    let words: Vec<&str> = ["fuzz"].iter().chain(words).copied().collect();
    kernels(sh, &words)
}

/// Compares how the interpreter decodes random instruction words with the disassembler of each release.
fn bits() -> TaskResult {
    let sh = shell()?;
    let more: Vec<String> = std::env::args().skip(2).collect();
    let mut words = vec!["bits"];
    words.extend(more.iter().map(String::as_str));
    if more.is_empty() {
        words.push("each=4");
    }
    STACKS.into_iter().try_for_each(|(stack, _, _)| {
        println!("{stack}");
        kernels_of(&sh, stack, &words)
    })
}

/// Runs the verification suite of the interpreter with the compiler of [`STACK`].
fn kernels(sh: &Shell, words: &[&str]) -> TaskResult {
    kernels_of(sh, STACK, words)
}

fn kernels_of(sh: &Shell, stack: &str, words: &[&str]) -> TaskResult {
    let program = build_and_fetch(sh)?;
    if stack != STACK {
        cmd!(sh, "{program} rocm fetch {stack}").run()?;
    }
    let root = cmd!(sh, "{program} rocm path {stack}").read()?;
    // All packages are built, because a build of some packages would select other features; see `built`.
    cmd!(sh, "cargo build --quiet --workspace --locked --bin isa-verify").run()?;
    let verify = program.with_file_name("isa-verify");
    cmd!(sh, "{verify} {words...}").env("ROCREPRO_ROCM_ROOT", root).run()?;
    Ok(())
}

fn coverage() -> TaskResult {
    let sh = shell()?;
    cmd!(sh, "cargo test --quiet --locked -p case --test case coverage::")
        .env("ROCREPRO_WRITE_REFERENCE", "1")
        .run()?;
    Ok(())
}

fn stacks() -> TaskResult {
    run_on_stacks(0, |_| Vec::new())
}

/// Runs a quarter of the trials, distributed over the older releases. `cargo test` tests the newest release.
fn stacks_sample() -> TaskResult {
    let older = STACKS.len() - 1;
    run_on_stacks(1, |part| vec!["--shard".to_owned(), format!("{part}/{}", 4 * older)])
}

/// Runs the cases on the releases whose index is at least `first`. `words` returns additional arguments for the release
/// with the given index.
fn run_on_stacks(first: usize, words: impl Fn(usize) -> Vec<String>) -> TaskResult {
    let sh = shell()?;
    let program = build_and_fetch(&sh)?;
    for (place, (spec, gfx, more)) in STACKS.into_iter().enumerate().skip(first) {
        let on = ["--rocm", spec, "--gfx", gfx, "--device", "emulated"];
        let words = words(place);
        cmd!(sh, "{program} run {on...} {more...} {words...}").run()?;
    }
    Ok(())
}

fn prove() -> TaskResult {
    let sh = shell()?;
    let program = build_and_fetch(&sh)?;
    cmd!(sh, "{program} prove --device emulated {QUIET_TIMEOUT...} {EXCLUDE_PACKAGED...}").run()?;
    Ok(())
}

fn prove_sample() -> TaskResult {
    let sh = shell()?;
    let program = build_and_fetch(&sh)?;
    let sample = sample_cases(&sh, &program, SAMPLE_INTERVAL, |case| !SLOW_CASES.contains(&case))?;
    cmd!(
        sh,
        "{program} prove --device emulated {QUIET_TIMEOUT...} {sample...} {EXCLUDE_PACKAGED...}"
    )
    .run()?;
    // `--mutate` does not modify program cases.
    let sample = sample_cases(&sh, &program, MUTATION_SAMPLE_INTERVAL, |case| {
        !case.starts_with("programs/")
    })?;
    cmd!(sh, "{program} prove --mutate --device emulated {sample...}").run()?;
    Ok(())
}

/// Selects the cases for which `wanted` returns true, and returns one in `one_of` of them.
fn sample_cases(
    sh: &Shell,
    program: &Path,
    one_of: usize,
    wanted: fn(&str) -> bool,
) -> Result<Vec<String>, xshell::Error> {
    let list = cmd!(sh, "{program} list").read()?;
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| wanted(name)).step_by(one_of).map(str::to_owned).collect())
}

fn mutate() -> TaskResult {
    let sh = shell()?;
    let program = build_and_fetch(&sh)?;
    cmd!(sh, "{program} prove --mutate --device emulated {EXCLUDE_PACKAGED...}").run()?;
    Ok(())
}

fn locks() -> TaskResult {
    let sh = shell()?;
    let store = stacks::StackCache::from_environment()?;
    let named: Vec<String> = std::env::args().skip(2).collect();
    let wanted = |release: &&stacks::Release| {
        named.is_empty() || named.iter().any(|name| name == release.version)
    };
    for release in stacks::RELEASES.iter().filter(wanted) {
        let now = cmd!(sh, "date -u +%Y%m%dT%H%M%SZ").read()?;
        let lock = stacks::lock_release(release, &store, None, now)?;
        println!("{release}: {} packages", lock.packages.len());
        sh.write_file(format!("harness/stacks/locks/{}.json", release.version), lock.to_text())?;
    }
    Ok(())
}

fn order() -> TaskResult {
    let sh = shell()?;
    cmd!(sh, "cargo test --locked -p rocrepro --test cli order:: -- --nocapture")
        .env("ROCREPRO_ORDER_PROGRAMS", "5000")
        .run()?;
    Ok(())
}

fn soak(minutes: Option<String>) -> TaskResult {
    let sh = shell()?;
    let program = build_program(&sh)?;
    let minutes = minutes.unwrap_or_else(|| "60".to_owned());
    cmd!(sh, "cargo run --locked -p chaos")
        .env("ROCREPRO_PROGRAM", program)
        .env("ROCREPRO_SOAK", minutes)
        .run()?;
    Ok(())
}

fn interrupts(words: impl Iterator<Item = String>) -> TaskResult {
    let sh = shell()?;
    let program = build_and_fetch(&sh)?;
    let mut command = cmd!(sh, "cargo run --locked -p chaos").env("ROCREPRO_PROGRAM", program);
    command = command.env("ROCREPRO_MOMENTS", "7");
    for word in words {
        command = match word.split_once('=') {
            Some(("seed", seed)) => command.env("ROCREPRO_MOMENTS_SEED", seed),
            Some(("of", name)) => command.env("ROCREPRO_MOMENTS_OF", name),
            _ => command.env("ROCREPRO_MOMENTS", word),
        };
    }
    command.run()?;
    Ok(())
}

fn chaos() -> TaskResult {
    let sh = shell()?;
    let program = build_and_fetch(&sh)?;
    cmd!(sh, "cargo run --locked -p chaos")
        .env("ROCREPRO_PROGRAM", program)
        .env("ROCREPRO_CHAOS_MIXTURES", "3000")
        .run()?;
    Ok(())
}
