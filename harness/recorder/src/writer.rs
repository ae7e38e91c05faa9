//! Writes the trace of a process.

use std::{
    collections::HashSet,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    objects::Objects,
    trace::{CALLS, CONTENTS, Content, ProcessStart, TRACE_VERSION, TraceCall, TraceLine},
};

/// Environment variable with the folder into which processes write their traces. Without it, nothing is recorded.
pub const FOLDER_VARIABLE: &str = "ROCREPRO_RECORD";

/// Maximum size in bytes of memory contents that are stored in a file. For larger contents, the trace states only their
/// XXH3 hash.
const MAX_CONTENT_BYTES: usize = 64 << 20;

/// Maximum total size in bytes of the memory contents that one process stores in files.
const MAX_STORED_BYTES: u64 = 4 << 30;

/// The trace of one process.
pub(crate) struct Writer {
    folder: PathBuf,
    file: Mutex<TraceFile>,
    contents: Mutex<Contents>,
    objects: Mutex<Objects>,
}

struct TraceFile {
    file: File,
    /// Number of the next call.
    next: u64,
    /// Number of lines that could not be written completely.
    lost: u64,
}

#[derive(Default)]
struct Contents {
    stored: HashSet<String>,
    bytes: u64,
}

/// Locks a mutex. Because a panic ends the process at the boundary with C, the data is never left half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    /// Creates the folder and the trace of this process in `folder`, and writes the first line. `library` is the path
    /// of the libamdhip64 that the process loaded.
    pub(crate) fn create(folder: &Path, library: &str) -> io::Result<Writer> {
        let process = std::process::id();
        let folder = new_folder(folder, process)?;
        fs::create_dir(folder.join(CONTENTS))?;
        let file = OpenOptions::new().append(true).create_new(true).open(folder.join(CALLS))?;
        let words = fs::read("/proc/self/cmdline").unwrap_or_default();
        let words = words.strip_suffix(b"\0").unwrap_or(&words).split(|byte| *byte == 0);
        let command = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let library = library.to_owned();
        let writer = Writer {
            folder,
            file: Mutex::new(TraceFile { file, next: 0, lost: 0 }),
            contents: Mutex::default(),
            objects: Mutex::default(),
        };
        writer.line(&TraceLine::Start(ProcessStart {
            version: TRACE_VERSION,
            process,
            command,
            library,
        }));
        Ok(writer)
    }

    /// Returns the objects that the program has created.
    pub(crate) fn objects(&self) -> MutexGuard<'_, Objects> {
        lock(&self.objects)
    }

    /// Writes the beginning of a call and returns its number. The lines of calls are in the order of these numbers.
    pub(crate) fn begin(&self, mut call: TraceCall) -> u64 {
        let mut file = lock(&self.file);
        call.number = file.next;
        file.next += 1;
        let number = call.number;
        file.write(&TraceLine::Call(call));
        number
    }

    /// Writes one line.
    pub(crate) fn line(&self, line: &TraceLine) {
        lock(&self.file).write(line);
    }

    /// Stores bytes, unless they have already been stored, and returns their description.
    pub(crate) fn store(&self, bytes: &[u8]) -> Content {
        let xxh3 = plan::digest(bytes);
        let length = bytes.len() as u64;
        let mut contents = lock(&self.contents);
        let mut stored = contents.stored.contains(&xxh3);
        if !stored
            && bytes.len() <= MAX_CONTENT_BYTES
            && contents.bytes + length <= MAX_STORED_BYTES
        {
            // The file is completely written before a line refers to it.
            stored = fs::write(self.folder.join(CONTENTS).join(&xxh3), bytes).is_ok();
            if stored {
                contents.bytes += length;
                contents.stored.insert(xxh3.clone());
            }
        }
        Content { xxh3, bytes: length, stored }
    }
}

impl TraceFile {
    /// Appends a line with one system call, so that a killed process leaves at most one incomplete line. After a
    /// failure, for example because the disk is full, the next line states how many lines are missing.
    fn write(&mut self, line: &TraceLine) {
        let mut text = Vec::with_capacity(256);
        if self.lost > 0 {
            let note = format!("{} lines of the trace could not be written", self.lost);
            text.push(b'\n');
            if serde_json::to_writer(&mut text, &TraceLine::Note(note)).is_err() {
                return;
            }
            text.push(b'\n');
        }
        if serde_json::to_writer(&mut text, line).is_err() {
            self.lost += 1;
            return;
        }
        text.push(b'\n');
        match self.file.write_all(&text) {
            Ok(()) => self.lost = 0,
            Err(_) => self.lost += 1,
        }
    }
}

