//! Rules for untrusted cases. A case is a program: its kernels are compiled and run, and the libraries read the
//! environment variables that it sets.
//!
//! The rules prevent a case from naming files and programs of the machine. Violations are reported at their positions
//! in the case. The rules are only the first barrier: the operating system also confines the worker that compiles and
//! runs the kernels (`worker::confine`).

mod kernel_source;

pub use self::kernel_source::forbidden_construct;
use crate::{
    Case, Diagnostic, SourceSpan,
    diagnostic::suggest,
    matrix::substitute,
    program,
    yaml::{Node, Value},
};

/// Environment variables that an untrusted case may set. They change how HIP, HSA and the libraries work, and none of
/// them names a file, a library or a program. Sources: AMD's documentation of environment variables, and
/// `cases/mitigations.toml`. The worker has these variables from its start, before it confines itself. So the list must
/// not contain a variable that the dynamic loader or the C library reads.
const ALLOWED_VARIABLES: &[&str] = &[
    "AMD_DIRECT_DISPATCH",
    "AMD_OPT_FLUSH",
    "AMD_SERIALIZE_COPY",
    "AMD_SERIALIZE_KERNEL",
    "DEBUG_CLR_GRAPH_PACKET_CAPTURE",
    "DEBUG_CLR_MAX_BATCH_SIZE",
    "DEBUG_CLR_SYSMEM_POOL",
    "DEBUG_HIP_DYNAMIC_QUEUES",
    "DEBUG_HIP_FORCE_GRAPH_QUEUES",
    "DEBUG_HIP_GRAPH_BATCH_SIZE",
    "DEBUG_HIP_GRAPH_SEGMENT_SCHEDULING",
    "DEBUG_HIP_KERNARG_COPY_OPT",
    "DEBUG_HIP_MEM_POOL_VMHEAP",
    "GPU_FORCE_BLIT_COPY_SIZE",
    "GPU_MAX_HW_QUEUES",
    "GPU_PINNED_MIN_XFER_SIZE",
    "GPU_PINNED_XFER_SIZE",
    "GPU_STREAMOPS_CP_WAIT",
    "HIPBLASLT_LOG_LEVEL",
    "HIP_FORCE_DEV_KERNARG",
    "HIP_INITIAL_DM_SIZE",
    "HIP_LAUNCH_BLOCKING",
    "HIP_MEM_POOL_SUPPORT",
    "HIP_MEM_POOL_USE_VM",
    "HIP_VISIBLE_DEVICES",
    "HSA_DISABLE_FRAGMENT_ALLOCATOR",
    "HSA_ENABLE_INTERRUPT",
    "HSA_ENABLE_PEER_SDMA",
    "HSA_ENABLE_SDMA",
    "HSA_ENABLE_SDMA_GANG",
    "HSA_NO_SCRATCH_RECLAIM",
    "HSA_OVERRIDE_GFX_VERSION",
    "HSA_XNACK",
    "ROCBLAS_USE_HIPBLASLT",
    "ROCR_VISIBLE_DEVICES",
    "ROC_CPU_WAIT_FOR_SIGNAL",
    "ROC_SYSTEM_SCOPE_SIGNAL",
    "ROC_USE_FGS_KERNARG",
];

const HELP: &str =
    "an untrusted case may not do this; if you trust it like a program of your own, add `--trust`";

/// Maximum total size in bytes of the kernel sources of all trials of an untrusted case. The sources are read before
/// any trial runs.
const MAX_KERNEL_BYTES: usize = 256 << 20;

/// Returns all parts of a case that are forbidden if the case is untrusted, as mistakes.
pub fn forbidden_parts(case: &Case) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let Some((key, _)) = program::program_entry(case.body()) {
        let message =
            "the case runs a program, which can do everything that its user can".to_owned();
        found.push(Diagnostic { at: key.at, message, help: Some(HELP.to_owned()) });
    }
    for (key, node) in entries(case.body(), "environment") {
        if !ALLOWED_VARIABLES.contains(&key) {
            let meant = suggest(key, ALLOWED_VARIABLES.iter().copied());
            let help = meant.map_or(HELP.to_owned(), |meant| format!("{meant} {HELP}"));
            let message = format!("an untrusted case may not set the variable `{key}`");
            found.push(Diagnostic { at: node, message, help: Some(help) });
        }
    }
    if let Value::Map(keys) = &case.body().value
        && let Some((_, kernels)) = keys.iter().find(|(key, _)| key.text == "kernels")
    {
        // The kernels are checked for each trial, because values of the trial are substituted into their sources.
        let mut bytes = 0;
        for trial in case.trials() {
            let kernels = substitute(kernels, &trial, &mut Vec::new());
            bytes += texts(&kernels, "").iter().map(|(_, (_, text))| text.len()).sum::<usize>();
            if bytes > MAX_KERNEL_BYTES {
                let message = format!(
                    "the kernels of all trials together have more than {} MiB",
                    MAX_KERNEL_BYTES >> 20
                );
                found.push(Diagnostic { at: kernels.at, message, help: Some(HELP.to_owned()) });
                break;
            }
            for diagnostic in forbidden_in_kernels(&kernels) {
                if !found.contains(&diagnostic) {
                    found.push(diagnostic);
                }
            }
        }
    }
    found
}

