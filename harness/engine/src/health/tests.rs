use std::collections::BTreeSet;

use super::*;

/// A pretend card and its machine, and what it has seen.
#[derive(Default)]
struct Machine {
    boot: u32,
    now: u64,
    broken: bool,
    /// The health check fails here, whatever the card does.
    bad_stack: bool,
    /// Trials that ran while it was broken: time in vain, and wrong blame.
    ran_broken: usize,
    checks: usize,
}

/// Numbers that a seed draws: a linear congruence, of which the upper bits are taken.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

fn check(machine: &mut Machine) -> Checked {
    machine.checks += 1;
    machine.now += if machine.broken { 20 } else { 1 };
    match machine.broken || machine.bad_stack {
        true => Checked::Failed("hang".to_owned()),
        false => Checked::Passed,
    }
}

/// Nobody named a command that mends.
fn before(health: &Health, now: SystemTime, check: &mut dyn FnMut() -> Checked) -> Gate {
    health.before(now, check, &mut || None).unwrap()
}

/// One trial: what it does to the card, and what the harness does around it. Whether it ran, and what the gate or the look said.
fn trial(
    health: &Health,
    machine: &mut Machine,
    name: &str,
    breaks: bool,
    fails: bool,
    killed: bool,
) -> (bool, String) {
    let now = at(machine.now);
    match before(health, now, &mut || check(machine)) {
        Gate::Open | Gate::Unwatched(_) => {}
        Gate::Closed(why) => return (false, why),
    }
    machine.now += 1;
    machine.ran_broken += usize::from(machine.broken);
    machine.broken |= breaks;
    if !(breaks || fails || machine.broken) {
        return (true, String::new());
    }
    let suspect = Suspect::new(name.to_owned(), "r".to_owned(), "it hung".to_owned());
    // Whoever is killed here leaves the look to the next one.
    if !health.suspect(&suspect, Vec::new()).unwrap() || killed {
        return (true, String::new());
    }
    let now = at(machine.now);
    match health.after(now, &mut || check(machine), &mut || None).unwrap() {
        After::Broken(why) => (true, why),
        _ => (true, String::new()),
    }
}

/// What must hold whatever happens: a trial that did not break the card is never blamed, and none runs on a broken card of which the
/// harness was not killed, but that which broke it.
#[test]
fn a_broken_card_is_found_and_the_right_trial_is_blamed() {
    let (mut found, mut came_back) = (0, 0);
    for seed in 0..500 {
        let folder = tempfile::tempdir().unwrap();
        let mut draw = Draw(seed * 7919 + 1);
        let mut machine = Machine::default();
        let (mut broke, mut innocent) = (None::<String>, BTreeSet::new());
        for n in 0..60 {
            let health = Health::new(
                folder.path().join("health.json"),
                machine.boot.to_string(),
                "stack".to_owned(),
            );
            let name = format!("t{n}");
            let (breaks, fails) = (draw.below(12) == 0, draw.below(4) == 0);
            let was_broken = machine.broken;
            let (ran, said) =
                trial(&health, &mut machine, &name, breaks, fails, draw.below(5) == 0);
            if ran && breaks && !was_broken {
                broke = Some(name.clone());
            } else {
                innocent.insert(name.clone());
            }
            if said.contains("is the suspect") {
                let culprit =
                    broke.as_ref().expect("a card that nobody broke is not called broken");
                assert!(
                    said.contains(&format!("`{culprit}` of run r is the suspect: it hung")),
                    "{seed}: {said}"
                );
                assert!(!innocent.contains(culprit));
                found += 1;
            }
            machine.now += draw.below(30);
            // A card may come back by itself after a while, and always does with a new start of the machine.
            if machine.broken && draw.below(15) == 0 {
                machine.broken = false;
                machine.boot += u32::from(draw.below(2) == 0);
                came_back += 1;
            }
        }
        assert_eq!(machine.ran_broken, 0, "seed {seed}");
    }
    // The draws came by what they are for.
    assert!(found > 1000 && came_back > 100, "{found} {came_back}");
}

