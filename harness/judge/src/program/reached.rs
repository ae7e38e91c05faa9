//! Determines whether the calls of a program reached the emulated device, and through which HIP runtime.

use device::{Mapped, Witness};
use plan::program::ProgramBody;

use crate::{Kind, Outcome, ProgramContext, ProgramMessage, ProgramObservation};

/// Beginning of the message in which the loader or Python reports that no loaded library defines an HSA function.
const UNDEFINED: &str = "undefined symbol: hsa_";

/// If the program used a HIP runtime other than the stack's own, returns that runtime; otherwise `None`. `runtime` is
/// the build id of the stack's HIP runtime.
pub fn other_hip<'a>(witnesses: &'a [Witness], runtime: Option<&str>) -> Option<&'a Mapped> {
    let reached = witnesses.iter().filter(|witness| witness.reached);
    reached.filter_map(Witness::hip).find(|hip| hip.build_id.as_deref() != runtime)
}

/// Replaces a skip with a `no-verdict` outcome if the program may have skipped only because its calls bypassed the
/// emulated device.
///
/// A program that the stack's compiler built is linked to HIP, so it loads HIP even if it skips for an unrelated
/// reason. For such a program, a loaded HIP runtime alone is not a reason to replace the skip.
pub(crate) fn recheck_skip(
    seen: &ProgramObservation<'_>,
    context: &ProgramContext<'_>,
    skip: Outcome,
) -> Outcome {
    if skip.kind != Kind::Skip {
        return skip;
    }
    let linked = matches!(context.program.what, ProgramBody::Cpp { .. });
    let why = device_bypassed(seen).or_else(|| device_never_initialised(seen).filter(|_| !linked));
    why.map_or(skip.clone(), |outcome| outcome.with([format!("The program: {}", skip.summary)]))
}

/// Returns a `no-verdict` outcome if the program ended before its first check because HIP reported no device. The cause
/// may be that the release does not know the architecture of the emulated device.
pub(crate) fn no_device(
    seen: &ProgramObservation<'_>,
    context: &ProgramContext<'_>,
) -> Option<Outcome> {
    let reported = seen.messages.iter().find(|said| {
        matches!(
            said,
            ProgramMessage::Check { .. }
                | ProgramMessage::Exception { .. }
                | ProgramMessage::ToldOfFault
        )
    })?;
    let is_none =
        matches!(reported, ProgramMessage::Exception { name, .. } if name == "hipErrorNoDevice");
    let (spec, gfx) = (context.spec, context.emulated.arch.name());
    let why = format!(
        "the HIP runtime of {spec} reports no device: it may not support the emulated {gfx}"
    );
    (is_none && context.emulated.faults.is_empty()).then(|| Outcome::no_verdict("no-device", why))
}

/// Returns a `no-verdict` outcome if calls of the program bypassed the emulated device, or may have bypassed it.
pub(crate) fn device_bypassed(seen: &ProgramObservation<'_>) -> Option<Outcome> {
    if let Some(symbol) = undefined_hsa_function(seen) {
        let why = format!(
            "a library of ROCm in the program needs the function `{symbol}`, which the emulated device does not have"
        );
        return Some(Outcome::no_verdict("symbol", why).with([hint_newer()]));
    }
    let mut others = seen.witnesses.iter().flat_map(|witness| &witness.others);
    if let Some(other) = others.next() {
        let why = format!(
            "another HSA runtime ran next to the emulated device, `{}`, so calls may not have reached the device",
            other.path
        );
        return Some(Outcome::no_verdict("device", why).with([hint_path()]));
    }
    let mut all = seen.witnesses.iter().filter(|witness| witness.reached).filter_map(Witness::hip);
    let first = all.next()?;
    let second = all.find(|hip| hip.build_id != first.build_id)?;
    let why = format!(
        "processes of the program used two builds of HIP, `{}` and `{}`, so the result cannot be attributed to one \
         build",
        first.path, second.path
    );
    Some(Outcome::no_verdict("stack", why))
}

/// Returns a `no-verdict` outcome if the program loaded HIP but none of its processes initialised the emulated device.
pub(crate) fn device_never_initialised(seen: &ProgramObservation<'_>) -> Option<Outcome> {
    if seen.witnesses.iter().any(|witness| witness.reached) {
        return None;
    }
    let hip = seen.witnesses.iter().find_map(Witness::hip)?;
    let why = format!("the program loaded `{}` but never used the device", hip.path);
    // A program that an exception of Python ended may have had no time to use the device.
    let raised = seen.observation.stderr.contains("Traceback (most recent call last)");
    Some(Outcome::no_verdict("device", why).with((!raised).then(hint_path)))
}

fn hint_path() -> String {
    "Hint: load libhsa-runtime64 by its name; a library that loads its own copy by path cannot be redirected".to_owned()
}

fn hint_newer() -> String {
    "Hint: use an older version of the package that contains ROCm, or a newer rocrepro".to_owned()
}

/// Returns the name of the HSA function that the loader did not find, according to the program's messages and output;
/// `None` if no such function is reported.
fn undefined_hsa_function(seen: &ProgramObservation<'_>) -> Option<String> {
    let exceptions = seen.messages.iter().filter_map(|said| match said {
        ProgramMessage::Exception { text, .. } => Some(text.as_str()),
        ProgramMessage::Skip { why } => Some(why.as_str()),
        _ => None,
    });
    let mut texts = exceptions.chain([seen.observation.stderr.as_str(), seen.stdout]);
    texts.find_map(undefined_in)
}

/// Returns the name of the undefined HSA function in a message of the loader or of Python.
fn undefined_in(text: &str) -> Option<String> {
    let at = text.find(UNDEFINED)? + UNDEFINED.len() - "hsa_".len();
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    Some(text[at..].chars().take_while(|c| name(*c)).collect())
}
