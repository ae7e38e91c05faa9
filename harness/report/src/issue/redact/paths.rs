//! Redacts paths. Only paths below known public folders are kept, because every other folder may be named after a
//! person or a project.

use std::sync::LazyLock;

use regex::Regex;

use super::WORDS;

/// Folders whose content is public: those of the operating system, those of ROCm, and those in which ROCm and PyTorch
/// are built, because messages of their libraries contain such paths.
const PUBLIC: [&str; 35] = [
    "/__w/TheRock",
    "/bin",
    "/boot",
    "/build",
    "/dev",
    "/etc",
    "/gnu/store",
    "/lib",
    "/lib32",
    "/lib64",
    "/longer_pathname_so_that_rpms_can_support_packaging_the_debug_info_for_all_os_profiles",
    "/nix/store",
    "/opt/amdgpu",
    "/opt/conda",
    "/opt/python",
    "/opt/rocm",
    "/opt/venv",
    "/proc",
    "/pytorch",
    "/run/current-system",
    "/run/lock",
    "/sbin",
    "/snap",
    "/sys",
    "/therock",
    "/tmp/comgr",
    "/tmp/hip",
    "/tmp/rocrepro",
    "/usr",
    "/var/cache",
    "/var/lib/dpkg",
    "/var/lib/jenkins",
    "/var/log",
    "/var/run",
    "/var/tmp/rocrepro",
];

/// Beginnings of the names of public folders in the home folder: hidden folders, which programs create, and those of
/// ROCm.
const PUBLIC_AT_HOME: [&str; 2] = [".", "rocm"];

/// Folders that contain Python packages. The path below such a folder is public, wherever the folder is.
const PACKAGES: [&str; 2] = ["/site-packages/", "/dist-packages/"];

/// Replaces each path that is not public by `<path>`. If the path is in the home folder, replaces the part below that
/// folder. File extensions, names of shared libraries and line numbers are kept.
pub(super) fn paths(text: &str) -> String {
    let text = replaced(&QUOTED, text);
    replaced(&PLAIN, &text)
}

/// A path that ends at white space or at a character that seldom occurs in paths. It has at least two components,
/// because `/x` may be an option.
static PLAIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    // If the path contains the name of a person, the name has been replaced already.
    let part = r"(?:[\p{L}\p{N}._@+%~#=-]|<user>)+";
    let before = r#"(?:^|file://|-[A-Za-z]|[^\p{L}\p{N}/._~$}\\)*?\]-])"#;
    // Two slashes after a colon begin the host name of an address.
    let before_two = r#"(?:^|[^\p{L}\p{N}/._~$}\\)*?\]:-])"#;
    let rest = format!(r"{part}(?:(?:\\?/)+{part})+");
    Regex::new(&format!(
        r"(?m){before}(~(?:(?:\\?/)+{part})+|\\?/{rest})|{before_two}((?:\\?/){{2,}}{rest})"
    ))
    .ok()
});

/// A path in quotes, which may contain blanks.
static QUOTED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let part = r"[^\n/\\";
    let quoted = |quote: &str, end: &str| {
        format!(r"{quote}((?:~|\\?/{part}{end}:]+)(?:(?:\\?/)+{part}{end}:]+)+)(?:[:{end}])")
    };
    Regex::new(&format!("(?:{}|{}|{})", quoted("\"", "\""), quoted("'", "'"), quoted("`", "`")))
        .ok()
});

fn replaced(pattern: &LazyLock<Option<Regex>>, text: &str) -> String {
    let Some(pattern) = pattern.as_ref() else { return text.to_owned() };
    let mut out = String::new();
    let (mut at, mut last) = (0, 0);
    while let Some(found) = pattern.captures_at(text, at) {
        let Some(path) = found.iter().skip(1).flatten().next() else { break };
        // The character that ends this path may also begin the next path.
        at = path.end();
        if let Some(public) = path_replacement(path.as_str())
            && !ends_with_word(&text[..path.start()])
        {
            out.push_str(&text[last..path.start()]);
            out.push_str(&public);
            last = path.end();
        }
    }
    out + &text[last..]
}

/// Returns true if the text ends with a word that replaced something, such as `<path>`.
fn ends_with_word(text: &str) -> bool {
    let word = text.strip_suffix('>').and_then(|text| text.rsplit('<').next());
    word.is_some_and(|word| WORDS.contains(&word))
}

