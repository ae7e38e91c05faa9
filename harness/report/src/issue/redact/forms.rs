//! Redacts values that are recognised by their form: keys, addresses, host names and home folders. Each form is a
//! pattern that is applied to the whole text. SECURITY.md lists the patterns by name.

use std::{net::Ipv4Addr, net::Ipv6Addr, sync::LazyLock};

use regex::Regex;

/// A form of private values: a pattern, and the text that replaces the values.
pub(super) struct PrivateForm {
    #[cfg_attr(not(test), allow(dead_code))]
    pub(super) name: &'static str,
    /// Text that replaces the value. The value is what the first group of the pattern matches.
    pub(super) word: &'static str,
    regex: LazyLock<Regex>,
    /// Returns true if a match of the pattern is a private value, given the value and the texts before and after it.
    accepts: fn(&str, &str, &str) -> bool,
}

/// Pattern of what may precede a name: the beginning of the text, a character that cannot be part of a name, or the
/// escape sequence of a colour.
const NAME_START: &str = r"(?:^|[^0-9A-Za-z]|\x1b\[[0-9;]*m)";
/// Pattern of what may follow a name: the end of the text, or a character that cannot be part of a name.
const NAME_END: &str = r"(?:$|[^0-9A-Za-z])";
/// Pattern of what may follow a dotted name or number. A full stop may follow, but not another component.
const DOTTED_END: &str = r"(?:$|[^0-9A-Za-z._]|_|\.(?:$|[^0-9A-Za-z]))";
/// Pattern of the name of a machine.
const HOST: &str = r"[A-Za-z0-9][A-Za-z0-9._-]*";
/// Pattern of the login name in a shell prompt.
const USER: &str = r"[A-Za-z_][A-Za-z0-9._-]*";
/// Pattern of the sign between a login and a host, which may be escaped for Markdown, XML or an address.
const AT: &str = "(?:@|&#64;|%40)";
/// Pattern of the escape sequences of colours. The character ESC may itself be written as an escape sequence, for
/// example as `\033`.
const COLOUR: &str = r"(?:(?:\x1b|\\+u001b|\\+u\{1b\}|\\x1b|\\033|\\e)\[[0-9;]*m)*";
/// Pattern of the separator between folders. Slashes may be repeated or escaped, and `.` components may be between
/// them.
const SLASH: &str = r"(?:\\?/)+(?:\.(?:\\?/)+)*";
/// Pattern of the name of a folder or file.
const PART: &str = r"[\p{L}\p{N}._@+%-]+";
/// Pattern of what may precede a path. A path does not begin in the middle of another one, but may follow an option
/// such as `-I`, or `file://`.
const PATH: &str = r#"(?:^|file://|-[A-Za-z]|[^\p{L}\p{N}/._~$}\\>)-])"#;

/// Pattern of the words of a command before an option.
const COMMAND: &str = r"[^\n|;&]{0,200}?[ \t]";

/// Pattern of the password after an option.
const PASSWORD: &str = r#"[ \t]*["']?([^\s"'`|;&<>\\-][^\s"'`\\]*)"#;

macro_rules! form {
    ($name:expr, $word:expr, $accepts:expr, $($pattern:expr),+) => {
        PrivateForm {
            name: $name,
            word: $word,
            regex: LazyLock::new(|| {
                // The test `the_page_lists_the_patterns` compiles all patterns, so this cannot fail.
                #[allow(clippy::expect_used)]
                Regex::new(&[$($pattern),+].concat()).expect("a valid pattern")
            }),
            accepts: $accepts,
        }
    };
}

fn always(_: &str, _: &str, _: &str) -> bool {
    true
}

