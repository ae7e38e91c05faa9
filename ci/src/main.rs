//! Chores, run as `cargo run -p ci -- TASK`. What CI does is what a developer can do: `.ci/run` and the workflows
//! call these tasks and nothing else.

mod amd_tests;
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
mod launchers;
mod licences;
mod miri;
mod mutants;
mod night;
mod nightly;
mod page;
mod quick;
mod recipes;
mod release;
mod reports;
mod rooms;
mod style;
mod tidy;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use xshell::{PushEnv, Shell, cmd};

/// The release that all cases can run on.
const STACK: &str = "debian:7.2.4";

/// What it has besides HIP: the libraries of the cases, the compiler of exported programs, AMD's tests.
const WITH: &str = "hiprand,hipblaslt,rocblas,dev,tests";

/// ROCm releases that every change is run on, each with an architecture that its runtime knows. `cargo test` runs all of the
/// first but, where these are not fetched, the cases of large libraries, for which one release stands for all; known hangs
/// of the oldest release would else cost minutes.
const STACKS: [(&str, &str, &[&str]); 4] = [
    (STACK, "gfx1151", &["--with", WITH, "gemm"]),
    ("debian:6.4.3", "gfx1151", &[]),
    ("debian:5.7.1", "gfx1100", &[]),
    ("debian:5.2.3", "gfx90a", &["--quiet-timeout", "4"]),
];

/// Cases whose programs import Python packages, which the gate does not install: a fault that cannot be planted proves nothing.
const PACKAGED: &[&str] = &[
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
];

/// A program may be silent for two minutes, as compilers are, and each fault that makes one hang would take as long.
const HANGS: &[&str] = &["--quiet-timeout", "20"];

/// Cases whose programs take minutes under all of their faults, or to be compiled.
const SLOW: &[&str] =
    &["programs/rocblas-shapes", "programs/eigenvectors-through-lds", "capture/every-call"];

/// What is drawn in the gate: the same kernels each time, in less than half a minute.
const SAMPLE: &[&str] = &["seed=1", "batches=1", "kernels=32", "jobs=2", "gfx90a", "gfx1151"];
/// The kernels that lose their waits and barriers in the gate, or store where they load, and those that are run as they are.
const WAITS: &[&str] = &["waits", "-O3", "loads=4", "gfx90a", "gfx1151"];
/// Those whose workgroups touch the same memory, on four architectures of nine.
const RACES: &[&str] = &["races", "-O3", "gfx90a", "gfx942", "gfx1151", "gfx1201"];
const KERNELS: &[&str] = &["gfx908", "gfx90a", "gfx950", "gfx1151", "gfx1201"];
/// The operand forms of instructions, each beside a model of one lane.
const FORMS: &[&str] = &["forms", "gfx908"];
/// Forms of their encodings, each beside the plain one of the same instruction.
const WORDS: &[&str] = &["words", "native", "gfx90a", "gfx1100", "gfx1201"];
/// Random words, of which no bit is lost: on these releases, whose disassemblers leave out other bits than the rest, and these
/// architectures.
const BITS: [(&str, &[&str]); 2] = [
    (STACK, &["bits", "each=1", "gfx90a", "gfx1201"]),
    ("debian:6.4.3", &["bits", "each=1", "gfx1151"]),
];
/// And in `fuzz`: some 100 000 comparisons, more than an hour of one processor.
const FUZZ: &[&str] = &["seed=1000", "batches=50", "jobs=2"];

/// Programs drawn for the order of work; `cargo test` alone draws more, and `ci -- order` many.
const ORDERED: &str = "75";

/// Of so many cases the gate exports one, and it proves the faults of one.
const EIGHTH: usize = 8;
/// And of so many it mutates one.
const TWENTIETH: usize = 20;

