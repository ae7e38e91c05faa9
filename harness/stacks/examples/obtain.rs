//! Obtains a ROCm build and prints its prefix. The arguments are `GFX SOURCE BUILD`, for example `gfx1151 nightly
//! last`. The nightly CI task uses this program. It is also the smallest example of how to use the crate `stacks`.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use stacks::{BuildEvent, BuildQuery, BuildStore, Sources, list_builds};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [gfx, source, build] = arguments.as_slice() else {
        eprintln!("usage: obtain GFX SOURCE BUILD");
        return ExitCode::from(2);
    };
    match obtain(gfx, source, build) {
        Ok((id, prefix)) => {
            println!("{id}\n{prefix}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn obtain(
    gfx: &str,
    source: &str,
    build: &str,
) -> Result<(String, String), Box<dyn std::error::Error>> {
    let sources = Sources::load(None)?.select(&[source.to_owned()])?;
    let history = list_builds(
        &sources,
        &BuildQuery { gfx: gfx.to_owned(), from: None, to: None, beside_main: Vec::new() },
        &AtomicBool::new(false),
    )?;
    let holes = history.holes.iter().map(ToString::to_string);
    for reason in holes.chain(history.silent.clone()) {
        eprintln!("note: {reason}");
    }
    let build = &history.builds[history.find(build)?];
    let progress = |event: BuildEvent<'_>| match event {
        BuildEvent::Download { name, done, total: Some(total) } if done == total => {
            eprintln!("{name}: {done} bytes");
        }
        BuildEvent::Retry { reason, after } => {
            eprintln!("{reason}; again in {} s", after.as_secs())
        }
        _ => {}
    };
    let obtained =
        BuildStore::new(stacks::StackCache::from_environment()?).obtain(build, &progress)?;
    Ok((build.id.clone(), obtained.prefix.display().to_string()))
}
