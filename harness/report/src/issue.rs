//! Writes an issue about a failing trial, to be filed with the maintainers of ROCm.
//!
//! The issue has exactly the headings of one of their issue forms, and contains only measured [`Findings`]. rocrepro
//! never posts the issue; [`Issue::link`] returns an address that a person may open.

mod address;
mod environment;
mod filing;
mod findings;
mod form;
mod given_values;
mod home;
mod known;
mod markdown;
mod needs;
mod overview;
mod program;
mod publish;
mod publish_file;
mod published_xml;
mod quoted;
mod redact;
mod since;
mod summary;
mod title;
mod variables;
mod write;

pub use address::{LIMIT, Link};
pub use environment::{Driver, Environment, NotRead, StackFound, Variable, is_gpu_line};
pub use filing::Filing;
pub use findings::{
    Control, Duplicate, Findings, KnownBug, Log, PrintedProgramRun, Program, SanitizerError,
    UnexportedProgram, UnjudgedRelease,
};
pub use form::Form;
pub use given_values::private_values;
pub use home::{Home, home};
pub use program::faulting_library;
pub use publish::{publish, publish_json};
pub use publish_file::publish_file;
pub use redact::{Identity, Syntax, redact, redact_program};
pub use summary::summary;
pub use variables::{concerns_rocm, is_public};

use form::{Content, Field};

/// Text that GitHub shows for an empty field.
const NO_RESPONSE: &str = "_No response_";

/// Maximum number of kernel log lines in an issue. Earlier lines are often about attempts to shorten the program.
const KERNEL_LINES: usize = 3;

/// An issue that is ready to be filed.
#[derive(Clone, Debug)]
pub struct Issue {
    /// Issue form whose headings the issue has.
    pub form: Form,
    /// Repository in which the issue should be filed, as `owner/name`.
    pub repository: &'static str,
    /// Title, including the form's prefix.
    pub title: String,
    /// Place where the text should be filed: a new issue, a comment, or nowhere yet.
    pub filing: Filing,
    sections: Vec<(Field, Vec<Block>)>,
}

/// Part of a section that is either included completely or left out.
#[derive(Clone, Debug)]
struct Block {
    /// Name by which the issue mentions the block if the block is left out.
    name: String,
    text: String,
    /// Rank of the block when space is short: blocks with lower numbers are left out first. `None` if the block must
    /// stay.
    cut: Option<u8>,
}

impl Block {
    fn uncut(text: String) -> Block {
        Block { name: String::new(), text, cut: None }
    }
}

impl Issue {
    /// Writes the issue for a form. If `form` is `None`, selects the form of the repository whose component probably
    /// caused the failure.
    pub fn new(findings: &Findings, form: Option<Form>) -> Issue {
        // The title is plain text, so it is written before the findings are escaped for Markdown.
        let title = title::title(findings);
        let findings = &quoted::escape_markdown(findings);
        let home = match program::unexported_program(findings) {
            Some(_) => program::home(&findings.record),
            None => home(&findings.record, &findings.libraries),
        };
        let filing = filing::filing(findings, form);
        let form = form.unwrap_or(home.form);
        let repository = form.repository().unwrap_or(home.repository);
        let section = |field: &Field| {
            let blocks = blocks(findings, &home, form, field.content);
            (*field, blocks)
        };
        let prefix = match filing {
            Filing::Draft => "Not an issue yet: ",
            Filing::New => form.title_prefix(),
            Filing::Comment { .. } => "",
        };
        let sections = match filing {
            Filing::Comment { .. } => vec![(filing::COMMENT, comment(findings))],
            Filing::New | Filing::Draft => form.fields().iter().map(section).collect(),
        };
        Issue { form, repository, title: format!("{prefix}{title}"), filing, sections }
    }

    /// Renders the issue as Markdown, in the way in which GitHub renders the form.
    pub fn markdown(&self) -> String {
        let sections: Vec<_> =
            self.sections.iter().map(|(field, blocks)| section(field, blocks)).collect();
        sections.join("\n\n") + "\n"
    }
}