const USAGE: &str = "\
usage: cargo run -p ci -- TASK
  lint     formatting, clippy, the links of the docs, licences, tidiness, circles of modules; the fuzz targets compile
  quick    the check to use while one works, two minutes once it was built: texts, formatting, the tests of the crates that changed
           and a sample of the case library
  style    lists what is written against STYLE.md, of all crates or the named ones; `style --write` accepts the present counts
  test     the tests of every crate, and the case library on ROCm 7.2.4 (cargo test)
  stacks   every case on every ROCm release that Debian carries, but for those of 7.2.4 that `test` runs
  prove    every declared fault turns its case red
  mutate   no check, status or value of any case could be left out unnoticed
  checks   what a program needs of a device, on every release and architecture: a table
  exports  every case as a stand-alone program, compiled, run and compared with its trial
  filing   every case from a planted fault to a report: minimise, export, verify, report
  filed    the same for three cases
  coverage writes docs/coverage.md, whose age `test` tells
  evidence every case on four releases and their architectures, as docs/matrix.html; options of `matrix` may follow
  ages     of each file of reports/, how many commits have changed what it measured since then
  page     docs/matrix.html in Chromium, wide and small, light and dark: filter, search, links, and pictures for you to look at
  examples makes the reports of reports/examples anew
  bisects  twelve real bisects between the releases and five of programs: the known answers; needs gcc
  recipes  the commands of docs/recipes print what is shown there; `recipes --write` shows what they print
  amd      a sample of AMD's own test programs on the emulated device, on two architectures; with a seed a drawn one of those
           for every library: `amd seed=7 gfx=gfx90a,gfx1201 tests=24 limit=60 rocprim hipcub/test_hipcub_grid` (all: 7 GB)
  frameworks  every case about Triton, CuPy, JAX and onnxruntime of PyPI turns red by its faults: 10 GB
  containers  the programs of docs/programs in podman: plain, as an ordinary user, and where nobody may make a namespace; wants root
  foreign  tests that the authors of CuPy and JAX wrote, drawn by a seed, on the emulated device: `foreign cupy at=FOLDER seed=7
           gfx=gfx90a files=20 tests=15 limit=120 cupy_tests/core_tests`; FOLDER is `tests` of the sources of that release
  readme   updates the output that docs/first-run.md shows of its two commands, as a newcomer sees it
  release  the archive that people download, which is tried; it fails where the program needs a newer C library than the one that
           is named: `release 2.31`
  locks    writes which packages each Debian release consists of now, or those named (harness/stacks/locks); needs apt
  order    programs drawn at random: what `check` accepts shows no race on any schedule
  fuzz     kernels drawn at random, on every architecture at every level: the emulated device computes what the host does
  mutants  every line of plan, judge and case changed, or of the ones that are named: a test of the crate notices; takes hours
  miri     what is unsafe in the interpreter, and the table of calls, under Miri
  waits    kernels without one of their waits or barriers, or with a store for a load, on every architecture: the sanitizer
           sees each that mattered
  races    kernels whose workgroups touch the same memory, on every architecture: the sanitizer tells those that are wrong
  words    forms of vector and scalar instructions, on every architecture: each does what the plain form does with registers that
           are changed before
  bits     random words of all encodings, on every architecture, by the disassembler of each release: no bit of an instruction is
           lost; with more words of each instruction: `bits each=8 seed=2`
  chaos    every kind of trouble around the command, and 3000 mixtures of them
  launchers  trials below a Slurm of one node, ssh, bubblewrap, podman and sudo, which must be installed; needs root
  soak     command after command for an hour, or for as many minutes as are given: no process, file or folder is left
  night    a run of 10 000 trials, or as many as are given: its memory, and its own time for each beside nextest and libtest-mimic
  nightly  the newest build on this machine's GPU: news only, new failures bisected
  all      the gate, two parts at a time: lint, test, and of the others a sample: of `stacks` a quarter of the trials, each on one of the older releases, of
           `prove` an eighth of the cases and of `mutate` a twentieth, of `checks` each architecture on one release, of `exports` an eighth,
           `filed`, half of `amd`, two cases of `frameworks`, and of `fuzz`, `waits`, `races`, `words` and `bits`
  part     one of these parts: `part stacks`";

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
        "checks" => shell().and_then(|sh| checks::checks(&sh)),
        "exports" => shell().and_then(|sh| exports::exports(&sh)),
        "filing" => shell().and_then(|sh| filing::filing(&sh)),
        "filed" => shell().and_then(|sh| filing::sample(&sh)),
        "coverage" => coverage(),
        "evidence" => {
            let more: Vec<String> = std::env::args().skip(2).collect();
            shell().and_then(|sh| evidence::evidence(&sh, &more))
        }
        "ages" => shell().and_then(|sh| reports::ages(&sh)),
        "page" => shell().and_then(|sh| page::page(&sh)),
        "examples" => shell().and_then(|sh| examples::examples(&sh)),
        "bisects" => shell().and_then(|sh| bisects::bisects(&sh)),
        "readme" => shell().and_then(|sh| evidence::readme(&sh)),
        "release" => shell().and_then(|sh| release::release(&sh, std::env::args().nth(2).as_ref())),
        "recipes" => shell().and_then(|sh| recipes::recipes(&sh, arguments_have("--write"))),
        "amd" => {
            let words: Vec<String> = std::env::args().skip(2).collect();
            shell().and_then(|sh| amd_tests::amd_tests(&sh, &words))
        }
        "containers" => shell().and_then(|sh| containers::containers(&sh)),
        "frameworks" => shell().and_then(|sh| frameworks::all(&sh)),
        "foreign" => {
            let words: Vec<String> = std::env::args().skip(2).collect();
            shell().and_then(|sh| foreign::foreign(&sh, &words))
        }
        "locks" => locks(),
        "order" => order(),
        "mutants" => {
            let only: Vec<String> = std::env::args().skip(2).collect();
            shell().and_then(|sh| mutants::mutants(&sh, &only))
        }
        "miri" => shell().and_then(|sh| miri::miri(&sh)),
        "fuzz" => shell().and_then(|sh| drawn(&sh, FUZZ)),
        "waits" => shell().and_then(|sh| kernels(&sh, &["waits"])),
        "races" => shell().and_then(|sh| kernels(&sh, &["races"])),
        "words" => shell().and_then(|sh| kernels(&sh, &["words"])),
        "bits" => bits(),
        "chaos" => chaos(),
        "launchers" => shell().and_then(|sh| launchers::launchers(&sh)),
        "soak" => soak(std::env::args().nth(2)),
        "night" => shell().and_then(|sh| night::night(&sh, std::env::args().nth(2).as_ref())),
        "nightly" => shell().and_then(|sh| nightly::nightly(&sh)),
        "all" => gate::all(),
        "part" => gate::part(&std::env::args().nth(2).unwrap_or_default()),
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

