//! Removes personal data and machine names from a text.

use std::net::Ipv6Addr;

/// Names that must not be published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Login name.
    pub user: String,
    /// Host name, with or without a domain.
    pub host: String,
    /// Folders of the user, each with its replacement: `~` for the home folder, `$XDG_CACHE_HOME` for the folder in
    /// that variable.
    pub folders: Vec<(String, String)>,
    /// Serial numbers and other ids of the machine's hardware.
    pub serials: Vec<String>,
    /// Other login names of the same person, such as the one before `sudo`.
    pub users: Vec<String>,
    /// Private values that were passed to a run.
    pub values: Vec<String>,
}

/// Login name that identifies no person.
const ROOT: &str = "root";

/// Replaces host and login names, folders of the user, serial numbers, mail, MAC and IP addresses, UUIDs, passwords and
/// tokens by words in angle brackets. Versions, build ids and PCI addresses stay, because maintainers need them.
///
/// Only words are replaced, so lines and layout stay.
pub fn redact(text: &str, who: &Identity) -> String {
    let mut text = text.to_owned();
    for serial in who.serials.iter().filter(|s| s.len() >= 4) {
        text = text.replace(serial.as_str(), "<serial>");
    }
    for value in who.values.iter().filter(|v| v.len() >= 4) {
        text = text.replace(value.as_str(), "<value>");
    }
    text = secrets(&text);
    let mut folders: Vec<_> = who.folders.iter().filter(|(folder, _)| folder.len() > 1).collect();
    // A folder may be inside another one, so the longest is replaced first.
    folders.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
    for (folder, name) in folders {
        text = replace_path(&text, folder.trim_end_matches('/'), name);
    }
    text = homes(&text);
    // Addresses may contain names, so they are replaced first.
    text = each_word(&text, |word| identifying(word).map(str::to_owned));
    let short = who.host.split('.').next().unwrap_or_default();
    let users = std::iter::once(&who.user).chain(&who.users).map(|user| (user.as_str(), "<user>"));
    for (name, word) in [(who.host.as_str(), "<host>"), (short, "<host>")].into_iter().chain(users)
    {
        if !name.is_empty() && name != ROOT && name != "localhost" {
            text = replace_word(&text, name, word);
        }
    }
    text
}

/// Replaces a folder, also at the beginning of longer paths, but not a folder whose name merely starts with the same
/// letters.
fn replace_path(text: &str, folder: &str, name: &str) -> String {
    replace_where(text, folder, name, |before, after| {
        !before.is_some_and(|c| c.is_alphanumeric() || c == '/' || c == '.')
            && !after.is_some_and(|c| c.is_alphanumeric() || "-_.".contains(c))
    })
}

/// Replaces home folders of other users.
fn homes(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((at, prefix)) = ["/home/", "/Users/"]
        .iter()
        .filter_map(|prefix| rest.find(prefix).map(|at| (at, *prefix)))
        .min()
    {
        let (before, found) = rest.split_at(at);
        let name = &found[prefix.len()..];
        let end = name.find(|c: char| !(c.is_alphanumeric() || "-_.".contains(c)));
        let end = end.unwrap_or(name.len());
        out.push_str(before);
        out.push_str(if end == 0 { prefix } else { "~" });
        rest = &name[end..];
    }
    out + rest
}

/// Replaces a name if it is a whole word.
fn replace_word(text: &str, name: &str, by: &str) -> String {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    replace_where(text, name, by, |before, after| {
        !before.is_some_and(inside) && !after.is_some_and(inside)
    })
}

fn replace_where(
    text: &str,
    what: &str,
    by: &str,
    stands: impl Fn(Option<char>, Option<char>) -> bool,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut last = 0;
    for (at, _) in text.match_indices(what) {
        let end = at + what.len();
        if stands(text[..at].chars().next_back(), text[end..].chars().next()) {
            out.push_str(&text[last..at]);
            out.push_str(by);
            last = end;
        }
    }
    out + &text[last..]
}

/// Calls `replaced` with each run of characters that may be part of an address, and inserts the result.
fn each_word(text: &str, replaced: impl Fn(&str) -> Option<String>) -> String {
    let part = |c: char| c.is_ascii_alphanumeric() || ".:-_@%+".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let start = rest.find(part).unwrap_or(rest.len());
        let (before, found) = rest.split_at(start);
        let end = found.find(|c| !part(c)).unwrap_or(found.len());
        let (word, after) = found.split_at(end);
        out.push_str(before);
        // Punctuation after a word is not part of it.
        let core = word.trim_end_matches(['.', ':', '-']);
        let core = core.trim_start_matches(['-', '+']);
        let from = word.find(core).unwrap_or(0);
        match replaced(core) {
            Some(by) if !core.is_empty() => {
                out.push_str(&word[..from]);
                out.push_str(&by);
                out.push_str(&word[from + core.len()..]);
            }
            _ => out.push_str(word),
        }
        rest = after;
    }
    out
}

