//! The emulated device's decoder: the stack's disassembler, and what the device executes.

use std::{
    ffi::{CString, c_void},
    path::Path,
};

use device::{Arch, DECODE_SYMBOL, Decode};
use libloading::os::unix::Library;

/// An instruction, as the device's decoder reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// As the disassembler of the stack prints it.
    pub text: String,
    /// Its size in bytes.
    pub size: usize,
    /// Whether this build of the emulated device executes it.
    pub executable: bool,
}

/// The library of the emulated device, in a process that finds the stack's libraries.
pub struct Decoder {
    decode: Decode,
    _library: Library,
}

impl Decoder {
    /// Loads the library at `path`.
    ///
    /// # Errors
    /// Why it cannot be loaded, or is no emulated device.
    pub fn open(path: &Path) -> Result<Decoder, String> {
        let failed = |e: libloading::Error| format!("cannot load `{}`: {e}", path.display());
        let too_old =
            |_| format!("`{}` is of another version, which does not decode", path.display());
        // SAFETY: whoever names the path vouches for the device of this project, which does nothing when it is loaded.
        let library = unsafe { Library::new(path) }.map_err(failed)?;
        // SAFETY: that symbol is a function of this type in every build of the device that has it.
        let decode =
            *unsafe { library.get::<Decode>(DECODE_SYMBOL.as_bytes()) }.map_err(too_old)?;
        Ok(Decoder { decode, _library: library })
    }

    /// The instruction that `bytes` begin with, which lie at that address; nothing where that is none.
    ///
    /// # Errors
    /// Without a disassembler for the architecture: why.
    pub fn decode(
        &self,
        arch: Arch,
        address: u64,
        bytes: &[u8],
    ) -> Result<Option<Decoded>, String> {
        extern "C" fn hear(whom: *mut c_void, text: *const u8, length: usize, executable: bool) {
            // SAFETY: `whom` is the pair below, and nobody else has it while the function is called.
            let heard = unsafe { &mut *whom.cast::<(String, bool)>() };
            // SAFETY: the decoder gives a text of that length, which lives through this call.
            let text = unsafe { std::slice::from_raw_parts(text, length) };
            *heard = (String::from_utf8_lossy(text).into_owned(), executable);
        }
        let name = CString::new(arch.name()).map_err(|e| e.to_string())?;
        let mut heard = (String::new(), false);
        let whom = (&raw mut heard).cast();
        // SAFETY: the name is a string of C, the bytes are as many as said, and `hear` takes what it is given.
        let size = unsafe {
            (self.decode)(name.as_ptr(), address, bytes.as_ptr(), bytes.len(), hear, whom)
        };
        let (text, executable) = heard;
        match usize::try_from(size) {
            Err(_) => Err(text),
            Ok(0) => Ok(None),
            Ok(size) => Ok(Some(Decoded { text, size, executable })),
        }
    }
}
