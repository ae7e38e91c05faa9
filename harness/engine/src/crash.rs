//! Reads the call stacks of a program that crashes on the emulated device. The device starts rocrepro for that purpose
//! while the crashed thread waits, see `emulator/src/crash.rs`.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use device::{CRASH_FILE_VARIABLE, CRASH_READER_VARIABLE};
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
    let mut line = serde_json::to_string(&supervise::read_crash(numbers)?)?;
    line.push('\n');
    match opened {
        Some(mut file) => file.write_all(line.as_bytes()),
        None => {
            let crash: Crash = serde_json::from_str(&line)?;
            let mut text = format!("rocrepro: process {}: {}\n", crash.pid, crash.sentence());
            for line in crash.details().iter().chain(&crash.stack()) {
                text.push_str(&format!("rocrepro:   {line}\n"));
            }
            print(text.trim_end());
            Ok(())
        }
    }
}
