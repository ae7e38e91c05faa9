//! Plants trouble around the whole command, and looks whether what it then says is true.
//!
//! Each kind of trouble is a `Row` of one table: how it is planted, and what a truthful tool may say. After each run nothing
//! may be left: no process, no temporary file, and no foreign file touched. Mixtures of two or three rows follow, whose expectation is
//! derived from theirs. This crate shares no code with the command, so that a mistake is not made twice.

#![forbid(unsafe_code)]
// A test's own tools may stop it.
#![allow(clippy::missing_panics_doc)]

mod card;
mod expect;
mod files;
mod live;
mod mixture;
mod overlay;
mod play;
mod row;
mod scene;
mod soak;
mod table;
mod tools;

use std::path::PathBuf;

use parking_lot::{Condvar, Mutex};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::{
    card::Cards,
    play::{NotPlayed, play},
    row::Row,
    tools::Tools,
};

/// How many mixtures are run; [`MIXTURES`] without it.
const VARIABLE: &str = "ROCREPRO_CHAOS_MIXTURES";
/// A sample that a developer waits for.
const MIXTURES: u64 = 40;
/// With so many it is the long form, in which every row is run.
const LONG: u64 = 1000;
/// Runs on a pretended card, drawn by seeds, and trials of the night in which it dies.
const CARDS: (u64, usize) = (6, 60);
/// The same in the long form.
const LONG_CARDS: (u64, usize) = (500, 700);

/// Runs the table and the mixtures on a built command, with the arguments of libtest.
pub fn main(program: PathBuf) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // Half of the rows wait for a limit, and the command waits for what it starts.
    let at_once = arguments.test_threads.unwrap_or(3 * processors);
    // On a pretended card nine tenths of the time are waits for limits, so those runs may have all threads and rows may not.
    arguments.test_threads = Some(arguments.test_threads.unwrap_or(8 * processors));
    let places = Arc::new(Places::new(at_once));
    let mixtures = match std::env::var(VARIABLE).map(|text| text.parse()) {
        Err(_) => MIXTURES,
        Ok(Ok(number)) => number,
        Ok(Err(_)) => {
            eprintln!("{VARIABLE} must be a number");
            return ExitCode::from(2);
        }
    };
    let tools = Arc::new(Lazy { program, made: OnceLock::new() });
    let rows = table::rows().map(|row| {
        let (tools, places) = (Arc::clone(&tools), Arc::clone(&places));
        let here = mixtures >= LONG || !row.long;
        Trial::ignorable_test(row.name, move || match here {
            true => places.during(|| check_row(tools.get(), row)),
            false => Ok(not_run("for the long form, `ci -- chaos`")),
        })
    });
    let mixed = (0..mixtures).map(|seed| {
        let (tools, places) = (Arc::clone(&tools), Arc::clone(&places));
        Trial::ignorable_test(format!("mixture/{seed}"), move || {
            places.during(|| check_mixture(tools.get(), seed))
        })
    });
    let (runs, night) = if mixtures >= LONG { LONG_CARDS } else { CARDS };
    let cards = Arc::new(Cards::new(tools.program.clone()));
    let drawn = (0..runs).map(|seed| {
        let cards = Arc::clone(&cards);
        Trial::ignorable_test(format!("card/{seed}"), move || on_card(|| cards.drawn(seed)))
    });
    let dies = Arc::clone(&cards);
    let dies = Trial::ignorable_test("card/night", move || on_card(|| dies.night(night)));
    type Scene = (&'static str, fn(&Cards) -> Result<(), String>);
    let scenes: [Scene; 4] = [
        ("two-runs", |cards| cards.two_runs(12)),
        ("one-is-lost-from-the-start", |cards| cards.dead_from_the_start("lost")),
        ("one-hangs-from-the-start", |cards| cards.dead_from_the_start("hangs")),
        ("held-for-the-next-command", Cards::held_for_the_next),
    ];
    let scenes = scenes.into_iter().map(|(name, play)| {
        let cards = Arc::clone(&cards);
        Trial::ignorable_test(format!("card/{name}"), move || on_card(|| play(&cards)))
    });
    // What takes longest begins first.
    let all = scenes.chain([dies]).chain(drawn).chain(rows).chain(mixed).collect();
    let conclusion = libtest_mimic::run(&arguments, all);
    if let Some(Err(left)) = tools.made.get().map(Tools::nobody_is_left) {
        eprintln!("{left}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

/// Command after command for so many minutes; what is left in the end is told, and is a failure.
pub fn soak(program: PathBuf, minutes: u64) -> ExitCode {
    match soak::soak(program, Duration::from_secs(60 * minutes)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

/// Keeps what computes to so many at once.
struct Places {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place that is taken, until this is dropped.
struct Place<'p>(&'p Places);

impl Places {
    fn new(free: usize) -> Places {
        Places { free: Mutex::new(free.max(1)), freed: Condvar::new() }
    }

    fn during<T>(&self, run: impl FnOnce() -> T) -> T {
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        drop(free);
        let _place = Place(self);
        run()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

/// The tools, made when the first test runs: not for a list, and not where other tests are meant.
struct Lazy {
    program: PathBuf,
    made: OnceLock<Tools>,
}

impl Lazy {
    fn get(&self) -> &Tools {
        self.made.get_or_init(|| Tools::make(self.program.clone()))
    }
}

fn check_row(tools: &Tools, row: &'static Row) -> Result<Completion, Failed> {
    let played = match play(tools, &[row]) {
        Err(NotPlayed::Impossible(reason)) => return Ok(not_run(&reason)),
        Err(NotPlayed::Conflict) => return Err("the row is at odds with itself".into()),
        Ok(played) => played,
    };
    match played.against(&row.expect) {
        Some(wrong) => Err(wrong.into()),
        None => Ok(Completion::Completed),
    }
}

fn check_mixture(tools: &Tools, seed: u64) -> Result<Completion, Failed> {
    for attempt in 0.. {
        let rows = mixture::draw(seed, attempt);
        let wrong = match play(tools, &rows) {
            Err(NotPlayed::Impossible(reason)) => return Ok(not_run(&reason)),
            Err(NotPlayed::Conflict) => continue,
            Ok(played) => played.against(&mixture::expected(&rows)),
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

    /// Also where one of them panics, as a row does whose tools cannot be made.
    #[test]
    fn no_more_are_at_once_than_there_are_places() {
        let (places, now, most) = (Places::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
        let run = |n: usize| {
            places.during(|| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
                assert!(!n.is_multiple_of(5), "one of five ends so");
            });
        };
        let ended = std::thread::scope(|scope| {
            let run = &run;
            let all: Vec<_> = (0..20).map(|n| scope.spawn(move || run(n))).collect();
            all.into_iter().filter_map(|one| one.join().ok()).count()
        });
        assert_eq!((ended, *places.free.lock()), (16, 2));
        assert!(most.into_inner() <= 2);
    }
}
