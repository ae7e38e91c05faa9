//! Converts the arguments of a call that has no step of its own to those of a `hip` step.

use plan::{BufferAddress, HipArg, HipParameter, HipRole, Scalar, hip_function, is_handle, scalar};
use recorder::trace::ArgumentValue;

use super::arguments::RecordedCall;

/// Output parameters that only a `hip` step passes as a null pointer. All other steps pass a pointer, because the
/// worker needs the result.
const RESULTS: &[&str] =
    &["flags", "numNodes", "pCaptureStatus", "pGraph", "pGraphExec", "priority"];

/// Returns true if the call must become a `hip` step, because the more specific step would pass other arguments.
pub(super) fn must_be_generic(call: RecordedCall<'_>) -> bool {
    let is_null = |name: &&&str| call.argument(name).is_some() && call.address(name) == Ok(0);
    let waits_with_flags = call.name() == "hipStreamWaitEvent" && call.number("flags") != Ok(0);
    waits_with_flags || RESULTS.iter().any(|name| is_null(&name))
}

/// The objects that the arguments of a call can name.
pub(super) trait Objects {
    /// Returns the name of an object of the case, by its handle.
    fn name(&self, handle: u64) -> Option<String>;

    /// Returns the name of a value that an earlier `hip` step returned, by its handle.
    fn value(&self, handle: u64) -> Option<String>;

    /// Finds the buffer at an address, if at least `bytes` bytes of recorded memory follow. `None` as the number of
    /// bytes counts as 0.
    fn memory(&mut self, at: u64, bytes: Option<u64>) -> Option<BufferAddress>;

    /// Returns a new name for a value that the call returns, and remembers its handle.
    fn new_value(&mut self, handle: Option<u64>) -> String;
}

/// Returns the arguments of the `hip` step.
///
/// # Errors
/// Returns the first argument that the step cannot express.
pub(super) fn arguments(
    call: RecordedCall<'_>,
    objects: &mut dyn Objects,
) -> Result<Vec<HipArg>, String> {
    let function = hip_function(call.name()).ok_or("no step calls it")?;
    let parameters = function.parameters.iter();
    parameters.map(|parameter| argument(call, parameter, objects)).collect()
}

fn argument(
    call: RecordedCall<'_>,
    parameter: &HipParameter,
    objects: &mut dyn Objects,
) -> Result<HipArg, String> {
    let name = parameter.name;
    let refused = |why: &str| Err(format!("`{name}` {why}"));
    let address = || call.address(name);
    match &parameter.role {
        HipRole::Text => match call.argument(name) {
            Some(ArgumentValue::Text(text)) => Ok(HipArg::Text(text.clone())),
            Some(ArgumentValue::Address(_)) => Ok(HipArg::Null),
            _ => refused("is a text that was not recorded"),
        },
        HipRole::Value if !is_address(parameter) => {
            let ty = scalar(parameter.ty).ok_or_else(|| format!("`{name}` is a struct"))?;
            let mask = u64::MAX >> (64 - 8 * ty.bytes());
            Ok(HipArg::Number(Scalar { ty, bits: call.number(name)? & mask }))
        }
        HipRole::InOut if call.argument(name).is_some_and(is_number) => {
            let before = call.number(name)?;
            Ok(HipArg::Out { name: objects.new_value(None), before })
        }
        _ if address() == Ok(0) => Ok(HipArg::Null),
        HipRole::Out(_) | HipRole::InOut => {
            let handle = call.succeeded().then(|| call.output_handle(name).ok()).flatten();
            Ok(HipArg::Out { name: objects.new_value(handle), before: 0 })
        }
        HipRole::Value | HipRole::Own => match objects.value(address()?) {
            Some(value) => Ok(HipArg::Value(value)),
            None => refused("is not a value that a step `hip` returned"),
        },
        HipRole::Asks | HipRole::Works => {
            let handle = address()?;
            if let Some(value) = objects.value(handle) {
                return Ok(HipArg::Value(value));
            }
            let found = objects.name(handle);
            let found =
                found.ok_or_else(|| format!("`{name}` was not created by a recorded call"))?;
            match parameter.ty {
                "hipStream_t" => Ok(HipArg::Stream(found)),
                "hipEvent_t" => Ok(HipArg::Event(found)),
                "hipGraph_t" => Ok(HipArg::Graph(found)),
                _ => refused("is an object that the step `hip` cannot name"),
            }
        }
        HipRole::At | HipRole::Reads(_) | HipRole::Writes(_) | HipRole::Sets { .. } => {
            let bytes = match call.argument(name) {
                Some(ArgumentValue::Memory { bytes, .. }) => Some(*bytes),
                _ => None,
            };
            match objects.memory(address()?, bytes) {
                Some(place) => Ok(HipArg::Place(place)),
                None => refused("is not in recorded memory"),
            }
        }
        HipRole::In(_) | HipRole::Keeps => refused("points to a struct"),
    }
}

fn is_number(value: &ArgumentValue) -> bool {
    matches!(value, ArgumentValue::Number(_))
}

fn is_address(parameter: &HipParameter) -> bool {
    parameter.ty.ends_with('*') || is_handle(parameter.ty)
}
