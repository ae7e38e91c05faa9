//! Selects the repository in which an issue should be filed.

use judge::Kind;
use plan::Library;

use super::Form;
use crate::Record;

/// Repository, component and form of an issue, and the reason for this choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// Repository, as `owner/name`.
    pub repository: &'static str,
    /// Name of the component, as in the list of the form.
    pub component: &'static str,
    /// Reason why the issue belongs in this repository.
    pub why: String,
    /// Issue form that the repository uses.
    pub form: Form,
}

/// Prefix of the functions of each library, name of the library in the issue form, and its [`Library`] if it has one.
const PREFIXES: [(&str, &str, Option<Library>); 5] = [
    ("hipblasLt", "hipBLASlt", Some(Library::Hipblaslt)),
    ("hipblas", "hipBLAS", None),
    ("rocblas_", "rocBLAS", Some(Library::Rocblas)),
    ("hiprand", "hipRAND", Some(Library::Hiprand)),
    ("rocrand", "rocRAND", None),
];

/// Selects the repository of an issue by the failing call, the libraries that the trial calls, and the kind of failure.
///
/// Since 2025, issues about the HIP runtime, the HSA runtime and RCCL go to ROCm/rocm-systems, those about the math
/// libraries to ROCm/rocm-libraries (observed in ROCm/rccl#2188 and ROCm/rocBLAS#1680), and those about the compiler to
/// ROCm/llvm-project.
pub fn home(record: &Record, libraries: &[Library]) -> Home {
    let api = record.outcome.at.api.as_deref().unwrap_or_default();
    let of = |component, why: String| Home {
        repository: "ROCm/rocm-libraries",
        component,
        why,
        form: Form::RocmLibraries,
    };
    if let Some((_, component, _)) = PREFIXES.iter().find(|(prefix, ..)| api.starts_with(prefix)) {
        return of(component, format!("the failing call, `{api}`, belongs to {component}"));
    }
    let runtime =
        |component, why| Home { repository: "ROCm/rocm-systems", component, why, form: Form::Rocm };
    if record.outcome.kind == Kind::CompileError {
        return Home {
            repository: "ROCm/llvm-project",
            component: "llvm-project",
            why: "hipRTC rejected a kernel; the compiler is a separate project".to_owned(),
            form: Form::Rocm,
        };
    }
    if record.outcome.kind == Kind::WrongData
        && let Some((_, component, _)) =
            PREFIXES.iter().find(|(_, _, l)| l.is_some_and(|l| libraries.contains(&l)))
    {
        let why = format!(
            "the wrong bytes come from a program that calls {component}; if the same calls also fail without it, file \
             against ROCm/rocm-systems"
        );
        return of(component, why);
    }
    if record.outcome.signature.contains("__amd_rocclr_") {
        let why = "the fault is in a kernel of the HIP runtime (`__amd_rocclr_*`)";
        return runtime("clr", why.to_owned());
    }
    let called = if libraries.is_empty() {
        "the program calls no library above HIP"
    } else {
        "no library call is involved in the failure"
    };
    let why = match api {
        "" | "host read" | "host fill" => {
            format!("{called}, and the data that it read back is wrong")
        }
        api => format!("the failing call, `{api}`, belongs to the HIP runtime; {called}"),
    };
    runtime("clr", why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::failed;

    #[test]
    fn failing_call_selects_the_repository() {
        let check = |kind, api: &str, signature: &str, libraries: &[Library], expected: &str| {
            let mut record = failed("a/b");
            record.outcome.kind = kind;
            record.outcome.signature = signature.to_owned();
            record.outcome.at.api = Some(api.to_owned());
            let home = home(&record, libraries);
            assert_eq!(format!("{} {}", home.repository, home.component), expected, "{api}");
        };
        check(Kind::Crash, "hipGraphInstantiate", "", &[], "ROCm/rocm-systems clr");
        check(Kind::Crash, "hipblasLtCreate", "", &[], "ROCm/rocm-libraries hipBLASlt");
        check(Kind::ApiError, "rocblas_create_handle", "", &[], "ROCm/rocm-libraries rocBLAS");
        check(
            Kind::CompileError,
            "hiprtcCompileProgram",
            "",
            &[],
            "ROCm/llvm-project llvm-project",
        );
        let rand = [Library::Hiprand];
        check(Kind::WrongData, "host read", "", &rand, "ROCm/rocm-libraries hipRAND");
        check(Kind::Crash, "hipGraphLaunch", "", &rand, "ROCm/rocm-systems clr");
        let fill = "memory-fault:__amd_rocclr_fillBufferAligned";
        check(Kind::MemoryFault, "hipMemset", fill, &[], "ROCm/rocm-systems clr");
    }
}