/// Seven hundred trials, of which the 350th breaks the card: what is waited for in vain stays short.
#[test]
fn a_night_with_a_card_that_dies_is_short() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Machine::default();
    let begun = machine.now;
    let ran = (0..700)
        .filter(|n| {
            // Each in a process of its own, as under nextest.
            let health = Health::new(folder.path().join("health.json"), "b".into(), "s".into());
            trial(&health, &mut machine, &format!("t{n}"), *n == 350, false, false).0
        })
        .count();
    assert_eq!(ran, 351);
    // The trials, the first check, and one in vain.
    assert_eq!((machine.checks, machine.now - begun), (2, 351 + 1 + 20));
}

#[test]
fn a_stack_on_which_the_check_never_passed_closes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let health =
        |stack: &str| Health::new(folder.path().join("health.json"), "b".into(), stack.to_owned());
    let mut machine = Machine { bad_stack: true, ..Machine::default() };
    let bad = health("bad");
    assert!(bad.is_due(at(0)));
    let gate = before(&bad, at(0), &mut || check(&mut machine));
    assert_eq!(gate, Gate::Unwatched("hang".to_owned()));
    assert_eq!(before(&bad, at(0), &mut || check(&mut machine)), Gate::Open);
    let suspect = Suspect::new("t".into(), "r".into(), "it hung".into());
    assert!(!bad.suspect(&suspect, Vec::new()).unwrap());
    assert_eq!(machine.checks, 1);
    // Another stack on the same card is asked for itself.
    machine.bad_stack = false;
    assert_eq!(before(&health("good"), at(0), &mut || check(&mut machine)), Gate::Open);
    assert!(health("good").suspect(&suspect, Vec::new()).unwrap());
    assert!(health("good").is_due(at(0)));
}

#[test]
fn a_card_is_mended_by_the_command_that_somebody_named() {
    let folder = tempfile::tempdir().unwrap();
    let health = Health::new(folder.path().join("health.json"), "b".into(), "s".into());
    let broken = std::cell::Cell::new(false);
    let mut check = || match broken.get() {
        true => Checked::Failed("hang".to_owned()),
        false => Checked::Passed,
    };
    assert_eq!(before(&health, at(0), &mut check), Gate::Open);
    broken.set(true);
    let suspect = Suspect::new("t".into(), "r".into(), "it hung".into());
    assert!(health.suspect(&suspect, Vec::new()).unwrap());
    let mut useless = || Some("`true`, which ended with exit code 0".to_owned());
    let after = health.after(at(0), &mut check, &mut useless).unwrap();
    let told = "the GPU did not pass the health check (hang, also after `true`, which ended with exit code 0); `t` of run r is the \
                suspect: it hung";
    assert_eq!(after, After::Broken(told.to_owned()));
    // For ten minutes nobody waits for it; then it is asked again.
    let gate = before(&health, at(599), &mut || unreachable!("it is left alone"));
    let left = "; the next health check is in 1 s, and `--recover COMMAND` makes one at once";
    assert_eq!(gate, Gate::Closed(format!("{told}{left}")));
    assert!(!health.is_due(at(599)) && health.is_due(at(600)));
    broken.set(false);
    assert_eq!(before(&health, at(600), &mut check), Gate::Open);
    broken.set(true);
    assert!(health.suspect(&suspect, Vec::new()).unwrap());
    let mut reset = || {
        broken.set(false);
        Some("`reset`, which ended with exit code 0".to_owned())
    };
    let after = health.after(at(700), &mut check, &mut reset).unwrap();
    assert_eq!(after, After::Recovered("`reset`, which ended with exit code 0".to_owned()));
    assert_eq!(before(&health, at(701), &mut check), Gate::Open);
}

