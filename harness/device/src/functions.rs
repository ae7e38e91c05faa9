//! Functions of libraries at which faults can be injected, and the statuses that HIP functions return.

use std::sync::LazyLock;

/// Declarations of the HIP functions that the step `hip` calls. The crate `plan` describes the format.
pub const HIP_FUNCTIONS: &str = include_str!("hip/functions.txt");

/// Declarations of the HIP functions that have steps of their own, in the same format.
pub const HIP_FUNCTIONS_OF_STEPS: &str = include_str!("hip/steps.txt");

const OTHER_FUNCTIONS: &str = include_str!("hip/others.txt");
const STATUSES: &str = include_str!("hip/statuses.txt");
const ENUMERATORS: &str = include_str!("hip/enumerators.txt");
pub(crate) const HIP_STATUS: &str = "hipError_t";

/// A library function at which faults can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryFunction {
    /// Name of the function.
    pub name: &'static str,
    /// Type of the result; `text` for a pointer to characters.
    pub returns: &'static str,
    /// True if a step of a case can call the function.
    pub in_steps: bool,
}

impl LibraryFunction {
    pub(crate) fn returns_status(&self) -> bool {
        [HIP_STATUS, "hiprtcResult", "hipblasStatus_t", "hiprandStatus_t", "rocblas_status"]
            .contains(&self.returns)
    }
}

/// Returns the functions at which faults can be injected, sorted by name. They include every function that
/// libamdhip64 exports.
pub fn library_functions() -> &'static [LibraryFunction] {
    static ALL: LazyLock<Vec<LibraryFunction>> = LazyLock::new(|| {
        let declared = lines(HIP_FUNCTIONS).chain(lines(HIP_FUNCTIONS_OF_STEPS));
        let declared = declared.filter_map(|line| {
            let (name, rest) = line.split_once('(')?;
            let (_, result) = rest.rsplit_once(')')?;
            let returns = if result.contains("char") { "text" } else { HIP_STATUS };
            Some(LibraryFunction { name, returns, in_steps: true })
        });
        let others = lines(OTHER_FUNCTIONS).filter_map(|line| {
            let (name, rest) = line.split_once(' ')?;
            let in_steps = rest.ends_with(" step");
            Some(LibraryFunction { name, returns: rest.trim_end_matches(" step"), in_steps })
        });
        let mut all: Vec<_> = declared.chain(others).collect();
        all.sort_unstable_by_key(|function| function.name);
        all
    });
    &ALL
}

/// Returns the function with this name; `None` if faults cannot be injected at it.
pub fn library_function(name: &str) -> Option<&'static LibraryFunction> {
    let all = library_functions();
    all.binary_search_by_key(&name, |function| function.name).ok().map(|at| &all[at])
}

/// Returns the names of all statuses of HIP with their numbers, sorted by name. The statuses are those of
/// `hip/hip_runtime_api.h`.
pub fn hip_statuses() -> &'static [(&'static str, i32)] {
    static ALL: LazyLock<Vec<(&'static str, i32)>> = LazyLock::new(|| {
        let read = |line: &'static str| {
            let (name, number) = line.split_once(' ')?;
            Some((name, number.parse().ok()?))
        };
        lines(STATUSES).filter_map(read).collect()
    });
    &ALL
}

/// An enumerator of HIP, or a macro for a bit of a `flags` parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enumerator {
    /// C type of the enumeration; [`Enumerator::FLAGS`] for a macro.
    pub ty: &'static str,
    /// Name in the header.
    pub name: &'static str,
    /// Value, which is the same in all releases that declare the enumerator or macro.
    pub value: u64,
}

impl Enumerator {
    /// The type of macros for bits of `flags` parameters.
    pub const FLAGS: &'static str = "flags";
}

/// Returns the enumerators of HIP that can be arguments of functions, sorted by name.
pub fn hip_enumerators() -> &'static [Enumerator] {
    static ALL: LazyLock<Vec<Enumerator>> = LazyLock::new(|| {
        let read = |line: &'static str| {
            let [ty, name, value] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
            Some(Enumerator { ty, name, value: value.parse().ok()? })
        };
        lines(ENUMERATORS).filter_map(read).collect()
    });
    &ALL
}

fn lines(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().filter(|line| !line.starts_with('#'))
}

/// Names that are allowed as the value of a fault's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Names of [`library_functions`].
    Functions,
    /// Names of [`hip_statuses`] that are errors.
    Errors,
}

impl Names {
    /// Returns all names.
    pub fn all(self) -> Vec<&'static str> {
        match self {
            Names::Functions => library_functions().iter().map(|function| function.name).collect(),
            Names::Errors => {
                let errors = hip_statuses().iter().filter(|(_, number)| *number != 0);
                errors.map(|(name, _)| *name).collect()
            }
        }
    }

    /// Returns the three allowed names that are most similar to `written`.
    pub fn nearest(self, written: &str) -> Vec<&'static str> {
        let mut all = self.all();
        let similarity = |name: &str| strsim::jaro_winkler(name, written);
        all.sort_by(|a, b| similarity(b).total_cmp(&similarity(a)));
        all.truncate(3);
        all
    }
}