/// All forms, in the order in which they are applied.
pub(super) static FORMS: [PrivateForm; 44] = [
    form!(
        "SSH public key",
        "<key>",
        always,
        r#"((?:sk-)?(?:ssh|ecdsa)-[a-z0-9.@-]+[ \t]+AAAA[^"'`,|\\\r\n]*|AAAA[A-Z][0-9A-Za-z+/]{38,}=*)"#
    ),
    form!(
        "JSON Web Token",
        "<secret>",
        always,
        NAME_START,
        r"(eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{4,}(?:\.[0-9A-Za-z_-]*)*)"
    ),
    form!(
        "service key",
        "<secret>",
        is_service_key,
        NAME_START,
        r"((?:gh[pousr]_|github_pat_|gl(?:pat|dt|rt|cbt|sa)[-_]|hf_|sk-|xox[a-z][-.]|xapp-|ya29\.|GOCSPX-|pypi-",
        r"|npm_|rubygems_|dop_v1_|pul-|SG\.|shp(?:at|ss|ca|pa)_|lin_api_|ATATT|dckr_(?:pat|oat)_|nvapi-|r8_|gsk_",
        r"|AGE-SECRET-KEY-|hv[sb]\.|whsec_|figd_|xai-|sbp_|NRAK-|wandb_v1_|lsv2_(?:pt|sk)_|PMAK-|sq0(?:atp|csp)-)",
        r"[0-9A-Za-z_.-]{15,}[0-9A-Za-z_-]|(?:[srp]k_(?:live|test)_|tskey-)[0-9A-Za-z_-]{12,}",
        r"|xox[a-z][-.][0-9A-Za-z-]{10,}|AIza[0-9A-Za-z_-]{20,}|dapi[0-9a-f]{32})"
    ),
    form!(
        "AWS key id",
        "<secret>",
        always,
        NAME_START,
        r"((?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{16})",
        NAME_END
    ),
    form!(
        "webhook",
        "<secret>",
        always,
        r#"(?:hooks\.slack\.com|discord(?:app)?\.com/api/webhooks)/([^\s"'`<>)|\\]+)"#
    ),
    form!(
        "bearer token",
        "<secret>",
        |value, _, _| value.contains(|c: char| c.is_ascii_digit()),
        r"[Bb]earer[ \t]+([0-9A-Za-z._~+/=-]{6,})"
    ),
    form!(
        "token of a chat bot",
        "<secret>",
        always,
        "(?:^|[^0-9])([0-9]{8,10}:AA[0-9A-Za-z_-]{30,})"
    ),
    form!(
        "password on a command line",
        "<secret>",
        always,
        r"\b(?:sshpass|mysql[a-z_-]*|mariadb[a-z_-]*)\b",
        COMMAND,
        "-p",
        PASSWORD
    ),
    form!(
        "password of a login command",
        "<secret>",
        always,
        r"\b(?:(?:login|mongo[a-z]*)\b",
        COMMAND,
        r"-p|redis-cli\b",
        COMMAND,
        r"-a|ldap[a-z]+\b",
        COMMAND,
        r"-w)[ \t]",
        PASSWORD
    ),
    form!(
        "user name of a login command",
        "<user>",
        always,
        r"\blogin\b",
        COMMAND,
        r#"-u[ \t]+["']?([0-9A-Za-z_][^\s"'`\\]*)"#
    ),
    form!(
        "key of a login command",
        "<secret>",
        |value, _, _| value.contains(|c: char| c.is_ascii_digit()),
        r"\b(?:login|(?:add-)?auth-?token)[ \t]+(?:--?[A-Za-z-]+[ \t]+)*([0-9A-Za-z_.-]{20,})"
    ),
    form!(
        "password in an address",
        "<secret>",
        always,
        r#":\\?/\\?/([^\s/@"'`<>\\]*:[^\s/"'`<>\\]*?)"#,
        AT
    ),
    form!("user name in an address", "<user>", always, r#":\\?/\\?/([^\s/:"'`<>\\]+?)"#, AT),
    form!(
        "password of a proxy",
        "<secret>",
        always,
        r#"(?i)(?:proxy|url|uri|registry|mirror)["'\\]*[ \t]*[=:][ \t]*["'\\]*([0-9a-z._%+-]{1,64}:[^\s/@"'`<>]{1,64}?)"#,
        AT
    ),
    form!(
        "folder of a Windows user",
        "~",
        always,
        r"([A-Za-z]:(?:\\{1,4}|/)Users(?:\\{1,4}|/)[\p{L}\p{N}._@+%-]+|\\{1,4}Users\\{1,4}[\p{L}\p{N}._@+%-]+)"
    ),
    form!(
        "home folder",
        "~",
        always,
        "(",
        SLASH,
        r"(?:home[0-9]*|homes|nfshome|Users)",
        SLASH,
        "(?:[A-Za-z]",
        SLASH,
        ")?",
        PART,
        ")"
    ),
    form!("home folder of root", "~", always, PATH, r"(/root)(?:$|[^0-9A-Za-z_.-])"),
    form!(
        "uname",
        "<host>",
        |value, _, _| !["kernel", "release", "version", "Kernel"].contains(&value)
            && value.contains(|c: char| c.is_ascii_alphabetic()),
        r"\b(?:Linux|Darwin)[ \t]+(",
        HOST,
        r")[ \t]+[0-9]+\.[0-9]+[.0-9][^\s]*"
    ),
    form!(
        "system log",
        "<host>",
        is_log_host,
        r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?: {1,2}[0-9]{1,2}(?: [0-9]{4})?|) [0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)? (",
        HOST,
        r") (?:[A-Za-z(/][^\s]*:|last message)"
    ),
    form!(
        "journal",
        "<host>",
        is_log_host,
        r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)? ?(?:Z|[A-Z]{3,4}|[+-][0-9]{2}:?[0-9]{2}) (",
        HOST,
        r") (?:kernel|[A-Za-z(/][^\s\[]*\[[0-9]+\]):"
    ),
    form!(
        "log with ISO time",
        "<host>",
        is_log_host,
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})? (",
        HOST,
        r") [A-Za-z(/][^\s]*:"
    ),
    form!(
        "RFC 5424 log",
        "<host>",
        is_log_host,
        r"<[0-9]{1,3}>1 [0-9]{4}-[0-9T:.,Z+-]+ (",
        HOST,
        r") [^\s]+ [^\s]+ [^\s]+"
    ),
    form!(
        "prompt",
        "<user>@<host>",
        always,
        "(",
        USER,
        AT,
        HOST,
        ")",
        COLOUR,
        r"(?::",
        COLOUR,
        r"[~/]| [^\s\]]+\][$#]|[ \t]",
        COLOUR,
        r"[~/][^\s]*[ \t]?",
        COLOUR,
        r"[%>$#]|[$#](?:[ \t]|$))"
    ),
    form!(
        "prompt of a host",
        "<host>",
        always,
        r#"(?:^|[\s"'`(>])"#,
        COLOUR,
        "(",
        HOST,
        ")",
        COLOUR,
        ":",
        COLOUR,
        r"~[^\s]*[ \t]",
        COLOUR,
        r"(?:[0-9A-Za-z._-]+)?[#$%>]"
    ),
    form!(
        "remote login",
        "<user>@<host>",
        |value, _, _| !value.starts_with("git@") && !value.starts_with("git&"),
        r"\b(?:ssh|scp|rsync|sftp)[ \t](?:[^\n@]{0,200}?[ \t])??(",
        USER,
        AT,
        HOST,
        ")"
    ),
    form!("host of an SSH configuration", "<host>", always, r"\bHostName[ \t]+(", HOST, ")"),
    form!(
        "login of an SSH configuration",
        "<user>",
        is_in_ssh_configuration,
        r"\bUser[ \t]+(",
        USER,
        ")"
    ),
    form!(
        "user name at an IP address",
        "<user>",
        always,
        "(",
        USER,
        ")",
        AT,
        r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}"
    ),
    form!(
        "mail address",
        "<mail>",
        is_mail,
        r#"((?:[\p{L}\p{N}._%+-]*[\p{L}\p{N}_%+]|\\?"[^"\\\n@]{1,64}\\?")"#,
        AT,
        r"(?:[\p{L}\p{N}-]+\.)+\p{L}{2,})"
    ),
    form!(
        "MAC address",
        "<mac>",
        |value, _, _| [6, 14, 20].contains(&value.split(':').count()),
        NAME_START,
        "([0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5,19})",
        NAME_END
    ),
    form!(
        "MAC address with dashes",
        "<mac>",
        always,
        r"(?:^|[^0-9A-Za-z-])([0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5})(?:$|[^0-9A-Za-z-])"
    ),
    form!(
        "MAC address with dots",
        "<mac>",
        |value, _, _| value.starts_with('0') || value.contains(|c: char| c.is_ascii_alphabetic()),
        r"(?:^|[^0-9A-Za-z.])([0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4})",
        DOTTED_END
    ),
    form!(
        "IPv6 address",
        "<ip>",
        is_ipv6,
        NAME_START,
        r"([0-9A-Fa-f]{0,4}:(?:[0-9A-Fa-f]{1,4}:|:){1,7}(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]{1,4})?(?:%[0-9A-Za-z_.-]+)?)",
        "(?:$|[^0-9A-Za-z_])"
    ),
    form!(
        "IPv4 address",
        "<ip>",
        is_ipv4,
        r"(?:^|[^0-9A-Za-z.]|\.\.|\x1b\[[0-9;]*m)([0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]{1,5})?)",
        DOTTED_END
    ),
    form!(
        "cloud host",
        "<host>",
        always,
        NAME_START,
        r"((?:ip|ec2)-[0-9]{1,3}(?:-[0-9]{1,3}){3}(?:\.[0-9A-Za-z-]+)*)",
        NAME_END
    ),
    form!(
        "host of the kernel's command line",
        "<host>",
        always,
        r"\bip=(?:(?:\[[^\]\s]*\]|[^\s:\[]*):){4}(",
        HOST,
        ")"
    ),
    form!(
        "licence server",
        "<host>",
        always,
        NAME_START,
        "([0-9]{2,}",
        AT,
        "[A-Za-z][0-9A-Za-z.-]*)"
    ),
    form!(
        "host of a private network",
        "<host>",
        is_private_host,
        r"(?i)(?:^|[^0-9a-z._-]|\x1b\[[0-9;]*m)([0-9a-z][0-9a-z_-]*(?:\.[0-9a-z][0-9a-z_-]*)*",
        r"\.(?:local|lan|internal|corp|cluster|intranet|localdomain|home\.arpa|private|localnet|intra))",
        r"(?:$|[^0-9a-z._-]|\.(?:$|[^0-9a-z]))"
    ),
    form!(
        "UUID",
        "<uuid>",
        |_, before, _| !is_after(before, &["build id", "build_id", "build-id", "buildid"]),
        r"(?:^|[^0-9A-Fa-f])([0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12})(?:$|[^0-9A-Fa-f])"
    ),
    form!(
        "GPU id",
        "<uuid>",
        |value, _, _| value.bytes().filter(u8::is_ascii_hexdigit).count() >= 8,
        NAME_START,
        r"(?:GPU|MIG)-([0-9A-Fa-f-]{8,})"
    ),
    form!(
        "NCCL host",
        "<host>",
        |value, _, _| value.contains(|c: char| c.is_ascii_alphabetic()),
        r#"(?:^|[\s\[("'`|>])("#,
        HOST,
        r"):[0-9]{2,}:[0-9]{2,} \[[0-9]+\] (?:N|R)CCL"
    ),
    form!("job host", "<host>", always, r"\b(?:srun|slurmstepd): error: (", HOST, "): "),
    form!(
        "MPI host",
        "<host>",
        |value, _, _| value.contains(|c: char| c.is_ascii_alphabetic()),
        r"\[(",
        HOST,
        r"):[0-9]+\] \*\*\*"
    ),
    form!(
        "login or group",
        "<user>",
        is_in_id,
        r"(?:\b(?:e?[ug]id|groups)=|\),)[0-9]+\(([^)\r\n]{1,64})\)"
    ),
];