/// Who names a command that mends waits for nothing.
#[test]
fn a_card_that_is_left_alone_is_mended_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let health = Health::new(folder.path().join("health.json"), "b".into(), "s".into());
    let broken = std::cell::Cell::new(false);
    let mut check = || match broken.get() {
        true => Checked::Failed("hang".to_owned()),
        false => Checked::Passed,
    };
    let suspect = Suspect::new("t".into(), "r".into(), "it hung".into());
    assert_eq!(before(&health, at(0), &mut check), Gate::Open);
    broken.set(true);
    assert!(health.suspect(&suspect, Vec::new()).unwrap());
    assert!(matches!(health.after(at(0), &mut check, &mut || None).unwrap(), After::Broken(_)));
    let mut reset = || {
        broken.set(false);
        Some("`reset`, which ended with exit code 0".to_owned())
    };
    assert_eq!(health.before(at(1), &mut check, &mut reset).unwrap(), Gate::Open);
    assert_eq!(before(&health, at(2), &mut || unreachable!("it works")), Gate::Open);
}

/// Also in another process, also ten minutes later, and on a stack on which the health check does not pass.
#[test]
fn a_card_with_a_process_that_stays_is_closed_until_that_is_gone() {
    for bad_stack in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let health = || Health::new(folder.path().join("health.json"), "b".into(), "s".into());
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let stuck = Stuck::of(child.id().try_into().unwrap()).unwrap();
        let mut machine = Machine { bad_stack, ..Machine::default() };
        before(&health(), at(0), &mut || check(&mut machine));
        let suspect = Suspect::new("t".into(), "r".into(), "it could not be killed".into());
        assert!(health().suspect(&suspect, vec![stuck]).unwrap());
        let mut useless = || Some("`true`, which ended with exit code 0".to_owned());
        for seconds in [0, 1, 601, 10_000] {
            assert!(health().is_due(at(seconds)));
            let mut check = || unreachable!("nobody looks beside it");
            let gate = health().before(at(seconds), &mut check, &mut useless).unwrap();
            let Gate::Closed(why) = gate else { panic!("{gate:?}") };
            let stays = format!("process {} of a trial could not be killed", child.id());
            assert!(why.contains(&stays) && why.contains("`t` of run r"), "{why}");
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        let checks = machine.checks;
        assert_eq!(before(&health(), at(10_001), &mut || check(&mut machine)), Gate::Open);
        assert_eq!(machine.checks, checks + 1);
        assert!(!health().is_due(at(10_002)));
    }
}

/// What passes on one GPU of a machine is not the stack's fault on another.
#[test]
fn a_gpu_that_never_worked_is_told_from_a_stack_that_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let health =
        |gpu: &str| Health::new(folder.path().join(format!("{gpu}.json")), "b".into(), "s".into());
    let (mut dead, mut good) = (Machine { broken: true, ..Machine::default() }, Machine::default());
    assert_eq!(health("a").passes(), None);
    let gate = before(&health("a"), at(0), &mut || check(&mut dead));
    assert_eq!((gate, health("a").passes()), (Gate::Unwatched("hang".to_owned()), Some(false)));
    assert_eq!(before(&health("c"), at(0), &mut || check(&mut good)), Gate::Open);
    assert_eq!(health("c").passes(), Some(true));
    let told = health("a").is_the_gpu(at(0), "c").unwrap();
    assert_eq!(told, "the GPU did not pass the health check (hang), and with the same stack c did");
    let gate = before(&health("a"), at(1), &mut || unreachable!("it is left alone"));
    assert!(matches!(gate, Gate::Closed(why) if why.starts_with(&told)));
    // Somebody has mended it.
    dead.broken = false;
    assert_eq!(before(&health("a"), at(600), &mut || check(&mut dead)), Gate::Open);
    assert_eq!(health("a").passes(), Some(true));
}

#[test]
fn a_damaged_file_and_a_new_start_of_the_machine_are_a_new_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("health.json");
    let health = |boot: &str| Health::new(file.clone(), boot.into(), "s".into());
    let mut checks = 0;
    for damage in ["", "{", "[1]", "{\"boot\":\"b\",\"stacks\":3}"] {
        fs::write(&file, damage).unwrap();
        let mut check = || {
            checks += 1;
            Checked::Passed
        };
        assert_eq!(before(&health("b"), at(0), &mut check), Gate::Open, "{damage}");
        assert!(!health("b").is_due(at(0)));
    }
    assert_eq!(checks, 4);
    assert!(health("c").is_due(at(0)));
}

#[test]
fn the_health_check_is_a_case() {
    assert!(Check::new().is_some());
}
