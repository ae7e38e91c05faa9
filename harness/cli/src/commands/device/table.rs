//! The audit as a table.

use super::audit::{Finding, Missing};

/// The text of an audit: one line for each library and architecture, then what is missing, most frequent first.
pub(super) fn format(findings: &[Finding]) -> String {
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
        text.push_str("Sampled: a/b is a files read of b.\n");
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

fn line(missing: &Missing) -> String {
    let Missing { opcode, count, of, example } = missing;
    let part = if count == of { String::new() } else { format!(" of {of}") };
    let example = example.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("  {:>12}  {opcode:32} {example}\n", format!("{count}{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table() {
        let missing = |opcode: &str, count, of| Missing {
            opcode: opcode.into(),
            count,
            of,
            example: format!("{opcode}\tv0, v1"),
        };
        let findings = [
            Finding {
                library: "hiprand".into(),
                gfx: "gfx1151".into(),
                files: 1,
                read: 1,
                instructions: 1000,
                opcodes: 12,
                ..Finding::default()
            },
            Finding {
                library: "rocblas".into(),
                gfx: "gfx90a".into(),
                files: 40,
                read: 4,
                instructions: 123_456,
                opcodes: 300,
                missing: vec![missing("v_mfma_f32_4x4x4f16", 20, 20), missing("v_mov_b32", 1, 99)],
                aside: vec![missing("image_load", 3, 3)],
                ..Finding::default()
            },
        ];
        insta::assert_snapshot!(format(&findings));
    }
}
