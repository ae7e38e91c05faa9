//! Measures, on histories of many kinds, whether more answers are wrong than the probabilities in the answers predict,
//! and whether an answer calls a build good that has failed.
//!
//! `ROCREPRO_HISTORIES=100 cargo test -p search --test histories -- --nocapture` runs that many histories of each kind
//! and prints a table. The default is 10, together 360.

mod kinds;
mod oracle;

use kinds::{KINDS, Kind, LAST, Random, World};
use oracle::{Claim, at_least, judge};
use search::bisect::{Action, Answer, BisectSettings, BuildOutcome, Event, State, next_action};

const DEFAULT_HISTORIES: usize = 10;

/// The test fails if one kind of history has too many wrong answers to be chance. That is the case if the observed
/// number of wrong answers, or a larger one, is less likely than this, given the probabilities that the answers state.
const LEAST_CHANCE: f64 = 0.01;

fn search(world: &World, random: &mut Random) -> (Answer, State) {
    let mut setup = BisectSettings::new(LAST);
    setup.other_line[0] = world.release;
    let mut state = State::new(setup);
    loop {
        let event = match next_action(&state) {
            Action::Finish(answer) => return (answer, state),
            Action::Install(build) if world.unfetchable[build] => {
                Event::Unusable { build, seconds: 0.0 }
            }
            Action::Install(build) => Event::Installed { build, seconds: 0.0 },
            Action::Run(build) if world.silent[build] => Event::Unusable { build, seconds: 0.0 },
            Action::Run(build) => {
                let seen = match random.share() {
                    share if share < world.rates[build] => BuildOutcome::Bad,
                    share if share < world.rates[build] + world.others[build] => {
                        BuildOutcome::Other
                    }
                    _ => BuildOutcome::Good,
                };
                Event::Ran { build, seen, seconds: 0.0 }
            }
        };
        state.observe(event);
    }
}

/// Returns the builds that have failed although the answer calls them good and does not mention their failures.
fn called_good(answer: &Answer, state: &State) -> Vec<usize> {
    let Answer::Found(edge) = answer else { return Vec::new() };
    let failed = state.tallies().filter(|(n, tally)| *n <= edge.last_good && tally.bad > 0);
    failed.map(|(n, _)| n).collect()
}

/// Results of all histories of one kind.
#[derive(Default)]
struct Row {
    names: std::collections::BTreeMap<&'static str, usize>,
    doubts: Vec<f64>,
    wrong: Vec<String>,
    called_good: Vec<String>,
    runs: u32,
}

fn run((name, make): &Kind, number: usize, histories: usize) -> Row {
    let mut row = Row::default();
    for n in 0..histories {
        let seed = (number * 1_000_003 + n + 1) as u64;
        let mut random = Random::new(seed);
        let world = make(&mut random);
        let (answer, state) = search(&world, &mut random);
        row.runs += state.runs();
        let Claim { name: claim, stated, right } = judge(&answer, &world);
        *row.names.entry(claim).or_default() += 1;
        row.doubts.extend(stated.map(|stated| 1.0 - stated));
        if !right {
            row.wrong.push(format!("{name}, seed {seed}: {answer:?}, but {:?}", world.rates));
        }
        let failed = called_good(&answer, &state);
        if !failed.is_empty() {
            row.called_good.push(format!("{name}, seed {seed}: {answer:?}, but {failed:?} failed"));
        }
    }
    row
}

#[test]
fn answers_of_each_kind_are_wrong_at_most_as_often_as_stated() {
    let asked = std::env::var("ROCREPRO_HISTORIES").ok().and_then(|n| n.parse().ok());
    let histories = asked.unwrap_or(DEFAULT_HISTORIES);
    let rows: Vec<Row> =
        KINDS.iter().enumerate().map(|(n, kind)| run(kind, n, histories)).collect();
    println!("| kind | answers | stated % | wrong | chance | failed builds called good | runs |");
    println!("|---|---|---|---|---|---|---|");
    let mut problems = Vec::new();
    let mut print = |name: &str, row: &Row, answers: String, total: usize| {
        let doubt = row.doubts.iter().sum::<f64>() / row.doubts.len().max(1) as f64;
        let chance = at_least(row.wrong.len(), &row.doubts);
        println!(
            "| {name} | {answers} | {:.1} | {} | {chance:.3} | {} | {:.0} |",
            100.0 * (1.0 - doubt),
            row.wrong.len(),
            row.called_good.len(),
            f64::from(row.runs) / total as f64
        );
        if chance < LEAST_CHANCE {
            problems.push(format!("{name}: {} of {total} are wrong", row.wrong.len()));
            problems.extend(row.wrong.iter().take(3).cloned());
        }
    };
    let mut all = Row::default();
    for ((name, _), mut row) in KINDS.iter().zip(rows) {
        let answers = row.names.iter().map(|(answer, n)| format!("{n} {answer}"));
        print(name, &row, answers.collect::<Vec<_>>().join(", "), histories);
        all.doubts.append(&mut row.doubts);
        all.wrong.append(&mut row.wrong);
        all.called_good.append(&mut row.called_good);
        all.runs += row.runs;
    }
    print("all", &all, String::new(), histories * KINDS.len());
    problems.extend(all.called_good);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Tests the oracle itself: a claim that the true rates contradict is wrong.
#[test]
fn oracle_rejects_a_rare_failure_called_good() {
    let (_, make) = KINDS[5];
    let world = make(&mut Random::new(1));
    let rare = world.rates.iter().position(|rate| *rate > 0.0).expect("a rare failure");
    let edge = |last_good: usize| search::bisect::Edge {
        last_good,
        first_bad: last_good + 1,
        confidence: 0.9,
        rate: 1.0,
        noise: 0.0,
        last_good_rate_below: 0.1,
    };
    assert!(!judge(&Answer::Found(edge(rare + 7)), &world).right);
    assert!(judge(&Answer::Found(edge(rare - 1)), &world).right);
    let worse = |after, until| Answer::Worse { after, until, rate: 0.1, edge: edge(rare + 7) };
    assert!(judge(&worse(rare - 1, rare), &world).right);
    assert!(!judge(&worse(rare + 1, rare + 2), &world).right);
}

#[test]
fn binomial_tail_matches_known_values() {
    assert!((at_least(0, &[0.1; 5]) - 1.0).abs() < 1e-12);
    assert!((at_least(1, &[0.5, 0.5]) - 0.75).abs() < 1e-12);
    assert!((at_least(5, &[0.1; 5]) - 1e-5).abs() < 1e-12);
}
