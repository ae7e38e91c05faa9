//! Checks the signatures that a case file lists under `known`, `faults` and `expectation`. A signature that no outcome
//! can have is reported, because it would never match.

use std::borrow::Cow;

use plan::{Phase, apis};

use crate::{
    added_buffers::BACK,
    calls::every_status,
    diagnostic::suggest,
    hints, program,
    read::Reader,
    yaml::{Node, Value},
};

/// A part of a signature after the first one, which is the kind of failure: for example `hipGraphLaunch` in
/// `crash:hipGraphLaunch`.
#[derive(Clone, Copy)]
enum SignaturePart {
    /// Name of a buffer of the case, of the host copy that a check makes of the buffer, or of the buffer's guards.
    Buffer,
    /// Class of wrong bytes, for example `zero`.
    Class,
    /// A function, or an action of the host.
    Api,
    /// A function; if the failure happened between two calls, the phase of the worker.
    Site,
    /// A status of the function's library.
    Status,
    /// Text that is known only at run time.
    Any,
}

/// Kinds of failures of cases with steps, each with the parts that follow the kind in a signature of such a failure.
const KINDS: &[(&str, &[SignaturePart])] = &[
    ("wrong-data", &[SignaturePart::Buffer, SignaturePart::Class]),
    ("api-error", &[SignaturePart::Api, SignaturePart::Status]),
    ("unexpected-value", &[SignaturePart::Api, SignaturePart::Any]),
    ("compile-error", &[SignaturePart::Any]),
    ("crash", &[SignaturePart::Site]),
    ("memory-fault", &[SignaturePart::Any]),
    ("hang", &[SignaturePart::Site]),
    ("library-exit", &[SignaturePart::Site]),
    ("teardown-crash", &[]),
    ("leak", &[SignaturePart::Site]),
];

/// Kinds of failures of program cases. A program names its checks and phases itself, so most parts are free text.
const KINDS_OF_PROGRAMS: &[(&str, &[SignaturePart])] = &[
    ("wrong-data", &[SignaturePart::Any, SignaturePart::Any]),
    ("api-error", &[SignaturePart::Any, SignaturePart::Any]),
    ("exception", &[SignaturePart::Any]),
    ("exit", &[SignaturePart::Any]),
    ("compile-error", &[SignaturePart::Any]),
    ("crash", &[SignaturePart::Any]),
    ("memory-fault", &[SignaturePart::Any]),
    ("hang", &[SignaturePart::Any]),
    ("library-exit", &[SignaturePart::Any]),
    ("teardown-crash", &[]),
    ("leak", &[SignaturePart::Any]),
];

const CLASSES: &[&str] = &[
    "zero", "poison", "stale", "later", "other", "torn", "mixed", "garbage", "unknown", "changing",
    "same", "unequal", "below",
];

/// Operations that can fail but are not calls in a plan: the first queries of the device, the loading of libraries, an
/// aborted queue, and leftover processes.
pub(crate) const OTHERS: &[&str] =
    &["dlopen", "hipGetDeviceCount", "hipGetDeviceProperties", "hipInit", "process", "queue"];

const PHASES: [Phase; 7] = [
    Phase::Start,
    Phase::Load,
    Phase::Init,
    Phase::Setup,
    Phase::Body,
    Phase::Verify,
    Phase::Teardown,
];

pub(crate) fn check(reader: &mut Reader, root: &Node) {
    let Value::Map(keys) = &root.value else { return };
    let of = |name: &str| keys.iter().find(|(key, _)| key.text == name).map(|(_, node)| node);
    let buffers: Option<Vec<&str>> = match of("buffers").map(|node| &node.value) {
        Some(Value::Map(entries)) => {
            Some(entries.iter().map(|(key, _)| key.text.as_str()).collect())
        }
        None => Some(Vec::new()),
        // The value of `buffers` is not a mapping, which is reported elsewhere. The buffers' names are unknown here.
        Some(_) => None,
    };
    let kinds = match program::program_entry(root) {
        Some(_) => KINDS_OF_PROGRAMS,
        None => KINDS,
    };
    for list in ["known", "faults", "expectation"].into_iter().filter_map(of) {
        for item in reader.list(list) {
            let Value::Map(fields) = &item.value else { continue };
            let signature = fields.iter().find(|(key, _)| key.text == "signature");
            if let Some((_, node)) = signature
                && let Value::Scalar(text) = &node.value
                && let Err((message, help)) = signature_of(kinds, text, buffers.as_deref())
            {
                reader.mistake_with_help(node.at, message, help);
            }
        }
    }
}

/// Returns the function, or the action of the host, that a signature of a case with steps contains. Returns `None` if
/// the signature contains none, or only the beginning of a name.
pub(crate) fn names_function(signature: &str) -> Option<&str> {
    let (kind, rest) = signature.split_once(':')?;
    let (_, parts) = KINDS.iter().find(|(name, _)| *name == kind)?;
    let name = rest.split(':').next()?;
    let is_name = matches!(parts.first(), Some(SignaturePart::Api | SignaturePart::Site))
        && !name.ends_with('*');
    is_name.then_some(name)
}

