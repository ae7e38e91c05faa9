//! Decides by the name of a field whether its value is private, and which values are harmless although the name is
//! private.

/// Kind of private value that the name of a field announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrivateKind {
    Secret,
    /// Secret in a field whose name has another meaning too, as in `tokens = 512`.
    Token,
    /// Secret in a field such as `auth`, whose value may also be the name of a method. Only random characters are secret.
    Random,
    /// Value of a field such as `user`, which may be the name of a person. The value may also be a number or an
    /// ordinary word.
    User,
    /// Value of a field such as `login`, which can only be the name of a person.
    Login,
    /// Value of a field such as `host`, which may be the name of a machine. The value may also be a kind of memory, for
    /// example `pinned`.
    Host,
    /// Value of a field such as `hostname`, which can only be the name of a machine.
    Machine,
    Serial,
    Uuid,
}

impl PrivateKind {
    pub(crate) fn is_secret(self) -> bool {
        matches!(self, PrivateKind::Secret | PrivateKind::Token | PrivateKind::Random)
    }

    /// Returns the text that replaces a value of this kind.
    pub(crate) fn word(self) -> &'static str {
        match self {
            PrivateKind::Secret | PrivateKind::Token | PrivateKind::Random => "<secret>",
            PrivateKind::User | PrivateKind::Login => "<user>",
            PrivateKind::Host | PrivateKind::Machine => "<host>",
            PrivateKind::Serial => "<serial>",
            PrivateKind::Uuid => "<uuid>",
        }
    }
}

/// Names of private fields, in lower case and without separators. They are compared with the last words of a field's
/// name: `SUDO_USER`, `clientSecret`, `Serial Number`.
const NAMES: [(PrivateKind, &[&str]); 8] = [
    (PrivateKind::Random, &["auth"]),
    (
        PrivateKind::Secret,
        &[
            "authorization",
            "authkey",
            "authtoken",
            "cookie",
            "cookies",
            "pw",
            "pwd",
            "accesskeyid",
            "secretkey",
            "accesskey",
            "privatekey",
            "privatekeyid",
            "signingkey",
            "encryptionkey",
            "sshkey",
            "licensekey",
            "licencekey",
            "accountkey",
            "sharedkey",
            "masterkey",
            "storagekey",
            "hostkey",
            "sessionid",
            "passwords",
            "secrets",
            "apikeys",
            "credentials",
            "passwordhash",
            "secretid",
            "passcode",
            "webhookurl",
            "subscriptionkey",
        ],
    ),
    (PrivateKind::User, &["user", "users"]),
    (
        PrivateKind::Login,
        &[
            "username",
            "usernames",
            "login",
            "logins",
            "loginname",
            "logname",
            "userid",
            "account",
            "accounts",
            "accountid",
            "accountname",
            "fullname",
            "realname",
        ],
    ),
    (PrivateKind::Host, &["host", "hosts"]),
    (
        PrivateKind::Machine,
        &[
            "hostname",
            "hostnames",
            "nodename",
            "nodelist",
            "computername",
            "machinename",
            "servername",
            "fqdn",
        ],
    ),
    (
        PrivateKind::Serial,
        &[
            "serial",
            "serials",
            "serialno",
            "serialnumber",
            "serialnumbers",
            "serialnum",
            "serialshort",
            "uniqueid",
            "machineid",
            "assettag",
            "servicetag",
            "s/n",
        ],
    ),
    (PrivateKind::Uuid, &["uuid", "uuids", "guid"]),
];

/// Endings that announce a secret even if no separator precedes them, as in `PGPASSWORD`.
const ENDS: [&str; 8] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "credential",
    "secretaccesskey",
    "authorization",
];

/// Further names of secret parameters in the query of a URL. Elsewhere these are ordinary words.
pub(super) const QUERY: [&str; 7] = ["sig", "signature", "key", "code", "auth", "session", "sid"];

