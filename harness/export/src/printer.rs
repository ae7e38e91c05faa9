//! Prints the structure of a program: phases, blocks and injected faults. The module `calls` prints the individual
//! calls.

use std::collections::{BTreeMap, BTreeSet};

use plan::{BufferAddress, Call, DEFAULT_STREAM, Effect, Phase, Plan, Step, Version, may_succeed};

use crate::{
    declarations::Declarations,
    expected_bytes::Expected,
    form::Form,
    header::Header,
    helpers::{self, Helper},
    literal,
    names::{NameKind, Names},
    short_program::{self, ShortProgram},
};

/// Prints a plan as a C++ program. Expectations that depend on the ROCm version are those for `version`.
///
/// # Errors
/// Fails if the plan cannot be written as a program, for example because a capture begins in a block and ends outside
/// of it.
pub fn print(
    plan: &Plan,
    form: Form,
    version: &Version,
    header: &Header,
) -> Result<String, String> {
    refuse_files(plan)?;
    let mut printer = Printer::new(plan, form, version);
    printer.main()?;
    Ok(printer.assemble(header))
}

/// Refuses a plan that needs files, because a program is one file.
pub(crate) fn refuse_files(plan: &Plan) -> Result<(), String> {
    let of_kernels = plan.own_kernels.iter().filter_map(|(name, own)| {
        let file = &own.code.as_ref()?.file;
        Some(format!("kernel `{name}` ({}) is in the code object `{file}`", own.place))
    });
    let of_steps = plan.steps().into_iter().filter_map(|step| {
        let (Call::FillFile { file, .. } | Call::Check { file: Some(file), .. }) = &step.call
        else {
            return None;
        };
        Some(format!("line {} needs the bytes of `{file}`", step.line))
    });
    match of_kernels.chain(of_steps).next() {
        Some(what) => Err(format!("{what}, and a program has no files")),
        None => Ok(()),
    }
}

pub(crate) struct Printer<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) form: Form,
    pub(crate) version: &'a Version,
    pub(crate) names: Names,
    /// For each graph, the C++ variables for its last node and for the node that is being added.
    pub(crate) ends: BTreeMap<String, (String, String)>,
    pub(crate) helpers: BTreeSet<Helper>,
    pub(crate) expected: Expected<'a>,
    /// Settings of a short program, which shows a single failure; `None` for a complete program.
    pub(crate) short: Option<ShortProgram>,
    declared: Declarations,
    /// Variable and number of iterations of each loop around the current step, outermost loop first.
    pub(crate) loops: Vec<(String, u32)>,
    pub(crate) body: String,
    indent: usize,
    /// True if an injected fault postpones calls in this plan.
    postpones: bool,
}

