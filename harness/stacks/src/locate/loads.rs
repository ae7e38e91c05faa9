//! Checks that the dynamic loader can load the libraries of a stack.

use std::fs::{self, File};
use std::path::Path;

use crate::Stack;
use object::read::elf::ElfFile64;
use object::{Architecture, Object, ObjectKind, ObjectSegment, ReadCache};

use crate::ObtainError;

/// Rejects a HIP runtime that is not a complete shared library for this machine. Loading may still fail for other
/// reasons, which only a process that loads the library can detect.
pub(crate) fn check_loads(stack: &Stack) -> Result<(), ObtainError> {
    let name = "libamdhip64.so";
    let path = stack.library(name);
    let checked = path.as_deref().map_or(Err("the file does not exist".to_owned()), complete);
    checked.map_err(|reason| ObtainError::DoesNotLoad { reason: format!("{name}: {reason}") })
}

fn complete(path: &Path) -> Result<(), String> {
    let length = fs::metadata(path).map_err(|error| error.to_string())?.len();
    let cache = ReadCache::new(File::open(path).map_err(|error| error.to_string())?);
    let elf: ElfFile64<'_, object::Endianness, _> =
        ElfFile64::parse(&cache).map_err(|error| format!("not a library: {error}"))?;
    if elf.architecture() != Architecture::X86_64 || elf.kind() != ObjectKind::Dynamic {
        return Err("not a shared library for x86-64".into());
    }
    let cut = elf.segments().any(|segment| {
        let (start, size) = segment.file_range();
        start.checked_add(size).is_none_or(|end| end > length)
    });
    if cut { Err("the file is truncated".into()) } else { Ok(()) }
}
