//! Writes a plan as a case file that people can read and run, for example after minimising.

mod argument;
mod hip;
mod scalar;
mod steps;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use plan::{Buffer, Call, Choice, Memory, Plan, StreamKind};

use self::{
    scalar::{block, flow_list, flow_map, plain},
    steps::Steps,
};
use crate::{
    Case, Expectation, FaultEntry, Kernels, Known, Needs, SourceSpan, Trial,
    matrix::substitute,
    signature::is_possible,
    yaml::{Node, Value},
};

/// Everything that a case file contains in addition to its steps or its program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Header {
    /// Property that the case tests, in one sentence.
    pub title: String,
    /// Why the case exists, in prose.
    pub about: Option<String>,
    /// Upstream issues whose symptom would make the case fail.
    pub upstream: Vec<String>,
    /// Related upstream issues whose symptom would not make the case fail.
    pub related: Vec<String>,
    /// Other sources, for example documents and header files.
    pub source: Vec<String>,
    /// Entries under `expectation`: measurements and other sources that are not documents.
    pub expectation: Vec<Expectation>,
    /// Requirements on stack and device. The writer ignores the libraries and functions in this field and writes those
    /// of the plan.
    pub needs: Needs,
    /// Faults that the case must detect.
    pub faults: Vec<FaultEntry>,
    /// Expected failures.
    pub known: Vec<Known>,
}

impl Header {
    /// Returns a header for a case that contains only one trial of `case`. Faults and expected failures of other trials
    /// are left out, and the values of the trial are substituted for the axes of the matrix.
    pub fn for_trial(case: &Case, trial: &Trial) -> Header {
        let text = |text: &str| {
            let node = Node { at: SourceSpan::default(), value: Value::Scalar(text.to_owned()) };
            match substitute(&node, trial, &mut Vec::new()).value {
                Value::Scalar(text) => text,
                Value::Map(_) | Value::List(_) => String::new(),
            }
        };
        let fault = |f: &FaultEntry| FaultEntry { on: Default::default(), ..f.clone() };
        let known = |k: &Known| Known { on: Default::default(), ..k.clone() };
        let faults: Vec<_> =
            case.faults.iter().filter(|f| f.on.matches(trial)).map(fault).collect();
        Header {
            title: text(&case.title),
            about: case.about.as_deref().map(text),
            upstream: case.upstream.clone(),
            related: case.related.clone(),
            source: case.source.iter().map(|s| text(s)).collect(),
            expectation: case
                .expectation
                .iter()
                .filter(|entry| entry.on.matches(trial))
                .map(|entry| Expectation { on: Default::default(), ..entry.clone() })
                .collect(),
            needs: Needs {
                device: case
                    .needs
                    .device
                    .iter()
                    .map(|(name, value)| (name.clone(), text(value)))
                    .collect(),
                ..case.needs.clone()
            },
            // Every case needs at least one fault. If no fault applies to this trial, the faults of other trials are
            // kept.
            faults: if faults.is_empty() {
                case.faults.iter().map(fault).collect()
            } else {
                faults
            },
            known: case.known.iter().filter(|k| k.on.matches(trial)).map(known).collect(),
        }
    }
}

