//! Tests random kernels. The compiler of the stack compiles each kernel for GPUs at every optimisation level, and the C
//! compiler `cc` compiles it for the host. The results must be equal, bit for bit.
//!
//! A difference means that there is an error in the interpreter, in one of the compilers, or in `prelude.h`. The report
//! of a difference contains the seed, the smallest kernel that still shows the difference, and all architectures and
//! optimisation levels that show it. The report also says at which other levels the host's compiler has different
//! results, which helps to find the cause. Compilers run in worker processes ([`worker`]). If a compiler crashes or
//! hangs, the report contains the seed.

mod compare;
mod draw;
mod worker;

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use device::Arch;
use worker::{Job, Worker, WorkerDeath};

pub(crate) use worker::serve;

const LEVELS: [&str; 4] = ["-O0", "-O1", "-O2", "-O3"];
/// Number of seeds after which a worker process is replaced. The reason is that a process keeps all code that it has
/// decoded.
const SEEDS: usize = 16;
/// Default number of differences that are minimised. An error may affect every kernel, and then a few minimised kernels
/// are enough.
const MAX_MINIMISED: u64 = 12;

pub(crate) struct Options {
    architectures: Vec<Arch>,
    seed: u64,
    batches: u64,
    kernels: u64,
    /// Number of worker processes.
    jobs: u64,
    /// Time in minutes after which the test starts no further seed; `None` for no limit.
    minutes: Option<u64>,
    shrink: u64,
    /// Folder for the kernels with differences and for the list of executed opcodes; `None` to print the kernels
    /// instead.
    keep: Option<PathBuf>,
}

impl Options {
    /// Parses arguments such as `seed=1 batches=10 kernels=64 jobs=1 minutes=N shrink=12 keep=FOLDER gfx90a ...`. Each
    /// argument is optional.
    pub(crate) fn parse(words: &[String]) -> Result<Options, String> {
        let mut options = Options {
            architectures: Vec::new(),
            seed: 1,
            batches: 1,
            kernels: 64,
            jobs: 1,
            minutes: None,
            shrink: MAX_MINIMISED,
            keep: None,
        };
        for word in words {
            let number = |text: &str| {
                text.parse::<u64>().map_err(|_| format!("the value of `{word}` is not a number"))
            };
            match word.split_once('=') {
                Some(("seed", text)) => options.seed = number(text)?,
                Some(("batches", text)) => options.batches = number(text)?,
                Some(("kernels", text)) => options.kernels = number(text)?.clamp(1, 256),
                Some(("jobs", text)) => options.jobs = number(text)?.max(1),
                Some(("minutes", text)) => options.minutes = Some(number(text)?),
                Some(("shrink", text)) => options.shrink = number(text)?,
                Some(("keep", folder)) => options.keep = Some(folder.into()),
                _ => match word.parse() {
                    Ok(arch) => options.architectures.push(arch),
                    Err(_) => {
                        return Err(format!(
                            "`{word}` is neither an architecture nor one of seed=N, batches=N, kernels=N, jobs=N, \
                             minutes=N, shrink=N and keep=FOLDER"
                        ));
                    }
                },
            }
        }
        if options.architectures.is_empty() {
            options.architectures = crate::with_guides();
        }
        Ok(options)
    }
}

#[derive(Clone, Copy, PartialEq)]
struct Target {
    arch: Arch,
    level: &'static str,
    wave64: bool,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let wave =
            if self.wave64 && self.arch.facts().wave_sizes.len() > 1 { " wave64" } else { "" };
        write!(f, "{} {}{wave}", self.arch, self.level)
    }
}

#[derive(Default)]
pub(crate) struct Tally {
    kernels: u64,
    pub(crate) compared: u64,
    by_target: BTreeMap<(Arch, &'static str), u64>,
    /// For each architecture, the executed opcodes, each with the first seed that executed it.
    opcodes: BTreeMap<Arch, BTreeMap<String, u64>>,
    /// Crashes and hangs of compilers, each with the seed of the kernel.
    crashes: Vec<String>,
    pub(crate) different: Vec<String>,
    /// Time spent on each kind of work, in seconds.
    spent: BTreeMap<String, f64>,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (arch, opcodes) in &self.opcodes {
            let of = |level: &&str| self.by_target.get(&(*arch, *level)).copied().unwrap_or(0);
            let each: Vec<_> = LEVELS.iter().map(|l| format!("{} at {l}", of(l))).collect();
            let all: u64 = LEVELS.iter().map(of).sum();
            writeln!(
                f,
                "{arch}: {all} comparisons ({}), {} opcodes executed",
                each.join(", "),
                opcodes.len()
            )?;
        }
        let spent: Vec<_> =
            self.spent.iter().map(|(what, seconds)| format!("{what} {seconds:.0}")).collect();
        writeln!(f, "seconds: {}", spent.join(", "))?;
        write!(
            f,
            "{} kernels, {} comparisons, {} compiler crashes, {} differences",
            self.kernels,
            self.compared,
            self.crashes.len(),
            self.different.len()
        )
    }
}

