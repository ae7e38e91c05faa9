//! Prints the shortest program that shows a single failure. One macro checks all calls. Preparation and expectations
//! that are not necessary for the failure are left out.

use plan::{Effect, Phase, Plan, Step, Version, may_succeed};

use crate::{
    checks::is_success,
    form::Form,
    header::Header,
    helpers::Helper,
    literal::text,
    names::NameKind,
    printer::{Printer, refuse_files},
    short_program::ShortProgram,
};

/// Prints a plan as the shortest program that shows a failure. `failing` is the id of the step that fails; `None` if no
/// step was selected. The program checks the status, value or bytes of that step, and the success of all calls that
/// must succeed on every ROCm release.
///
/// # Errors
/// Fails if the plan cannot be printed in this way.
pub fn print_short(
    plan: &Plan,
    version: &Version,
    header: &Header,
    failing: Option<u32>,
) -> Result<String, String> {
    if plan.libraries.iter().any(|library| *library != plan::Library::Hiprand) {
        return Err("a short program cannot contain the helpers for matrix products".to_owned());
    }
    refuse_files(plan)?;
    let mut printer = Printer::new(plan, Form::Hiprtc, version);
    printer.short = Some(ShortProgram { failing });
    let mut passed = false;
    for (phase, steps) in plan.phases() {
        if phase == Phase::Teardown && !steps.is_empty() {
            // At this point, before the teardown, the results are right. A crash would lose output that is not flushed.
            printer.line(PASSED);
            printer.line("std::fflush(stdout);");
            passed = true;
        }
        printer.steps(steps)?;
    }
    if !passed {
        printer.line(PASSED);
    }
    Ok(printer.assemble(header))
}

/// The statement that prints that all results were right.
const PASSED: &str = "std::puts(\"PASS\");";

/// Start of the comment at the end of a line with an injected fault.
const INJECTED: &str = "  // Injected fault: ";

/// Start of a line whose call is not made because of an injected fault.
const NOT_MADE: &str = "if (false) ";

/// Returns the text of a short program without the faults that are injected at its calls.
pub fn without_injected(text: &str) -> String {
    let healthy = |line: &str| {
        if !line.contains(INJECTED) {
            return Some(line.to_owned());
        }
        // Other lines with injected faults are statements of their own, next to the call.
        let call = line.trim_start().strip_prefix(NOT_MADE)?;
        let indent = &line[..line.len() - line.trim_start().len()];
        let call = call.split(INJECTED).next().unwrap_or_default();
        Some(format!("{indent}{call}"))
    };
    text.lines().filter_map(healthy).map(|line| line + "\n").collect()
}

/// Maximum length of a statement that is printed on one line, in characters without the indentation.
const MAX_LINE_LENGTH: usize = 112;

impl<'a> Printer<'a> {
    /// Prints a call, and the effect of a fault that is injected at the call. Each injected statement is a line of its
    /// own that ends with a comment, so that [`without_injected`] finds it. The call is printed even after a statement
    /// that ends the process, because the program without the fault makes the call.
    ///
    /// # Errors
    /// Fails if the effect would need more than one line, or would be reported as the effect of another call.
    pub(crate) fn short_fault(&mut self, step: &'a Step, effect: &Effect) -> Result<(), String> {
        let function = self.api(&step.call);
        match effect {
            Effect::Abort => {
                self.line(format!("std::abort();{INJECTED}{function} kills the process."));
            }
            Effect::Exit(status) => {
                self.line(format!("std::exit({status});{INJECTED}{function} exits the process."));
            }
            Effect::Late(ms) => {
                let sleep =
                    format!("std::this_thread::sleep_for(std::chrono::milliseconds({ms}));");
                self.line(format!("{sleep}{INJECTED}the next call is made {ms} ms late."));
            }
            Effect::Return(0) if may_succeed(step) => {
                let from = self.body.len();
                self.call(step);
                let made = self.body.split_off(from);
                let line = made.trim();
                if line.contains('\n') || !line.starts_with("CHECK(") {
                    return Err("the omitted call takes more than one line".to_owned());
                }
                self.line(format!("{NOT_MADE}{line}{INJECTED}this call is not made."));
                return Ok(());
            }
            Effect::Return(_)
            | Effect::Deny(_)
            | Effect::Accept
            | Effect::OtherValue
            | Effect::Twice
            | Effect::AfterNextLaunch => {
                return Err("this injected fault takes more than one line".to_owned());
            }
        }
        self.call(step);
        Ok(())
    }

    /// Prints a call that returns a status. If the call is allowed to fail, its status is not checked, because other
    /// ROCm releases may return another status.
    pub(crate) fn short_status(
        &mut self,
        short: ShortProgram,
        step: &Step,
        call: &str,
        success: &str,
    ) {
        let named = |name: &String| if is_success(name) { success } else { name }.to_owned();
        let Some(returns) = &step.returns else {
            return self.short_check(call, success);
        };
        let right: Vec<String> =
            returns.at(self.version).into_iter().flatten().map(named).collect();
        match right.as_slice() {
            [one] if short.is_about(step) && one != "any" => self.short_check(call, one),
            [] => self.line(format!("(void){call};")),
            [one] if one == "any" => self.line(format!("(void){call};")),
            [one] => self.line(format!("(void){call};  // returns {one}")),
            _ => self.line(format!("(void){call};")),
        }
    }

    fn short_check(&mut self, call: &str, right: &str) {
        self.need(Helper::ShortCheck);
        if right.starts_with("HIPRTC") {
            self.need(Helper::NameRtc);
        }
        let text = format!("CHECK({call}, {right});");
        if text.len() <= MAX_LINE_LENGTH {
            return self.line(text);
        }
        self.line(format!("CHECK({call},"));
        self.line(format!("      {right});"));
    }