fn forbidden_in_kernels(kernels: &Node) -> Vec<Diagnostic> {
    let Value::Map(kernels) = &kernels.value else { return Vec::new() };
    let mut found = Vec::new();
    for (name, node) in kernels {
        for (key, (at, text)) in texts(node, "source") {
            let what = match key {
                "source" => forbidden_construct(&text),
                "options" if !is_harmless(&text) => {
                    Some(format!("is compiled with `{text}`, which may name a file"))
                }
                "code" => Some("is a code object, whose content nothing checks".to_owned()),
                _ => None,
            };
            let message = what.map(|what| format!("kernel `{}` {what}", name.text));
            let help = || Some(HELP.to_owned());
            found.extend(message.map(|message| Diagnostic { at, message, help: help() }));
        }
    }
    found
}

/// Returns all texts in a YAML node, each with the key of the mapping that contains it. For a text outside of any
/// mapping, `bare` is returned as the key.
fn texts<'n>(node: &'n Node, bare: &'n str) -> Vec<(&'n str, (SourceSpan, String))> {
    match &node.value {
        Value::Scalar(text) => vec![(bare, (node.at, text.clone()))],
        Value::List(items) => items.iter().flat_map(|item| texts(item, bare)).collect(),
        Value::Map(entries) => {
            entries.iter().flat_map(|(key, value)| texts(value, &key.text)).collect()
        }
    }
}

/// Returns true if a compiler option is on the list of harmless ones: it sets a level, a macro, a language or a mode of
/// computation, and names no file or program.
fn is_harmless(option: &str) -> bool {
    const ALLOWED_PREFIXES: [&str; 6] = ["-O", "-D", "-U", "-W", "-std=", "-ffp-contract="];
    const ALLOWED_OPTIONS: [&str; 14] = [
        "-w",
        "-g",
        "-ffast-math",
        "-fno-fast-math",
        "-ffinite-math-only",
        "-fgpu-flush-denormals-to-zero",
        "-fno-gpu-flush-denormals-to-zero",
        "-fno-unroll-loops",
        "-funroll-loops",
        "-mcumode",
        "-mno-cumode",
        "-mwavefrontsize64",
        "-mno-wavefrontsize64",
        "-munsafe-fp-atomics",
    ];
    // `-Wl,` and similar options pass arguments to other programs. The value of a macro may contain a keyword that
    // reads files.
    let hands_on = option.starts_with("-W") && option.contains(',');
    let begins = ALLOWED_PREFIXES.iter().any(|begin| option.starts_with(begin));
    let one = !option.contains(|c: char| c.is_whitespace() || c == '@');
    (begins || ALLOWED_OPTIONS.contains(&option))
        && one
        && !hands_on
        && forbidden_construct(option).is_none()
}

fn entries<'n>(root: &'n Node, key: &str) -> Vec<(&'n str, SourceSpan)> {
    let Value::Map(keys) = &root.value else { return Vec::new() };
    match keys.iter().find(|(k, _)| k.text == key).map(|(_, node)| &node.value) {
        Some(Value::Map(entries)) => entries.iter().map(|(k, _)| (k.text.as_str(), k.at)).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_no_files() {
        for option in ["-O0", "-DN=64", "-UX", "-std=c++17", "-mwavefrontsize64", "-Wall"] {
            assert!(is_harmless(option), "{option}");
        }
        let refused = [
            "-I/etc",
            "-include",
            "/etc/passwd",
            "@file",
            "-D@x",
            "-O3 -include /etc/passwd",
            "-Wl,--script=x",
            "-fplugin=x.so",
            "-mllvm",
            "-DREAD=asm",
            "-DP(a,b)=a##b",
        ];
        for option in refused {
            assert!(!is_harmless(option), "{option}");
        }
    }

    #[test]
    fn kernels_are_judged_with_the_values_of_their_trials() {
        let case = |kernel: &str| {
            let text = format!(
                "title: t\nsource: s\nmatrix: {{m: [m, n]}}\nfaults: copy.zero\nkernels:\n  k: {kernel}\nsteps: [{{sync: device}}]\n"
            );
            forbidden_parts(&Case::parse("f/c", &text).expect("a case")).len()
        };
        assert_eq!(case("'void k() { as${m}(1); }'"), 1);
        assert_eq!(case("{source: 'void k() {}', options: ['-DX=as$m', '-O2']}"), 1);
        assert_eq!(case("{source: 'void k() {}', options: ['-DX=$m']}"), 0);
    }
}