/// Whether this stands behind the task.
fn arguments_have(word: &str) -> bool {
    std::env::args().skip(2).any(|argument| argument == word)
}

/// Builds the command and has [`STACK`] fetched. Returns the command.
fn product(sh: &Shell) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let program = built(sh)?;
    fetched(sh, &program)?;
    Ok(program)
}

fn fetched(sh: &Shell, program: &Path) -> xshell::Result<()> {
    cmd!(sh, "{program} rocm fetch {STACK} --with {WITH}").run()
}

/// Builds the command, which `cargo test` has built already if it ran: what computes is optimised there, too.
fn built(sh: &Shell) -> Result<PathBuf, Box<dyn std::error::Error>> {
    // Another choice of packages would have other features, and so be built anew.
    cmd!(sh, "cargo test --quiet --workspace --locked --no-run --test cli").run()?;
    Ok(debug(sh))
}

/// The command as cargo builds it.
fn debug(sh: &Shell) -> PathBuf {
    sh.current_dir().join(target()).join("debug/rocrepro")
}

fn target() -> String {
    std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned())
}

type Done = Result<(), Box<dyn std::error::Error>>;

fn shell() -> Result<Shell, Box<dyn std::error::Error>> {
    let shell = Shell::new()?;
    shell.change_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    Ok(shell)
}