/// Replaces values after names such as `password=` or `API_TOKEN: `, and the password in `//user:password@host`.
fn secrets(text: &str) -> String {
    const NAMES: [&str; 8] =
        ["password", "passwd", "secret", "token", "api_key", "apikey", "access_key", "credential"];
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while let Some(at) = rest.find(['=', ':']) {
            let (before, after) = rest.split_at(at);
            let quoted = before.trim_end_matches([' ', '"', '\'']);
            let mut name = quoted.rsplit(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'));
            let name = name.next().unwrap_or_default().to_ascii_lowercase();
            out.push_str(before);
            out.push_str(&after[..1]);
            rest = &after[1..];
            let word = if NAMES.iter().any(|known| name.ends_with(known)) {
                "<secret>"
            } else if ["serial", "serialno", "serial_number"].contains(&name.as_str()) {
                "<serial>"
            } else if let Some(address) = rest.strip_prefix("//")
                && let Some((owner, _)) = address.split_once('@')
                && owner.contains(':')
                && !owner.contains(|c: char| c.is_whitespace() || c == '/')
            {
                out.push_str("//<secret>");
                rest = &address[owner.len()..];
                continue;
            } else {
                continue;
            };
            let value = rest.trim_start_matches([' ', '\t', '"', '\'']);
            let end = value.find(|c: char| c.is_whitespace() || "\"',;&".contains(c));
            let end = end.unwrap_or(value.len());
            // The value is a word of a sentence (`token: `) or a variable for others to fill in.
            if end > 0 && !value.starts_with(['$', '<']) {
                out.push_str(&rest[..rest.len() - value.len()]);
                out.push_str(word);
                rest = &value[end..];
            }
        }
        out.push_str(rest);
    }
    out
}

/// Returns true if the word has the prefix of a well-known service token, or is a JSON Web Token.
fn is_token(word: &str) -> bool {
    const STARTS: [&str; 15] = [
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "hf_",
        "sk-",
        "xoxb-",
        "xoxp-",
        "AKIA",
        "ASIA",
        "pypi-",
        "npm_",
    ];
    let body = STARTS.iter().find_map(|start| word.strip_prefix(start));
    let long = |body: &str| {
        body.len() >= 16 && body.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    body.is_some_and(long)
        || (word.starts_with("eyJ") && word.matches('.').count() == 2 && word.len() >= 40)
}

/// Returns the replacement of a word that identifies a person or machine.
fn identifying(word: &str) -> Option<&'static str> {
    let address = word.rsplit_once(':').map_or(word, |(address, port)| {
        if port.bytes().all(|b| b.is_ascii_digit()) && !address.contains(':') {
            address
        } else {
            word
        }
    });
    if is_token(word) {
        Some("<secret>")
    } else if is_uuid(word) {
        Some("<uuid>")
    } else if is_mac(word) {
        Some("<mac>")
    } else if is_mail(word) {
        Some("<mail>")
    } else if is_ipv4(address) || (address != word && is_dotted(address)) || is_ipv6(word) {
        Some("<ip>")
    } else if let Some((key, _)) = word.split_once('-') {
        // rocminfo prints ids of GPUs as `GPU-` and 16 hexadecimal digits.
        (key == "GPU" && word.len() == 20 && hex(&word[4..])).then_some("GPU-<uuid>")
    } else {
        None
    }
}

fn hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_uuid(word: &str) -> bool {
    let lengths: Vec<usize> = word.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && word.split('-').all(hex)
}

fn is_mac(word: &str) -> bool {
    [':', '-'].iter().any(|separator| {
        let parts: Vec<&str> = word.split(*separator).collect();
        parts.len() == 6 && parts.iter().all(|part| part.len() == 2 && hex(part))
    })
}

fn is_mail(word: &str) -> bool {
    word.split_once('@').is_some_and(|(name, domain)| {
        !name.is_empty()
            && domain.contains('.')
            && domain
                .rsplit('.')
                .next()
                .is_some_and(|top| top.len() >= 2 && top.bytes().all(|b| b.is_ascii_alphabetic()))
    })
}

