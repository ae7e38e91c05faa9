//! Decodes instructions with the emulated device's library, which uses the disassembler of the stack.

use std::{
    ffi::{CString, c_void},
    path::Path,
};

use device::{Arch, DECODE_SYMBOL, Decode};
use libloading::os::unix::Library;

/// An instruction as the emulated device decodes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedInstruction {
    /// Text of the instruction, as the stack's disassembler prints it.
    pub text: String,
    /// Size of the instruction in bytes.
    pub size: usize,
    /// True if this build of the emulated device executes the instruction.
    pub executable: bool,
}

/// The emulated device's library, loaded into a process that can find the stack's libraries.
pub struct Decoder {
    decode: Decode,
    _library: Library,
}

impl Decoder {
    /// Loads the library at `path`.
    ///
    /// # Errors
    /// Fails if the library cannot be loaded or has no decoder.
    pub fn open(path: &Path) -> Result<Decoder, String> {
        let failed = |e: libloading::Error| format!("cannot load `{}`: {e}", path.display());
        let too_old =
            |_| format!("`{}` is of another version, which does not decode", path.display());
        // SAFETY: the caller names the emulated device's library, which runs no code when it is loaded.
        let library = unsafe { Library::new(path) }.map_err(failed)?;
        // SAFETY: every build of the device that has this symbol defines it as a function of this type.
        let decode =
            *unsafe { library.get::<Decode>(DECODE_SYMBOL.as_bytes()) }.map_err(too_old)?;
        Ok(Decoder { decode, _library: library })
    }

    /// Decodes the instruction at the start of `bytes`; `None` if the bytes are not an instruction. `address` is the
    /// device address of `bytes`.
    ///
    /// # Errors
    /// Fails if the stack has no disassembler for the architecture.
    pub fn decode(
        &self,
        arch: Arch,
        address: u64,
        bytes: &[u8],
    ) -> Result<Option<DecodedInstruction>, String> {
        extern "C" fn receive(
            context: *mut c_void,
            text: *const u8,
            length: usize,
            executable: bool,
        ) {
            // SAFETY: `context` points to the pair that `decode` passes, which nothing else uses during the call.
            let received = unsafe { &mut *context.cast::<(String, bool)>() };
            // SAFETY: the decoder passes a text with this length, which is valid during this call.
            let text = unsafe { std::slice::from_raw_parts(text, length) };
            *received = (String::from_utf8_lossy(text).into_owned(), executable);
        }
        let name = CString::new(arch.name()).map_err(|e| e.to_string())?;
        let mut received = (String::new(), false);
        let context = (&raw mut received).cast();
        // SAFETY: the name is a C string, the length is that of `bytes`, and `receive` has the type that the decoder
        // calls.
        let size = unsafe {
            (self.decode)(name.as_ptr(), address, bytes.as_ptr(), bytes.len(), receive, context)
        };
        let (text, executable) = received;
        match usize::try_from(size) {
            Err(_) => Err(text),
            Ok(0) => Ok(None),
            Ok(size) => Ok(Some(DecodedInstruction { text, size, executable })),
        }
    }
}
