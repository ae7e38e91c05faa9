//! Tests docs/matrix.html, or another page of `rocrepro matrix`, in a real browser, with windows of three widths and in
//! light and dark mode, and takes screenshots.

use std::fs;

use xshell::{Shell, cmd};

use crate::{TaskResult, evidence};

/// Names of the Chromium program in Debian, Ubuntu and Fedora.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Widths of the browser window, in pixels.
const WIDTHS: [u32; 3] = [1920, 1280, 390];

/// Script that tests the page. The page is shown in a frame, because its content security policy forbids scripts other
/// than its own.
const SCRIPT: &str = include_str!("page.js");

pub(crate) fn page(sh: &Shell, path: Option<&str>) -> TaskResult {
    let there = |name: &&&str| cmd!(sh, "which {name}").quiet().ignore_stdout().run().is_ok();
    let browser = NAMES.iter().find(there).ok_or("browser not found: install chromium")?;
    let folder = sh.current_dir().join("target/page");
    fs::create_dir_all(&folder)?;
    let shown = sh.current_dir().join(path.unwrap_or(evidence::MATRIX_PAGE));
    let mut wrong = Vec::new();
    for (width, dark) in WIDTHS.into_iter().flat_map(|width| [(width, false), (width, true)]) {
        let look = if dark { "dark" } else { "light" };
        let test = folder.join(format!("{width}.html"));
        // The script starts when the frame has loaded the page.
        let frame = format!(
            "<!doctype html><html style=\"color-scheme: light dark\"><pre id=said>the script did not run</pre>\
             <iframe width={width} height=900 style=border:0></iframe><script>{SCRIPT}\nframe.src = {:?};</script>",
            format!("file://{}", shown.display())
        );
        fs::write(&test, frame)?;
        let picture = folder.join(format!("{width}-{look}.png"));
        // The browser opens only the page of this project, so it may run without its sandbox, which root cannot use in
        // a container. For the option below, 0 means dark.
        let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!dark));
        let common = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", &scheme];
        let size = format!("--window-size={width},1300");
        cmd!(sh, "{browser} {common...} {size} --screenshot={picture} file://{shown}")
            .quiet()
            .ignore_stderr()
            .run()?;
        let test = format!("file://{}{}", test.display(), if dark { "?dark" } else { "" });
        // With a virtual time budget, the browser skips the time while the page is idle.
        let wait = ["--virtual-time-budget=20000", "--allow-file-access-from-files", "--dump-dom"];
        let seen =
            cmd!(sh, "{browser} {common...} {wait...} {test}").quiet().ignore_stderr().read()?;
        let said = seen.split_once("id=\"said\">").and_then(|(_, rest)| rest.split_once("</pre>"));
        let said = said.ok_or("the browser printed no result of the script")?.0;
        println!("{width} pixels wide, {look}: {said}; {}", picture.display());
        if said != "no errors" {
            wrong.push(format!("{width} pixels wide, {look}: {said}"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}
