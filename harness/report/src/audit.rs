//! Formats the result of the opcode audit, which lists the opcodes that occur in the GPU kernels of libraries and that
//! the emulated device's interpreter does not support.

use serde::{Deserialize, Serialize};

/// Result of the audit for one library and one architecture.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct AuditFinding {
    /// Name of the library.
    pub library: String,
    /// Architecture of the GPU, for example `gfx1151`.
    pub gfx: String,
    /// Number of the library's files that contain code for the architecture.
    pub files: usize,
    /// Number of files that the audit has read; lower than `files` if the audit read only a sample.
    pub read: usize,
    /// Number of instructions that were found.
    pub instructions: u64,
    /// Number of different opcodes.
    pub opcodes: usize,
    /// Number of dwords that are not instructions: padding and tables between kernels.
    pub not_instructions: u64,
    /// Opcodes that the interpreter does not support.
    pub missing: Vec<MissingOpcode>,
    /// Unsupported graphics, image and ray-tracing opcodes. They do not count as missing, because math libraries do not
    /// need them.
    pub aside: Vec<MissingOpcode>,
}

/// An opcode for which the interpreter does not support some or all instructions.
#[derive(Debug, Serialize, Deserialize)]
pub struct MissingOpcode {
    /// Name of the opcode.
    pub opcode: String,
    /// Number of unsupported instructions with this opcode.
    pub count: u64,
    /// Number of all instructions with this opcode.
    pub of: u64,
    /// Disassembly of an unsupported instruction with this opcode.
    pub example: String,
}

/// Returns the audit as a table: one line for each library and architecture, followed by the missing opcodes, the most
/// frequent first.
pub fn audit(findings: &[AuditFinding]) -> String {
    let mut text = format!(
        "{:24} {:8} {:>9} {:>13} {:>8} {:>8}\n",
        "library", "gfx", "files", "instructions", "opcodes", "missing"
    );
    for finding in findings {
        let files = if finding.read < finding.files {
            format!("{}/{}", finding.read, finding.files)
        } else {
            finding.files.to_string()
        };
        text.push_str(&format!(
            "{:24} {:8} {files:>9} {:>13} {:>8} {:>8}\n",
            finding.library,
            finding.gfx,
            finding.instructions,
            finding.opcodes,
            finding.missing.len()
        ));
    }
    if findings.iter().any(|finding| finding.read < finding.files) {
        text.push_str("Sampled: a/b means that only a of b files were read.\n");
    }
    for finding in findings {
        let lists = [("missing", &finding.missing), ("graphics, not counted", &finding.aside)];
        for (title, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            text.push_str(&format!("\n{} {}, {title}:\n", finding.library, finding.gfx));
            list.iter().for_each(|missing| text.push_str(&line(missing)));
        }
    }
    text
}

fn line(missing: &MissingOpcode) -> String {
    let MissingOpcode { opcode, count, of, example } = missing;
    let part = if count == of { String::new() } else { format!(" of {of}") };
    let example = example.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("  {:>12}  {opcode:32} {example}\n", format!("{count}{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_library_and_architecture() {
        let missing = |opcode: &str, count, of| MissingOpcode {
            opcode: opcode.into(),
            count,
            of,
            example: format!("{opcode}\tv0, v1"),
        };
        let findings = [
            AuditFinding {
                library: "hiprand".into(),
                gfx: "gfx1151".into(),
                files: 1,
                read: 1,
                instructions: 1000,
                opcodes: 12,
                ..AuditFinding::default()
            },
            AuditFinding {
                library: "rocblas".into(),
                gfx: "gfx90a".into(),
                files: 40,
                read: 4,
                instructions: 123_456,
                opcodes: 300,
                missing: vec![missing("v_mfma_f32_4x4x4f16", 20, 20), missing("v_mov_b32", 1, 99)],
                aside: vec![missing("image_load", 3, 3)],
                ..AuditFinding::default()
            },
        ];
        insta::assert_snapshot!(audit(&findings));
    }
}