/// Returns the text that replaces a path; `None` if the path is public.
fn path_replacement(path: &str) -> Option<String> {
    let plain = path.replace("\\/", "/");
    let plain = match plain.trim_start_matches('/') {
        rest if rest.len() < plain.len() => format!("/{rest}"),
        _ => plain,
    };
    let has_step = plain.split('/').any(|part| part == "..");
    let below = |folder: &str| {
        plain
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with(['/', '-', '.']) || rest.is_empty())
    };
    let at_home = plain.strip_prefix("~/");
    let is_public = match at_home {
        Some(rest) => PUBLIC_AT_HOME.iter().any(|start| rest.starts_with(start)),
        None => PUBLIC.iter().any(|folder| below(folder)) || plain == "/tmp",
    };
    if is_public && !has_step {
        return None;
    }
    let root = if at_home.is_some() { "~/<path>" } else { "<path>" };
    if let Some(at) = PACKAGES.iter().filter_map(|folder| plain.find(folder)).min() {
        return Some(format!("{root}{}", &plain[at..]));
    }
    let name = plain.rsplit('/').next().unwrap_or_default();
    if name.starts_with("lib") && name.contains(".so") {
        return Some(format!("{root}/{name}"));
    }
    Some(format!("{root}{}", extension(name)))
}

/// Returns the extension of a file name, with its dot. Returns an empty string if the name has no extension or an
/// unusual one.
fn extension(name: &str) -> &str {
    let at = name.rfind('.').filter(|at| *at > 0).unwrap_or(name.len());
    let is_usual = |extension: &str| {
        extension.len() <= 6
            && extension.bytes().skip(1).all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    if is_usual(&name[at..]) { &name[at..] } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_system_stay() {
        for (text, expected) in [
            ("loaded /srv/people/mueller/x/model.bin", "loaded <path>.bin"),
            ("/scratch/jdoe/run42/a.hip:12: error", "<path>.hip:12: error"),
            ("\"/srv/My Project/a b.py\", line 3", "\"<path>.py\", line 3"),
            ("/opt/customers/acme/lib/libfoo.so.1 (0x12)", "<path>/libfoo.so.1 (0x12)"),
            ("LD=/srv/a/b:/usr/lib:/mnt/nas/c", "LD=<path>:/usr/lib:<path>"),
            ("{\"a\":\"\\/srv\\/acme\\/x\"}", "{\"a\":\"<path>\"}"),
            ("-I/work/acme/include", "-I<path>"),
            ("a //srv/acme/x b", "a <path> b"),
            ("\"//srv/acme/x\"", "\"<path>\""),
            ("//srv/acme/x", "<path>"),
            ("file:///srv/acme/x", "file://<path>"),
            (
                "/venv/acme/lib/python3.12/site-packages/torch/a.py",
                "<path>/site-packages/torch/a.py",
            ),
            ("~/customers/acme/a.py", "~/<path>.py"),
            ("/usr/../srv/acme/x", "<path>"),
            ("a >/srv/acme/x.log", "a ><path>.log"),
            ("#include </srv/acme/x.h>", "#include <<path>.h>"),
            ("<b>/srv/acme/x</b>", "<b><path></b>"),
            ("<value>/a/b <path>/site-packages/a.py", "<value>/a/b <path>/site-packages/a.py"),
            ("/scratch/<user>/run42/a.hip", "<path>.hip"),
        ] {
            assert_eq!(paths(text), expected);
        }
        for text in [
            "/usr/lib/x86_64-linux-gnu/libamdhip64.so.7",
            "/opt/rocm-7.2.4/lib/llvm/bin/clang",
            "//usr/lib/x86_64-linux-gnu/libamdhip64.so.7",
            "/tmp/comgr-1-0-ab12/input/CompileSource",
            "~/.cache/rocrepro/stacks/debian-7.2.4",
            "https://github.com/ROCm/rocm-systems/issues/1 and ROCm/ROCm/x",
            "5/5/5, read/write/execute, n/a, GB/s/GPU, </details></summary>",
            "copies/small-sizes[bytes=2] and /dev/kfd and $XDG_CACHE_HOME/a/b",
        ] {
            assert_eq!(paths(text), text);
        }
    }
}
