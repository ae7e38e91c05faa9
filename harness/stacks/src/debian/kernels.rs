//! Which GPU architectures the kernels inside a library are for, seen as its bytes go by.

use std::collections::BTreeSet;

/// What the name of a kernel's target begins with in an offload bundle ("Clang Offload Bundler" of LLVM's documentation).
const TARGET: &[u8] = b"hipv4-amdgcn-amd-amdhsa--";

/// The longest name of an architecture, features left out, such as `gfx10-3-generic`.
const LONGEST: usize = 24;

/// Finds the targets of bundles that are not compressed; of others nothing is known.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    found: BTreeSet<String>,
    /// The last bytes that went by: a name may lie across two chunks.
    tail: Vec<u8>,
}

impl Targets {
    /// The next bytes of the file.
    pub(crate) fn see(&mut self, chunk: &[u8]) {
        self.tail.extend_from_slice(chunk);
        for at in memchr::memmem::find_iter(&self.tail, TARGET) {
            let name = &self.tail[at + TARGET.len()..];
            let part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
            let end = name.iter().position(|byte| !part(byte)).unwrap_or(name.len());
            // Where the chunk ends within the name, the next one has it whole.
            if end < name.len() && end <= LONGEST && name.starts_with(b"gfx") {
                self.found.insert(String::from_utf8_lossy(&name[..end]).into_owned());
            }
        }
        let keep = self.tail.len().min(TARGET.len() + LONGEST + 1);
        self.tail.drain(..self.tail.len() - keep);
    }

    /// The architectures, when all bytes went by.
    pub(crate) fn end(mut self) -> BTreeSet<String> {
        self.see(b"\0");
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the pieces are in which the file comes.
    fn check(file: &str, expected: &[&str]) {
        for size in [1, 7, 30, 64, 1 << 16] {
            let mut targets = Targets::default();
            file.as_bytes().chunks(size).for_each(|chunk| targets.see(chunk));
            let found: Vec<_> = targets.end().into_iter().collect();
            assert_eq!(found, expected, "{file:?} in pieces of {size}");
        }
    }

    #[test]
    fn targets_are_found_across_chunks() {
        let of = |names: &[&str]| -> String {
            names.iter().map(|name| format!("\0xhipv4-amdgcn-amd-amdhsa--{name}\0")).collect()
        };
        check("", &[]);
        check(&of(&["gfx1030", "gfx90a:xnack-", "gfx90a:xnack+"]), &["gfx1030", "gfx90a"]);
        check(&of(&["gfx11-generic"]), &["gfx11-generic"]);
        check("hipv4-amdgcn-amd-amdhsa--gfx1151", &["gfx1151"]);
        check(&of(&["", "gfxgfxgfxgfxgfxgfxgfxgfxgfxgfx", "native"]), &[]);
        check("hip-amdgcn-amd-amdhsa--gfx90a\0amdgcn-amd-amdhsa--gfx1030", &[]);
    }
}