/// Generates, runs and compares random kernels. `root` is the root folder of the stack.
pub(crate) fn check(options: &Options, root: &Path) -> Tally {
    let tally = Mutex::new(Tally::default());
    let next = AtomicU64::new(options.seed);
    let begun = Instant::now();
    let ends = options.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                let mut bench = FuzzDriver { options, root, tally: &tally, worker: None };
                for number in 1.. {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let late = ends.is_some_and(|end| begun.elapsed() > end);
                    if late || seed >= options.seed + options.batches {
                        break;
                    }
                    bench.batch(seed);
                    if number % SEEDS == 0 {
                        bench.worker = None;
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(folder) = &options.keep {
        for (arch, opcodes) in &tally.opcodes {
            let all: String =
                opcodes.iter().map(|(opcode, seed)| format!("{opcode} {seed}\n")).collect();
            keep(folder, &format!("opcodes-{arch}.txt"), &all);
        }
    }
    tally
}

fn keep(folder: &Path, name: &str, text: &str) {
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(folder.join(name), text));
    written.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
}

/// Returns targets for all architectures and optimisation levels. On architectures with two wave sizes, waves have 64
/// lanes if the seed is even, otherwise 32.
fn targets(architectures: &[Arch], seed: u64) -> impl Iterator<Item = Target> {
    let wave64 = seed.is_multiple_of(2);
    architectures
        .iter()
        .flat_map(move |arch| LEVELS.map(|level| Target { arch: *arch, level, wave64 }))
}

/// Runs one batch of kernels after another in a worker process.
struct FuzzDriver<'a> {
    options: &'a Options,
    root: &'a Path,
    tally: &'a Mutex<Tally>,
    worker: Option<Worker>,
}

/// A difference between GPU and host: the number of the kernel, the target, and a description.
type Found = (u64, Target, String);

/// Lines that a worker process has sent as the answer to a job. Each line is split into its first word and the rest.
type Answer = Vec<(String, String)>;

