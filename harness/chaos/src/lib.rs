//! Disturbs the whole command, and checks that its reports are still true.
//!
//! Each kind of disturbance is a `row::Row` in one table. A row defines how to set up the disturbance, and which
//! answers a truthful tool may give. After each run, no process and no temporary file may remain, and no file of
//! another program may have changed. Mixtures of two or three rows are tested, too, with expectations that are derived
//! from those of the rows. This crate shares no code with the command, because a mistake in shared code could hide
//! itself.

#![forbid(unsafe_code)]
// This crate contains only tests and their tools, which may panic.
#![allow(clippy::missing_panics_doc)]

mod card;
mod changed_stack;
mod expectation;
mod folder_snapshot;
mod interrupts;
mod mixture;
mod processes;
mod row;
mod run;
mod setup;
mod shared_tools;
mod soak;
mod table;

use std::path::PathBuf;

use parking_lot::{Condvar, Mutex};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::{
    card::Cards,
    row::Row,
    run::{NotRun, run_rows},
    shared_tools::Tools,
};

/// Name of the environment variable that contains the number of mixtures to run. The default is [`MIXTURES`].
const VARIABLE: &str = "ROCREPRO_CHAOS_MIXTURES";
/// Default number of mixtures. It is small enough for a developer to wait for the result.
const MIXTURES: u64 = 40;
/// Minimum number of mixtures for the long form of the tests, which includes every row.
const LONG_MIXTURES: u64 = 1000;
/// Number of runs with random behaviours on simulated cards, and number of trials in the run whose card breaks.
const CARDS: (u64, usize) = (6, 60);
/// For the long form of the tests: number of runs with random behaviours, and number of trials in the run whose card
/// breaks.
const LONG_CARDS: (u64, usize) = (500, 700);

