//! The files of a recording, and the functions that read them.
//!
//! Each process that makes a HIP call has a folder, which is named after the process id. The file `calls.jsonl` in this
//! folder contains one JSON object per line. The first line is a [`ProcessStart`]. A [`TraceCall`] is written before
//! the function is called, and a [`CallReturn`] after the function has returned. Therefore a call without a return is
//! the call in which the process died or hung. The folder `contents` contains the bytes that calls read and wrote.
//! Equal contents are stored only once, in a file that is named after their XXH3 hash.
//!
//! If a process is killed, Linux keeps what the process has written, so at most the last line is incomplete.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use thiserror::Error;

/// Version of the format. A reader rejects other versions.
pub const TRACE_VERSION: u32 = 1;

/// Name of the file with the calls of a process.
pub const CALLS: &str = "calls.jsonl";

/// Name of the folder that contains contents of memory.
pub const CONTENTS: &str = "contents";

/// Name of the file that is written when a library of HIP is loaded, even if the process makes no calls. The file
/// contains the path of the library.
pub const LOADED: &str = "loaded";

/// One line of the file [`CALLS`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceLine {
    /// First line of the file. It describes the process.
    Start(ProcessStart),
    /// A call begins.
    Call(TraceCall),
    /// A call has returned.
    End(CallReturn),
    /// A fact about the recording, for example that lines could not be written.
    Note(String),
}

/// The process that made the calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessStart {
    /// Version of the format.
    pub version: u32,
    /// Id of the process.
    pub process: u32,
    /// Words of the command line of the process.
    pub command: Vec<String>,
    /// Path of the libamdhip64 that the process loaded.
    pub library: String,
}

/// A call of a function of HIP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceCall {
    /// Sequence number of the call in its process, in the order in which calls began.
    pub number: u64,
    /// Id of the thread.
    pub thread: u32,
    /// Name of the function.
    pub function: String,
    /// Arguments in the order of the declaration. `None` if the recorder does not know the declaration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Vec<Argument>>,
    /// The launched kernel, if the call is a launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelLaunch>,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Argument {
    /// Name of the parameter.
    pub name: String,
    /// Value of the argument.
    pub value: ArgumentValue,
}

/// Value of an argument, or of a variable that a call wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentValue {
    /// A number or enumerator.
    Number(serde_json::Number),
    /// An address or a handle.
    Address(Address),
    /// Text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// The bytes of a struct, or of the memory to which an input pointer points, in hexadecimal digits.
    Bytes(String),
    /// A range of memory that the call reads or writes, with its content if it is in host memory.
    Memory {
        /// Address of the first byte.
        at: Address,
        /// Number of bytes.
        bytes: u64,
        /// The bytes that the call reads from host memory; `None` if they were not recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Content>,
    },
    /// A pointer to data that the recorder cannot read, and the reason.
    Unknown(Address, String),
}

/// An address or handle, written as `0x` and hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:#x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Address, D::Error> {
        let text = String::deserialize(from)?;
        let digits = text.strip_prefix("0x").ok_or_else(|| D::Error::custom("no `0x`"))?;
        u64::from_str_radix(digits, 16).map(Address).map_err(D::Error::custom)
    }
}

/// Reads a hash of 32 hexadecimal digits. Because the hash is the name of a file, other text is refused: it could lead
/// out of the folder.
fn digits<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    match text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text),
        false => Err(D::Error::custom(format!("`{}` is not a hash", text.escape_default()))),
    }
}

/// Description of bytes that a call read or wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// XXH3 hash of the bytes, which is also the name of the file that contains them.
    #[serde(deserialize_with = "digits")]
    pub xxh3: String,
    /// Number of bytes.
    pub bytes: u64,
    /// True if the bytes are in the folder [`CONTENTS`].
    pub stored: bool,
}

/// The kernel of a launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelLaunch {
    /// Name of the kernel in its code object. Empty if the recorder does not know the kernel.
    pub name: String,
    /// Arguments of the kernel. `None` if the code object has no metadata that the recorder can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Vec<KernelArgument>>,
}

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelArgument {
    /// Kind of the parameter in the metadata, for example `global_buffer` or `by_value`.
    pub kind: String,
    /// Bytes of the value in hexadecimal digits.
    pub bytes: String,
}

