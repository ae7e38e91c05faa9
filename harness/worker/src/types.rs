//! Compares the Rust function types that the worker uses for HIP calls with a table that was generated from HIP's
//! headers.

use plan::{hip_declared, is_handle, is_struct, pointed, scalar};

/// Class of a C or Rust type: a number of a certain width in bytes, a pointer, or something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Bytes(usize),
    Float(usize),
    /// A pointer or a handle. Handles are pointers in C.
    Pointer,
    /// A struct, or an unknown type.
    Other,
}

/// Class of a type and, for a pointer, the class of the type to which it points.
type Shape = (Class, Class);

/// Explains why `rust`, a Rust type such as `fn(*mut c_void, u32) -> i32`, does not fit the declaration of a HIP
/// function. Returns `None` if it fits, or if the table does not contain the function.
pub(crate) fn mistake(function: &str, rust: &str) -> Option<String> {
    let known = hip_declared(function)?;
    let inside = rust.split_once('(')?.1.rsplit_once(") ->")?.0;
    let given: Vec<&str> = inside.split(',').map(str::trim).filter(|ty| !ty.is_empty()).collect();
    let agree = |c: &str, rust: &str| {
        let ((c, c_behind), (rust, rust_behind)) = (of_c(c), of_rust(rust));
        // For an enum, or a struct that is passed by value, any type except a pointer is accepted.
        if c == Class::Other {
            return rust != Class::Pointer;
        }
        let unknown = c_behind == Class::Other || rust_behind == Class::Other;
        c == rust && (unknown || c_behind == rust_behind)
    };
    let types: Vec<&str> = known.parameters.iter().map(|parameter| parameter.ty).collect();
    let right =
        types.len() == given.len() && types.iter().zip(&given).all(|(c, rust)| agree(c, rust));
    (!right).then(|| format!("`{function}` takes ({}), not ({inside})", types.join(", ")))
}

fn of_c(ty: &str) -> Shape {
    let value = |ty: &str| match (ty, scalar(ty)) {
        ("void", _) => Class::Other,
        ("char", _) => Class::Bytes(1),
        ("float", _) => Class::Float(4),
        // These are types of pointers to host functions.
        ("hipStreamCallback_t" | "hipHostFn_t", _) => Class::Pointer,
        _ if is_struct(ty) => Class::Other,
        (_, Some(number)) => Class::Bytes(number.bytes()),
        (_, None) => Class::Pointer,
    };
    match pointed(ty) {
        Some(behind) => (Class::Pointer, value(behind)),
        None if is_handle(ty) => (Class::Pointer, Class::Other),
        None => (value(ty), Class::Other),
    }
}

fn of_rust(ty: &str) -> Shape {
    let value = |ty: &str| match ty.rsplit("::").next().unwrap_or(ty) {
        "c_char" | "c_uchar" | "i8" | "u8" => Class::Bytes(1),
        "c_short" | "c_ushort" | "i16" | "u16" => Class::Bytes(2),
        "c_int" | "c_uint" | "i32" | "u32" => Class::Bytes(4),
        "c_long" | "c_ulong" | "c_longlong" | "c_ulonglong" | "i64" | "u64" | "isize" | "usize" => {
            Class::Bytes(8)
        }
        "f32" => Class::Float(4),
        _ if ty.starts_with('*') => Class::Pointer,
        // These are the worker's names for types of pointers to host functions.
        name if name.ends_with("Function") || name.ends_with("Callback") => Class::Pointer,
        _ => Class::Other,
    };
    match ty.strip_prefix("*mut ").or_else(|| ty.strip_prefix("*const ")) {
        Some(behind) => (Class::Pointer, value(behind)),
        None => (value(ty), Class::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_match_the_types_of_the_header() {
        // Only `hipGetDevicePropertiesR0600` has a name that is not in the header.
        let unknown = |name: &str| hip_declared(name).is_none() && !name.ends_with("R0600");
        let unknown: Vec<_> = hip_sys::Hip::FUNCTIONS.iter().filter(|name| unknown(name)).collect();
        assert!(unknown.is_empty(), "harness/device/src/hip/steps.txt lacks {unknown:?}");
        let wrong: Vec<String> = hip_sys::Hip::TYPES
            .iter()
            .filter_map(|(name, types)| mistake(name, &format!("fn({}) -> i32", types.join(", "))))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn rejects_other_types() {
        let of = |rust: &str| mistake("hipStreamGetId", rust);
        assert_eq!(of("unsafe extern \"C\" fn(*mut core::ffi::c_void, *mut u64) -> i32"), None);
        for wrong in [
            "fn(*mut c_void, *mut c_uint) -> i32",
            "fn(*mut c_void, *mut f32) -> i32",
            "fn(*mut c_void, usize) -> i32",
            "fn(u32, *mut u64) -> i32",
            "fn(*mut c_void) -> i32",
        ] {
            assert!(of(wrong).is_some_and(|why| why.contains("unsigned long long*")), "{wrong}");
        }
        assert_eq!(mistake("hipNoFunction", "fn() -> i32"), None);
    }
}
