//! Generates the reports in reports/examples with the documented commands. Reports that need Python packages are made
//! by hand.

use std::path::Path;

use xshell::{Shell, cmd};

use crate::{STACK, TaskResult, build_and_fetch};

/// Folders of the examples, each with a trial that fails on [`STACK`].
const EXAMPLES: [(&str, &str); 2] = [
    ("capture-retry-after-invalidated", "capture/retry-after-invalidated-capture[node=copy]"),
    ("graphs-long-chain", "graphs/long-chain[nodes=30000]"),
];

/// Folders of the examples about program cases, each with its trial. Such a folder contains only a report.
const PROGRAMS: [(&str, &str); 2] = [
    ("programs-masked-multiply", "programs/masked-multiply[level=O1,add=v]"),
    ("programs-missing-architecture", "programs/missing-architecture"),
];

const PASSING_RELEASES: [&str; 2] = ["debian:5.7.1", "debian:6.4.3"];

/// Files of an example that are published. Records and journals are left out, because they depend on the machine.
const PUBLISHED_FILES: [&str; 6] =
    ["case.yaml", "export.json", "minimise.json", "mitigate.json", "repro.cpp", "report.md"];

pub(crate) fn examples(sh: &Shell) -> TaskResult {
    let program = build_and_fetch(sh)?;
    for release in PASSING_RELEASES {
        cmd!(sh, "{program} rocm fetch {release} --with dev").run()?;
    }
    cmd!(sh, "{program} rocm fetch {STACK} --with dev").run()?;
    for (name, trial) in PROGRAMS {
        let made = sh.create_temp_dir()?;
        let out = made.path();
        let on = ["--rocm", STACK, "--device", "emulated", "--gfx", "gfx1151"];
        let report = cmd!(sh, "{program} report {trial} {on...} --out {out}");
        report.env_remove("LD_LIBRARY_PATH").run()?;
        publish(sh, out, name, "report.md")?;
    }
    for (name, trial) in EXAMPLES {
        let made = sh.create_temp_dir()?;
        let out = made.path();
        let on = ["--rocm", STACK, "--device", "emulated", "--gfx", "gfx1151"];
        cmd!(sh, "{program} minimise {trial} {on...} --out {out}").run()?;
        cmd!(sh, "{program} mitigate {trial} {on...} --out {out}").run()?;
        // cargo sets this variable. The report would otherwise show it as a property of the machine.
        let report = cmd!(sh, "{program} report {trial} {on...} --out {out}");
        report.env_remove("LD_LIBRARY_PATH").run()?;
        for file in PUBLISHED_FILES {
            publish(sh, out, name, file)?;
        }
    }
    Ok(())
}

/// Copies a generated file into the examples, and replaces the path of the cache in it.
fn publish(sh: &Shell, made: &Path, name: &str, file: &str) -> xshell::Result<()> {
    let mut text = sh.read_file(made.join(file))?;
    if let Some(cache) = std::env::var("XDG_CACHE_HOME").ok().filter(|cache| !cache.is_empty()) {
        text = text.replace(&cache, "~/.cache");
    }
    sh.write_file(format!("reports/examples/{name}/{file}"), text)
}