impl FuzzDriver<'_> {
    fn ask(&mut self, job: &Job) -> Result<Answer, WorkerDeath> {
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start(self.root)
                .map_err(|how| WorkerDeath { stage: "begin".to_owned(), how })?,
        };
        let answer = worker.ask(job)?;
        self.worker = Some(worker);
        Ok(answer)
    }

    fn note(&self, what: impl FnOnce(&mut Tally)) {
        what(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn batch(&mut self, seed: u64) {
        let of = self.options.kernels;
        let (mut found, mut crashes, mut fresh): (Vec<Found>, _, _) =
            (Vec::new(), Vec::new(), BTreeSet::new());
        let (mut compared, begun) = (0, Instant::now());
        'targets: for target in targets(&self.options.architectures, seed) {
            let mut parts = vec![(0, of)];
            while let Some((from, to)) = parts.pop() {
                match self.ask(&Job { what: "compare", seed, of, from, to, target }) {
                    Ok(answer) => {
                        if let Some((_, problem)) = answer.iter().find(|(word, _)| word == "host") {
                            found.push((0, target, problem.clone()));
                            break 'targets;
                        }
                        compared += to - from;
                        self.take(seed, target, to - from, answer, &mut found, &mut fresh);
                    }
                    Err(WorkerDeath { stage, how }) => match stage.split_once(' ') {
                        // The worker process announced this number before it crashed. Therefore the crash occurred
                        // while the interpreter executed the kernel with this number.
                        Some(("run", number)) => {
                            let at = from + number.parse().unwrap_or(0);
                            found.push((
                                at,
                                target,
                                format!("{target}: the interpreter ended unexpectedly: {how}"),
                            ));
                            compared += 1;
                            parts.extend([(from, at), (at + 1, to)].iter().filter(|(a, b)| a < b));
                        }
                        _ if stage == "compile" && to - from > 1 => {
                            let middle = from.midpoint(to);
                            parts.extend([(middle, to), (from, middle)]);
                        }
                        _ if stage == "compile" => {
                            crashes.push(format!(
                                "seed={seed} k{from}: {target}: the compiler ended unexpectedly: {how}"
                            ));
                        }
                        _ => {
                            found.push((from, target, format!("{stage}: {how}")));
                            break 'targets;
                        }
                    },
                }
            }
        }
        let different = self.minimise_reports(seed, &found);
        println!(
            "seed={seed}: {compared} comparisons, {} opcodes executed for the first time, \
             {} compiler crashes, {} differences, {:.1} s",
            fresh.len(),
            crashes.len(),
            different.len(),
            begun.elapsed().as_secs_f64()
        );
        crashes.iter().chain(&different).for_each(|line| println!("    {line}"));
        self.note(|tally| {
            tally.kernels += of;
            tally.compared += compared;
            tally.crashes.extend(crashes);
            tally.different.extend(different);
        });
    }

    fn take(
        &self,
        seed: u64,
        target: Target,
        number: u64,
        answer: Answer,
        found: &mut Vec<Found>,
        fresh: &mut BTreeSet<(Arch, String)>,
    ) {
        self.note(|tally| {
            *tally.by_target.entry((target.arch, target.level)).or_default() += number;
            for (word, rest) in answer {
                match (word.as_str(), rest.split_once(' ')) {
                    ("differs", Some((index, what))) => {
                        let index = index.parse().unwrap_or(0);
                        found.push((index, target, what.to_owned()));
                    }
                    ("time", Some((what, seconds))) => {
                        let spent = tally.spent.entry(what.to_owned()).or_default();
                        *spent += seconds.parse().unwrap_or(0.0);
                    }
                    ("opcodes", _) => {
                        let known = tally.opcodes.entry(target.arch).or_default();
                        for opcode in rest.split_whitespace() {
                            if let Entry::Vacant(place) = known.entry(opcode.to_owned()) {
                                place.insert(seed);
                                fresh.insert((target.arch, opcode.to_owned()));
                            }
                        }
                    }
                    _ => {}
                }
            }
        });
    }

    fn minimise_reports(&mut self, seed: u64, found: &[Found]) -> Vec<String> {
        let of = self.options.kernels;
        let mut all = Vec::new();
        let places: BTreeSet<u64> = found.iter().map(|(at, ..)| *at).collect();
        for from in places {
            let of_it: Vec<_> = found.iter().filter(|(at, ..)| *at == from).collect();
            let Some((_, target, what)) = of_it.first() else { continue };
            let job = |what| Job { what, seed, of, from, to: from + 1, target: *target };
            let say = |answer: Result<Answer, WorkerDeath>, word: &str| match answer {
                Ok(answer) => answer.into_iter().find(|(of, _)| of == word).map(|(_, rest)| rest),
                Err(WorkerDeath { stage, how }) => Some(format!("{stage}: {how}")),
            };
            let votes = say(self.ask(&job("votes")), "votes").unwrap_or_default();
            let shown: Vec<Target> = of_it.iter().map(|(_, target, _)| *target).collect();
            let verdict = self.verdict(seed, &shown, &votes);
            let on: Vec<_> = shown.iter().map(Target::to_string).collect();
            all.push(format!(
                "seed={seed} k{from}: {what}\n    on {}\n    {verdict}",
                on.join(", ")
            ));
            let mut shrunk = 0;
            self.note(|tally| shrunk = tally.different.len() + all.len());
            if shrunk as u64 > self.options.shrink {
                continue;
            }
            let text = say(self.ask(&job("shrink")), "text").unwrap_or_default();
            match &self.options.keep {
                Some(folder) => keep(folder, &format!("{seed}-{from}.txt"), &text),
                None => all.extend([text]),
            }
        }
        all
    }

    /// Returns a guess about the cause of a difference. `shown` contains the targets that show the difference. `votes`
    /// names the optimisation levels at which the host's compiler gives other results; it is empty if there are none.
    fn verdict(&self, seed: u64, shown: &[Target], votes: &str) -> String {
        if !votes.is_empty() {
            return format!(
                "the code of the host's compiler also gives different results at {votes}"
            );
        }
        let all: Vec<Target> = targets(&self.options.architectures, seed).collect();
        let architectures: BTreeSet<Arch> = shown.iter().map(|target| target.arch).collect();
        let levels: BTreeSet<&str> = shown.iter().map(|target| target.level).collect();
        let asked: BTreeSet<Arch> = all.iter().map(|target| target.arch).collect();
        let what = if shown.len() == all.len() {
            "the device differs at every level of every architecture: either the two compilers interpret the \
             source differently, or the interpreter has an error on all architectures"
        } else if levels.len() == LEVELS.len() {
            "the device differs at every level of these architectures: the cause is most likely an error in \
             the interpreter"
        } else if architectures.len() == asked.len() && asked.len() > 1 {
            "the device differs only at these levels, but on every architecture: the cause is the GPU's \
             compiler, or an instruction that it selects only at these levels"
        } else {
            "the device differs only at these levels of these architectures: the cause is the GPU's compiler, \
             or an instruction that it selects only there"
        };
        format!("the host gives the same results at all optimisation levels; {what}")
    }
}
