//! Decides which environment variables may be published: the name must be known, and the value must consist of known
//! words.

use std::{collections::HashSet, sync::LazyLock};

use regex::{Captures, Regex};

use super::redact::names::{is_harmless, private_kind};

/// Names of environment variables that ROCm, PyTorch and Triton read, one per line. Those of ROCm were found as strings
/// in the libraries of Debian's packages of ROCm 5.2.3, 5.7.1, 6.4.3 and 7.2.4, those of PyTorch as strings in its own
/// libraries; the others are from the documentation.
const NAMES: &str = include_str!("known_variables.txt");

static KNOWN: LazyLock<HashSet<&str>> = LazyLock::new(|| NAMES.lines().collect());

const PREFIXES: [&str; 25] = [
    "AMD_",
    "AMDGPU_",
    "CLR_",
    "COMGR_",
    "DEBUG_CLR_",
    "DEBUG_HIP_",
    "GPU_",
    "HCC_",
    "HIP_",
    "HIPBLASLT_",
    "HIPRTC_",
    "HSA_",
    "HSAKMT_",
    "MIOPEN_",
    "NCCL_",
    "PYTORCH_",
    "RCCL_",
    "ROC_",
    "ROCBLAS_",
    "ROCM_",
    "ROCPROFILER_",
    "ROCR_",
    "TENSILE_",
    "TORCH_",
    "TRITON_",
];

/// Returns true if ROCm or PyTorch read the variable, or may read it, and a fresh installation does not set it.
pub fn concerns_rocm(variable: &str) -> bool {
    KNOWN.contains(variable) || PREFIXES.iter().any(|prefix| variable.starts_with(prefix))
}

/// Returns true if the value of an environment variable may be published: ROCm, PyTorch or Triton read the variable,
/// and the value consists of words that say nothing about people or projects.
pub fn is_public(variable: &str, value: &str) -> bool {
    KNOWN.contains(variable) && is_known(value)
}

/// Returns true if each part of the value is a number, a known word, an architecture or a path. Private paths are
/// replaced later, in [`super::redact`].
fn is_known(value: &str) -> bool {
    const WORDS: [&str; 72] = [
        "nccl",
        "rccl",
        "warn",
        "warning",
        "yes",
        "abort",
        "algo",
        "all",
        "allreduce",
        "amd",
        "async",
        "auto",
        "backend",
        "blit",
        "cache",
        "clang",
        "coherent",
        "coll",
        "cpu",
        "cudaMallocAsync",
        "debug",
        "default",
        "disable",
        "disabled",
        "dynamo",
        "enable",
        "enabled",
        "env",
        "error",
        "expandable_segments",
        "false",
        "fatal",
        "garbage_collection_threshold",
        "graph",
        "graph_breaks",
        "graphs",
        "guards",
        "high",
        "hip",
        "hybrid",
        "inductor",
        "info",
        "init",
        "LL",
        "low",
        "max_split_size_mb",
        "native",
        "net",
        "no",
        "none",
        "normal",
        "NULL",
        "nvidia",
        "off",
        "on",
        "output_code",
        "P2P",
        "pinned_use_cuda_host_register",
        "recompiles",
        "release_lock_on_cudamalloc",
        "ring",
        "rocclr",
        "roundup_power2_divisions",
        "schedule",
        "simple",
        "sramecc",
        "subsys",
        "trace",
        "tree",
        "true",
        "version",
        "xnack",
    ];
    let part = |part: &str| {
        part.is_empty()
            || is_number(part)
            || WORDS.iter().any(|word| part.eq_ignore_ascii_case(word))
            || part.strip_prefix("gfx").is_some_and(|digits| {
                digits.len() <= 5 && digits.bytes().all(|b| b.is_ascii_hexdigit())
            })
            || part.strip_prefix("eth").is_some_and(is_number)
    };
    let word = |word: &str| {
        let path = word.trim_start_matches('$');
        path.starts_with(['/', '~'])
            || path != word
            || word.split(['=', ':', '+', '-', '^', '[', ']', '>', '|', '!']).all(part)
    };
    value.split([',', ';', ' ', '\t']).all(|part| {
        // The colons may also separate the paths in a list.
        word(part) || part.split(':').all(word)
    })
}

/// Returns true for a decimal or hexadecimal number, a size such as `64M`, or a version such as `11.0.1`.
fn is_number(text: &str) -> bool {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let hex = hex.is_some_and(|digits| {
        !digits.is_empty() && digits.len() <= 64 && digits.bytes().all(|b| b.is_ascii_hexdigit())
    });
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G', 'b', 'B']);
    // A number with more than ten digits may be an id.
    let is_short = digits.len() <= 10 && text.len() - digits.len() <= 2;
    hex || is_short
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Replaces the values that may not be published in assignments `NAME=VALUE` to environment variables of ROCm, and in
/// pairs such as `"NAME", "VALUE"`.
pub(super) fn assignments(text: &str) -> String {
    static ASSIGNMENT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let value = r#"(?:"[^"\n]*"|'[^'\n]*'|[^\s"'`,;)|<>\\]+)"#;
        Regex::new(&format!(r"\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)=({value})")).ok()
    });
    pairs(&replaced(&ASSIGNMENT, text))
}

