//! Formats the audit of barriers, which finds kernels whose code lacks a wait before a barrier. A barrier with fences,
//! such as `__syncthreads()`, must wait for the memory operations before it; a bare barrier need not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Result of the audit of barriers for one file and one architecture.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct BarrierFinding {
    /// Name of the file.
    pub library: String,
    /// Architecture of the GPU, for example `gfx1151`, or the machine number of an architecture that is not read.
    pub gfx: String,
    /// Number of kernels.
    pub kernels: usize,
    /// Number of kernels that are not read, because the emulated device does not support their architecture.
    pub not_read: usize,
    /// Number of kernels with barriers.
    pub with_barriers: usize,
    /// Number of kernels that have barriers, none of which is proven to have fences.
    pub bare_only: usize,
    /// Number of kernels in which no missing wait was found, but not all paths through the code could be followed.
    pub undecided: usize,
    /// Reasons why paths through the code could not be followed, each with the number of kernels to which it applies.
    pub reasons: BTreeMap<String, usize>,
    /// Number of instructions in the examined kernels.
    pub instructions: u64,
    /// Number of barriers with fences in the examined kernels.
    pub fenced: usize,
    /// Number of barriers in the examined kernels that are not proven to have fences.
    pub bare: usize,
    /// Kernels in which an operation from an earlier iteration of a loop is outstanding at a barrier with fences.
    pub lost: Vec<KernelFinding>,
    /// Kernels in which an operation that the compiler may not know, for example one in inline assembly, is outstanding
    /// at a barrier with fences.
    pub unexplained: Vec<KernelFinding>,
    /// Kernels in which a write to the LDS is outstanding at a barrier that is not proven to have fences, but only on
    /// paths through the back edge of a loop.
    pub suspects: Vec<KernelFinding>,
}

/// Operations of a kernel that are outstanding at barriers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct KernelFinding {
    /// Name of the kernel, as in the code object.
    pub name: String,
    /// Memory operations, each with the barrier at which it is outstanding.
    pub operations: Vec<OutstandingOperation>,
}

/// A memory operation that is outstanding at a barrier.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct OutstandingOperation {
    /// Offset of the barrier from the start of the kernel, in bytes.
    pub barrier: u32,
    /// Offset of the operation from the start of the kernel, in bytes.
    pub operation: u32,
    /// Kind of the operation, for example `global write`.
    pub kind: String,
}

/// Returns the audit of barriers as a table with one line for each file and architecture, followed by the kernels that
/// lack a wait.
pub fn barriers(findings: &[BarrierFinding]) -> String {
    let mut text = format!(
        "{:32} {:12} {:>8} {:>9} {:>8} {:>10} {:>10} {:>12} {:>8}\n",
        "file",
        "gfx",
        "kernels",
        "barriers",
        "fenced",
        "undecided",
        "lost waits",
        "unexplained",
        "suspect"
    );
    for finding in findings {
        let BarrierFinding { library, gfx, kernels, with_barriers, .. } = finding;
        if finding.not_read > 0 {
            text.push_str(&format!("{library:32} {gfx:12} {kernels:>8}  not read\n"));
            continue;
        }
        text.push_str(&format!(
            "{library:32} {gfx:12} {kernels:>8} {with_barriers:>9} {:>8} {:>10} {:>10} {:>12} {:>8}\n",
            finding.with_barriers - finding.bare_only,
            finding.undecided,
            finding.lost.len(),
            finding.unexplained.len(),
            finding.suspects.len(),
        ));
    }
    text.push_str(
        "All columns count kernels; `fenced` ones have a barrier whose fences are visible. A wait is\n\
         lost on some path of the code; whether the program can take that path is not decided.\n",
    );
    for finding in findings.iter().filter(|finding| !finding.lost.is_empty()) {
        text.push_str(&format!("\n{} {}, lost waits:\n", finding.library, finding.gfx));
        for kernel in &finding.lost {
            text.push_str(&format!("  {}\n", kernel.name));
            for it in &kernel.operations {
                text.push_str(&format!(
                    "    {} at +{:#x} is outstanding at the barrier at +{:#x} of a later iteration\n",
                    it.kind, it.operation, it.barrier
                ));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_kernels_that_lack_a_wait() {
        let operation = |barrier, operation, kind: &str| OutstandingOperation {
            barrier,
            operation,
            kind: kind.into(),
        };
        let operations =
            vec![operation(0x5c, 0x80, "global write"), operation(0x5c, 0x90, "LDS read")];
        let kernel = KernelFinding { name: "loop".into(), operations };
        let finding = |gfx: &str, not_read, lost| BarrierFinding {
            library: "librocsparse.so.1.0".into(),
            gfx: gfx.into(),
            kernels: 100,
            not_read,
            with_barriers: 60,
            bare_only: 20,
            lost,
            ..BarrierFinding::default()
        };
        insta::assert_snapshot!(barriers(&[
            finding("gfx1151", 0, vec![kernel]),
            finding("machine 0x33", 100, vec![]),
        ]));
    }
}