/// Replaces all values in a text that have one of the forms.
pub(super) fn forms(text: &str) -> String {
    FORMS.iter().fold(text.to_owned(), |text, form| match form.replaced(&text) {
        Some(replaced) => replaced,
        None => text,
    })
}

impl PrivateForm {
    /// Replaces the values in a text that have this form. `None` if there are none.
    pub(super) fn replaced(&self, text: &str) -> Option<String> {
        let mut out = String::new();
        let (mut at, mut last) = (0, 0);
        let mut groups = self.regex.capture_locations();
        while self.regex.captures_read_at(&mut groups, text, at).is_some() {
            let Some((start, end)) = groups.get(1) else { break };
            let value = &text[start..end];
            if (self.accepts)(value, &text[..start], &text[end..]) {
                out.push_str(&text[last..start]);
                out.push_str(self.word);
                last = end;
            }
            // The character that ends this value may also begin the next value.
            at = end;
        }
        (last > 0).then(|| out + &text[last..])
    }
}

/// Returns true if another setting of an SSH host is at most 300 bytes away: `User bob` alone may be part of a
/// sentence.
fn is_in_ssh_configuration(_: &str, before: &str, after: &str) -> bool {
    const NEAR: usize = 300;
    let bytes = |text: &str, range: std::ops::Range<usize>| {
        ["HostName", "IdentityFile", "ProxyJump"].iter().any(|setting| {
            text.as_bytes()[range.clone()].windows(setting.len()).any(|w| w == setting.as_bytes())
        })
    };
    bytes(before, before.len().saturating_sub(NEAR)..before.len())
        || bytes(after, 0..after.len().min(NEAR))
}

