//! Calls that do not become steps, because they cause no work.

use super::super::arguments::RecordedCall;

/// Functions that query the runtime or the device, or that only a compiled program calls. They cause no work.
const QUERIES: &[&str] = &[
    "__hipPopCallConfiguration",
    "__hipPushCallConfiguration",
    "__hipRegisterVar",
    "__hipUnregisterFatBinary",
    "hipDeviceGetPCIBusId",
    "hipFuncGetAttribute",
    "hipFuncGetAttributes",
    "hipGetDevice",
    "hipGetDeviceCount",
    "hipGetDevicePropertiesR0000",
    "hipGetDevicePropertiesR0600",
    "hipGetErrorName",
    "hipGetErrorString",
    "hipInit",
    "hipRuntimeGetVersion",
];

/// Returns true if a call causes no work. The steps of a case use the first device, so selecting it causes none either.
pub(super) fn is_query(call: RecordedCall<'_>) -> bool {
    let selects_first =
        call.name() == "hipSetDevice" && call.succeeded() && call.number("deviceId") == Ok(0);
    selects_first || QUERIES.contains(&call.name())
}