fn section(field: &Field, blocks: &[Block]) -> String {
    if field.heading.is_empty() {
        return body(blocks);
    }
    format!("### {}\n\n{}", field.heading, body(blocks))
}

fn body(blocks: &[Block]) -> String {
    let texts: Vec<_> = blocks.iter().map(|b| b.text.as_str()).filter(|t| !t.is_empty()).collect();
    if texts.is_empty() { NO_RESPONSE.to_owned() } else { texts.join("\n\n") }
}

fn blocks(findings: &Findings, home: &Home, form: Form, content: Content) -> Vec<Block> {
    let record = &findings.record;
    let one = |text: String| vec![Block::uncut(text)];
    match content {
        Content::Problem => problem(findings),
        Content::OperatingSystem => {
            let machine = &findings.environment;
            let container = machine.container.as_ref();
            let inside = container.map_or(String::new(), |c| format!(" in a {c} container; the kernel is the host's"));
            one(format!("{} ({}){inside}", machine.os, machine.kernel))
        }
        Content::Cpu => one(findings.environment.cpu.clone()),
        Content::Gpu => one(match (form, record.device.emulated) {
            (Form::RocmLibraries, true) => "Other".to_owned(),
            _ => gpu(findings),
        }),
        Content::OtherGpu => {
            one(if record.device.emulated { gpu(findings) } else { String::new() })
        }
        Content::RocmVersion => one(rocm_version(findings)),
        Content::Component => one(home.component.to_owned()),
        Content::Steps => steps(findings),
        Content::Rocminfo => one(String::new()),
        Content::Additional => {
            let mut blocks = evidence(findings);
            blocks.extend(about_the_run(findings, home));
            blocks.extend(logs(findings));
            blocks.extend(machine(findings));
            blocks.extend(case(findings));
            blocks.push(Block::uncut(write::colophon(findings)));
            blocks
        }
        // Forms with this field have only one field for everything that is needed to reproduce the failure.
        Content::Reproduction => {
            let mut blocks = problem(findings);
            blocks.extend(steps(findings));
            blocks.extend(evidence(findings));
            blocks.extend(about_the_run(findings, home));
            if form != Form::PytorchPt2 {
                blocks.extend(logs(findings));
            }
            blocks.extend(case(findings));
            blocks.push(Block::uncut(write::colophon(findings)));
            blocks
        }
        Content::ErrorLogs => {
            let mut blocks = one(write::actual(findings));
            blocks.extend(logs(findings));
            blocks
        }
        Content::Versions | Content::SystemInfo => versions(findings, content),
        Content::Scripts => one("- [ ] The official example scripts\n- [x] My own modified scripts".to_owned()),
        Content::Tasks => one(
            "- [ ] One of the scripts in the examples/ folder of Accelerate or an officially supported `no_trainer` script in the \
             `examples` folder of the `transformers` repo (such as `run_no_trainer_glue.py`)\n\
             - [x] My own task or dataset (give details below)"
                .to_owned(),
        ),
        Content::Expected => one(write::expected(findings)),
    }
}

/// Returns the text of a comment on a known issue. The form's fields are left out, because the issue has them already.
fn comment(findings: &Findings) -> Vec<Block> {
    let mut blocks = problem(findings);
    blocks.extend(steps(findings));
    blocks.extend(evidence(findings));
    blocks.push(Block::uncut(write::builds_and_environment(findings)));
    blocks.extend(logs(findings));
    blocks.extend(machine(findings));
    blocks.extend(case(findings));
    blocks.push(Block::uncut(write::colophon(findings)));
    blocks
}

fn problem(findings: &Findings) -> Vec<Block> {
    let mut blocks = vec![
        Block::uncut(write::warnings(findings)),
        Block::uncut(overview::overview(findings)),
        Block::uncut(write::emulation_notice(findings)),
        Block::uncut(write::expected_and_actual(findings)),
    ];
    let name = || findings.program.as_ref().map_or("program", |p| p.file.as_str()).to_owned();
    let program = overview::program(findings);
    blocks.extend(program.map(|text| Block { name: name(), text, cut: Some(8) }));
    blocks.extend(known::duplicates(findings).map(Block::uncut));
    blocks.extend(overview::tested_property(findings).map(Block::uncut));
    blocks.push(Block::uncut(overview::controls(findings)));
    let since = since::versions(findings).map(|text| markdown::folded_section(&text));
    blocks.extend(since.map(|text| Block {
        name: "version window".to_owned(),
        text,
        cut: Some(7),
    }));
    blocks
}

