use std::{collections::BTreeMap, sync::OnceLock};

use device::{Fault, FaultSpec};
use plan::VersionRange;

use crate::{
    CallPattern, Diagnostic, Selector, SourceSpan, Times, Trial,
    case_keys::KEYS,
    diagnostic::{finish, suggest},
    expectation::{Expectation, ExpectationKind, is_document, read_expectations},
    expression::evaluate,
    hints,
    issue_link::{is_issue, of_address},
    matrix::{Matrix, read_matrix, read_selector, substituted},
    names,
    needs::{Needs, read_gfx, read_needs, read_versions},
    program,
    read::Reader,
    signature,
    yaml::{self, Node},
};

/// A parsed case file. The steps and everything else that may depend on the trial are parsed when a trial is
/// [lowered](crate::lower).
#[derive(Debug)]
pub struct Case {
    /// Name of the case's folder and file, without the extension, for example `copies/small-sizes`.
    pub id: String,
    /// Property that the case tests, in one sentence.
    pub title: String,
    /// Why the case exists, in prose.
    pub about: Option<String>,
    /// Upstream issues or changes whose symptom would make a trial fail, each as `owner/repository#number`.
    pub upstream: Vec<String>,
    /// Related upstream issues whose symptom would not make any trial fail.
    pub related: Vec<String>,
    /// Other sources, for example documents and header files.
    pub source: Vec<String>,
    /// Entries under `expectation`, in the order of the case file.
    pub expectation: Vec<Expectation>,
    /// Requirements on the stack and the device.
    pub needs: Needs,
    /// Faults that the case must detect.
    pub faults: Vec<FaultEntry>,
    /// Expected failures, in the order of the case file.
    pub known: Vec<Known>,
    /// Content of the file that contains the program. `None` means that it has not been read, `Some(None)` that the
    /// file does not exist.
    pub(crate) file: Option<Option<String>>,
    /// For a case that was made from the recording of a program's calls: the recorded call of each step, under the line
    /// of the step in the case file. Empty for other cases.
    pub recorded: BTreeMap<u32, RecordedStep>,
    pub(crate) matrix: Matrix,
    is_program: bool,
    text: String,
    body: OnceLock<Node>,
}

/// The call in the recording of a program from which a step was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedStep {
    /// Position of the call in the recording.
    pub number: u64,
    /// Function that the program called.
    pub function: String,
}

/// A fault that trials must detect.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultEntry {
    /// The fault with its parameters. Without parameters, the fault takes effect at every opportunity.
    pub planted: FaultSpec,
    /// Trials to which the entry applies.
    pub on: Selector,
    /// Required signature of the failure; a trailing `*` matches any text. `None` accepts any signature that fits the
    /// fault.
    pub signature: Option<String>,
    /// Upstream issues under `upstream` whose symptom the fault reproduces.
    pub shows: Vec<String>,
}

/// An expected failure: a `known` entry of the case.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Architectures to which the entry applies; an empty list means all.
    pub gfx: Vec<String>,
    /// ROCm versions to which the entry applies.
    pub rocm: VersionRange,
    /// Product name of the GPU, or a prefix of it followed by `*`; `None` means any GPU.
    pub card: Option<String>,
    /// Driver of the GPU, spelt as in records, or a prefix of it followed by `*`; `None` means any driver.
    pub driver: Option<String>,
    /// Trials to which the entry applies.
    pub on: Selector,
    /// Signature of the failure; a trailing `*` matches any text.
    pub signature: String,
    /// Upstream issue, if one exists.
    pub upstream: Option<String>,
    /// Cause of the failure, if it is known.
    pub about: Option<String>,
    /// Calls by which the failure is recognised in the log of any program; empty if the log does not show the failure.
    pub calls: Vec<CallPattern>,
}

