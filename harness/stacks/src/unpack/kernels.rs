//! Finds the GPU architectures of the kernels inside a library, while the library's bytes are copied.

use std::collections::BTreeSet;

/// Text that precedes the architecture in the name of each kernel of an [offload
/// bundle](https://clang.llvm.org/docs/ClangOffloadBundler.html).
const TARGET: &[u8] = b"hipv4-amdgcn-amd-amdhsa--";

/// Maximum length of an architecture's name without features, for example `gfx10-3-generic`.
const MAX_NAME_LENGTH: usize = 24;

/// Collects the GPU architectures of the kernels in a file's uncompressed offload bundles. Compressed bundles are not
/// searched.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    found: BTreeSet<String>,
    /// Last bytes of the previous chunks, because a name may be split between two chunks.
    tail: Vec<u8>,
}

impl Targets {
    /// Searches the next chunk of the file.
    pub(crate) fn search_chunk(&mut self, chunk: &[u8]) {
        self.tail.extend_from_slice(chunk);
        for at in memchr::memmem::find_iter(&self.tail, TARGET) {
            let name = &self.tail[at + TARGET.len()..];
            let part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
            let end = name.iter().position(|byte| !part(byte)).unwrap_or(name.len());
            // If the name reaches the end of the chunk, it is found again, completely, together with the next chunk.
            if end < name.len() && end <= MAX_NAME_LENGTH && name.starts_with(b"gfx") {
                self.found.insert(String::from_utf8_lossy(&name[..end]).into_owned());
            }
        }
        let keep = self.tail.len().min(TARGET.len() + MAX_NAME_LENGTH + 1);
        self.tail.drain(..self.tail.len() - keep);
    }

    /// Ends the search after the last chunk, and returns the architectures that were found.
    pub(crate) fn end(mut self) -> BTreeSet<String> {
        self.search_chunk(b"\0");
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the same architectures are found if the file is passed in chunks of 1 to 65536 bytes.
    fn check(file: &str, expected: &[&str]) {
        for size in [1, 7, 30, 64, 1 << 16] {
            let mut targets = Targets::default();
            file.as_bytes().chunks(size).for_each(|chunk| targets.search_chunk(chunk));
            let found: Vec<_> = targets.end().into_iter().collect();
            assert_eq!(found, expected, "{file:?} in pieces of {size}");
        }
    }

    #[test]
    fn finds_targets_across_chunks() {
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