/// Has cargo be that of the oldest Rust with which the project is said to compile, as long as what is returned lives. Where
/// rustup cannot have it, it stays what it was, and that is said.
fn oldest_rust(sh: &Shell) -> Result<Option<PushEnv<'_>>, Box<dyn std::error::Error>> {
    let manifest = sh.read_file("Cargo.toml")?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let version = version.ok_or("Cargo.toml has no rust-version")?.trim_matches('"');
    let install =
        ["toolchain", "install", version, "--profile", "minimal", "--component", "clippy"];
    // Without a network it would try for long.
    match cmd!(sh, "timeout 240 rustup {install...} --no-self-update").quiet().ignore_stderr().run()
    {
        Ok(()) => Ok(Some(sh.push_env("RUSTUP_TOOLCHAIN", version))),
        Err(error) => {
            println!("NOT CHECKED: whether Rust {version} compiles this, since {error}");
            Ok(None)
        }
    }
}

fn lint() -> Done {
    let sh = shell()?;
    cmd!(sh, "cargo fmt --all --check").run()?;
    // What does not compile with it is a mistake that clippy tells.
    let _oldest = oldest_rust(&sh)?;
    let all = ["--workspace", "--all-targets", "--features", "fuzz/targets", "--locked"];
    cmd!(sh, "cargo clippy {all...} -- -D warnings").run()?;
    // With the examples dependencies have the features that they had for clippy, and are not looked at anew.
    cmd!(sh, "cargo doc --quiet --workspace --no-deps --locked --lib --bin ci --examples")
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    licences::check(&sh)?;
    quick::texts(&sh)
}

/// What all parts of the gate use: the tests and the command.
fn build() -> Done {
    let sh = shell()?;
    cmd!(sh, "cargo test --quiet --workspace --locked --no-run").run()?;
    Ok(())
}

/// The stack, with everything that one of the parts asks for, by the command that is built: while `lint` runs, cargo would wait.
fn stack() -> Done {
    let sh = shell()?;
    fetched(&sh, &debug(&sh))?;
    Ok(())
}

fn test() -> Done {
    let sh = shell()?;
    // Tests of hangs wait, and one at a time more than there are processors then has one.
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    cmd!(sh, "cargo test --workspace --locked")
        .env("RUST_TEST_THREADS", (processors + 1).to_string())
        .env("ROCREPRO_ORDER_PROGRAMS", ORDERED)
        // Elsewhere they are drawn anew each time; what the gate tells of a change is told by the change.
        .env("PROPTEST_RNG_SEED", "2026")
        .run()?;
    Ok(())
}

/// Kernels in the interpreter alone: the same each time, in two minutes.
fn kernels_sample() -> Done {
    let sh = shell()?;
    kernels(&sh, KERNELS)?;
    kernels(&sh, FORMS)?;
    kernels(&sh, WORDS)?;
    BITS.into_iter().try_for_each(|(stack, words)| kernels_of(&sh, stack, words))?;
    kernels(&sh, WAITS)?;
    kernels(&sh, RACES)?;
    drawn(&sh, SAMPLE)
}

/// Kernels drawn at random, and what the interpreter makes of them.
fn drawn(sh: &Shell, words: &[&str]) -> Done {
    let words: Vec<&str> = ["fuzz"].iter().chain(words).copied().collect();
    kernels(sh, &words)
}