impl Case {
    /// Returns how the case shows an upstream issue: the names of the faults that reproduce the issue's symptom, and
    /// the ROCm versions of the expected failures that cite the issue.
    pub fn shown_by(&self, issue: &str) -> Vec<String> {
        let faults = self.faults.iter().filter(|f| f.shows.iter().any(|link| link == issue));
        let windows = self.known.iter().filter(|k| k.upstream.as_deref() == Some(issue));
        let windows = windows.map(|k| format!("ROCm {}", k.rocm));
        let mut by: Vec<String> = Vec::new();
        for name in faults.map(|f| f.planted.to_string()).chain(windows) {
            if !by.contains(&name) {
                by.push(name);
            }
        }
        by
    }

    /// Parses a case file.
    ///
    /// # Errors
    /// Returns all mistakes outside of the steps. Mistakes in the steps are found when trials are lowered.
    /// [`mistakes`](crate::mistakes) returns both kinds.
    pub fn parse(id: &str, text: &str) -> Result<Case, Vec<Diagnostic>> {
        let mut reader = Reader::default();
        let case = read(&mut reader, id, text);
        finish(reader.mistakes)?;
        // `read` returns `None` only if it has also reported a mistake.
        case.ok_or_else(Vec::new)
    }

    pub(crate) fn body(&self) -> &Node {
        self.body.get_or_init(|| {
            let read = yaml::parse(&self.text, &mut Vec::new());
            // The text is valid YAML, because the case has been parsed before.
            read.map_or(
                Node { at: SourceSpan::default(), value: yaml::Value::Map(Vec::new()) },
                without_header,
            )
        })
    }

    /// Drops the parsed YAML tree, which needs many times the memory of the case's text. When a trial is lowered, the
    /// text is parsed again. Of ten thousand loaded cases, only a few are run.
    pub fn drop_body(&mut self) {
        self.body.take();
    }

    /// Returns true if the case runs a program instead of steps.
    pub fn is_program(&self) -> bool {
        self.is_program
    }

    /// Returns the kind of the program: `python`, `cpp` or `command`; `None` if the case has steps.
    pub fn program_kind(&self) -> Option<&'static str> {
        let (_, node) = program::program_entry(self.body())?;
        let yaml::Value::Map(entries) = &node.value else { return None };
        let kinds = ["python", "cpp", "command"];
        kinds.into_iter().find(|kind| entries.iter().any(|(key, _)| key.text == *kind))
    }

    /// Returns the name of the file in the case's folder that contains the program; `None` if the case contains the
    /// program itself or a command.
    pub fn program_file(&self) -> Option<String> {
        let (_, node) = program::program_entry(self.body())?;
        let yaml::Value::Map(entries) = &node.value else { return None };
        entries.iter().find_map(|(key, node)| match (key.text.as_str(), &node.value) {
            (kind @ ("python" | "cpp"), yaml::Value::Scalar(text)) => {
                program::file_named(text, kind)
            }
            _ => None,
        })
    }

    /// Stores the content of the file that contains the program, for later use by the trials; `None` means that the
    /// file does not exist.
    pub fn set_program_text(&mut self, text: Option<String>) {
        self.file = Some(text);
    }

    /// Returns the expectations of the case: one for each document that `source` cites, and the entries under
    /// `expectation`. Expectations without a failure signature come first.
    pub fn expectations(&self) -> Vec<Expectation> {
        let documents = self.source.iter().filter(|source| is_document(source));
        let documented = documents.map(|source| Expectation {
            kind: ExpectationKind::Documented,
            source: source.clone(),
            date: None,
            on: Selector::default(),
            signature: None,
        });
        let mut all: Vec<_> = documented.chain(self.expectation.iter().cloned()).collect();
        all.sort_by_key(|entry| entry.signature.is_some());
        all
    }

    /// Returns the entries of kind [`ExpectationKind::Difference`] that apply to a trial.
    pub fn differences(&self, trial: &Trial) -> impl Iterator<Item = &Expectation> {
        let of_trial = |entry: &&Expectation| {
            entry.kind == ExpectationKind::Difference && entry.on.matches(trial)
        };
        self.expectation.iter().filter(of_trial)
    }

    /// Returns the device options that a trial needs, in the form of the command line, for example `large-bar=yes`.
    pub fn device_options(&self, trial: &Trial) -> Vec<String> {
        let option = |(name, value): &(String, String)| {
            format!("{name}={}", substituted(value, trial).unwrap_or_default())
        };
        self.needs.device.iter().map(option).collect()
    }

    /// Returns one trial for each combination of axis values that the case does not exclude. A case without a matrix
    /// has one trial without values.
    pub fn trials(&self) -> Vec<Trial> {
        self.matrix.trials()
    }

    /// Returns the id of a trial, for example `copies/small-sizes[bytes=2]`.
    pub fn trial_id(&self, trial: &Trial) -> String {
        format!("{}{trial}", self.id)
    }
}