fn steps(findings: &Findings) -> Vec<Block> {
    vec![Block::uncut(write::steps(findings))]
}

fn evidence(findings: &Findings) -> Vec<Block> {
    let block = |name: &str, cut, text: Option<String>| {
        let text = text.map(|text| markdown::folded_section(&text));
        text.map(|text| Block { name: name.to_owned(), text, cut: Some(cut) })
    };
    let mitigations = block("mitigations", 6, write::mitigations(findings));
    let minimised = block("conditions of the failure", 5, needs::minimised(findings));
    mitigations.into_iter().chain(minimised).collect()
}

fn about_the_run(findings: &Findings, home: &Home) -> Vec<Block> {
    [write::repository(findings, home), write::builds_and_environment(findings)]
        .map(Block::uncut)
        .into()
}

fn logs(findings: &Findings) -> Vec<Block> {
    let logs = findings.logs.iter().map(|log| (log.title.clone(), log.text.clone()));
    let last = findings.kernel_log.len().saturating_sub(KERNEL_LINES);
    let kernel = findings.kernel_log[last..].join("\n");
    let title = "The last lines that Linux logged about the runs".to_owned();
    let kernel = (!kernel.is_empty()).then_some((title, kernel));
    let block = |(title, text): (String, String)| {
        // A short log is probably a replay command of a library, which is worth more than a long log.
        let cut = if text.lines().count() > 5 { 1 } else { 4 };
        Block { text: write::log(&title, &text), name: title, cut: Some(cut) }
    };
    logs.chain(kernel).map(block).collect()
}

fn case(findings: &Findings) -> Option<Block> {
    let cut = if findings.program.is_some() { 3 } else { 8 };
    // A trial that runs a command has no case file. If the issue prints the program, the case file would only repeat
    // it, but the commands for a shortened program need that file.
    let is_printed = program::unexported_program(findings)
        .is_some_and(|own| own.in_case && own.text_is_whole)
        && findings.shortened.is_none();
    let there = !findings.case.is_empty() && !is_printed;
    there.then(|| Block { name: "case".to_owned(), text: write::case(findings), cut: Some(cut) })
}

/// Describes the machine. Returns `None` for the emulated device, because the machine's driver and GPUs have no part in
/// its failures.
fn machine(findings: &Findings) -> Option<Block> {
    let block =
        || Block { name: "machine".to_owned(), text: write::environment(findings), cut: Some(2) };
    (!findings.record.device.emulated).then(block)
}

fn versions(findings: &Findings, content: Content) -> Vec<Block> {
    let mut blocks = vec![Block::uncut(format!("{}\n{}", gpu(findings), rocm_version(findings)))];
    let text = match &findings.environment.torch {
        Some(torch) if content == Content::Versions => torch.clone(),
        _ => {
            if findings.environment.torch.is_none()
                && program::unexported_program(findings).is_none()
            {
                let none = "PyTorch is not installed here and not involved in the failure. Instead of collect_env.py, \
                            this is the output of `rocrepro doctor`.";
                blocks.push(Block::uncut(none.to_owned()));
            }
            findings.environment.text()
        }
    };
    let text = markdown::fenced("", &text);
    blocks.push(Block { name: "versions".to_owned(), text, cut: Some(2) });
    blocks
}

fn gpu(findings: &Findings) -> String {
    let device = &findings.record.device;
    if device.emulated {
        return format!("none: emulated {} (rocrepro)", device.gfx);
    }
    findings.environment.gpu_line().unwrap_or_else(|| format!("{} ({})", device.name, device.gfx))
}

fn rocm_version(findings: &Findings) -> String {
    match &findings.record.stack.rocm {
        Some(version) => format!("ROCm {version}"),
        None => findings.record.stack.spec.clone(),
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_statements;