impl<'a> Printer<'a> {
    pub(crate) fn new(plan: &'a Plan, form: Form, version: &'a Version) -> Self {
        let mut names = Names::default();
        // Buffers get their identifiers first, and therefore without suffixes, because readers look for the buffers
        // first.
        for buffer in plan.buffers.keys() {
            names.identifier(NameKind::Buffer, buffer);
        }
        let postpones =
            plan.steps().iter().any(|s| injected_effect(s) == Some(&Effect::AfterNextLaunch));
        Printer {
            plan,
            form,
            version,
            names,
            ends: BTreeMap::new(),
            helpers: BTreeSet::new(),
            expected: Expected::new(plan),
            short: None,
            declared: Declarations::new(plan),
            loops: Vec::new(),
            body: String::new(),
            indent: 1,
            postpones,
        }
    }

    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref();
        if !text.is_empty() {
            self.body.push_str(&"  ".repeat(self.indent));
            self.body.push_str(text);
        }
        self.body.push('\n');
    }

    pub(crate) fn position(&self) -> usize {
        self.body.len()
    }

    /// Indents the text that has been printed since the byte `from` by one level.
    pub(crate) fn indent_since(&mut self, from: usize) {
        let made = self.body.split_off(from);
        made.lines().for_each(|line| self.body.push_str(&format!("  {line}\n")));
    }

    pub(crate) fn lines(&mut self, lines: &[String]) {
        for line in lines {
            self.line(line);
        }
    }

    pub(crate) fn need(&mut self, helper: Helper) {
        helpers::add(helper, &mut self.helpers);
    }

    pub(crate) fn name(&mut self, kind: NameKind, name: &str) -> String {
        self.names.identifier(kind, name)
    }

    pub(crate) fn stream(&mut self, name: &str) -> String {
        match name {
            DEFAULT_STREAM => "nullptr".to_owned(),
            name => self.name(NameKind::Stream, name),
        }
    }

    pub(crate) fn place(&mut self, place: &BufferAddress) -> String {
        let buffer = self.name(NameKind::Buffer, &place.buffer);
        match place.offset {
            0 => buffer,
            offset => format!("{buffer} + {offset}"),
        }
    }

    /// Returns a C++ expression for the number of earlier executions of the current step, computed from the loop
    /// variables; `None` outside of loops.
    pub(crate) fn occurrence(&self) -> Option<String> {
        let mut loops = self.loops.iter();
        let first = loops.next()?.0.clone();
        Some(loops.fold(first, |sum, (variable, count)| format!("({sum} * {count} + {variable})")))
    }

    /// Returns true if the call that creates the object also declares its variable.
    pub(crate) fn declares(&self, kind: NameKind, name: &str) -> bool {
        !self.declared.is_hoisted(kind, name)
    }

    /// Returns the form in which the program contains a kernel.
    pub(crate) fn form_of(&self, kernel: &str) -> Form {
        self.form.of_kernel(self.plan, kernel)
    }

    fn main(&mut self) -> Result<(), String> {
        let plan = self.plan;
        for (phase, steps) in plan.phases() {
            if steps.is_empty() && phase != Phase::Teardown {
                continue;
            }
            match phase {
                Phase::Setup => self.line("// Set-up."),
                Phase::Body => {
                    self.line("");
                    self.line("// The calls under test.");
                }
                Phase::Verify => {
                    self.line("");
                    self.line("// The guards around the buffers must be intact.");
                }
                Phase::Start | Phase::Load | Phase::Init | Phase::Teardown => self.result(),
            }
            self.steps(steps)?;
            if phase == Phase::Body && self.postpones {
                self.line("make_postponed();");
            }
        }
        self.line("return failures == 0 ? 0 : 1;");
        Ok(())
    }

    fn result(&mut self) {
        self.line("");
        self.line("std::printf(failures == 0 ? \"PASS\\n\" : \"FAILED: %d expectations were not met\\n\", failures);");
        self.line("std::fflush(stdout);");
        self.line("");
        if !self.plan.teardown.is_empty() {
            self.line("// Teardown.");
        }
    }

    pub(crate) fn steps(&mut self, steps: &'a [Step]) -> Result<(), String> {
        for step in steps {
            self.step(step)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &'a Step) -> Result<(), String> {
        if let Call::Repeat { count, body } = &step.call {
            let wanted = ["i", "j", "k"].get(self.loops.len()).copied().unwrap_or("round");
            let variable = self.names.fresh(NameKind::Loop, wanted);
            self.line(format!("for (int {variable} = 0; {variable} < {count}; {variable}++) {{"));
            self.expected.enter_loop(&variable, *count);
            self.loops.push((variable, *count));
            self.indented(body)?;
            if let Some((variable, _)) = self.loops.pop() {
                self.names.release(&variable);
            }
            self.expected.leave_loop();
            self.line("}");
            Ok(())
        } else if let Call::Thread { body } = &step.call {
            self.line("std::thread([&] {");
            self.indented(body)?;
            self.line("}).join();");
            Ok(())
        } else {
            self.call_with_fault(step)
        }
    }

    fn indented(&mut self, body: &'a [Step]) -> Result<(), String> {
        self.indent += 1;
        let done = self.steps(body);
        self.indent -= 1;
        done
    }

    /// Prints a call with the effect of an injected fault, and the update of the expected bytes.
    fn call_with_fault(&mut self, step: &'a Step) -> Result<(), String> {
        match injected_effect(step) {
            None => self.call(step),
            Some(effect) if self.short.is_some() => self.short_fault(step, effect)?,
            Some(Effect::Return(0)) if may_succeed(step) => {
                self.line("// Injected fault: this call is not made and returns success.");
                let from = self.body.len();
                self.call(step);
                let made = self.body.split_off(from);
                for line in made.lines() {
                    let inner = line.trim_start();
                    let indent = &line[..line.len() - inner.len()];
                    self.body.push_str(&format!("{indent}// {inner}\n"));
                }
            }
            Some(Effect::Return(_)) if matches!(step.call, Call::Compile { .. }) => {
                return Err("an injected compile error cannot be expressed in a program".to_owned());
            }
            Some(Effect::Return(code)) => self.inject_refusal(step, *code),
            // The program makes the call and then replaces its status, as the worker does.
            Some(Effect::Deny(code)) => {
                self.call(step);
                self.inject_status(step, *code);
            }
            Some(Effect::Accept) => {
                self.call(step);
                self.inject_status(step, 0);
            }
            Some(Effect::OtherValue) => {
                return Err("an injected value cannot be expressed in a program".to_owned());
            }
            Some(Effect::Twice) => {
                self.call(step);
                self.line("// Injected fault: the call above is made twice.");
                self.call(step);
            }
            Some(Effect::Late(ms)) => {
                self.line(format!("// Injected fault: the next call is made {ms} ms late."));
                self.line(format!("std::this_thread::sleep_for(std::chrono::milliseconds({ms}));"));
                self.call(step);
            }
            Some(Effect::Abort) => {
                self.line(format!(
                    "// Injected fault: {} kills the process.",
                    self.api(&step.call)
                ));
                self.line("std::abort();");
                self.declare_only(&step.call);
            }
            Some(Effect::Exit(status)) => {
                self.line(format!(
                    "// Injected fault: {} exits the process.",
                    self.api(&step.call)
                ));
                self.line(format!("std::exit({status});"));
                self.declare_only(&step.call);
            }
            Some(Effect::AfterNextLaunch) => {
                self.need(Helper::Postponed);
                self.line("// Injected fault: this call is made only after the next graph launch.");
                self.line("postponed.push_back([&] {");
                self.indent += 1;
                self.call(step);
                self.indent -= 1;
                self.line("});");
            }
        }
        if self.postpones && matches!(step.call, Call::GraphLaunch { .. }) {
            self.line("make_postponed();");
        }
        self.expect(step)
    }

    fn expect(&mut self, step: &'a Step) -> Result<(), String> {
        let lines = self.expected.step(step, &mut self.names)?;
        for helper in self.expected.take_helpers() {
            self.need(helper);
        }
        self.lines(&lines);
        Ok(())
    }

    pub(crate) fn assemble(mut self, header: &Header) -> String {
        let mut out = header.text(self.plan, self.form, self.short.is_some());
        let mut hoisted = String::new();
        for line in self.declared.lines(&mut self.names) {
            hoisted.push_str(&format!("  {line}\n"));
        }
        for line in self.expected.declarations(&mut self.names) {
            hoisted.push_str(&format!("  {line}\n"));
        }
        let on_host = self.expected.kernels();
        let mut functions = String::new();
        if self.expected.uses_views() {
            self.need(Helper::As);
        }
        if self.short.is_none() {
            self.need(Helper::Require);
        }
        if self.short.is_some() {
            // A short program contains the number itself, because a named constant would take another line.
            self.body = self.body.replace("POISON", "0xa5");
            hoisted = hoisted.replace("POISON", "0xa5");
        } else if self.body.contains("POISON") || hoisted.contains("POISON") {
            self.need(Helper::Poison);
        }
        let mut failures = self.short.is_none().then_some("static int failures = 0;\n");
        if self.short.is_some() {
            functions.push_str(&short_program::helpers(&self.helpers));
        }
        for helper in self.helpers.iter().filter(|_| self.short.is_none()) {
            let text = helper.text();
            if text.contains("failures")
                && let Some(line) = failures.take()
            {
                functions.push_str(line);
                functions.push('\n');
            }
            functions.push_str(text);
            functions.push('\n');
        }
        if let Some(line) = failures {
            functions.push_str(line);
            functions.push('\n');
        }
        if !on_host.is_empty() {
            functions.push_str("// Results of the kernels, computed on the host.\n");
            for name in &on_host {
                functions.push_str(helpers::kernel_on_host(name).unwrap_or_default());
            }
            functions.push('\n');
        }
        let kernels = self.kernel_texts();
        let main = format!(
            "int main() {{\n{}{hoisted}{}}}\n",
            if self.short.is_some() { "" } else { self.runtime_banner() },
            if hoisted.is_empty() { self.body.clone() } else { format!("\n{}", self.body) }
        );
        let all = format!("{functions}{kernels}{main}");
        out.push_str(&self.library_includes());
        out.push('\n');
        for include in helpers::includes(&all) {
            out.push_str(&format!("#include {include}\n"));
        }
        out.push('\n');
        out.push_str(&all);
        out
    }

    fn library_includes(&self) -> String {
        let mut out = "#include <hip/hip_runtime.h>\n".to_owned();
        let calls: Vec<&Call> = self.plan.steps().into_iter().map(|s| &s.call).collect();
        let any = |wanted: fn(&Call) -> bool| calls.iter().any(|call| wanted(call));
        if self.plan.kernels.keys().any(|kernel| self.form_of(kernel) == Form::Hiprtc) {
            out.push_str("#include <hip/hiprtc.h>\n");
        }
        if any(|c| matches!(c, Call::RandCreate { .. })) {
            out.push_str("#include <hiprand/hiprand.h>\n");
        }
        if any(|c| matches!(c, Call::BlasltCreate { .. })) {
            out.push_str("#include <hipblaslt/hipblaslt.h>\n");
        }
        if any(|c| matches!(c, Call::RocblasCreate { .. })) {
            out.push_str("#include <rocblas/rocblas.h>\n");
        }
        out
    }

    /// Returns C++ code that prints the version of the HIP runtime and the name of the device, which bug reports need.
    fn runtime_banner(&self) -> &'static str {
        "  int runtime = 0;\n  hipDeviceProp_t device;\n  HIP_CHECK(hipRuntimeGetVersion(&runtime));\n  \
         HIP_CHECK(hipGetDeviceProperties(&device, 0));\n  \
         std::printf(\"HIP runtime %d on %s (%s)\\n\", runtime, device.name, device.gcnArchName);\n  \
         std::fflush(stdout);\n"
    }

    fn kernel_texts(&mut self) -> String {
        let mut out = String::new();
        let kernels: BTreeMap<&String, &String> = self.plan.kernels.iter().collect();
        for (name, source) in kernels {
            match self.form_of(name) {
                Form::Hipcc => {
                    out.push_str(source.trim_end());
                    out.push_str("\n\n");
                }
                Form::Hiprtc => {
                    let end = literal::delimiter(source);
                    let source = match self.short {
                        Some(_) => short_program::without_comments(source),
                        None => source.trim_end().to_owned(),
                    };
                    if self.short.is_some() && !source.contains('\n') {
                        let text = format!(
                            "static const char {name}_source[] = R\"{end}({source}){end}\";\n\n"
                        );
                        out.push_str(&text);
                        continue;
                    }
                    out.push_str(&format!(
                        "static const char {name}_source[] = R\"{end}(\n{source}\n){end}\";\n\n"
                    ));
                }
            }
        }
        out
    }
}

/// Returns the effect of the fault that is injected into a call; `None` if no fault is injected there. In a printed
/// program, a fault takes effect each time the call is made. If several faults are injected, the first one is used.
fn injected_effect(step: &Step) -> Option<&Effect> {
    step.planted.first().map(|planted| &planted.effect)
}