/// Random words by the disassembler of each release.
fn bits() -> Done {
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

/// Kernels compiled by the stack, in the interpreter alone.
fn kernels(sh: &Shell, words: &[&str]) -> Done {
    kernels_of(sh, STACK, words)
}

/// Runs the `kernels` example on the given release.
fn kernels_of(sh: &Shell, stack: &str, words: &[&str]) -> Done {
    let program = product(sh)?;
    if stack != STACK {
        cmd!(sh, "{program} rocm fetch {stack}").run()?;
    }
    let root = cmd!(sh, "{program} rocm path {stack}").read()?;
    // As in `product`, of all packages.
    cmd!(sh, "cargo build --quiet --workspace --locked --example kernels").run()?;
    let kernels = program.with_file_name("examples").join("kernels");
    cmd!(sh, "{kernels} {words...}").env("ROCREPRO_ROCM_ROOT", root).run()?;
    Ok(())
}

/// What the cases call and show, as a page.
fn coverage() -> Done {
    let sh = shell()?;
    cmd!(sh, "cargo test --quiet --locked -p case --test case coverage::")
        .env("ROCREPRO_WRITE_REFERENCE", "1")
        .run()?;
    Ok(())
}

fn stacks() -> Done {
    on_stacks(0, |_| Vec::new())
}

/// A quarter of the trials on the older releases, each on one of them. The newest one, which has all libraries in the gate, is that of
/// `test`.
fn stacks_sample() -> Done {
    let older = STACKS.len() - 1;
    on_stacks(1, |part| vec!["--shard".to_owned(), format!("{part}/{}", 4 * older)])
}

/// Runs the cases on the releases from that of a number on, with more words for each.
fn on_stacks(first: usize, words: impl Fn(usize) -> Vec<String>) -> Done {
    let sh = shell()?;
    let program = product(&sh)?;
    for (place, (spec, gfx, more)) in STACKS.into_iter().enumerate().skip(first) {
        let on = ["--rocm", spec, "--gfx", gfx, "--device", "emulated"];
        let words = words(place);
        cmd!(sh, "{program} run {on...} {more...} {words...}").run()?;
    }
    Ok(())
}

fn prove() -> Done {
    let sh = shell()?;
    let program = product(&sh)?;
    cmd!(sh, "{program} prove --device emulated {HANGS...} {PACKAGED...}").run()?;
    Ok(())
}

fn prove_sample() -> Done {
    let sh = shell()?;
    let program = product(&sh)?;
    let sample = every(&sh, &program, EIGHTH, |case| !SLOW.contains(&case))?;
    cmd!(sh, "{program} prove --device emulated {HANGS...} {sample...} {PACKAGED...}").run()?;
    // Of a program nothing is taken away.
    let sample = every(&sh, &program, TWENTIETH, |case| !case.starts_with("programs/"))?;
    cmd!(sh, "{program} prove --mutate --device emulated {sample...}").run()?;
    Ok(())
}

/// One of so many cases, of those that are wanted.
fn every(
    sh: &Shell,
    program: &Path,
    one_of: usize,
    wanted: fn(&str) -> bool,
) -> Result<Vec<String>, xshell::Error> {
    let list = cmd!(sh, "{program} list").read()?;
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| wanted(name)).step_by(one_of).map(str::to_owned).collect())
}

fn mutate() -> Done {
    let sh = shell()?;
    let program = product(&sh)?;
    cmd!(sh, "{program} prove --mutate --device emulated {PACKAGED...}").run()?;
    Ok(())
}

fn locks() -> Done {
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

fn order() -> Done {
    let sh = shell()?;
    cmd!(sh, "cargo test --locked -p rocrepro --test cli order:: -- --nocapture")
        .env("ROCREPRO_ORDER_PROGRAMS", "5000")
        .run()?;
    Ok(())
}

fn soak(minutes: Option<String>) -> Done {
    let sh = shell()?;
    let program = built(&sh)?;
    let minutes = minutes.unwrap_or_else(|| "60".to_owned());
    cmd!(sh, "cargo run --locked -p chaos")
        .env("ROCREPRO_PROGRAM", program)
        .env("ROCREPRO_SOAK", minutes)
        .run()?;
    Ok(())
}

fn chaos() -> Done {
    let sh = shell()?;
    let program = product(&sh)?;
    cmd!(sh, "cargo run --locked -p chaos")
        .env("ROCREPRO_PROGRAM", program)
        .env("ROCREPRO_CHAOS_MIXTURES", "3000")
        .run()?;
    Ok(())
}
