//! Reads the call stacks of a program that crashes on the emulated device. The device starts rocrepro for that purpose
//! while the crashed thread waits, see `emulator/src/crash.rs`.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use device::{CONFIG_VARIABLE, CRASH_FILE_VARIABLE, CRASH_READER_VARIABLE, Config};
use judge::Crash;
use supervise::Start;

use crate::Session;

/// Makes the device read the call stacks of the program if the program crashes. The device appends them to `file`; if
/// `file` is `None`, it prints them on standard error.
pub fn watch(start: &mut Start, session: &Session, file: Option<&Path>) {
    let program = session.own_program();
    start.environment.insert(CRASH_READER_VARIABLE.into(), program.path().into());
    let file = file.map(Into::into).unwrap_or_default();
    start.environment.insert(CRASH_FILE_VARIABLE.into(), file);
}

/// Entry point of the process that reads the call stacks of a crash. Its arguments are a file name and the state of the
/// crashed thread. The result is appended to the file. If the file name is empty, `print` receives the result as text
/// for people.
pub fn read(mut arguments: impl Iterator<Item = OsString>, print: &dyn Fn(&str)) -> ExitCode {
    let (file, numbers) = (arguments.next(), arguments.next());
    let numbers = numbers.unwrap_or_default();
    let done = write(&file.unwrap_or_default(), &numbers.to_string_lossy(), print);
    // A crash whose stacks cannot be read is reported without them.
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write(file: &OsString, numbers: &str, print: &dyn Fn(&str)) -> io::Result<()> {
    // The limits of `read_crash` forbid files of more than some megabytes, so the file is opened before.
    let opened = match file.is_empty() {
        true => None,
        false => Some(File::options().append(true).create(true).open(file)?),
    };
    // `read_crash` also limits the memory of this process, so the program is read before.
    let pid = numbers.split(' ').next().unwrap_or_default();
    let code = code_of_process(pid);
    let mut crash = serde_json::to_value(supervise::read_crash(numbers)?)?;
    crash["code"] = code.into();
    let line = format!("{crash}\n");
    match opened {
        Some(mut file) => file.write_all(line.as_bytes()),
        None => {
            let crash: Crash = serde_json::from_str(&line)?;
            let mut text = format!("rocrepro: process {}: {}\n", crash.pid, crash.sentence());
            for line in crash.details().iter().chain(&crash.stack()) {
                text.push_str(&format!("rocrepro:   {line}\n"));
            }
            if let Some(hint) = gfx_of_process(pid).and_then(|gfx| crash.missing_code(gfx)) {
                text.push_str(&format!("rocrepro:   hint: {hint}\n"));
            }
            print(text.trim_end());
            Ok(())
        }
    }
}

/// Largest program whose GPU code is read, in bytes.
const LARGEST_PROGRAM: u64 = 256 << 20;

/// Returns the architectures for which the program of a process contains GPU code. If the dynamic loader was started
/// with the program as its argument, the loader is the executable of the process, so all mapped programs are read.
fn code_of_process(pid: &str) -> Vec<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut files: Vec<&str> = maps.lines().filter_map(program_in).collect();
    files.dedup();
    let small = |file: &&str| {
        std::fs::metadata(file).is_ok_and(|it| it.is_file() && it.len() <= LARGEST_PROGRAM)
    };
    let found = files.into_iter().filter(small).filter_map(|file| std::fs::read(file).ok());
    let mut found = found.map(|bytes| code_object::architectures_of_program(&bytes));
    found.find(|code| !code.is_empty()).unwrap_or_default()
}

/// Returns the path in a line of `/proc/PID/maps` if the file is not a library.
fn program_in(line: &str) -> Option<&str> {
    let path = line.find('/').map(|at| &line[at..])?;
    let name = path.rsplit('/').next().unwrap_or(path);
    (!name.contains(".so")).then_some(path)
}

/// Returns the architecture of the emulated device that a process uses. Reads the environment of that process, because
/// the environment of this process is empty.
fn gfx_of_process(pid: &str) -> Option<&'static str> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let start = format!("{CONFIG_VARIABLE}=");
    let config = variables.find_map(|variable| variable.strip_prefix(start.as_bytes()))?;
    serde_json::from_slice::<Config>(config).ok().map(|config| config.arch.name())
}

#[cfg(test)]
mod tests {
    use super::program_in;

    #[test]
    fn mapped_libraries_are_not_programs() {
        let start = "55d0-55d1 r-xp 00000000 08:01 7    ";
        let of = |path: &str| program_in(&format!("{start}{path}")).map(str::to_owned);
        assert_eq!(of("/home/a b/product").as_deref(), Some("/home/a b/product"));
        for other in ["/usr/lib/libamdhip64.so.7", "[heap]", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
