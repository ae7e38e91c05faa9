//! Prints the comment at the top of a program, which describes the failure and how to build the program.

use plan::{Call, Plan};

use crate::form::Form;

/// Texts of the comment at the top of a program.
#[derive(Clone, Debug, Default)]
pub struct Header {
    /// One-line statement that should be true, but that the failure contradicts.
    pub title: String,
    /// Description of the failure, line by line; empty if no failure is known.
    pub wrong: Vec<String>,
    /// Upstream issues, as `owner/repository#number`.
    pub upstream: Vec<String>,
    /// Lines that state on which stacks and devices the program was tried, and how often.
    pub tested: Vec<String>,
    /// Faults that the program contains, or that must be injected into the emulated device.
    pub faults: Vec<String>,
    /// Architecture in the command that builds the program, for example `gfx1100`.
    pub gfx: String,
    /// Number of devices that the program needs. It is mentioned only if it is greater than 1.
    pub devices: u32,
    /// Number of processes to start at the same time. It is mentioned only if it is greater than 1.
    pub processes: u32,
}

/// Returns true for a Unicode character that changes the direction of text or ends a line. Such a character can make a
/// comment look like code.
fn controls_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl Header {
    /// Returns the text of the comment. If `short` is true, the comment contains no empty lines.
    pub(crate) fn text(&self, plan: &Plan, form: Form, short: bool) -> String {
        let mut out = String::new();
        let mut line = |text: &str| {
            if short && text.is_empty() {
                return;
            }
            // A line end, or a backslash before a line end, would turn the rest of a comment into code. A character
            // that changes the direction of text could make the rest look like code.
            let plain: String = text
                .chars()
                .map(|c| if c.is_control() || controls_direction(c) { ' ' } else { c })
                .collect();
            out.push_str(format!("// {}", plain.trim_end_matches(['\\', ' '])).trim_end());
            out.push('\n');
        };
        line(&format!("{}.", self.title.trim_end_matches('.')));
        for text in &self.wrong {
            line(text);
        }
        if !self.upstream.is_empty() {
            line(&format!("Upstream: {}", self.upstream.join(", ")));
        }
        line("");
        for text in self.faults.iter().chain(&self.tested) {
            line(text);
        }
        line(&format!("Printed by rocrepro from {}.", plan.trial));
        if self.devices > 1 {
            line(&format!("Needs {} devices.", self.devices));
        }
        line("");
        let libraries: Vec<String> =
            plan.libraries.iter().map(|l| format!(" -l{}", l.name())).collect();
        let libraries = libraries.concat();
        let compiles = plan.steps().iter().any(|step| matches!(step.call, Call::Compile { .. }));
        let hiprtc = if compiles { " -lhiprtc" } else { "" };
        let file = form.file();
        let build = match form {
            Form::Hiprtc => format!(
                "g++ -std=c++17 -pthread -D__HIP_PLATFORM_AMD__ -I/opt/rocm/include {file} -o repro -L/opt/rocm/lib \
                 -lamdhip64{hiprtc}{libraries}"
            ),
            Form::Hipcc => {
                format!(
                    "hipcc -std=c++17 -pthread --offload-arch={} {file} -o repro{libraries}",
                    self.gfx
                )
            }
        };
        line(&format!("Build: {build}"));
        let environment: Vec<String> = plan
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={} ", shell::quote(value)))
            .collect();
        let path = if form == Form::Hiprtc { "LD_LIBRARY_PATH=/opt/rocm/lib " } else { "" };
        let run = format!("{path}{}./repro", environment.concat());
        match self.processes {
            0 | 1 => line(&format!("Run:   {run}")),
            many => line(&format!("Run:   for n in $(seq {many}); do {run} & done; wait")),
        }
        out.push('\n');
        out
    }
}
