//! Cuts seeds for the fuzz target `decoder` from code objects: `seeds FOLDER FILE...` writes one seed for each kernel.

use std::{error::Error, fs, path::Path};

use object::{Object, ObjectSection, ObjectSymbol};

/// `EF_AMDGPU_MACH_*` of each architecture, in the order of `device::Arch::ALL`.
const MACHINES: [u8; 15] =
    [0x2f, 0x30, 0x3f, 0x4c, 0x4f, 0x36, 0x41, 0x46, 0x47, 0x44, 0x43, 0x4a, 0x55, 0x48, 0x4e];

/// Maximum size of the code in a seed, in bytes.
const CODE: usize = 512;

/// Input byte for 64 work-items: the number less one.
const ITEMS: u8 = 63;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().ok_or("usage: seeds FOLDER FILE...")?;
    fs::create_dir_all(&folder)?;
    for (number, file) in arguments.enumerate() {
        let bytes = fs::read(&file)?;
        for (kernel, seed) in seeds(&bytes)?.iter().enumerate() {
            fs::write(Path::new(&folder).join(format!("{number}-{kernel}")), seed)?;
        }
    }
    Ok(())
}

/// Returns a seed for each kernel of a code object; an empty list if the architecture is unknown.
fn seeds(file: &[u8]) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let elf = object::File::parse(file)?;
    let machine = file.get(48).copied().unwrap_or_default();
    let Some(arch) = MACHINES.iter().position(|known| *known == machine) else {
        return Ok(Vec::new());
    };
    let at = |address: u64, most: usize| {
        elf.sections().find_map(|section| {
            let start = usize::try_from(address.checked_sub(section.address())?).ok()?;
            let rest = section.data().ok()?.get(start..)?;
            (!rest.is_empty()).then(|| &rest[..rest.len().min(most)])
        })
    };
    let seed = |kernel: u64| {
        let descriptor = at(kernel, 64)?;
        let entry = u64::from_le_bytes(descriptor.get(16..24)?.try_into().ok()?);
        let code = at(kernel.wrapping_add(entry), CODE)?;
        Some([&[arch as u8, ITEMS], descriptor.get(48..60)?, code].concat())
    };
    let is_kernel = |name: &str| name.ends_with(".kd");
    let kernels = elf.dynamic_symbols().filter(|symbol| symbol.name().is_ok_and(is_kernel));
    Ok(kernels.filter_map(|symbol| seed(symbol.address())).collect())
}