/// The results of a call that has returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallReturn {
    /// Sequence number of the call.
    pub number: u64,
    /// Value that the function returned: for most functions a `hipError_t`.
    pub status: i32,
    /// Text that the function returned, if it returns text instead of a status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Values that the call wrote through its pointers, by the name of the parameter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub out: BTreeMap<String, ArgumentValue>,
    /// Code object that the call created or loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Content>,
    /// Bytes that a synchronous call wrote to host memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrote: Option<Content>,
    /// Contents of host memory to which enqueued copies write, read after a call that waits for the device has
    /// returned. A copy in a stream for which the call did not wait may be incomplete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_backs: Vec<(Address, Content)>,
}

/// The recording of one process.
#[derive(Debug, PartialEq)]
pub struct ProcessTrace {
    /// Folder of the process.
    pub folder: PathBuf,
    /// First line of the trace; `None` if the process was killed before the line was complete.
    pub start: Option<ProcessStart>,
    /// Calls in the order of their numbers, each with its return; `None` if the call has not returned.
    pub calls: Vec<(TraceCall, Option<CallReturn>)>,
    /// Facts about the recording, for example that lines could not be written.
    pub notes: Vec<String>,
    /// True if the last line is incomplete.
    pub is_cut: bool,
}

/// A recording that cannot be read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Reason.
        error: io::Error,
    },
    /// A line in the middle of a file does not have the format of a trace.
    #[error("`{}`:{line} is not a line of a trace: {why}", path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// Number of the line.
        line: usize,
        /// Reason.
        why: String,
    },
    /// Another version of rocrepro wrote the file.
    #[error("`{}` has version {version} of the format, but this rocrepro reads version {TRACE_VERSION}", path.display())]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        version: u32,
    },
}

/// Returns true if the path is a folder that contains a recording, or the recording of one process. A folder whose name
/// ends with `.trace` counts even if it is empty, because the program may have made no call.
pub fn is_recording(path: &Path) -> bool {
    let has_name = || path.extension().is_some_and(|ending| ending == "trace");
    let of_process = || {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).any(|path| path.join(CALLS).is_file())
    };
    path.is_dir()
        && (has_name()
            || [CALLS, LOADED].iter().any(|name| path.join(name).is_file())
            || of_process())
}

/// Reads the recordings of all processes in a folder, in the order in which the processes made their first call.
///
/// # Errors
/// Returns an error if a file cannot be read, or is not a trace of this version.
pub fn read(folder: &Path) -> Result<Vec<ProcessTrace>, TraceError> {
    let unreadable = |error| TraceError::Unreadable { path: folder.to_owned(), error };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.join(CALLS).is_file() {
            let made = fs::metadata(path.join(CONTENTS)).and_then(|folder| folder.created());
            found.push((made.ok(), path));
        }
    }
    found.sort();
    found.into_iter().map(|(_, path)| read_process(&path)).collect()
}