/// Returns true for a login or group name in the output of `id`, except for the groups that may use a GPU.
fn is_in_id(name: &str, before: &str, _: &str) -> bool {
    let number = before.trim_end_matches('(').trim_end_matches(|c: char| c.is_ascii_digit());
    // The groups are separated by commas. Those before this one may have been replaced already.
    let is_group = || {
        let line = number.rsplit('\n').next().unwrap_or_default();
        line.rfind("groups=").is_some_and(|at| {
            line[at..].chars().all(|c| c.is_alphanumeric() || "=(),<>_.@$ \\-".contains(c))
        })
    };
    !["video", "render"].contains(&name) && (number.ends_with('=') || is_group())
}

/// Returns true if the text ends with one of the words. Case is ignored, and quotes and separators may follow the word.
fn is_after(before: &str, words: &[&str]) -> bool {
    let text = before
        .trim_end_matches([' ', '\t', ':', '=', '"', '\'', '`', '(', '\\', '-', '|', '*', '_']);
    words.iter().any(|word| {
        text.len().checked_sub(word.len()).and_then(|at| text.get(at..)).is_some_and(|end| {
            end.eq_ignore_ascii_case(word)
                && !text[..text.len() - word.len()].ends_with(char::is_alphanumeric)
        })
    })
}