/// Values of fields such as `host` and `user` that do not identify a person or machine: kinds of memory, the words
/// `host` and `device` for the two sides of a copy, and other ordinary words.
const ORDINARY: [&str; 32] = [
    "pageable",
    "pinned",
    "registered",
    "managed",
    "mapped",
    "coherent",
    "noncoherent",
    "portable",
    "device",
    "host",
    "user",
    "default",
    "none",
    "null",
    "any",
    "all",
    "local",
    "localhost",
    "unknown",
    "root",
    "true",
    "false",
    "yes",
    "no",
    "read",
    "write",
    "fill",
    "memory",
    "port",
    "nullptr",
    "os",
    "n/a",
];

/// Returns the kind of private value that a field with this name contains. `None` if its value is not private.
pub(crate) fn private_kind(name: &str) -> Option<PrivateKind> {
    let numbered = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if numbered.len() < name.len() {
        // A number after the name of a secret distinguishes several secrets, as in `password1`. After other names, a
        // number has another meaning.
        let numbered = numbered.trim_end_matches(['_', '-']);
        return private_kind(numbered).filter(|private| private.is_secret());
    }
    let words = words(name);
    let all = words.concat();
    if all.ends_with("token") || all.ends_with("tokens") {
        return Some(PrivateKind::Token);
    }
    if ENDS.iter().any(|end| all.ends_with(end)) {
        return Some(PrivateKind::Secret);
    }
    // `DB_PASS` is a secret, but compiler options such as `stop-after-pass` are not.
    if words.len() > 1 && name.ends_with("_PASS") || name.ends_with("_pass") {
        return Some(PrivateKind::Secret);
    }
    if is_service_key(name) {
        return Some(PrivateKind::Secret);
    }
    (1..=words.len().min(3)).rev().find_map(|n| {
        let last = words[words.len() - n..].concat();
        NAMES.iter().find(|(_, names)| names.contains(&last.as_str())).map(|(private, _)| *private)
    })
}

/// Returns true for an environment variable that contains the key of a service, such as `OPENAI_KEY`.
fn is_service_key(name: &str) -> bool {
    const OTHER: [&str; 9] =
        ["CACHE", "HASH", "SORT", "PRIMARY", "FOREIGN", "PUBLIC", "MAP", "LOOKUP", "INDEX"];
    name.strip_suffix("_KEY").is_some_and(|service| {
        !service.is_empty()
            && service.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            && !OTHER.iter().any(|other| service.ends_with(other))
    })
}

/// Returns true if the value of a field such as `host` or `user` does not identify a person or machine.
pub(super) fn is_ordinary(value: &str) -> bool {
    ORDINARY.contains(&value)
}

/// Returns true if the name announces several values, as `users` does.
pub(crate) fn is_plural(name: &str) -> bool {
    name.ends_with(['s', 'S']) || name.ends_with("list") || name.ends_with("LIST")
}

/// Splits a name into words in lower case, at separators and where an upper-case letter follows a lower-case one.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for c in name.chars() {
        let separates = !(c.is_alphanumeric() || c == '/');
        if separates || (lower && c.is_uppercase()) {
            words.push(String::new());
        }
        lower = c.is_lowercase() || c.is_numeric();
        if !separates && let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns true if the value identifies nothing, or is a placeholder that others fill in.
pub(crate) fn is_harmless(private: PrivateKind, value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let is_number = |most: usize| value.len() <= most && value.bytes().all(|b| b.is_ascii_digit());
    if value.is_empty() || is_placeholder(value) {
        return true;
    }
    match private {
        PrivateKind::Token if is_number(6) => true,
        PrivateKind::Random if !is_random(value) => true,
        PrivateKind::Secret | PrivateKind::Token | PrivateKind::Random => {
            ["true", "false", "null", "none", "required", "yes", "no"].contains(&&*lower)
                || value.bytes().all(|b| b == b'*')
        }
        PrivateKind::Serial => ORDINARY.contains(&&*lower) || is_number(3),
        // The prefix of the form `GPU-ID` is kept; a pattern in `forms` replaces the id.
        PrivateKind::Uuid => {
            ORDINARY.contains(&&*lower) || is_number(12) || value.starts_with("GPU-")
        }
        PrivateKind::User | PrivateKind::Host => {
            ORDINARY.contains(&&*lower) || is_quantity(value) || is_target(value)
        }
        PrivateKind::Login | PrivateKind::Machine => [
            "localhost",
            "none",
            "null",
            "unknown",
            "default",
            "root",
            "true",
            "false",
            "n/a",
            "required",
        ]
        .contains(&&*lower),
    }
}

