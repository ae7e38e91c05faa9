//! Prints the shortest program that shows one failure: every call is checked by one macro, nothing is prepared or looked at that
//! the failure does not need, and what else the trial expects is left out.

use plan::{Plan, Step, Version};

use crate::{
    checks::is_success, form::Form, header::Header, lean::Lean, literal::text, names::Kind,
    printer::Printer, support::Helper,
};

/// Prints a plan as the shortest program. `failing` is the step that fails; only its status, value or bytes are looked at,
/// besides the success of calls that must succeed on every release.
///
/// # Errors
/// Why the plan cannot be written in this way.
pub fn print_lean(
    plan: &Plan,
    version: &Version,
    header: &Header,
    failing: Option<u32>,
) -> Result<String, String> {
    if plan.libraries.iter().any(|library| *library != plan::Library::Hiprand) {
        return Err(
            "the functions that describe products take more lines than they save".to_owned()
        );
    }
    let mut printer = Printer::new(plan, Form::Hiprtc, version);
    printer.lean = Some(Lean { failing });
    for (_, steps) in plan.phases() {
        printer.steps(steps)?;
    }
    printer.line("std::puts(\"PASS\");");
    Ok(printer.assemble(header))
}

/// Characters of a statement that stands on one line; its indentation comes to them.
const LONGEST_LINE: usize = 112;

impl Printer<'_> {
    /// A call with a status. What may answer an error without being wrong is not checked: other releases may answer otherwise.
    pub(crate) fn lean_status(&mut self, lean: Lean, step: &Step, call: &str, success: &str) {
        let named = |name: &String| if is_success(name) { success } else { name }.to_owned();
        let Some(returns) = &step.returns else {
            return self.lean_check(call, success);
        };
        let right: Vec<String> =
            returns.at(self.version).into_iter().flatten().map(named).collect();
        match right.as_slice() {
            [one] if lean.is_about(step) && one != "any" => self.lean_check(call, one),
            [] => self.line(format!("(void){call};")),
            [one] if one == "any" => self.line(format!("(void){call};")),
            [one] => self.line(format!("(void){call};  // answers {one}")),
            _ => self.line(format!("(void){call};")),
        }
    }

    fn lean_check(&mut self, call: &str, right: &str) {
        self.need(Helper::LeanCheck);
        if right.starts_with("HIPRTC") {
            self.need(Helper::NameRtc);
        }
        let text = format!("CHECK({call}, {right});");
        if text.len() <= LONGEST_LINE {
            return self.line(text);
        }
        self.line(format!("CHECK({call},"));
        self.line(format!("      {right});"));
    }

    /// A value that the failing step gives.
    pub(crate) fn lean_value(&mut self, function: &str, got: &str, wanted: &str, fits: &str) {
        self.line(format!("if (!({fits})) {{"));
        let wanted = wanted.replace('%', "%%");
        let told = text(&format!("FAIL: {function} gave %s; expected was {wanted}\n"));
        self.line(format!("  std::printf({told},"));
        self.line(format!("              ({got}).c_str());"));
        self.line("  std::exit(1);");
        self.line("}");
    }

    /// Compares bytes, and shows the first that is wrong.
    pub(crate) fn lean_bytes(&mut self, what: &str, got: &str, right: &str, bytes: u64) {
        let index = self.names.fresh(Kind::Loop, "at");
        self.line(format!("for (size_t {index} = 0; {index} < {bytes}; {index}++) {{"));
        self.line(format!("  if ({got}[{index}] == {right}[{index}]) continue;"));
        self.line(format!(
            "  std::printf(\"FAIL: buffer {what}: byte %zu is %02x; expected was %02x\\n\", {index},"
        ));
        self.line(format!("              {got}[{index}], {right}[{index}]);"));
        self.line("  std::exit(1);");
        self.line("}");
        self.names.release(&index);
    }

    /// Compares two buffers with each other.
    pub(crate) fn lean_pair(
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

    /// A kernel compiled for the device at hand.
    pub(crate) fn lean_compile(&mut self, kernel: &str) {
        let (program, bytes) = (format!("{kernel}_program"), format!("{kernel}_bytes"));
        let rtc = "HIPRTC_SUCCESS";
        self.line(format!("hiprtcProgram {program} = nullptr;"));
        let create = format!(
            "hiprtcCreateProgram(&{program}, {kernel}_source, \"{kernel}\", 0, nullptr, nullptr)"
        );
        self.lean_check(&create, rtc);
        match self.options(kernel) {
            None => self.lean_check(&format!("hiprtcCompileProgram({program}, 0, nullptr)"), rtc),
            Some(options) => {
                let list = format!("{kernel}_options");
                self.line(format!("const char* {list}[] = {{{options}}};"));
                let compile = format!("hiprtcCompileProgram({program}, std::size({list}), {list})");
                self.lean_check(&compile, rtc);
            }
        }
        self.line(format!("size_t {bytes} = 0;"));
        self.lean_check(&format!("hiprtcGetCodeSize({program}, &{bytes})"), rtc);
        self.line(format!("std::vector<char> {kernel}_code({bytes});"));
        self.lean_check(&format!("hiprtcGetCode({program}, {kernel}_code.data())"), rtc);
    }

    /// Host stores, different in each round.
    pub(crate) fn lean_fill(&mut self, buffer: &str, stamp: u32) {
        let (name, bytes) = (self.name(Kind::Buffer, buffer), self.buffer(buffer).bytes);
        let round = self.occurrence().map_or(String::new(), |round| format!(" + 7 * {round}"));
        let index = self.names.fresh(Kind::Loop, "at");
        self.line(format!(
            "for (size_t {index} = 0; {index} < {bytes}; {index}++) {name}[{index}] = 1 + ({index} + {stamp}{round}) % 251;"
        ));
        self.names.release(&index);
    }

    /// Pageable memory of the host, aligned as device memory is.
    pub(crate) fn lean_host_alloc(&mut self, buffer: &str) {
        let bytes = self.buffer(buffer).bytes.next_multiple_of(256);
        let ty = if self.declares(Kind::Buffer, buffer) { "auto* " } else { "" };
        let name = self.name(Kind::Buffer, buffer);
        self.line(format!(
            "{ty}{name} = static_cast<unsigned char*>(std::aligned_alloc(256, {bytes}));"
        ));
    }
}
