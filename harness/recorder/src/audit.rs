//! The functions that the dynamic loader calls, see rtld-audit(7) and glibc's `link.h`.

use std::{
    ffi::{CStr, c_char, c_long, c_uint},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    stubs::{self, Library},
    table,
};

/// `LA_FLG_BINDTO` and `LA_FLG_BINDFROM`: the loader reports bindings to symbols of an object, or bindings from an
/// object.
const BIND_TO: c_uint = 1;
const BIND_FROM: c_uint = 2;

/// Beginning of glibc's `struct link_map`.
#[repr(C)]
struct LinkMap {
    address: usize,
    name: *const c_char,
}

/// `Elf64_Sym`.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// Returns the version of the interface that this library supports.
#[unsafe(no_mangle)]
extern "C" fn la_version(version: c_uint) -> c_uint {
    // Version 1 contains everything that is used here. Version 2 is that of glibc 2.35 and newer.
    version.min(2)
}

/// Requests that the loader report bindings from other objects to symbols of the HIP libraries. Calls that a HIP
/// library makes to its own functions are not calls of the program.
///
/// # Safety
/// The loader passes a map, whose name is a text or null, and a cookie that the loader keeps with the object.
#[unsafe(no_mangle)]
unsafe extern "C" fn la_objopen(map: *const LinkMap, _: c_long, cookie: *mut usize) -> c_uint {
    // SAFETY: the loader passes a valid map, see above.
    let name = unsafe { (*map).name };
    let name = match name.is_null() {
        true => c"",
        // SAFETY: the name of a map ends with a zero byte and lives as long as the map.
        false => unsafe { CStr::from_ptr(name) },
    };
    let name = name.to_string_lossy();
    let file = name.rsplit('/').next().unwrap_or_default();
    let is = |library: &str| file.strip_prefix(library).is_some_and(|rest| rest.starts_with(".so"));
    let hip = is("libamdhip64");
    let is_recorded = hip || is("libhiprtc");
    if hip {
        stubs::loaded(&name);
    }
    // SAFETY: the loader passes the address of the object's own cookie.
    unsafe { *cookie = usize::from(is_recorded) };
    if is_recorded { BIND_TO } else { BIND_FROM }
}

/// Returns the address to which a reference to a function is bound: the address of a stub if the function is recorded.
///
/// # Safety
/// The loader passes a copy of the symbol with its final address, its name, and the cookies of both objects.
#[unsafe(no_mangle)]
unsafe extern "C" fn la_symbind64(
    symbol: *const Symbol,
    _: c_uint,
    _: *const usize,
    definer: *const usize,
    _: *mut c_uint,
    name: *const c_char,
) -> u64 {
    // SAFETY: the loader passes a valid symbol, see above.
    let address = unsafe { (*symbol).value };
    // SAFETY: the loader passes the address of the defining object's cookie, which `la_objopen` has set.
    if unsafe { *definer } == 0 {
        return address;
    }
    // SAFETY: the loader passes the name of the symbol in the table of strings of a loaded object.
    let name = unsafe { CStr::from_ptr(name) };
    match table::index(name.to_bytes()) {
        Some(index) => match stubs::bind(index, address) {
            Library::First => stubs::address(index),
            Library::Other => {
                static REPORTED: AtomicBool = AtomicBool::new(false);
                if !REPORTED.swap(true, Ordering::Relaxed) {
                    stubs::note(
                        "a second libamdhip64 or libhiprtc is loaded; calls of its functions are not recorded",
                    );
                }
                address
            }
        },
        None => address,
    }
}