/// Returns true for at least 12 characters of base64 that are not an ordinary word.
fn is_random(value: &str) -> bool {
    let has = |is: fn(&u8) -> bool| value.bytes().any(|b| is(&b));
    value.len() >= 12
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=_-".contains(&b))
        && (has(u8::is_ascii_digit) || has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase))
}

/// Returns true for the placeholders `$NAME`, `${...}`, `$(...)`, `%NAME%`, `<word>` and `{{ name }}`.
fn is_placeholder(value: &str) -> bool {
    // The value may end with punctuation that belongs to the surrounding text.
    let value = value.trim_end_matches([',', ';', '.', ')', '"', '\'', '`', ']']);
    let is_name = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphabetic() || more.contains(c))
    };
    let variable = value.strip_prefix('$').is_some_and(|name| {
        // The value may have been cut at white space: `$(cat`.
        let is_whole = |open: char, close: char| {
            name.starts_with(open) && name.find(close).is_none_or(|at| at + 1 == name.len())
        };
        is_whole('{', '}')
            || name.starts_with('(') && !name.contains(')')
            || is_name(name, "_")
                && (name == name.to_ascii_uppercase() || private_kind(name).is_some())
    });
    let angle = value.strip_prefix('<').and_then(|v| v.split_once('>'));
    let angle = angle.is_some_and(|(name, rest)| {
        rest.trim_start_matches(['\'', '"', '@', ':', '/', '$', '~']).is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_- /".contains(c))
    });
    let percent = value.strip_prefix('%').and_then(|v| v.strip_suffix('%'));
    let braces = value.strip_prefix("{{");
    variable
        || angle
        || braces.is_some_and(|rest| rest.is_empty() || rest.ends_with("}}"))
        || percent.is_some_and(|name| is_name(name, "_"))
}

/// Returns true for a number with an optional unit, or a memory address: `16GiB`, `0.5`, `1000:1000`, `0x7f`.
fn is_quantity(value: &str) -> bool {
    if let Some(digits) = value.strip_prefix("0x") {
        return digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    // A memory address may be written without `0x`.
    if value.len() >= 8
        && value.starts_with(|c: char| c.is_ascii_digit())
        && value.bytes().all(|b| b.is_ascii_hexdigit())
    {
        return true;
    }
    // The command `time` prints `0m0.5s`.
    if value.starts_with(|c: char| c.is_ascii_digit())
        && value.chars().all(|c| c.is_ascii_digit() || ".ms".contains(c))
    {
        return true;
    }
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit() || ".:-".contains(c));
    unit.len() < value.len()
        && [
            "", "s", "ms", "us", "ns", "%", "x", "b", "kb", "mb", "gb", "kib", "mib", "gib", "k",
            "m", "g",
        ]
        .contains(&&*unit.to_ascii_lowercase())
}

/// Returns true for a target of a compiler, as in `--host=x86_64-pc-linux-gnu`.
fn is_target(value: &str) -> bool {
    let parts: Vec<&str> = value.split('-').collect();
    (3..=4).contains(&parts.len())
        && ["x86_64", "aarch64", "amdgcn", "i686", "riscv64", "powerpc64le"].contains(&parts[0])
        && parts[1..].iter().any(|part| ["linux", "amdhsa", "darwin", "windows"].contains(part))
}