/// Writes a plan as a case with one trial, which [lowers](crate::lower) to the same plan. Only the name of the trial,
/// the line numbers, and the ids and stamps of steps may differ.
///
/// Set-up, guards and teardown are not written, because lowering adds them. Settings of the case file that affect them,
/// for example the initial content of a buffer, are derived from the plan. Injected faults are not written. Kernels in
/// `library` are written as names, because the reader of the case also has that library. Other kernels are written with
/// their source.
pub fn write(plan: &Plan, header: &Header, library: &Kernels) -> String {
    let mut out = String::new();
    head(&mut out, plan, header);
    let initial = initial(plan);
    let steps = Steps::new(plan);
    if !plan.environment.is_empty() {
        out.push_str("environment:\n");
        for (name, value) in &plan.environment {
            line(&mut out, &format!("  {}: {}", plain(name), plain(value)));
        }
    }
    let mentioned = mentioned_streams(plan);
    let declared: Vec<_> = plan
        .streams
        .iter()
        .filter(|(name, kind)| **kind != StreamKind::Blocking || !mentioned.contains(name.as_str()))
        .collect();
    if !declared.is_empty() {
        out.push_str("streams:\n");
        for (name, kind) in declared {
            line(&mut out, &format!("  {}: {}", plain(name), kind.word()));
        }
    }
    let own: Vec<_> =
        plan.kernels.iter().filter(|(name, source)| library.get(*name) != Some(source)).collect();
    if !own.is_empty() {
        out.push_str("kernels:\n");
        for (name, source) in own {
            let declared_kernel = plan.own_kernels.get(name).cloned().unwrap_or_default();
            if let Some(code) = &declared_kernel.code {
                let fields = vec![("code", plain(&code.file)), ("kernel", plain(&code.kernel))];
                line(&mut out, &format!("  {}: {}", plain(name), flow_map(fields)));
                continue;
            }
            if declared_kernel.options.is_empty() && declared_kernel.computes.is_empty() {
                line(&mut out, &format!("  {}: {}", plain(name), block(source, 4)));
                continue;
            }
            line(&mut out, &format!("  {}:", plain(name)));
            line(&mut out, &format!("    source: {}", block(source, 6)));
            for (key, texts) in
                [("options", &declared_kernel.options), ("computes", &declared_kernel.computes)]
            {
                if !texts.is_empty() {
                    let texts = flow_list(texts.iter().map(|text| plain(text)));
                    line(&mut out, &format!("    {key}: {texts}"));
                }
            }
        }
    }
    let buffers: Vec<_> = plan
        .buffers
        .iter()
        .filter(|(name, _)| !initial.staging.contains(name.as_str()) && !steps.implied(name))
        .collect();
    if !buffers.is_empty() {
        out.push_str("buffers:\n");
        for (name, spec) in buffers {
            let first = initial.fill.get(name.as_str()).copied();
            line(&mut out, &format!("  {}: {}", plain(name), buffer(spec, first)));
        }
    }
    out.push_str("steps:\n");
    steps.write(&mut out, plan, &plan.body, 2);
    tail(&mut out, plan, header);
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn head(out: &mut String, plan: &Plan, header: &Header) {
    line(out, &format!("title: {}", plain(&header.title)));
    if let Some(about) = &header.about {
        line(out, &format!("about: {}", plain(about)));
    }
    let links =
        [("upstream", &header.upstream), ("related", &header.related), ("source", &header.source)];
    for (key, texts) in links {
        if !texts.is_empty() {
            line(out, &format!("{key}: {}", flow_list(texts.iter().map(|t| plain(t)))));
        }
    }
    let mut needs = Vec::new();
    if !plan.libraries.is_empty() {
        let names = plan.libraries.iter().map(|l| l.name().to_owned());
        needs.push(("library", flow_list(names)));
    }
    if !plan.functions.is_empty() {
        needs.push(("function", flow_list(plan.functions.iter().map(|f| plain(f)))));
    }
    if let Some(range) = &header.needs.rocm {
        needs.push(("rocm", plain(&range.to_string())));
    }
    if !header.needs.gfx.is_empty() {
        needs.push(("gfx", flow_list(header.needs.gfx.iter().map(|g| plain(g)))));
    }
    if header.needs.alone {
        needs.push(("alone", "true".to_owned()));
    }
    if header.needs.images {
        needs.push(("images", "true".to_owned()));
    }
    if header.needs.devices > 0 {
        needs.push(("devices", header.needs.devices.to_string()));
    }
    if !header.needs.device.is_empty() {
        let options = header.needs.device.iter().map(|(name, value)| (name.as_str(), plain(value)));
        needs.push(("device", flow_map(options.collect())));
    }
    if header.needs.processes > 0 {
        needs.push(("processes", header.needs.processes.to_string()));
    }
    if !needs.is_empty() {
        line(out, &format!("needs: {}", flow_map(needs)));
    }
}

fn tail(out: &mut String, plan: &Plan, header: &Header) {
    // Expectations about buffers that the plan does not contain are left out, because their signatures could never
    // match.
    let buffers: Vec<&str> = plan.buffers.keys().map(String::as_str).collect();
    let seen =
        |entry: &&Expectation| entry.signature.as_ref().is_none_or(|s| is_possible(s, &buffers));
    let expectation: Vec<_> = header.expectation.iter().filter(seen).collect();
    if !expectation.is_empty() {
        out.push_str("expectation:\n");
        for entry in expectation {
            let mut fields =
                vec![("kind", entry.kind.word().to_owned()), ("source", plain(&entry.source))];
            fields.extend(entry.date.as_ref().map(|date| ("date", plain(date))));
            fields.extend(entry.signature.as_ref().map(|text| ("signature", plain(text))));
            let _ = writeln!(out, "  - {}", flow_map(fields));
        }
    }
    if !header.faults.is_empty() {
        let faults = header.faults.iter().map(|entry| {
            let name = plain(entry.planted.fault.name());
            let with = entry.planted.parameters();
            let mut map = vec![("fault", name.clone())];
            if !with.is_empty() {
                map.push(("with", flow_map(with)));
            }
            if let Some(signature) = entry.signature.as_ref().filter(|s| is_possible(s, &buffers)) {
                map.push(("signature", plain(signature)));
            }
            let shows = entry.shows.iter().filter(|link| header.upstream.contains(link));
            let shows: Vec<_> = shows.map(|link| plain(link)).collect();
            if !shows.is_empty() {
                map.push(("shows", flow_list(shows.into_iter())));
            }
            if map.len() == 1 { name } else { flow_map(map) }
        });
        line(out, &format!("faults: {}", flow_list(faults)));
    }
    let known: Vec<_> =
        header.known.iter().filter(|k| is_possible(&k.signature, &buffers)).collect();
    if !known.is_empty() {
        out.push_str("known:\n");
        for known in known {
            let mut fields = Vec::new();
            if !known.gfx.is_empty() {
                fields.push(("gfx", flow_list(known.gfx.iter().map(|g| plain(g)))));
            }
            fields.push(("rocm", plain(&known.rocm.to_string())));
            for (key, name) in [("card", &known.card), ("driver", &known.driver)] {
                fields.extend(name.as_ref().map(|name| (key, plain(name))));
            }
            fields.push(("signature", plain(&known.signature)));
            if let Some(issue) = &known.upstream {
                fields.push(("upstream", plain(issue)));
            }
            if let Some(about) = &known.about {
                fields.push(("about", plain(about)));
            }
            if !known.calls.is_empty() {
                let calls = known.calls.iter().map(|call| plain(&call.to_string()));
                fields.push(("calls", flow_list(calls)));
            }
            let _ = writeln!(out, "  - {}", flow_map(fields));
        }
    }
}

fn buffer(spec: &Buffer, first: Option<&'static str>) -> String {
    let mut fields = vec![("on", spec.memory.word().to_owned()), ("bytes", spec.bytes.to_string())];
    if let Some(first) = first {
        fields.push(("fill", first.to_owned()));
    }
    // Guards are not written for stream-ordered memory, because it never has guards.
    if !spec.guarded && spec.memory != Memory::DeviceAsync {
        fields.push(("guarded", "false".to_owned()));
    }
    flow_map(fields)
}

/// Initial contents of buffers, derived from the steps of the set-up.
struct Initial<'p> {
    fill: BTreeMap<&'p str, &'static str>,
    /// Host buffers that only the set-up uses. The case file does not declare them, because lowering adds them.
    staging: BTreeSet<&'p str>,
}

