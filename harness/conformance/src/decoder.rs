//! Decodes instructions with the library of the emulated device, which uses the disassembler of the stack.

use std::{
    ffi::{CString, c_void},
    path::Path,
};

use device::{Arch, DECODE_SYMBOL, Decode};
use libloading::os::unix::Library;

/// An instruction that the emulated device has decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedInstruction {
    /// Text of the instruction, as the disassembler of the stack prints it.
    pub text: String,
    /// Size of the instruction in bytes.
    pub size: usize,
    /// True if this build of the emulated device executes the instruction.
    pub executable: bool,
}

/// The library of the emulated device. It is loaded into a process that can find the libraries of the stack.
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
            |_| format!("`{}` is from another version that has no decoder", path.display());
        // SAFETY: the caller passes the path of the emulated device's library, which does not run code when it is
        // loaded.
        let library = unsafe { Library::new(path) }.map_err(failed)?;
        // SAFETY: in all versions of the device that have this symbol, it is a function of this type.
        let decode =
            *unsafe { library.get::<Decode>(DECODE_SYMBOL.as_bytes()) }.map_err(too_old)?;
        Ok(Decoder { decode, _library: library })
    }

    /// Decodes the instruction at the start of `bytes`. Returns `None` if the bytes are not an instruction. `address`
    /// is the address at which the device would execute the instruction.
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
            // SAFETY: `context` points to the pair that `decode` passes. During the call, this is the only reference to
            // the pair.
            let received = unsafe { &mut *context.cast::<(String, bool)>() };
            // SAFETY: the decoder passes a text of this length, which is valid during this call.
            let text = unsafe { std::slice::from_raw_parts(text, length) };
            *received = (String::from_utf8_lossy(text).into_owned(), executable);
        }
        let name = CString::new(arch.name()).map_err(|e| e.to_string())?;
        let mut received = (String::new(), false);
        let context = (&raw mut received).cast();
        // SAFETY: the name is a C string, the length is that of `bytes`, and `receive` has the type that the decoder
        // expects.
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