/// Returns true if a trial of a case with these buffers can fail with the signature.
pub(crate) fn is_possible(signature: &str, buffers: &[&str]) -> bool {
    signature_of(KINDS, signature, Some(buffers)).is_ok()
}

type SignatureMistake = (String, Option<String>);

fn signature_of(
    kinds: &[(&str, &[SignaturePart])],
    text: &str,
    buffers: Option<&[&str]>,
) -> Result<(), SignatureMistake> {
    let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
    let Some((_, parts)) = kinds.iter().find(|(name, _)| *name == kind) else {
        let message = format!("unknown kind of failure `{kind}`");
        let help = hints::signature(text);
        return Err((message, help.or_else(|| suggest(kind, kinds.iter().map(|(name, _)| *name)))));
    };
    let form = || Some(format!("write `{}`, or its beginning followed by `*`", form(kind, parts)));
    let given: Vec<&str> =
        rest.map_or(Vec::new(), |rest| rest.splitn(parts.len().max(1), ':').collect());
    let mut api = "";
    for (n, text) in given.iter().enumerate() {
        let (name, open) = text.strip_suffix('*').map_or((*text, false), |name| (name, true));
        let Some(part) = parts.get(n) else {
            return Err((format!("`{kind}` must be the end of the signature"), None));
        };
        if name.contains('*') || open && n + 1 < given.len() {
            return Err((
                "`*` matches any end, so it must be the last character".to_owned(),
                form(),
            ));
        }
        part.check(name, open, api, buffers)?;
        if open {
            return Ok(());
        }
        api = name;
    }
    if given.len() < parts.len() {
        return Err((format!("`{text}` is only the beginning of a signature"), form()));
    }
    Ok(())
}

/// Returns the names that a signature can contain for the failing operation: functions, and actions of the host such as
/// `host-fill`.
fn functions() -> impl Iterator<Item = Cow<'static, str>> {
    apis().iter().chain(OTHERS).map(|name| match name.contains(' ') {
        true => name.replace(' ', "-").into(),
        false => Cow::from(*name),
    })
}

/// Returns a template for the signatures of one kind of failure, for example `crash:FUNCTION-OR-PHASE`.
fn form(kind: &str, parts: &[SignaturePart]) -> String {
    let word = |part: &SignaturePart| match part {
        SignaturePart::Buffer => ":BUFFER",
        SignaturePart::Class => ":CLASS",
        SignaturePart::Api => ":FUNCTION",
        SignaturePart::Site => ":FUNCTION-OR-PHASE",
        SignaturePart::Status => ":STATUS",
        SignaturePart::Any => ":TEXT",
    };
    parts.iter().fold(kind.to_owned(), |text, part| text + word(part))
}

impl SignaturePart {
    fn check(
        self,
        name: &str,
        open: bool,
        api: &str,
        buffers: Option<&[&str]>,
    ) -> Result<(), SignatureMistake> {
        let known: Vec<Cow<'_, str>> = match self {
            SignaturePart::Any => return Ok(()),
            SignaturePart::Status if api == "dlopen" || api == "queue" => return Ok(()),
            SignaturePart::Buffer => {
                let Some(buffers) = buffers else { return Ok(()) };
                // The most frequent suffixes come first, because the first similar name is suggested.
                let ends = ["", BACK, ".guards", ".back.guards", ".initial.guards"];
                ends.iter()
                    .flat_map(|end| buffers.iter().map(move |b| format!("{b}{end}").into()))
                    .collect()
            }
            SignaturePart::Class => CLASSES.iter().copied().map(Cow::from).collect(),
            SignaturePart::Status => every_status(api).map(Cow::from).collect(),
            SignaturePart::Api => functions().collect(),
            SignaturePart::Site => {
                let phases = PHASES.iter().map(|phase| phase.to_string().into());
                functions().chain(phases).collect()
            }
        };
        if known.iter().any(|k| *k == name || open && k.starts_with(name)) {
            return Ok(());
        }
        let what = match self {
            SignaturePart::Buffer => "no check reads a buffer",
            SignaturePart::Class => "wrong bytes are never",
            SignaturePart::Status => "unknown status",
            SignaturePart::Api | SignaturePart::Site | SignaturePart::Any => "unknown function",
        };
        let in_hip = hints::name_in_hip(name).filter(|name| known.iter().any(|k| k == name));
        let of_function = match self {
            SignaturePart::Api | SignaturePart::Site if in_hip.is_none() => {
                hints::function_meant(name)
            }
            SignaturePart::Api
            | SignaturePart::Site
            | SignaturePart::Buffer
            | SignaturePart::Class
            | SignaturePart::Status
            | SignaturePart::Any => None,
        };
        let near = in_hip
            .as_deref()
            .or_else(|| crate::diagnostic::nearest(name, known.iter().map(Cow::as_ref)))
            .filter(|_| of_function.is_none());
        let help = match (near, self) {
            (Some(near), _) => Some(format!("did you mean `{near}`?")),
            (None, SignaturePart::Api | SignaturePart::Site) => of_function,
            (None, SignaturePart::Buffer | SignaturePart::Class) => {
                suggest(name, known.iter().map(Cow::as_ref))
            }
            (None, _) => None,
        };
        Err((format!("{what} `{name}{}`", if open { "*" } else { "" }), help))
    }
}
