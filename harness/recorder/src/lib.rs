//! Records the HIP calls of a program, and reads the records.
//!
//! The command embeds this crate as a shared library, which the dynamic loader loads in each process of a recorded
//! program because `LD_AUDIT` names it, see rtld-audit(7). The loader asks the library at each binding of a symbol,
//! also at those of dlsym. For each function of libamdhip64 and libhiprtc that rocrepro knows, the library answers with
//! a stub of its own, which writes the call to a trace, makes the call, and writes its result. The library adds no call
//! of HIP, and therefore no synchronisation.
//!
//! [`trace`] describes the files.

mod arguments;
mod audit;
mod code_object;
mod launch;
mod memory;
mod objects;
mod read_backs;
mod stubs;
mod table;
pub mod trace;
mod writer;

pub use writer::FOLDER_VARIABLE;

/// File name of the library.
pub const FILE_NAME: &str = "librocrepro-recorder.so";