/// Reads as much of a case as possible. Returns `None` if the text is not a YAML mapping.
pub(crate) fn read(reader: &mut Reader, id: &str, text: &str) -> Option<Case> {
    let root = yaml::parse(text, &mut reader.mistakes)?;
    let fields = reader.fields(&root, "a case", KEYS)?;
    let title = reader
        .required(&fields, "a case", "title")
        .and_then(|n| reader.text(n, "`title`").map(str::to_owned));
    if let (Some(node), Some(title)) = (fields.get("title"), &title)
        && title.trim_end().contains(char::is_control)
    {
        reader.mistake(node.at, "`title` must be one line without control characters");
    }
    let texts = |reader: &mut Reader, key: &str| {
        fields.get(key).map(|n| reader.texts(n, &format!("`{key}`"))).unwrap_or_default()
    };
    let about = fields.get("about").and_then(|n| reader.text(n, "`about`").map(str::to_owned));
    let (upstream, related) = (texts(reader, "upstream"), texts(reader, "related"));
    for node in fields.get("upstream").map(|n| reader.list(n)).unwrap_or_default() {
        check_issue(reader, node);
    }
    for node in fields.get("related").map(|n| reader.list(n)).unwrap_or_default() {
        check_issue(reader, node);
        if matches!(&node.value, yaml::Value::Scalar(link) if upstream.contains(link)) {
            reader.mistake(
                node.at,
                "this issue is also in `upstream`; keep it there if a trial can show the issue, else keep it here",
            );
        }
    }
    let source = texts(reader, "source");
    if ["upstream", "related", "source"].iter().all(|key| fields.get(key).is_none()) {
        reader.mistake_with_help(
            fields.at,
            "a case needs a source",
            Some("give `upstream` (issues that the case can show), `related` (other issues) or `source` (documents)".into()),
        );
    }
    let body = program::program_entry(&root);
    match body {
        Some(_) => program::check_header(reader, &root),
        None => {
            reader.required(&fields, "a case", "steps");
        }
    }
    let matrix = read_matrix(reader, fields.get("matrix"), fields.get("exclude"));
    names::check(reader, &root, &matrix);
    let expectation = fields
        .get("expectation")
        .map(|n| read_expectations(reader, n, &matrix))
        .unwrap_or_default();
    let needs = fields.get("needs").map(|n| read_needs(reader, n, &matrix)).unwrap_or_default();
    let before = reader.mistakes.len();
    let faults: Vec<_> = fields
        .get("faults")
        .map(|n| {
            reader
                .list(n)
                .iter()
                .filter_map(|n| {
                    let entry = read_fault(reader, n, &matrix, &upstream)?;
                    let planted = &entry.planted;
                    let refused = match body {
                        Some((_, body)) => {
                            program::injection_refusal(program::is_cpp(body), planted)
                        }
                        None => program::injection_refusal_in_steps(planted),
                    };
                    if let Some(message) = refused {
                        reader.mistake(n.at, message);
                    }
                    Some(entry)
                })
                .collect()
        })
        .unwrap_or_default();
    if let Some(node) = fields.get("faults")
        && reader.mistakes.len() == before
        && !matrix.unknown_trials
    {
        check_overlap(reader, node, &faults, &matrix);
    }
    if fields.get("faults").is_none_or(|n| reader.list(n).is_empty()) {
        reader.mistake_with_help(
            fields.get("faults").map_or(fields.at, |node| node.at),
            "a case needs at least one fault that makes it fail",
            Some(
                "a test that cannot fail proves nothing; see `rocrepro case explain --faults`"
                    .into(),
            ),
        );
    }
    let known = fields
        .get("known")
        .map(|n| reader.list(n).iter().filter_map(|n| read_known(reader, n, &matrix)).collect())
        .unwrap_or_default();
    signature::check(reader, &root);
    let needs_at = fields.get("needs").map_or(root.at, |node| node.at);
    if body.is_none() && !needs.groups.is_empty() {
        reader.mistake(needs_at, "`needs: {with: ...}` is only for programs; steps need `library`");
    }
    if body.is_some() && needs.processes > 0 {
        reader.mistake(
            needs_at,
            "`needs: {processes: ...}` is only for steps; a program starts its processes itself",
        );
    }
    Some(Case {
        id: id.to_owned(),
        title: title.unwrap_or_default(),
        about,
        upstream,
        related,
        source,
        expectation,
        needs,
        faults,
        known,
        file: None,
        recorded: BTreeMap::new(),
        matrix,
        is_program: body.is_some(),
        text: text.to_owned(),
        body: without_header(root).into(),
    })
}