    /// Prints the check of a value that the failing step returned. `fits` is the C++ condition that the value is one of
    /// the expected ones.
    pub(crate) fn short_value(&mut self, function: &str, got: &str, wanted: &str, fits: &str) {
        self.line(format!("if (!({fits})) {{"));
        let wanted = wanted.replace('%', "%%");
        let message = text(&format!("FAIL: {function} gave %s; expected {wanted}\n"));
        self.line(format!("  std::printf({message},"));
        self.line(format!("              ({got}).c_str());"));
        self.line("  std::exit(1);");
        self.line("}");
    }

    /// Prints code that compares `bytes` bytes of the C++ variables `got` and `right`, and reports the first byte that
    /// differs. `what` is the name of the buffer in the report.
    pub(crate) fn short_bytes(&mut self, what: &str, got: &str, right: &str, bytes: u64) {
        let index = self.names.fresh(NameKind::Loop, "at");
        self.line(format!("for (size_t {index} = 0; {index} < {bytes}; {index}++) {{"));
        self.line(format!("  if ({got}[{index}] == {right}[{index}]) continue;"));
        self.line(format!(
            "  std::printf(\"FAIL: buffer {what}: byte %zu is %02x; expected %02x\\n\", {index},"
        ));
        self.line(format!("              {got}[{index}], {right}[{index}]);"));
        self.line("  std::exit(1);");
        self.line("}");
        self.names.release(&index);
    }

    pub(crate) fn short_pair(
        &mut self,
        names: [&str; 2],
        buffers: [&str; 2],
        bytes: u64,
        equal: bool,
    ) {
        let ([a, b], [first, second]) = (names, buffers);
        let (sign, word) = if equal { ("!=", "differs from") } else { ("==", "equals") };
        self.line(format!("if (std::memcmp({first}, {second}, {bytes}) {sign} 0) {{"));
        self.line(format!("  std::printf(\"FAIL: buffer {a}: {word} {b}\\n\");"));
        self.line("  std::exit(1);");
        self.line("}");
    }

    /// Prints code that checks that each element of a buffer is greater than or equal to a number.
    pub(crate) fn short_least(
        &mut self,
        buffer: &str,
        got: &str,
        (ty, value): (&str, &str),
        count: u64,
    ) {
        self.line(format!("for (size_t i = 0; i < {count}; i++) {{"));
        self.line(format!("  {ty} element;"));
        self.line(format!("  std::memcpy(&element, {got} + i * sizeof element, sizeof element);"));
        self.line(format!("  if (element >= {value}) continue;"));
        self.line(format!(
            "  std::printf(\"FAIL: buffer {buffer}: element %zu is too small\\n\", i);"
        ));
        self.line("  std::exit(1);");
        self.line("}");
    }

    /// Prints code that compiles a kernel for the current device at run time.
    pub(crate) fn short_compile(&mut self, kernel: &str) {
        let (program, bytes) = (format!("{kernel}_program"), format!("{kernel}_bytes"));
        let rtc = "HIPRTC_SUCCESS";
        self.line(format!("hiprtcProgram {program} = nullptr;"));
        let create = format!(
            "hiprtcCreateProgram(&{program}, {kernel}_source, \"{kernel}\", 0, nullptr, nullptr)"
        );
        self.short_check(&create, rtc);
        match self.options(kernel) {
            None => self.short_check(&format!("hiprtcCompileProgram({program}, 0, nullptr)"), rtc),
            Some(options) => {
                let list = format!("{kernel}_options");
                self.line(format!("const char* {list}[] = {{{options}}};"));
                let compile = format!("hiprtcCompileProgram({program}, std::size({list}), {list})");
                self.short_check(&compile, rtc);
            }
        }
        self.line(format!("size_t {bytes} = 0;"));
        self.short_check(&format!("hiprtcGetCodeSize({program}, &{bytes})"), rtc);
        self.line(format!("std::vector<char> {kernel}_code({bytes});"));
        self.short_check(&format!("hiprtcGetCode({program}, {kernel}_code.data())"), rtc);
    }

    /// Prints a loop that fills a buffer on the host. The values differ between the iterations of the surrounding
    /// loops.
    pub(crate) fn short_fill(&mut self, buffer: &str, stamp: u32) {
        let (name, bytes) = (self.name(NameKind::Buffer, buffer), self.buffer(buffer).bytes);
        let round = self.occurrence().map_or(String::new(), |round| format!(" + 7 * {round}"));
        let index = self.names.fresh(NameKind::Loop, "at");
        self.line(format!(
            "for (size_t {index} = 0; {index} < {bytes}; {index}++) {name}[{index}] = 1 + ({index} + {stamp}{round}) % 251;"
        ));
        self.names.release(&index);
    }

    /// Prints the allocation of pageable host memory with the same alignment as device memory.
    pub(crate) fn short_host_alloc(&mut self, buffer: &str) {
        let bytes = self.buffer(buffer).bytes.next_multiple_of(256);
        let ty = if self.declares(NameKind::Buffer, buffer) { "auto* " } else { "" };
        let name = self.name(NameKind::Buffer, buffer);
        self.line(format!(
            "{ty}{name} = static_cast<unsigned char*>(std::aligned_alloc(256, {bytes}));"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_injected_faults_from_a_short_program() {
        let text = "int main() {\n  std::abort();  // Injected fault: hipFree kills the process.\n  \
                    if (false) CHECK(f(), hipSuccess);  // Injected fault: this call is not made.\n  \
                    CHECK(g(), hipSuccess);  // a comment\n}\n";
        assert_eq!(
            without_injected(text),
            "int main() {\n  CHECK(f(), hipSuccess);\n  CHECK(g(), hipSuccess);  // a comment\n}\n"
        );
    }
}
