//! The picture of all cases on all releases, as the project shows it.

use std::fs;

use xshell::{Shell, cmd};

use crate::{Done, built};

/// Each release with the architectures that its runtime knows.
const COLUMNS: [(&str, &[&str]); 4] = [
    ("7.2.4", &["gfx1151", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"]),
    ("6.4.3", &["gfx1151", "gfx90a", "gfx1030", "gfx1100"]),
    ("5.7.1", &["gfx1100", "gfx908", "gfx90a", "gfx1030"]),
    ("5.2.3", &["gfx90a", "gfx906", "gfx908", "gfx1030"]),
];

/// Where records, store and page are made; the same command goes on there after an interrupt.
const FOLDER: &str = "target/evidence";

/// The page that is shown.
pub(crate) const SHOWN: &str = "docs/matrix.html";

/// A page that people open.
const MOST_BYTES: u64 = 2_000_000;

/// Makes store and page by one command, and copies the page. `more` are options of `matrix`, such as `--jobs=1`.
pub(crate) fn evidence(sh: &Shell, more: &[String]) -> Done {
    let program = built(sh)?;
    let on = |(release, gfx): &(&str, &[&str])| -> Vec<String> {
        gfx.iter().map(|gfx| format!("--on=debian:{release}@{gfx}")).collect()
    };
    let on: Vec<String> = COLUMNS.iter().flat_map(on).collect();
    // Known hangs of the oldest release would else cost minutes.
    let how = ["--quiet-timeout=8", "--out", FOLDER, "--store", "target/evidence/results.db"];
    let ran = cmd!(sh, "{program} matrix {on...} {how...} {more...}").ignore_status();
    ran.run()?;
    let page = sh.current_dir().join(FOLDER).join("index.html");
    let bytes = fs::metadata(&page)?.len();
    if bytes >= MOST_BYTES {
        return Err(format!("the page has {bytes} bytes").into());
    }
    sh.copy_file(page, SHOWN)?;
    println!("{SHOWN}: {bytes} bytes; read it before it is committed");
    Ok(())
}