/// Empties the values of header keys that have already been read, because otherwise the lowering of each trial would
/// traverse them again. Values that contain a `$` are kept, because unknown axes are reported only when a trial is
/// lowered.
fn without_header(mut root: Node) -> Node {
    const READ: [&str; 5] = ["matrix", "exclude", "expectation", "faults", "known"];
    if let yaml::Value::Map(entries) = &mut root.value {
        for (_, node) in entries.iter_mut().filter(|(key, _)| READ.contains(&key.text.as_str())) {
            if !names_axes(node) {
                node.value = yaml::Value::Scalar(String::new());
            }
        }
    }
    root
}

fn names_axes(node: &Node) -> bool {
    match &node.value {
        yaml::Value::Scalar(text) => text.contains('$'),
        yaml::Value::List(items) => items.iter().any(names_axes),
        yaml::Value::Map(entries) => entries.iter().any(|(_, node)| names_axes(node)),
    }
}

fn check_issue(reader: &mut Reader, node: &Node) {
    if let yaml::Value::Scalar(link) = &node.value
        && !link.is_empty()
        && !is_issue(link)
    {
        let cut = "such as `ROCm/hip#13`, without a space: ` #` begins a comment".to_owned();
        let help = match link.split_once("github.com/").and_then(|(_, path)| of_address(path)) {
            Some(issue) => Some(format!("write `{issue}`")),
            None => (!link.contains('#')).then_some(cut),
        };
        let message = format!("`{link}` is not `owner/repository#number`");
        reader.mistake_with_help(node.at, message, help);
    }
}

fn read_fault(
    reader: &mut Reader,
    node: &Node,
    matrix: &Matrix,
    upstream: &[String],
) -> Option<FaultEntry> {
    let mut shows = Vec::new();
    let (name, with, on, signature) = match &node.value {
        yaml::Value::Map(_) => {
            let fields =
                reader.fields(node, "a fault", &["fault", "with", "on", "signature", "shows"])?;
            for node in fields.get("shows").map(|n| reader.list(n)).unwrap_or_default() {
                let Some(issue) = reader.text(node, "an issue") else { continue };
                if upstream.iter().any(|link| link == issue) {
                    shows.push(issue.to_owned());
                } else {
                    let help = suggest(issue, upstream.iter().map(String::as_str));
                    let message = format!("`upstream` does not name `{issue}`");
                    reader.mistake_with_help(node.at, message, help);
                }
            }
            let with = fields.get("with").and_then(|n| reader.entries(n, "`with`"));
            let on = fields.get("on").map(|n| read_selector(reader, n, matrix)).unwrap_or_default();
            let signature = fields
                .get("signature")
                .and_then(|n| reader.text(n, "a signature").map(str::to_owned));
            (reader.required(&fields, "a fault", "fault")?, with.unwrap_or_default(), on, signature)
        }
        yaml::Value::List(_) | yaml::Value::Scalar(_) => (node, &[][..], Selector::default(), None),
    };
    let text = reader.text(name, "a fault")?;
    let Ok(fault) = text.parse::<Fault>() else {
        let help = suggest(text, Fault::ALL.iter().map(|f| f.name()));
        reader.mistake_with_help(name.at, format!("unknown fault `{text}`"), help);
        return None;
    };
    let mut planted = FaultSpec::from(fault);
    for (key, value) in with {
        let Some(text) = reader.text(value, "a parameter of a fault") else { continue };
        // A parameter may be written as a size, for example `64K`. A probability is a fraction, which the parser of
        // sizes would reject.
        let own = match key.text.as_str() {
            "probability" => text.to_owned(),
            _ => evaluate(text).map_or_else(|_| text.to_owned(), |number| number.to_string()),
        };
        if let Err(mistake) = planted.set(&key.text, &own) {
            let help = hints::function_meant(&own).filter(|_| key.text == "call");
            reader.mistake_with_help(key.at, mistake, help);
        }
    }
    Some(FaultEntry { planted, on, signature, shows })
}