/// Runs the rows of the table and the mixtures with the command `program`. Accepts the command-line arguments of
/// libtest.
pub fn main(program: PathBuf) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // More rows run at the same time than there are processors, because half of the rows wait for a time limit, and the
    // command waits for its children.
    let at_once = arguments.test_threads.unwrap_or(3 * processors);
    // Tests on simulated cards wait most of the time, so they may use all threads of the test program. Rows use only
    // `at_once` threads.
    arguments.test_threads = Some(arguments.test_threads.unwrap_or(8 * processors));
    let slots = Arc::new(TestSlots::new(at_once));
    let mixtures = match std::env::var(VARIABLE).map(|text| text.parse()) {
        Err(_) => MIXTURES,
        Ok(Ok(number)) => number,
        Ok(Err(_)) => {
            eprintln!("{VARIABLE} must be a number");
            return ExitCode::from(2);
        }
    };
    let tools = Arc::new(LazyTools { program, made: OnceLock::new() });
    let rows = table::rows().map(|row| {
        let (tools, slots) = (Arc::clone(&tools), Arc::clone(&slots));
        let here = mixtures >= LONG_MIXTURES || !row.long;
        Trial::ignorable_test(row.name, move || match here {
            true => slots.run_in_slot(|| check_row(tools.get(), row)),
            false => Ok(not_run("only `ci -- chaos` runs this test")),
        })
    });
    let mixed = (0..mixtures).map(|seed| {
        let (tools, slots) = (Arc::clone(&tools), Arc::clone(&slots));
        Trial::ignorable_test(format!("mixture/{seed}"), move || {
            slots.run_in_slot(|| check_mixture(tools.get(), seed))
        })
    });
    let (runs, night) = if mixtures >= LONG_MIXTURES { LONG_CARDS } else { CARDS };
    let cards = Arc::new(Cards::new(tools.program.clone()));
    let drawn = (0..runs).map(|seed| {
        let cards = Arc::clone(&cards);
        Trial::ignorable_test(format!("card/{seed}"), move || on_card(|| cards.run_random(seed)))
    });
    let dies = Arc::clone(&cards);
    let dies =
        Trial::ignorable_test("card/night", move || on_card(|| dies.break_card_mid_run(night)));
    type CardTest = (&'static str, fn(&Cards) -> Result<(), String>);
    let scenes: [CardTest; 4] = [
        ("two-runs", |cards| cards.two_runs(12)),
        ("one-is-lost-from-the-start", |cards| cards.dead_from_the_start("lost")),
        ("one-hangs-from-the-start", |cards| cards.dead_from_the_start("hangs")),
        ("held-for-the-next-command", Cards::keep_stuck_process),
    ];
    let scenes = scenes.into_iter().map(|(name, play)| {
        let cards = Arc::clone(&cards);
        Trial::ignorable_test(format!("card/{name}"), move || on_card(|| play(&cards)))
    });
    let interrupted = interrupts::COMMANDS.iter().filter(|command| command.sample).map(|command| {
        let (tools, slots) = (Arc::clone(&tools), Arc::clone(&slots));
        let name = format!("interrupt/{}", command.name.replace(' ', "-"));
        Trial::ignorable_test(name, move || {
            if mixtures < LONG_MIXTURES {
                return Ok(not_run("only `ci -- chaos` runs this test"));
            }
            slots.run_in_slot(|| interrupts::interrupt_once(tools.get(), command, 1))?;
            Ok(Completion::Completed)
        })
    });
    // The longest tests start first, so that no long test runs alone at the end.
    let all =
        scenes.chain([dies]).chain(drawn).chain(interrupted).chain(rows).chain(mixed).collect();
    let conclusion = libtest_mimic::run(&arguments, all);
    if let Some(Err(left)) = tools.made.get().map(Tools::check_no_process_left) {
        eprintln!("{left}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

/// Runs one command after another for `minutes`. Fails if processes or files remain at the end.
pub fn soak(program: PathBuf, minutes: u64) -> ExitCode {
    match soak::soak(program, Duration::from_secs(60 * minutes)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

/// Interrupts each long command, or those whose name contains `only`, at `moments` random moments. Fails if a command
/// does not end in time, or leaves processes or damaged files behind.
pub fn interrupts(program: PathBuf, moments: u64, seed: u64, only: &str) -> ExitCode {
    match interrupts::all(program, moments, seed, only) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

struct TestSlots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// Permission to run one test. Dropping the value lets another test start.
struct Slot<'p>(&'p TestSlots);

impl TestSlots {
    fn new(free: usize) -> TestSlots {
        TestSlots { free: Mutex::new(free.max(1)), freed: Condvar::new() }
    }

    fn run_in_slot<T>(&self, run: impl FnOnce() -> T) -> T {
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        drop(free);
        let _slot = Slot(self);
        run()
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

/// The tools that all tests share. They are built when the first test needs them, so that tests can be listed quickly.
struct LazyTools {
    program: PathBuf,
    made: OnceLock<Tools>,
}

impl LazyTools {
    fn get(&self) -> &Tools {
        self.made.get_or_init(|| Tools::make(self.program.clone()))
    }
}

/// Maximum number of runs of a test during which a disk of this machine stands still.
const MAX_RUNS: usize = 3;

/// Runs a test with `run` and returns the mistakes that it found; `None` if it found none. If the command reports that
/// a process waited for a disk of this machine, which no test causes, runs the test again.
fn retry_after_stall(
    run: impl Fn() -> Result<Option<String>, NotRun>,
) -> Result<Option<String>, NotRun> {
    let mut wrong = None;
    for _ in 0..MAX_RUNS {
        wrong = run()?;
        let stall = "a process that waited for a disk of this machine";
        if !wrong.as_ref().is_some_and(|wrong| wrong.contains(stall)) {
            break;
        }
    }
    Ok(wrong)
}

fn check_row(tools: &Tools, row: &'static Row) -> Result<Completion, Failed> {
    let run = || Ok(run_rows(tools, &[row])?.mismatch(&row.expect));
    match retry_after_stall(run) {
        Err(NotRun::Impossible(reason)) => Ok(not_run(&reason)),
        Err(NotRun::Conflict) => Err("the row sets an option twice".into()),
        Ok(Some(wrong)) => Err(wrong.into()),
        Ok(None) => Ok(Completion::Completed),
    }
}

fn check_mixture(tools: &Tools, seed: u64) -> Result<Completion, Failed> {
    for attempt in 0.. {
        let rows = mixture::draw(seed, attempt);
        let run = || Ok(run_rows(tools, &rows)?.mismatch(&mixture::expected(&rows)));
        let wrong = match retry_after_stall(run) {
            Err(NotRun::Impossible(reason)) => return Ok(not_run(&reason)),
            Err(NotRun::Conflict) => continue,
            Ok(wrong) => wrong,
        };
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        return match wrong {
            None => Ok(Completion::Completed),
            Some(wrong) => Err(format!("{}\n{wrong}", names.join(" + ")).into()),
        };
    }
    unreachable!("attempts do not end");
}

fn on_card(run: impl FnOnce() -> Result<(), String>) -> Result<Completion, Failed> {
    match Cards::impossible() {
        Some(reason) => Ok(not_run(reason)),
        None => run().map(|()| Completion::Completed).map_err(Failed::from),
    }
}

fn not_run(reason: &str) -> Completion {
    Completion::ignored_with(format!("not run: {reason}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn stalled_disks_lead_to_another_run() {
        let stall = "the harness gave up on a process that waited for a disk of this machine";
        let check = |answers: &[&str], runs: usize, expected: Option<&str>| {
            let count = AtomicUsize::new(0);
            let run = || {
                let answer = answers[count.fetch_add(1, Ordering::SeqCst)];
                Ok((!answer.is_empty()).then(|| answer.to_owned()))
            };
            let wrong = retry_after_stall(run).unwrap_or_else(|_| panic!("it runs"));
            assert_eq!((wrong.as_deref(), count.into_inner()), (expected, runs));
        };
        check(&[""], 1, None);
        check(&["wrong", ""], 1, Some("wrong"));
        check(&[stall, ""], 2, None);
        check(&[stall, "wrong"], 2, Some("wrong"));
        check(&[stall; 4], 3, Some(stall));
    }

    /// The slot of a test must also become free if the test panics, for example because its tools cannot be built.
    #[test]
    fn slots_limit_the_tests_that_run_at_once() {
        let (slots, now, most) = (TestSlots::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
        let run = |n: usize| {
            slots.run_in_slot(|| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
                assert!(!n.is_multiple_of(5), "every fifth test must panic here");
            });
        };
        let ended = std::thread::scope(|scope| {
            let run = &run;
            let all: Vec<_> = (0..20).map(|n| scope.spawn(move || run(n))).collect();
            all.into_iter().filter_map(|one| one.join().ok()).count()
        });
        assert_eq!((ended, *slots.free.lock()), (16, 2));
        assert!(most.into_inner() <= 2);
    }
}
