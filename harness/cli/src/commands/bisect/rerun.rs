//! The command that searches between two points of a search, and so repeats what its answer rests on.

use crate::args::{Bisect, DeviceKind, On, Target};
use bisect::{Axis, AxisKind, PACKAGE_PREFIX};
use engine::{DeviceChoice, rerun::quoted};

/// What names a point as an end. The hosts list pushes by their days.
fn end(axis: &Axis, point: usize) -> String {
    let day = axis.build(point).filter(|build| build.is_push()).and_then(|build| build.date);
    axis.label(point) + &day.map_or_else(String::new, |day| format!("@{day}"))
}

/// The options of the search with two of its points as ends. Every option is named: of a new one somebody has to say whether an
/// answer depends on it.
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
    // Values stand in the order of the option; builds have one of their own.
    let builds = axis.kind == AxisKind::Builds;
    let [good_end, bad_end] = [good, bad].map(|point| builds.then(|| end(axis, point)));
    let between = skipped.iter().filter(|point| builds && good < **point && **point < bad);
    let again = Bisect {
        case: args.case.clone(),
        good: good_end,
        bad: bad_end,
        fixed: args.fixed && builds,
        // The two versions are named by the axis.
        source: if along.is_some() { Vec::new() } else { args.source.clone() },
        sources_file: args.sources_file.clone(),
        // Of the two builds one phase is enough.
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
        // Its files are another search's.
        out: None,
        resume: false,
        replay: None,
        from: args.from.clone(),
        on: On {
            target: Target {
                // The one that was there, whatever another machine has.
                device: match device {
                    // What a command runs on is its own affair.
                    _ if args.case.is_none() && !on_device => DeviceKind::Auto,
                    DeviceChoice::Emulated(_) => DeviceKind::Emulated,
                    DeviceChoice::Gpu => DeviceKind::Gpu,
                },
                ..args.on.target.clone()
            },
            record: None,
            ..args.on.clone()
        },
        program: args.program.clone(),
        matching: args.matching.clone(),
        command: args.command.clone(),
    };
    let mut words = again.words();
    if matches!(axis.kind, AxisKind::Builds | AxisKind::Stacks) {
        // The points are the stacks.
        let stack = format!("--rocm={}", args.on.target.rocm);
        words.iter().position(|word| *word == stack).map(|at| words.remove(at));
    }
    let all = ["rocrepro", "bisect"].map(str::to_owned).into_iter().chain(words);
    all.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}