/// Returns true if a part of the value looks random. `hf_transformer_layers` and `sk-learn-1.2.3-x` contain no such
/// part.
fn is_service_key(value: &str, _: &str, _: &str) -> bool {
    value.split(['_', '-', '.']).any(|part| {
        let has = |is: fn(&u8) -> bool| part.bytes().any(|b| is(&b));
        part.len() >= 10
            && (has(u8::is_ascii_digit)
                || has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase))
    })
}

/// Returns true for a mail address. Returns false for `git@github.com`, and for symbols in source files and libraries,
/// such as `main@libx.so`.
fn is_mail(value: &str, _: &str, _: &str) -> bool {
    let value = value.replace("&#64;", "@").replace("%40", "@");
    let (name, domain) = value.rsplit_once('@').unwrap_or_default();
    let top = domain.rsplit('.').next().unwrap_or_default();
    name != "git"
        && !["cpp", "hip", "hpp"].contains(&top)
        // `so`, `py` and `rs` are also the top-level domains of countries.
        && !(top == "so" && domain.starts_with("lib"))
}

/// Returns true for an IPv4 address, and false for a version. Numbers after a word such as `version`, and small numbers
/// without a port, are versions.
fn is_ipv4(value: &str, before: &str, _: &str) -> bool {
    const VERSIONS: [&str; 13] = [
        "version", "rocm", "hip", "driver", "firmware", "release", "vbios", "kernel", "build",
        "comgr", "runtime", "v", "ver",
    ];
    let (address, port) = value.split_once(':').unwrap_or((value, ""));
    let Ok(ip) = address.parse::<Ipv4Addr>() else { return false };
    if ip.is_loopback() || ip.is_unspecified() || ip.is_broadcast() {
        return false;
    }
    let numbers = ip.octets();
    !port.is_empty()
        || before.ends_with('@')
        || before.ends_with("&#64;")
        || (numbers[0] == 10 || numbers.iter().any(|n| *n > 99)) && !is_after(before, &VERSIONS)
}

/// Returns true for an IPv6 address, and false for C++ names such as `dead::beef`, for PCI addresses and for times.
fn is_ipv6(value: &str, _: &str, _: &str) -> bool {
    let address = value.split('%').next().unwrap_or(value);
    let address = match address.strip_suffix(':') {
        Some(rest) if !rest.ends_with(':') => rest,
        _ => address,
    };
    let Ok(ip) = address.parse::<Ipv6Addr>() else { return false };
    if ip.is_loopback() || ip.is_unspecified() {
        return false;
    }
    let first = ip.segments()[0];
    let is_known = first & 0xe000 == 0x2000 || first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80;
    address.bytes().any(|b| b.is_ascii_digit()) && (is_known || address.matches(':').count() >= 3)
}

/// Returns true for a host name. Returns false for the name of a case or kernel, which is recognised by the text before
/// the name.
fn is_private_host(_: &str, before: &str, _: &str) -> bool {
    let in_path = before.ends_with('/') && !before.ends_with("//");
    !in_path && !is_after(before, &["case", "kernel", "trial", "cases", "kernels"])
}

/// Returns true if the word in a log line is the name of a machine: it is not the level of a message or a time zone.
fn is_log_host(value: &str, _: &str, _: &str) -> bool {
    const LEVELS: [&str; 12] = [
        "trace", "debug", "info", "notice", "warn", "warning", "error", "err", "fatal", "critical",
        "utc", "gmt",
    ];
    value.contains(|c: char| c.is_ascii_alphabetic())
        && !LEVELS.iter().any(|level| value.eq_ignore_ascii_case(level))
}
