//! Names of fields with private values, and the values that are harmless all the same.

/// A kind of private value, which a field's name announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Private {
    Secret,
    /// A secret whose name also means a word of a text, as in `tokens = 512`.
    Token,
    /// A field such as `user`, whose value may also be a number or a side of a copy.
    User,
    /// A field that can only be the name of a person, such as `login`.
    Login,
    /// A field such as `host`, whose value may also be a kind of memory.
    Host,
    /// A field that can only be the name of a machine, such as `hostname`.
    Machine,
    Serial,
    Uuid,
}

impl Private {
    pub(crate) fn is_secret(self) -> bool {
        matches!(self, Private::Secret | Private::Token)
    }

    /// Returns the text that replaces a value.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Private::Secret | Private::Token => "<secret>",
            Private::User | Private::Login => "<user>",
            Private::Host | Private::Machine => "<host>",
            Private::Serial => "<serial>",
            Private::Uuid => "<uuid>",
        }
    }
}

/// Names in lower case without separators. They are compared with the last words of a field's name: `SUDO_USER`,
/// `clientSecret`, `Serial Number`.
const NAMES: [(Private, &[&str]); 7] = [
    (
        Private::Secret,
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
    (Private::User, &["user", "users"]),
    (
        Private::Login,
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
    (Private::Host, &["host", "hosts"]),
    (
        Private::Machine,
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
        Private::Serial,
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
    (Private::Uuid, &["uuid", "uuids", "guid"]),
];

/// Ends of names that announce a secret even without a separator before them: `PGPASSWORD`.
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

/// Further names of parameters in the query of a URL. Elsewhere they are ordinary words.
pub(super) const QUERY: [&str; 7] = ["sig", "signature", "key", "code", "auth", "session", "sid"];

/// Ordinary values of `host`, `user` and the like, which identify nothing: kinds of memory and sides of a copy.
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

/// Returns the kind of private value that a field of this name has.
pub(crate) fn private(name: &str) -> Option<Private> {
    let numbered = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if numbered.len() < name.len() {
        // Secrets are numbered, `password1`; a number behind other names has another meaning.
        let numbered = numbered.trim_end_matches(['_', '-']);
        return private(numbered).filter(|private| private.is_secret());
    }
    let words = words(name);
    let all = words.concat();
    if all.ends_with("token") || all.ends_with("tokens") {
        return Some(Private::Token);
    }
    if ENDS.iter().any(|end| all.ends_with(end)) {
        return Some(Private::Secret);
    }
    // DB_PASS, but not the options of compilers such as `stop-after-pass`.
    if words.len() > 1 && name.ends_with("_PASS") || name.ends_with("_pass") {
        return Some(Private::Secret);
    }
    if is_service_key(name) {
        return Some(Private::Secret);
    }
    (1..=words.len().min(3)).rev().find_map(|n| {
        let last = words[words.len() - n..].concat();
        NAMES.iter().find(|(_, names)| names.contains(&last.as_str())).map(|(private, _)| *private)
    })
}

/// Returns true for the variable of a service's key, `OPENAI_KEY`.
fn is_service_key(name: &str) -> bool {
    const OTHER: [&str; 9] =
        ["CACHE", "HASH", "SORT", "PRIMARY", "FOREIGN", "PUBLIC", "MAP", "LOOKUP", "INDEX"];
    name.strip_suffix("_KEY").is_some_and(|service| {
        !service.is_empty()
            && service.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            && !OTHER.iter().any(|other| service.ends_with(other))
    })
}

/// Returns true for a value of `host`, `user` and the like that identifies nothing.
pub(super) fn is_ordinary(value: &str) -> bool {
    ORDINARY.contains(&value)
}

/// Returns true for names of several values, `users`.
pub(crate) fn is_plural(name: &str) -> bool {
    name.ends_with(['s', 'S']) || name.ends_with("list") || name.ends_with("LIST")
}

/// Splits a name into its words in lower case, at separators and where an upper-case letter follows a lower-case one.
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

/// Returns true if the value identifies nothing, or is a variable for others to fill in.
pub(crate) fn is_harmless(private: Private, value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let is_number = |most: usize| value.len() <= most && value.bytes().all(|b| b.is_ascii_digit());
    if value.is_empty() || is_placeholder(value) {
        return true;
    }
    match private {
        Private::Token if is_number(6) => true,
        Private::Secret | Private::Token => {
            ["true", "false", "null", "none", "required", "yes", "no"].contains(&&*lower)
                || value.bytes().all(|b| b == b'*')
        }
        Private::Serial => ORDINARY.contains(&&*lower) || is_number(3),
        // The form `GPU-ID` keeps its prefix.
        Private::Uuid => ORDINARY.contains(&&*lower) || is_number(12) || value.starts_with("GPU-"),
        Private::User | Private::Host => {
            ORDINARY.contains(&&*lower) || is_quantity(value) || is_target(value)
        }
        Private::Login | Private::Machine => [
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

/// Returns true for `$NAME`, `${...}`, `$(...)`, `%NAME%`, `<word>` and `{{ name }}`.
fn is_placeholder(value: &str) -> bool {
    // Punctuation of the text around it may belong to the value.
    let value = value.trim_end_matches([',', ';', '.', ')', '"', '\'', '`', ']']);
    let is_name = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphabetic() || more.contains(c))
    };
    let variable = value.strip_prefix('$').is_some_and(|name| {
        // White space may have ended the value: `$(cat`.
        let is_whole = |open: char, close: char| {
            name.starts_with(open) && name.find(close).is_none_or(|at| at + 1 == name.len())
        };
        is_whole('{', '}')
            || name.starts_with('(') && !name.contains(')')
            || is_name(name, "_") && (name == name.to_ascii_uppercase() || private(name).is_some())
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

/// Returns true for a number with an optional unit, and for an address of memory: `16GiB`, `0.5`, `1000:1000`, `0x7f`.
fn is_quantity(value: &str) -> bool {
    if let Some(digits) = value.strip_prefix("0x") {
        return digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    // An address of memory without a prefix.
    if value.len() >= 8
        && value.starts_with(|c: char| c.is_ascii_digit())
        && value.bytes().all(|b| b.is_ascii_hexdigit())
    {
        return true;
    }
    // `time` prints `0m0.5s`.
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

/// Returns true for the target of a compiler, such as `--host=x86_64-pc-linux-gnu`.
fn is_target(value: &str) -> bool {
    let parts: Vec<&str> = value.split('-').collect();
    (3..=4).contains(&parts.len())
        && ["x86_64", "aarch64", "amdgcn", "i686", "riscv64", "powerpc64le"].contains(&parts[0])
        && parts[1..].iter().any(|part| ["linux", "amdhsa", "darwin", "windows"].contains(part))
}
