//! The functions that are recorded, and the registers and stack words in which their arguments are passed.

use std::sync::LazyLock;

use plan::{HipFunction, HipParameter, HipRole, hip_declarations, hip_declared, is_handle, scalar};

/// Declarations of functions that are recorded although no step of a case calls them.
const OTHERS: &str = include_str!("functions.txt");

/// Number of stubs. It exceeds the number of recorded functions.
pub(crate) const STUBS: usize = 1024;

/// Number of stack words that are passed on to a function whose declaration is unknown. No function of HIP has more
/// arguments on the stack.
const UNKNOWN_WORDS: usize = 16;

/// A function that is recorded.
pub(crate) struct Recorded {
    pub(crate) name: &'static str,
    pub(crate) declaration: Option<&'static HipFunction>,
    /// Number of 8-byte words on the stack that contain arguments.
    pub(crate) stack_words: usize,
}

/// Registers or stack words in which an argument of a certain type is passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Passing {
    /// The argument is passed in one integer register, or in one word of the stack.
    Integer,
    /// The argument is passed in a floating-point register.
    Float,
    /// The argument has this number of 8-byte words. It is passed in as many integer registers if enough of them are
    /// unused, and otherwise on the stack.
    Words(usize),
    /// The argument has this number of 8-byte words, and is always passed on the stack.
    Stack(usize),
}

/// Returns how an argument is passed according to the System V ABI for x86-64, 3.2.3: a struct of up to 16 bytes in
/// registers, a larger struct on the stack.
pub(crate) fn passing(parameter: &HipParameter) -> Passing {
    match (&parameter.role, parameter.ty) {
        (HipRole::Value, "dim3") => Passing::Words(2),
        (HipRole::Value, "hipPitchedPtr") => Passing::Stack(4),
        (HipRole::Value, "hipExtent") => Passing::Stack(3),
        (HipRole::Value, "hipIpcMemHandle_t" | "hipIpcEventHandle_t") => Passing::Stack(8),
        (HipRole::Value, "float") => Passing::Float,
        _ => Passing::Integer,
    }
}

/// Returns true if the argument is an address or a handle.
pub(crate) fn is_address(parameter: &HipParameter) -> bool {
    let ty = parameter.ty;
    ty.ends_with('*')
        || is_handle(ty)
        || ["hiprtcProgram", "hipStreamCallback_t", "hipHostFn_t"].contains(&ty)
        || scalar(ty).is_none()
}

impl Recorded {
    fn new(name: &'static str, declaration: Option<&'static HipFunction>) -> Recorded {
        let Some(declared) = declaration else {
            return Recorded { name, declaration, stack_words: UNKNOWN_WORDS };
        };
        let (mut registers, mut stack_words) = (6_usize, 0);
        for parameter in &declared.parameters {
            let (words, in_registers) = match passing(parameter) {
                Passing::Integer => (1, true),
                Passing::Words(words) => (words, true),
                Passing::Stack(words) => (words, false),
                Passing::Float => (0, true),
            };
            match in_registers && registers >= words {
                true => registers -= words,
                false => stack_words += words,
            }
        }
        Recorded { name, declaration, stack_words }
    }
}

/// Returns the functions that are recorded, sorted by name.
pub(crate) fn functions() -> &'static [Recorded] {
    static OWN: LazyLock<Vec<HipFunction>> = LazyLock::new(|| hip_declarations(OTHERS));
    static ALL: LazyLock<Vec<Recorded>> = LazyLock::new(|| {
        let own = || OWN.iter().map(|function| (function.name(), Some(function)));
        let of =
            |name: &str| hip_declared(name).or_else(|| OWN.iter().find(|own| own.name() == name));
        // A function for the per-thread default stream (`_spt`) has the parameters of the usual function.
        let declared = |name: &str| of(name).or_else(|| of(name.strip_suffix("_spt")?));
        let is_recorded = |name: &str| name.starts_with("hip") || name.starts_with("_Z");
        let others = device::library_functions().iter().map(|function| function.name);
        let others = others.filter(|name| is_recorded(name) && !name.starts_with("hipblas"));
        let others = others.filter(|name| !name.starts_with("hiprand"));
        let mut all: Vec<_> = others.map(|name| (name, declared(name))).chain(own()).collect();
        all.sort_by_key(|(name, _)| *name);
        all.dedup_by_key(|(name, _)| *name);
        all.truncate(STUBS);
        all.into_iter().map(|(name, declaration)| Recorded::new(name, declaration)).collect()
    });
    &ALL
}

/// Returns the index of a function in [`functions`]; `None` if the function is not recorded.
pub(crate) fn index(name: &[u8]) -> Option<usize> {
    functions().binary_search_by_key(&name, |function| function.name.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(name: &str) -> usize {
        functions()[index(name.as_bytes()).unwrap()].stack_words
    }

    #[test]
    fn arguments_are_where_the_abi_passes_them() {
        // 11 arguments, 6 of which are in registers.
        assert_eq!(words("hipModuleLaunchKernel"), 5);
        // The function, two structs of two words, and the array are in registers.
        assert_eq!(words("hipLaunchKernel"), 2);
        // A struct of 32 bytes and one of 24 bytes are on the stack, the stream and the value in registers.
        assert_eq!(words("hipMemset3DAsync"), 7);
        assert_eq!(words("hipMalloc"), 0);
        assert_eq!(words("hipStreamSynchronize_spt"), 0);
    }

    #[test]
    fn all_functions_have_stubs() {
        assert!(functions().len() < STUBS, "{}", functions().len());
        assert!(functions().len() > 500, "{}", functions().len());
        for name in ["hipMalloc", "hipMemcpy", "hipLaunchKernel", "hiprtcCompileProgram"] {
            assert!(functions()[index(name.as_bytes()).unwrap()].declaration.is_some(), "{name}");
        }
        assert!(functions().iter().all(|one| one.stack_words <= UNKNOWN_WORDS));
        assert!(index(b"rocblas_create_handle").is_none());
    }

    #[test]
    fn own_declarations_are_complete() {
        let lines = OTHERS.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(hip_declarations(OTHERS).len(), lines);
    }
}
