//! What a program that is about one failure only says of it, and how its texts are shorter than those of others.

use std::collections::BTreeSet;

use plan::Step;

use crate::support::Helper;

/// What a program is short about.
#[derive(Clone, Copy)]
pub(crate) struct Lean {
    /// The step that fails.
    pub(crate) failing: Option<u32>,
}

impl Lean {
    /// Whether a step is the one that fails.
    pub(crate) fn is_about(self, step: &Step) -> bool {
        self.failing == Some(step.id)
    }
}

/// A kernel without comments on lines of their own and empty lines.
pub(crate) fn without_comments(source: &str) -> String {
    let spare = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with("//");
    source.lines().filter(|line| !spare(line)).collect::<Vec<_>>().join("\n")
}

/// The helpers of a short program; where all statuses are those of HIP, its own function has their names.
#[expect(clippy::wildcard_enum_match_arm, reason = "helpers are text, but for those here")]
pub(crate) fn helpers(helpers: &BTreeSet<Helper>) -> String {
    let others = [Helper::NameRtc, Helper::NameRand, Helper::NameRandNumber];
    let others = others.iter().any(|helper| helpers.contains(helper));
    let mut out = String::new();
    for helper in helpers {
        match helper {
            // One name would be there twice.
            Helper::NameRandNumber if helpers.contains(&Helper::NameRand) => {}
            Helper::NameHip if !others => {}
            Helper::LeanCheck if !others => {
                let text =
                    helper.text().replace("name_of(status).c_str()", "hipGetErrorName(status)");
                out.push_str(&(text + "\n"));
            }
            // Two of a name belong together.
            Helper::NameHip => out.push_str(helper.text()),
            helper => out.push_str(&format!("{}\n", helper.text())),
        }
    }
    out
}