/// Returns true for an IPv4 address. Because a port follows, four numbers cannot be a version.
fn is_dotted(word: &str) -> bool {
    word.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// Returns true if four numbers up to 255 are an address rather than a version: one is above 99, or the first is that
/// of a private network.
fn is_ipv4(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    let numbers: Vec<u8> = parts.iter().filter_map(|part| part.parse().ok()).collect();
    parts.len() == 4
        && numbers.len() == 4
        && !matches!(numbers.as_slice(), [127, ..] | [0, 0, 0, 0] | [255, 255, 255, 255])
        && (numbers[0] == 10 || numbers.iter().any(|n| *n > 99))
}

fn is_ipv6(word: &str) -> bool {
    let address = word.split('%').next().unwrap_or(word);
    // A PCI address such as 0000:03:00.0 or a C++ name `a::b` does not parse, or has too few groups.
    let groups = address.matches(':').count();
    let link_local = address.starts_with("fe80:") && groups >= 2;
    (groups >= 3 || link_local)
        && address.parse::<Ipv6Addr>().is_ok_and(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who() -> Identity {
        Identity {
            user: "jane".to_owned(),
            host: "workhorse.example.org".to_owned(),
            folders: vec![
                ("/data/people/jane".to_owned(), "~".to_owned()),
                ("/data/people/jane/cache/".to_owned(), "$XDG_CACHE_HOME".to_owned()),
                ("/scratch/17".to_owned(), "$TMPDIR".to_owned()),
                (String::new(), "$XDG_DATA_HOME".to_owned()),
            ],
            serials: vec!["PCB021343-0094".to_owned(), "x".to_owned()],
            users: vec!["jdoe".to_owned()],
            values: vec!["s3cr3t-licence".to_owned()],
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(redact(text, &who()), expected);
    }

    #[test]
    fn redacts_users_and_hosts() {
        check("jane@workhorse:~$ ls", "<user>@<host>:~$ ls");
        check("on workhorse.example.org now", "on <host> now");
        check("janet and workhorses stay", "janet and workhorses stay");
        check("serial PCB021343-0094, x", "serial <serial>, x");
        check("write to jane.doe@example.org.", "write to <mail>.");
    }

    #[test]
    fn redacts_home_folders() {
        check("/data/people/jane/rocm/lib", "~/rocm/lib");
        check("/data/people/jane", "~");
        check("/data/people/janet/x", "/data/people/janet/x");
        check("/data/people/jane/cache/rocm x", "$XDG_CACHE_HOME/rocm x");
        check("in /scratch/17/a, /scratch/170", "in $TMPDIR/a, /scratch/170");
        check("\"/home/john.smith/venv/bin\" /Users/me", "\"~/venv/bin\" ~");
        check("/home/ /opt/rocm/home/", "/home/ /opt/rocm/home/");
    }

    #[test]
    fn redacts_secrets_and_other_logins() {
        check("by jdoe, not jdoes", "by <user>, not jdoes");
        check("LM_LICENSE=s3cr3t-licence", "LM_LICENSE=<value>");
        check("password=hunter2 x", "password=<secret> x");
        check("\"api_token\": \"abc\", y", "\"api_token\": \"<secret>\", y");
        check("HF_TOKEN=hf_abc next", "HF_TOKEN=<secret> next");
        check("serial: AB12", "serial: <serial>");
        check("a ghp_0123456789abcdefghij in it", "a <secret> in it");
        check("https://jane:pw@example.com/x", "https://<secret>@example.com/x");
        check("1.2.3.4:8080 fe80::1", "<ip> <ip>");
        check("token: $TOKEN, tokens = 3", "token: $TOKEN, tokens = 3");
    }

    #[test]
    fn keeps_the_name_root() {
        let root = Identity {
            user: "root".into(),
            folders: vec![("/root".into(), "~".into())],
            ..Identity::default()
        };
        assert_eq!(redact("root in /root/x on /rootfs", &root), "root in ~/x on /rootfs");
    }

    #[test]
    fn redacts_addresses() {
        check("ether 00:1a:2B:3c:4d:5e up", "ether <mac> up");
        check("00-1a-2b-3c-4d-5e", "<mac>");
        check("inet 192.168.1.17/24", "inet <ip>/24");
        check("at 10.0.0.4:8080.", "at <ip>.");
        check("fe80::1ff:fe23:4567:890a%eth0", "<ip>");
        check("root=UUID=3e6be9de-8139-11d1-9106-a43f08d823a6", "root=UUID=<uuid>");
        check("Uuid: GPU-18f2a3b4c5d6e7f8", "Uuid: GPU-<uuid>");
    }

    #[test]
    fn keeps_versions_build_ids_and_pci_addresses() {
        for text in [
            "libamdhip64.so.7.2.53211 build id 0123456789abcdef0123456789abcdef01234567",
            "amdgpu 0000:03:00.0: [gfxhub] page fault (src_id:0 ring:24 vmid:8)",
            "kernel 6.8.0-45-generic, firmware 4.3.2.1, driver 6.12.12",
            "std::vector<int> a::b gfx90a:sramecc+:xnack-",
            "127.0.0.1 ::1 2026-11-21T01:02:03Z",
            "copies/small-sizes[bytes=2,host=pageable]",
            ":1:rocdevice.cpp :2875: 12345 us: [pid:1 tid:0x7f] Callback: Queue",
            "",
        ] {
            check(text, text);
        }
    }
}
