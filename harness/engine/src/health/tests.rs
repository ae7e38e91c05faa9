use std::collections::BTreeSet;

use super::*;

#[derive(Default)]
struct Machine {
    boot: u32,
    now: u64,
    broken: bool,
    bad_stack: bool,
    ran_broken: usize,
    checks: usize,
}

/// Generates random numbers with a linear congruential generator.
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

fn before(health: &Health, now: SystemTime, check: &mut dyn FnMut() -> Checked) -> Gate {
    health.check_before_trial(now, check, &mut || None).unwrap()
}

/// Simulates one trial. Returns true if it ran, and the reason that the gate or the health check gave.
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
    if !health.suspect(&suspect, Vec::new()).unwrap() || killed {
        return (true, String::new());
    }
    let now = at(machine.now);
    match health.check_after_trial(now, &mut || check(machine), &mut || None).unwrap() {
        HealthResult::Broken(why) => (true, why),
        _ => (true, String::new()),
    }
}

/// In random sequences of trials, no innocent trial is ever blamed, and no trial runs on a broken GPU.
#[test]
fn blames_the_trial_that_broke_the_gpu() {
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
            if said.contains("the suspected cause is") {
                let culprit = broke.as_ref().expect("a working GPU is not called broken");
                assert!(
                    said.contains(&format!("the suspected cause is `{culprit}` of run r: it hung")),
                    "{seed}: {said}"
                );
                assert!(!innocent.contains(culprit));
                found += 1;
            }
            machine.now += draw.below(30);
            // A GPU may recover by itself, and a restart always repairs it.
            if machine.broken && draw.below(15) == 0 {
                machine.broken = false;
                machine.boot += u32::from(draw.below(2) == 0);
                came_back += 1;
            }
        }
        assert_eq!(machine.ran_broken, 0, "seed {seed}");
    }
    assert!(found > 1000 && came_back > 100, "{found} {came_back}");
}

/// Of 700 trials, the 350th breaks the GPU.
#[test]
fn broken_gpu_wastes_little_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Machine::default();
    let begun = machine.now;
    let ran = (0..700)
        .filter(|n| {
            let health = Health::new(folder.path().join("health.json"), "b".into(), "s".into());
            trial(&health, &mut machine, &format!("t{n}"), *n == 350, false, false).0
        })
        .count();
    assert_eq!(ran, 351);
    // 351 trials of 1 s, the first health check (1 s), and one that fails by its time limit (20 s).
    assert_eq!((machine.checks, machine.now - begun), (2, 351 + 1 + 20));
}

#[test]
fn unusable_health_check_closes_no_gpu() {
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
    // The state is stored per stack.
    machine.bad_stack = false;
    assert_eq!(before(&health("good"), at(0), &mut || check(&mut machine)), Gate::Open);
    assert!(health("good").suspect(&suspect, Vec::new()).unwrap());
    assert!(health("good").is_due(at(0)));
}

#[test]
fn recovery_command_reopens_a_broken_gpu() {
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
    let after = health.check_after_trial(at(0), &mut check, &mut useless).unwrap();
    let reason = "the GPU did not pass the health check (hang, even after `true`, which ended with exit code 0); the suspected cause is `t` of run r: it hung";
    assert_eq!(after, HealthResult::Broken(reason.to_owned()));
    // For ten minutes, no further health check is made.
    let gate = before(&health, at(599), &mut || unreachable!("it is left alone"));
    let left = "; the next health check is in 1 s; `--recover COMMAND` checks now";
    assert_eq!(gate, Gate::Closed(format!("{reason}{left}")));
    assert!(!health.is_due(at(599)) && health.is_due(at(600)));
    broken.set(false);
    assert_eq!(before(&health, at(600), &mut check), Gate::Open);
    broken.set(true);
    assert!(health.suspect(&suspect, Vec::new()).unwrap());
    let mut reset = || {
        broken.set(false);
        Some("`reset`, which ended with exit code 0".to_owned())
    };
    let after = health.check_after_trial(at(700), &mut check, &mut reset).unwrap();
    assert_eq!(after, HealthResult::Recovered("`reset`, which ended with exit code 0".to_owned()));
    assert_eq!(before(&health, at(701), &mut check), Gate::Open);
}

#[test]
fn recovery_command_runs_without_waiting() {
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
    assert!(matches!(
        health.check_after_trial(at(0), &mut check, &mut || None).unwrap(),
        HealthResult::Broken(_)
    ));
    let mut reset = || {
        broken.set(false);
        Some("`reset`, which ended with exit code 0".to_owned())
    };
    assert_eq!(health.check_before_trial(at(1), &mut check, &mut reset).unwrap(), Gate::Open);
    assert_eq!(before(&health, at(2), &mut || unreachable!("it works")), Gate::Open);
}

/// The GPU is also closed to other processes, at later times, and on a stack on which the health check always fails.
#[test]
fn unkillable_process_closes_the_gpu() {
    for bad_stack in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let health = || Health::new(folder.path().join("health.json"), "b".into(), "s".into());
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let stuck = Stuck::from_pid(child.id().try_into().unwrap()).unwrap();
        let mut machine = Machine { bad_stack, ..Machine::default() };
        before(&health(), at(0), &mut || check(&mut machine));
        let suspect = Suspect::new("t".into(), "r".into(), "it could not be killed".into());
        assert!(health().suspect(&suspect, vec![stuck]).unwrap());
        let mut useless = || Some("`true`, which ended with exit code 0".to_owned());
        for seconds in [0, 1, 601, 10_000] {
            assert!(health().is_due(at(seconds)));
            let mut check = || unreachable!("no check is made");
            let gate = health().check_before_trial(at(seconds), &mut check, &mut useless).unwrap();
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

#[test]
fn distinguishes_a_broken_gpu_from_a_broken_stack() {
    let folder = tempfile::tempdir().unwrap();
    let health =
        |gpu: &str| Health::new(folder.path().join(format!("{gpu}.json")), "b".into(), "s".into());
    let (mut dead, mut good) = (Machine { broken: true, ..Machine::default() }, Machine::default());
    assert_eq!(health("a").first_check_passed(), None);
    let gate = before(&health("a"), at(0), &mut || check(&mut dead));
    assert_eq!(
        (gate, health("a").first_check_passed()),
        (Gate::Unwatched("hang".to_owned()), Some(false))
    );
    assert_eq!(before(&health("c"), at(0), &mut || check(&mut good)), Gate::Open);
    assert_eq!(health("c").first_check_passed(), Some(true));
    let reason = health("a").mark_broken(at(0), "c").unwrap();
    assert_eq!(
        reason,
        "the GPU did not pass the health check (hang), but c passed it with the same stack"
    );
    let gate = before(&health("a"), at(1), &mut || unreachable!("it is left alone"));
    assert!(matches!(gate, Gate::Closed(why) if why.starts_with(&reason)));
    dead.broken = false;
    assert_eq!(before(&health("a"), at(600), &mut || check(&mut dead)), Gate::Open);
    assert_eq!(health("a").first_check_passed(), Some(true));
}

#[test]
fn damaged_file_or_restart_resets_the_state() {
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
fn health_check_parses() {
    assert!(Check::new().is_some());
}
