//! Reports to the worker the version and the configuration of this device.

use std::{
    ffi::{CString, c_char},
    sync::OnceLock,
};

use device::Identity;

use crate::configuration;

/// Implements the symbol that [`device::IDENTITY_SYMBOL`] names.
#[unsafe(no_mangle)]
extern "C" fn rocrepro_device_identity() -> *const c_char {
    static TEXT: OnceLock<CString> = OnceLock::new();
    let text = || {
        let config = configuration::get().clone();
        let identity = Identity { version: env!("CARGO_PKG_VERSION").to_owned(), config };
        CString::new(serde_json::to_string(&identity).unwrap_or_default()).unwrap_or_default()
    };
    TEXT.get_or_init(text).as_ptr()
}
