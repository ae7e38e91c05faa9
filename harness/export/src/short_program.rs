//! Settings and helper functions of short programs, which show a single failure and nothing else.

use std::collections::BTreeSet;

use plan::Step;

use crate::helpers::Helper;

/// Settings of a short program.
#[derive(Clone, Copy)]
pub(crate) struct ShortProgram {
    /// Id of the step that fails; `None` if no step was selected.
    pub(crate) failing: Option<u32>,
}

impl ShortProgram {
    pub(crate) fn is_about(self, step: &Step) -> bool {
        self.failing == Some(step.id)
    }
}

/// Returns the source code of a kernel without empty lines, and without comments on lines of their own.
pub(crate) fn without_comments(source: &str) -> String {
    let spare = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with("//");
    source.lines().filter(|line| !spare(line)).collect::<Vec<_>>().join("\n")
}

/// Returns the C++ helper functions of a short program. If the program uses only statuses of HIP, `hipGetErrorName`
/// replaces the helper that names statuses.
#[expect(clippy::wildcard_enum_match_arm, reason = "only these helpers need a rule of their own")]
pub(crate) fn helpers(helpers: &BTreeSet<Helper>) -> String {
    let others = [Helper::NameRtc, Helper::NameRand, Helper::NameRandNumber];
    let others = others.iter().any(|helper| helpers.contains(helper));
    let mut out = String::new();
    for helper in helpers {
        match helper {
            // The two helpers define the same function, so only one of them is printed.
            Helper::NameRandNumber if helpers.contains(&Helper::NameRand) => {}
            Helper::NameHip if !others => {}
            Helper::ShortCheck if !others => {
                let text =
                    helper.text().replace("name_of(status).c_str()", "hipGetErrorName(status)");
                out.push_str(&(text + "\n"));
            }
            // No empty line separates overloads of the same function.
            Helper::NameHip => out.push_str(helper.text()),
            helper => out.push_str(&format!("{}\n", helper.text())),
        }
    }
    out
}