/// Reports a fault that is declared twice for one trial, because only the first declaration would take effect.
fn check_overlap(reader: &mut Reader, node: &Node, faults: &[FaultEntry], matrix: &Matrix) {
    let trials = matrix.trials();
    for (n, (entry, node)) in faults.iter().zip(reader.list(node)).enumerate() {
        let again = |other: &&FaultEntry| {
            other.planted.fault == entry.planted.fault
                && trials.iter().any(|trial| other.on.matches(trial) && entry.on.matches(trial))
        };
        if faults[..n].iter().any(|other| again(&other)) {
            let fault = entry.planted.fault;
            reader.mistake(
                node.at,
                format!(
                    "`{fault}` is declared twice for one trial; use `on` to separate the trials"
                ),
            );
        }
    }
}

/// Reads a text that may end in `*`, which matches any text.
fn read_pattern(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let text = reader.text(node, what)?.to_owned();
    if text.strip_suffix('*').unwrap_or(&text).contains('*') {
        reader.mistake(node.at, format!("{what} may have a `*` only at its end"));
    }
    Some(text)
}

fn read_calls(reader: &mut Reader, node: &Node) -> Vec<CallPattern> {
    match &node.value {
        yaml::Value::List(items) if !items.is_empty() => {
            let calls: Vec<CallPattern> =
                items.iter().filter_map(|item| reader.parsed(item, "a call")).collect();
            let ends = [calls.first(), calls.last()];
            if ends.into_iter().flatten().any(|call| call.times == Times::Never) {
                reader.mistake(node.at, "`not` in `calls` must be between two calls that occur");
            }
            calls
        }
        yaml::Value::Scalar(_) | yaml::Value::List(_) | yaml::Value::Map(_) => {
            reader.mistake(node.at, "`calls` must be a list of at least one call");
            Vec::new()
        }
    }
}

fn read_known(reader: &mut Reader, node: &Node, matrix: &Matrix) -> Option<Known> {
    let what = "a `known` entry";
    let keys = ["gfx", "rocm", "card", "driver", "on", "signature", "upstream", "about", "calls"];
    let fields = reader.fields(node, what, &keys)?;
    let rocm = reader.required(&fields, what, "rocm").and_then(|n| read_versions(reader, n));
    let signature = reader
        .required(&fields, what, "signature")
        .and_then(|n| reader.text(n, "a signature").map(str::to_owned));
    Some(Known {
        gfx: fields.get("gfx").map(|n| read_gfx(reader, n)).unwrap_or_default(),
        on: fields.get("on").map(|n| read_selector(reader, n, matrix)).unwrap_or_default(),
        upstream: fields.get("upstream").and_then(|n| {
            check_issue(reader, n);
            reader.text(n, "`upstream`").map(str::to_owned)
        }),
        about: fields.get("about").and_then(|n| reader.text(n, "`about`").map(str::to_owned)),
        calls: fields.get("calls").map(|n| read_calls(reader, n)).unwrap_or_default(),
        card: fields.get("card").and_then(|n| read_pattern(reader, n, "`card`")),
        driver: fields.get("driver").and_then(|n| read_pattern(reader, n, "`driver`")),
        rocm: rocm?,
        signature: signature?,
    })
}