/// Creates a folder whose name begins with the id of the process. The name has a suffix if the id was used before.
fn new_folder(folder: &Path, process: u32) -> io::Result<PathBuf> {
    for attempt in 0.. {
        let mut name = OsString::from(process.to_string());
        if attempt > 0 {
            name.push(format!("-{attempt}"));
        }
        match fs::create_dir(folder.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done.map(|()| folder.join(name)),
        }
    }
    Err(io::Error::other("too many processes have the same id"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Argument, ArgumentValue, CallReturn, read, read_process};

    fn call(function: &str) -> TraceCall {
        let value = ArgumentValue::Number(64.into());
        TraceCall {
            number: 0,
            thread: 1,
            function: function.to_owned(),
            arguments: Some(vec![Argument { name: "size".to_owned(), value }]),
            kernel: None,
        }
    }

    fn end(number: u64) -> TraceLine {
        let out = [("ptr".to_owned(), ArgumentValue::Text("a \"text\"\n".to_owned()))].into();
        TraceLine::End(CallReturn {
            number,
            status: 0,
            text: None,
            out,
            code: None,
            wrote: None,
            read_backs: Vec::new(),
        })
    }

    #[test]
    fn every_prefix_of_a_trace_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::create(folder.path(), "libamdhip64.so").unwrap();
        for function in ["hipMalloc", "hipMemcpy", "hipFree"] {
            let number = writer.begin(call(function));
            writer.line(&end(number));
        }
        let trace = read(folder.path()).unwrap().remove(0);
        assert!(!trace.is_cut && trace.start.is_some());
        let calls = trace.calls;
        assert_eq!(calls.iter().map(|(call, _)| call.number).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(calls.iter().all(|(_, end)| end.is_some()));

        let file = trace.folder.join(CALLS);
        let bytes = fs::read(&file).unwrap();
        for length in 0..bytes.len() {
            fs::write(&file, &bytes[..length]).unwrap();
            let cut =
                read_process(&trace.folder).unwrap_or_else(|error| panic!("{length}: {error}"));
            let lines = bytes[..length].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(cut.calls.len(), lines / 2, "{length}");
            assert_eq!(cut.is_cut, length > 0 && bytes[length - 1] != b'\n', "{length}");
            for (index, (call, end)) in cut.calls.iter().enumerate() {
                assert_eq!(call, &calls[index].0);
                assert_eq!(end.is_some(), lines > 2 * index + 2, "{length}");
            }
        }
    }

    #[test]
    fn contents_are_stored_once() {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::create(folder.path(), "").unwrap();
        let first = writer.store(b"one");
        assert_eq!(writer.store(b"one"), first);
        assert!(first.stored && writer.store(b"other").stored);
        let stored = fs::read_dir(writer.folder.join(CONTENTS)).unwrap().count();
        assert_eq!(stored, 2);
        let large = writer.store(&vec![0; MAX_CONTENT_BYTES + 1]);
        assert!(!large.stored);
    }

    #[test]
    fn lines_lost_on_a_full_disk_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::create(folder.path(), "").unwrap();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = std::mem::replace(&mut lock(&writer.file).file, full);
        writer.begin(call("hipMalloc"));
        writer.begin(call("hipFree"));
        lock(&writer.file).file = file;
        writer.begin(call("hipMemset"));
        let trace = read(folder.path()).unwrap().remove(0);
        assert_eq!(trace.notes, ["2 lines of the trace could not be written"]);
        assert_eq!(trace.calls.len(), 1);
        assert_eq!((trace.calls[0].0.number, trace.calls[0].0.function.as_str()), (2, "hipMemset"));
    }

    #[test]
    fn processes_with_the_same_id_have_folders_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = [0, 1].map(|_| Writer::create(folder.path(), "").unwrap().folder);
        assert_ne!(first, second);
        assert_eq!(read(folder.path()).unwrap().len(), 2);
    }
}