/// Replaces the values that may not be published in pairs of an environment variable of ROCm and its value, both between
/// quotes, as in `setenv("NAME", "VALUE", 1)` and `environ['NAME'] = 'VALUE'`.
pub(super) fn pairs(text: &str) -> String {
    static PAIR: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let value = r#"(?:"[^"\n\\]+|'[^'\n\\]+|\\"[^"\n\\]+)"#;
        Regex::new(&format!(
            r#"["']([A-Z][A-Z0-9]*_[A-Z0-9_]+)\\?["']\]?[ \t]*[,=:][ \t]*({value})"#
        ))
        .ok()
    });
    replaced(&PAIR, text)
}

/// Replaces the second group of each match, which is the value of the variable that the first group names. It is
/// replaced if the name is private, or if the value of this variable may not be published. A quote at the beginning of
/// the value stays.
fn replaced(pattern: &LazyLock<Option<Regex>>, text: &str) -> String {
    let Some(pattern) = pattern.as_ref() else { return text.to_owned() };
    let replaced = |found: &Captures| {
        let (whole, name, value) = (&found[0], &found[1], &found[2]);
        let plain = value.trim_matches(['"', '\'', '\\']);
        let word = match private_kind(name) {
            Some(kind) if !is_harmless(kind, plain) => kind.word(),
            _ if concerns_rocm(name) && !is_public(name, plain) => "<value>",
            _ => return whole.to_owned(),
        };
        let closed = value.len() > 1 && value.ends_with(['"', '\'']);
        let open = if closed {
            ""
        } else {
            &value[..value.len() - value.trim_start_matches(['"', '\'', '\\']).len()]
        };
        format!("{}{open}{word}", &whole[..whole.len() - value.len()])
    };
    pattern.replace_all(text, replaced).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_known_variables_are_public() {
        for (name, value) in [
            ("HIP_VISIBLE_DEVICES", "0,1"),
            ("HSA_XNACK", "1"),
            ("HSA_OVERRIDE_GFX_VERSION", "11.0.1"),
            ("AMD_LOG_MASK", "0x7fffffff"),
            ("GPU_MAX_HEAP_SIZE", "64M"),
            ("PYTORCH_ROCM_ARCH", "gfx90a;gfx1151"),
            ("PYTORCH_HIP_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:128"),
            ("ROCM_PATH", "/opt/rocm"),
            ("LD_LIBRARY_PATH", "/opt/rocm/lib:/usr/lib"),
            ("NCCL_DEBUG", "INFO"),
            ("HSA_CU_MASK", "0:0-31"),
        ] {
            assert!(is_public(name, value), "{name}={value}");
        }
    }

    #[test]
    fn other_values_and_values_of_unknown_variables_are_private() {
        for (name, value) in [
            ("ROCM_CUSTOMER", "acme"),
            ("ROCM_CUSTOMER", "1"),
            ("HIP_LAUNCH_BLOCKING", "acme"),
            ("NCCL_SOCKET_IFNAME", "acme-net"),
            ("HSA_XNACK", "4111111111111111"),
            ("PYTORCH_TUNABLEOP_FILENAME", "acme.csv"),
            ("HOME", "1"),
        ] {
            assert!(!is_public(name, value), "{name}={value}");
        }
    }

    #[test]
    fn assignments_in_texts_lose_private_values() {
        for (text, expected) in [
            ("ROCM_CUSTOMER=acme HSA_XNACK=1", "ROCM_CUSTOMER=<value> HSA_XNACK=1"),
            ("env 'HIP_X=a' MY_X=b", "env 'HIP_X=<value>' MY_X=b"),
            ("HIP_X=\"a b\" c", "HIP_X=<value> c"),
            ("`HSA_XNACK=0`, `HIP_X=1`", "`HSA_XNACK=0`, `HIP_X=<value>`"),
            ("setenv(\"HIP_X\", \"a b\", 1)", "setenv(\"HIP_X\", \"<value>\", 1)"),
            ("setenv(\"DB_PASSWORD\", \"a b\", 1)", "setenv(\"DB_PASSWORD\", \"<secret>\", 1)"),
            ("getenv('DB_PASSWORD', 'none')", "getenv('DB_PASSWORD', 'none')"),
            ("environ['HIP_X'] = 'a' 'b'", "environ['HIP_X'] = '<value>' 'b'"),
            ("{\\\"HIP_X\\\": \\\"a\\\"}", "{\\\"HIP_X\\\": \\\"<value>\\\"}"),
            ("{'HSA_XNACK': '1', 'HIP_X': x}", "{'HSA_XNACK': '1', 'HIP_X': x}"),
        ] {
            assert_eq!(assignments(text), expected);
        }
    }

    #[test]
    fn variables_of_rocm_are_recognised() {
        for name in ["HSA_XNACK", "PYTORCH_NO_HIP_MEMORY_CACHING", "LD_PRELOAD", "HIP_UNKNOWN"] {
            assert!(concerns_rocm(name), "{name}");
        }
        for name in ["HOME", "PATH", "ROCREPRO_ROCM", "GPG_TTY"] {
            assert!(!concerns_rocm(name), "{name}");
        }
    }

    #[test]
    fn known_names_are_sorted_and_concern_rocm() {
        let names: Vec<_> = NAMES.lines().collect();
        assert!(names.is_sorted());
        for name in names {
            assert!(concerns_rocm(name), "{name}");
            assert!(
                name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            );
        }
    }
}