fn initial(plan: &Plan) -> Initial<'_> {
    let mut found = Initial { fill: BTreeMap::new(), staging: BTreeSet::new() };
    for step in &plan.setup {
        if let Call::Set { to, .. } = &step.call {
            found.fill.insert(&to.buffer, "zero");
        }
        if let Call::Fill { buffer, .. } = &step.call {
            found.fill.insert(buffer, "pattern");
        }
        if let Call::Copy { to, from, .. } = &step.call {
            found.fill.insert(&to.buffer, "pattern");
            found.staging.insert(&from.buffer);
        }
    }
    found
}

/// Returns the streams that steps create or enqueue work to. The case file does not declare them, because lowering
/// does. A stream that steps only wait for must be declared; otherwise the reader would report its name as misspelt.
fn mentioned_streams(plan: &Plan) -> BTreeSet<&str> {
    fn walk<'p>(steps: &'p [plan::Step], out: &mut BTreeSet<&'p str>) {
        for step in steps {
            let only_waits = matches!(
                step.call,
                Call::StreamSynchronize { .. }
                    | Call::StreamQuery { .. }
                    | Call::IsCapturing { .. }
                    | Call::StreamDestroy { .. }
            );
            out.extend(step.call.stream().filter(|_| !only_waits));
            walk(step.call.body().unwrap_or_default(), out);
        }
    }
    let mut out = BTreeSet::new();
    walk(&plan.body, &mut out);
    out
}
