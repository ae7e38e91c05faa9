//! Builds the command line that `rocrepro bisect` prints so that users can repeat the decisive part of a search.

use crate::args::{Bisect, DeviceKind, ExecutionOptions, TargetOptions};
use bisect::{Axis, AxisKind, PACKAGE_PREFIX};
use engine::{DeviceChoice, rerun::quoted};

/// Returns the name of a point for use as an end of a search. If the point is a build that was made for a push, the
/// name includes the date, because servers list such builds by date.
fn end_name(axis: &Axis, point: usize) -> String {
    let day = axis.build(point).filter(|build| build.is_push()).and_then(|build| build.date);
    axis.label(point) + &day.map_or_else(String::new, |day| format!("@{day}"))
}

/// Returns the command line that searches between two points of this search. The options are destructured by name, so
/// that a new option does not compile until it is decided here whether it affects the answer.
pub(super) fn command(
    args: &Bisect,
    axis: &Axis,
    device: &DeviceChoice,
    skipped: &[usize],
    (good, bad): (usize, usize),
) -> String {
    let pair = [axis.label(good), axis.label(bad)];
    let values = |name: &str| Some(format!("{name}={}", pair.join(",")));
    let along = match &axis.kind {
        AxisKind::Builds => None,
        AxisKind::Stacks => values("rocm"),
        AxisKind::Environment(name) => values(&format!("env:{name}")),
        AxisKind::Parameter(name) => values(name),
        AxisKind::Package { name, .. } => values(&format!("{PACKAGE_PREFIX}{name}")),
    };
    let on_device = axis.kind.runs_on_device() || args.program.is_some();
    // An axis with values contains its ends, but the ends of builds need `--good` and `--bad`.
    let builds = axis.kind == AxisKind::Builds;
    let [good_end, bad_end] = [good, bad].map(|point| builds.then(|| end_name(axis, point)));
    let between = skipped.iter().filter(|point| builds && good < **point && **point < bad);
    let again = Bisect {
        case: args.case.clone(),
        good: good_end,
        bad: bad_end,
        fixed: args.fixed && builds,
        // `--axis` names the two versions, so `--source` is not needed.
        source: if along.is_some() { Vec::new() } else { args.source.clone() },
        sources_file: args.sources_file.clone(),
        // The repeated search needs no second search with `--to`.
        to: None,
        axis: along,
        packages: args.packages.clone(),
        skip: between.map(|point| axis.label(*point)).collect(),
        list: false,
        dry_run: false,
        regress: args.regress,
        fault: args.fault.clone(),
        rate: args.rate,
        install_cost: args.install_cost,
        budget_runs: args.budget_runs,
        budget_installs: args.budget_installs,
        budget_seconds: args.budget_seconds,
        disk_budget: args.disk_budget,
        cross: args.cross,
        // The evidence folder belongs to the first search.
        out: None,
        resume: false,
        replay: None,
        from: args.from.clone(),
        on: ExecutionOptions {
            target: TargetOptions {
                // The device is named, because `auto` may choose another one on another machine.
                device: match device {
                    // A tested command that rocrepro does not run on the device chooses its own device.
                    _ if args.case.is_none() && !on_device => DeviceKind::Auto,
                    DeviceChoice::Emulated(_) => DeviceKind::Emulated,
                    DeviceChoice::Gpu => DeviceKind::Gpu,
                },
                ..args.on.target.clone()
            },
            ..args.on.clone()
        },
        program: args.program.clone(),
        matching: args.matching.clone(),
        command: args.command.clone(),
    };
    let mut words = again.words();
    if matches!(axis.kind, AxisKind::Builds | AxisKind::Stacks) {
        // The points are stacks, so `--rocm` is not needed.
        let stack = format!("--rocm={}", args.on.target.rocm);
        words.iter().position(|word| *word == stack).map(|at| words.remove(at));
    }
    let all = ["rocrepro", "bisect"].map(str::to_owned).into_iter().chain(words);
    all.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}
