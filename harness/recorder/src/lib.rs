//! Records the HIP calls of a program, and reads the recordings.
//!
//! The command embeds this crate as a shared library. Because `LD_AUDIT` names the library, the dynamic loader loads it
//! in each process of a recorded program; see rtld-audit(7). The loader calls the library at each binding of a symbol,
//! also at bindings that dlsym makes. For each function of libamdhip64 and libhiprtc that rocrepro knows, the library
//! returns the address of a stub. The stub writes the call to a trace, makes the call, and writes its result. The
//! library makes no additional HIP calls, and therefore adds no synchronisation.
//!
//! The module [`trace`] describes the files of a recording.

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
