//! Bindings to hipRAND, a library of random number generators.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use crate::{LoadError, SharedLibrary, loader::functions};

functions! {
    /// The library hipRAND. Its functions are declared in hiprand/hiprand.h of ROCm 7.2.4. The declarations have not
    /// changed since ROCm 5.3.3. Status codes are `hiprandStatus_t`.
    pub struct Rand;
    fn hiprandCreateGenerator(generator: *mut *mut c_void, kind: c_int) -> c_int;
    fn hiprandCreateGeneratorHost(generator: *mut *mut c_void, kind: c_int) -> c_int;
    fn hiprandSetPseudoRandomGeneratorSeed(generator: *mut c_void, seed: c_ulonglong) -> c_int;
    fn hiprandSetGeneratorOffset(generator: *mut c_void, offset: c_ulonglong) -> c_int;
    fn hiprandSetStream(generator: *mut c_void, stream: *mut c_void) -> c_int;
    fn hiprandGenerate(generator: *mut c_void, output: *mut c_uint, count: usize) -> c_int;
    fn hiprandDestroyGenerator(generator: *mut c_void) -> c_int;
}

/// `hiprandRngType_t` (hiprand/hiprand.h), limited to the pseudo-random generators that plans can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum RngType {
    /// `HIPRAND_RNG_PSEUDO_XORWOW`.
    Xorwow = 401,
    /// `HIPRAND_RNG_PSEUDO_MRG32K3A`.
    Mrg32k3a = 402,
    /// `HIPRAND_RNG_PSEUDO_PHILOX4_32_10`.
    Philox = 405,
}

impl Rand {
    /// Opens `libhiprand`.
    ///
    /// # Errors
    /// Fails if the library cannot be opened.
    pub fn load() -> Result<Self, LoadError> {
        SharedLibrary::open("libhiprand", &["libhiprand.so.1"]).map(Self::resolve)
    }
}

/// Returns the name of a `hiprandStatus_t` (hiprand/hiprand.h).
pub fn status_name(status: c_int) -> String {
    match status {
        0 => "HIPRAND_STATUS_SUCCESS",
        100 => "HIPRAND_STATUS_VERSION_MISMATCH",
        101 => "HIPRAND_STATUS_NOT_INITIALIZED",
        102 => "HIPRAND_STATUS_ALLOCATION_FAILED",
        103 => "HIPRAND_STATUS_TYPE_ERROR",
        104 => "HIPRAND_STATUS_OUT_OF_RANGE",
        105 => "HIPRAND_STATUS_LENGTH_NOT_MULTIPLE",
        106 => "HIPRAND_STATUS_DOUBLE_PRECISION_REQUIRED",
        201 => "HIPRAND_STATUS_LAUNCH_FAILURE",
        202 => "HIPRAND_STATUS_PREEXISTING_FAILURE",
        203 => "HIPRAND_STATUS_INITIALIZATION_FAILED",
        204 => "HIPRAND_STATUS_ARCH_MISMATCH",
        999 => "HIPRAND_STATUS_INTERNAL_ERROR",
        1000 => "HIPRAND_STATUS_NOT_IMPLEMENTED",
        other => return format!("hiprandStatus_t({other})"),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_the_names_of_the_header() {
        assert_eq!(status_name(0), "HIPRAND_STATUS_SUCCESS");
        assert_eq!(status_name(203), "HIPRAND_STATUS_INITIALIZATION_FAILED");
        assert_eq!(status_name(7), "hiprandStatus_t(7)");
    }
}
