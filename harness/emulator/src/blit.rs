//! Executes copies that the HIP runtime makes with its own kernels.
//!
//! HIP releases differ in whether a copy uses a kernel or the copy engine. For example, 6.4 and 7.2 use a kernel for
//! copies up to 16 KiB, and 5.7 does not. An injected copy fault must take effect on copies of both kinds.

use isa::{Executed, Trap};

use crate::{
    abi::Agent,
    loader::Kernel,
    memory,
    row::Row,
    transfer::{self, CopyEffect, Direction},
};

/// Returns true if the kernel is part of the HIP runtime and not of the program under test.
pub(crate) fn is_runtime_kernel(kernel: &str) -> bool {
    kernel.starts_with("__amd_rocclr_")
}

/// Executes a kernel of the HIP runtime with the arguments at the address `kernarg`, by calling `execute`. If the
/// kernel copies memory and an injected fault takes effect on the copy, executes a faulty copy instead.
pub(crate) fn run(
    kernel: &Kernel,
    kernarg: u64,
    execute: impl FnOnce() -> Result<Executed, Trap>,
) -> Result<Executed, Trap> {
    let Some(rows) = planned_copy(kernel, kernarg) else { return execute() };
    if let Some(address) = transfer::page_fault(&rows) {
        return Err(Trap::Unmapped { what: "memory to copy to", address });
    }
    let total = rows.iter().map(|row| row.len).sum();
    match transfer::copy_effect(total, direction(&rows)) {
        CopyEffect::Complete => execute(),
        copy_effect if reachable(&rows) => {
            // SAFETY: every row is mapped, and the dispatch keeps it mapped until its end.
            unsafe { transfer::execute(&rows, copy_effect) };
            Ok(Executed::default())
        }
        // The kernel will access the unmapped memory and trap.
        _ => execute(),
    }
}

fn reachable(rows: &[Row]) -> bool {
    let map = memory::map();
    rows.iter()
        .all(|row| map.check(row.from, row.len).is_ok() && map.check(row.to, row.len).is_ok())
}

fn direction(rows: &[Row]) -> Direction {
    let Some(row) = rows.first() else { return Direction::Other };
    let map = memory::map();
    let owner = |address| map.find(address).map(|(_, region)| region.owner);
    if owner(row.from) == Some(Agent::CPU) && owner(row.to).is_some_and(Agent::is_gpu) {
        Direction::HostToDevice
    } else {
        Direction::Other
    }
}

fn planned_copy(kernel: &Kernel, kernarg: u64) -> Option<Vec<Row>> {
    let (start, len) = (kernarg as usize, kernel.kernarg_bytes as usize);
    memory::map().check(start, len).ok()?;
    // SAFETY: the range is mapped, and the dispatch keeps it mapped until its end.
    let arguments = unsafe { std::slice::from_raw_parts(start as *const u8, len) };
    copy_of(&kernel.name, arguments)
}

/// Returns the copy that the kernel makes if it is called with these argument bytes; `None` if the kernel does not copy
/// memory. The layouts are from the kernels' source in `rocclr/device/blitcl.cpp` and `rocblit.cpp`.
fn copy_of(kernel: &str, arguments: &[u8]) -> Option<Vec<Row>> {
    let word = |index: usize| {
        let bytes = arguments.get(index * 8..index * 8 + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let halves = |index| word(index).map(|both| (both as u32 as usize, both >> 32));
    let (from, to) = (word(0)?, word(1)?);
    match kernel {
        "__amd_rocclr_copyBuffer" => {
            let row = match halves(3)? {
                // The arguments since 6.0 are the size in bytes, the number of remaining bytes, and the width of an
                // element.
                (_, 4 | 16) => Row { from, to, len: word(2)? },
                // The arguments before 6.0 are two offsets, the number of words plus one, and the number of remaining
                // bytes.
                _ => Row {
                    from: from.checked_add(word(2)?)?,
                    to: to.checked_add(word(3)?)?,
                    len: word(4)?.checked_sub(1)?.checked_mul(4)?.checked_add(halves(5)?.0)?,
                },
            };
            Some(vec![row])
        }
        // The arguments are two rectangles (pitch, slice, start, end), and a size in elements whose fourth component is
        // the number of bytes per element.
        "__amd_rocclr_copyBufferRect" | "__amd_rocclr_copyBufferRectAligned" => {
            // Vectors are aligned to 32 bytes.
            let vector = |index: usize| Some([word(index)?, word(index + 1)?, word(index + 2)?]);
            let (source, target, size) = (vector(4)?, vector(8)?, vector(12)?);
            let unit = word(15)?;
            let at = |base: usize, [pitch, slice, start]: [usize; 3], y: usize, z: usize| {
                let elements = start.checked_add(y.checked_mul(pitch)?)?;
                let elements = elements.checked_add(z.checked_mul(slice)?)?;
                base.checked_add(elements.checked_mul(unit)?)
            };
            let lines = (0..size[2]).flat_map(|z| (0..size[1]).map(move |y| (y, z)));
            lines
                .map(|(y, z)| {
                    Some(Row {
                        from: at(from, source, y, z)?,
                        to: at(to, target, y, z)?,
                        len: size[0].checked_mul(unit)?,
                    })
                })
                .collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kernel: &str, words: &[u64], expected: Option<&[Row]>) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let kernel = format!("__amd_rocclr_{kernel}");
        assert_eq!(copy_of(&kernel, &bytes).as_deref(), expected);
    }

    #[test]
    fn parses_linear_copies_of_both_layouts() {
        let row = Row { from: 0x1000, to: 0x2000, len: 70 };
        check("copyBuffer", &[0x1000, 0x2000, 70, (16 << 32) | 6, 0x2040, 512], Some(&[row]));
        check("copyBuffer", &[0x1000, 0x2000, 70, (4 << 32) | 2, 0x2044, 512], Some(&[row]));
        let row = Row { from: 0x1010, to: 0x2020, len: 70 };
        check("copyBuffer", &[0x1000, 0x2000, 0x10, 0x20, 18, 2], Some(&[row]));
        check("copyBuffer", &[0x1000, 0x2000, 0x10, 0x20, 0, 2], None);
        check("copyBuffer", &[0x1000, 0x2000], None);
    }

    #[test]
    fn parses_rectangle_copies() {
        let mut words = [0u64; 16];
        words[..2].copy_from_slice(&[0x1000, 0x2000]);
        words[4..7].copy_from_slice(&[10, 100, 1]);
        words[8..11].copy_from_slice(&[20, 200, 2]);
        words[12..].copy_from_slice(&[3, 2, 1, 4]);
        let rows =
            [Row { from: 0x1004, to: 0x2008, len: 12 }, Row { from: 0x102c, to: 0x2058, len: 12 }];
        check("copyBufferRectAligned", &words, Some(&rows));
    }

    #[test]
    fn other_kernels_are_not_copies() {
        check("fillBufferAligned", &[0; 16], None);
        assert!(is_runtime_kernel("__amd_rocclr_initHeap"));
        assert!(!is_runtime_kernel("saxpy"));
    }
}