/// Reads the recording of one process.
///
/// # Errors
/// Returns an error if the file cannot be read, or is not a trace of this version.
pub fn read_process(folder: &Path) -> Result<ProcessTrace, TraceError> {
    let path = folder.join(CALLS);
    let bytes =
        fs::read(&path).map_err(|error| TraceError::Unreadable { path: path.clone(), error })?;
    let mut trace = ProcessTrace {
        folder: folder.to_owned(),
        start: None,
        calls: Vec::new(),
        notes: Vec::new(),
        is_cut: false,
    };
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let Some(line) = line.strip_suffix(b"\n") else {
            trace.is_cut = true;
            break;
        };
        if line.is_empty() {
            continue;
        }
        let bad = |why: String| TraceError::BadLine { path: path.clone(), line: index + 1, why };
        match serde_json::from_slice(line).map_err(|error| bad(error.to_string()))? {
            TraceLine::Start(start) if start.version != TRACE_VERSION => {
                return Err(TraceError::OtherVersion { path, version: start.version });
            }
            TraceLine::Start(start) => trace.start = Some(start),
            TraceLine::Call(call) => trace.calls.push((call, None)),
            TraceLine::End(end) => {
                // A call that has just returned is near the end of the list: only calls of other threads began after
                // it.
                let number = end.number;
                let call = trace.calls.iter_mut().rfind(|(call, _)| call.number == number);
                call.ok_or_else(|| bad(format!("the return of call {number} has no call")))?.1 =
                    Some(end);
            }
            TraceLine::Note(note) => trace.notes.push(note),
        }
    }
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<TraceLine> {
        let start = ProcessStart {
            version: TRACE_VERSION,
            process: 7,
            command: vec!["pröŋ".to_owned(), "\n\"\u{1F600}".to_owned()],
            library: "libamdhip64.so.7".to_owned(),
        };
        let call = |number, thread, function: &str| {
            let content = Content { xxh3: "0123456789abcdef".repeat(2), bytes: 4, stored: true };
            let memory =
                ArgumentValue::Memory { at: Address(0x1000), bytes: 4, content: Some(content) };
            let text = ArgumentValue::Text("größer".to_owned());
            let argument = |name: &str, value| Argument { name: name.to_owned(), value };
            TraceLine::Call(TraceCall {
                number,
                thread,
                function: function.to_owned(),
                arguments: Some(vec![argument("src", memory), argument("text", text)]),
                kernel: Some(KernelLaunch { name: "k".to_owned(), arguments: None }),
            })
        };
        let end = |number, status| {
            TraceLine::End(CallReturn {
                number,
                status,
                text: Some("é".to_owned()),
                out: [("ptr".to_owned(), ArgumentValue::Address(Address(u64::MAX)))].into(),
                code: None,
                wrote: None,
                read_backs: Vec::new(),
            })
        };
        vec![
            TraceLine::Start(start),
            call(0, 1, "hipMalloc"),
            call(1, 2, "hipMemcpy"),
            end(1, -1),
            TraceLine::Note("ñ".to_owned()),
            end(0, 0),
            call(2, 1, "hipFree"),
        ]
    }

    #[test]
    fn recording_can_be_read_after_a_cut_at_any_byte() {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<_> =
            lines().iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
        let whole = lines.concat();
        for cut in 0..=whole.len() {
            fs::write(folder.path().join(CALLS), &whole.as_bytes()[..cut]).unwrap();
            let trace = read_process(folder.path()).unwrap();
            let mut rest = cut;
            let complete = lines.iter().take_while(|line| {
                let is_whole = line.len() <= rest;
                rest = rest.saturating_sub(line.len());
                is_whole
            });
            let complete = complete.count();
            let kinds = |kind: &str| {
                lines.iter().take(complete).filter(|line| line.starts_with(kind)).count()
            };
            assert_eq!(trace.start.is_some(), kinds("{\"start") == 1, "{cut}");
            assert_eq!(trace.calls.len(), kinds("{\"call"), "{cut}");
            let returned = trace.calls.iter().filter(|(_, end)| end.is_some()).count();
            assert_eq!(returned, kinds("{\"end"), "{cut}");
            assert_eq!(trace.notes.len(), kinds("{\"note"), "{cut}");
            let bytes: usize = lines.iter().take(complete).map(String::len).sum();
            assert_eq!(trace.is_cut, bytes != cut, "{cut}");
        }
    }

    #[test]
    fn hash_that_leads_out_of_the_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let read = |hash: &str| {
            let end = format!(
                r#"{{"end":{{"number":0,"status":0,"wrote":{{"xxh3":"{hash}","bytes":1,"stored":true}}}}}}"#
            );
            let call = r#"{"call":{"number":0,"thread":1,"function":"hipMemcpy"}}"#;
            fs::write(folder.path().join(CALLS), format!("{call}\n{end}\n")).unwrap();
            read_process(folder.path()).map_err(|error| error.to_string())
        };
        for hash in ["../../../../etc/passwd", "", "0", "../../../../../../../etc/hostname"] {
            let error = read(hash).unwrap_err();
            assert!(
                error.contains(":2 is not a line of a trace: ") && error.contains("is not a hash"),
                "{error}"
            );
        }
        assert!(read("0123456789abcdef0123456789abcdef").is_ok());
    }
}
