//! Redaction of values by their form: keys, addresses, names of machines and folders of people.

use std::net::Ipv6Addr;

/// Replaces PEM blocks such as private keys and certificates, and public keys of SSH.
pub(super) fn keys(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN ";
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut has_end) = (text, true);
    while let Some((before, found)) = rest.split_once(BEGIN) {
        out.push_str(before);
        out.push_str("<secret>");
        // Many begins without an end would otherwise be searched to the end each.
        has_end = has_end && found.contains("-----END ");
        rest = match has_end.then(|| found.split_once("-----END ")).flatten() {
            Some((_, after)) => match after.split_once("-----") {
                Some((label, after)) if label.len() < 60 => after,
                _ => "",
            },
            // The end was cut off, so the block reaches to the next line that cannot belong to it.
            None => {
                let lines = found.split_inclusive('\n').skip(1);
                let is_part = |line: &&str| {
                    let line = line.trim_end_matches(['\n', '\r']);
                    let base64 = |c: char| c.is_ascii_alphanumeric() || "+/= \t".contains(c);
                    line.is_empty()
                        || line.starts_with("Proc-Type:")
                        || line.starts_with("DEK-Info:")
                        || (line.len() > 30 && line.chars().all(base64))
                };
                let first = found.split_inclusive('\n').next().unwrap_or_default().len();
                &found[first + lines.take_while(is_part).map(str::len).sum::<usize>()..]
            }
        };
        if found.len() > rest.len() && found[..found.len() - rest.len()].ends_with('\n') {
            out.push('\n');
        }
    }
    public_keys(&(out + rest))
}

/// Replaces public keys of SSH, whose comment names a person and a machine.
fn public_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let body = line.trim_end_matches(['\n', '\r']);
        let kinds = ["ssh-rsa AAAA", "ssh-ed25519 AAAA", "ssh-dss AAAA", "ecdsa-sha2-"];
        let at = kinds.iter().filter_map(|kind| body.find(kind)).min();
        match at.filter(|at| body[*at..].contains(" AAAA")) {
            Some(at) => {
                let end = body[at..].find(['"', '\'', '`', ',']).map_or(body.len(), |n| at + n);
                out.push_str(&body[..at]);
                out.push_str("<key>");
                out.push_str(&body[end..]);
            }
            None => out.push_str(body),
        }
        out.push_str(&line[body.len()..]);
    }
    out
}

/// Replaces users in addresses, `//user:password@host`, and the token after `Bearer`.
pub(super) fn owners(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("//") {
        out.push_str(before);
        out.push_str("//");
        rest = after;
        if !before.ends_with(':') {
            continue;
        }
        let end =
            after.find(|c: char| c.is_whitespace() || "/\"'`<>".contains(c)).unwrap_or(after.len());
        if let Some(at) = after[..end].rfind('@').filter(|at| *at > 0) {
            out.push_str(if after[..at].contains(':') { "<secret>" } else { "<user>" });
            rest = &after[at..];
        }
    }
    bearers(&(out + rest))
}

fn bearers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut last = 0;
    for (at, mark) in text.match_indices("earer ") {
        let from = at + mark.len();
        let part = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
        let value = &text[from..];
        let end = value.find(|c| !part(c)).unwrap_or(value.len());
        if end >= 6 && value[..end].contains(|c: char| c.is_ascii_digit()) {
            out.push_str(&text[last..from]);
            out.push_str("<secret>");
            last = from + end;
        }
    }
    out + &text[last..]
}

/// Replaces folders of users: `/home/NAME`, `/data/users/NAME`, `/scratch/NAME`, `C:\Users\NAME`, `/root`.
pub(super) fn homes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut last = 0;
    let mut before = None;
    for (at, c) in text.char_indices() {
        let begins = (c == '/' || c == '\\') && at >= last;
        if begins && let Some((start, end, word)) = home(text, at, before) {
            let start = start.max(last);
            out.push_str(&text[last..start]);
            out.push_str(word);
            last = end;
        }
        before = Some(c);
    }
    out + &text[last..]
}

/// Returns the beginning and end of the folder of a user that begins with the slash at a position, and its replacement.
fn home(text: &str, at: usize, before: Option<char>) -> Option<(usize, usize, &'static str)> {
    const HOMES: [&str; 4] = ["home", "homes", "Users", "users"];
    let path = &text[at..];
    if path.starts_with('\\') {
        let name = ["\\Users\\", "\\\\Users\\\\"].iter().find_map(|p| path.strip_prefix(p))?;
        let start = if text[..at].ends_with(':') { at.saturating_sub(2) } else { at };
        let end = name_end(name);
        return (end > 0).then(|| (start, text.len() - name.len() + end, "~"));
    }
    // These two are replaced wherever they are, also in the middle of a path.
    for prefix in ["/home/", "/Users/"] {
        if let Some(name) = path.strip_prefix(prefix) {
            let end = name_end(name);
            return (end > 0).then(|| (at, text.len() - name.len() + end, "~"));
        }
    }
    let is_start = !before.is_some_and(|c| c.is_alphanumeric() || "/._-~$}\\>)".contains(c));
    if !is_start {
        return None;
    }
    // Only the beginning of a long path counts, so that a line of many slashes takes linear time.
    let path = path.get(..512).unwrap_or(path);
    let path_end =
        path.find(|c: char| c.is_whitespace() || "\"'`,;:)]}<>|".contains(c)).unwrap_or(path.len());
    let parts: Vec<&str> = path[1..path_end].splitn(7, '/').collect();
    let end_of = |n: usize| at + parts[..=n].iter().map(|part| part.len() + 1).sum::<usize>();
    if parts[0] == "root" {
        return Some((at, end_of(0), "~"));
    }
    let system = ["usr", "opt", "etc", "proc", "sys", "lib", "boot", "dev", "src", "api"];
    for (n, part) in parts.iter().enumerate().take(4) {
        let Some(name) = parts.get(n + 1).filter(|name| name_end(name) > 0) else { break };
        let end = end_of(n) + 1 + name_end(name);
        let below_system = n > 0 && (system.contains(&parts[0]) && *part != "home");
        if HOMES.contains(part) && !below_system {
            return Some((at, end, "~"));
        }
        let is_shared = name.chars().all(|c| c.is_ascii_digit())
            || ["tmp", "temp", "rocm", "build", "shared", "data", "cache", "public"].contains(name)
            || name.contains("rocrepro");
        if *part == "scratch" && n < 2 && !below_system && !is_shared {
            return Some((end_of(n) + 1, end, "<user>"));
        }
        let before: String = parts[..=n].join("/");
        if ["var/mail", "var/spool/mail", "media", "run/media"].contains(&&*before) {
            return Some((end_of(n) + 1, end, "<user>"));
        }
    }
    None
}

fn name_end(name: &str) -> usize {
    name.find(|c: char| !(c.is_alphanumeric() || "-_.@+".contains(c))).unwrap_or(name.len())
}

/// Replaces names of machines where the layout of a line shows them: in lines of the system log, after `Linux` in
/// `uname -a`, and in prompts.
pub(super) fn machine_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let words: Vec<&str> = line.split_whitespace().collect();
        let starts = |n: usize| {
            words.get(n).map_or(0, |word| word.as_ptr() as usize - line.as_ptr() as usize)
        };
        let is_release = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_digit()) && word.matches('.').count() >= 2
        };
        let host = words.iter().enumerate().find_map(|(n, word)| match *word {
            "Linux"
                if words.len() > n + 3 && is_release(words[n + 2]) && !is_release(words[n + 1]) =>
            {
                Some(n + 1)
            }
            _ if is_log(&words, n) => Some(n + 1),
            _ => None,
        });
        if let Some(n) = host.filter(|n| !words[*n].starts_with('<')) {
            let at = starts(n);
            out.push_str(&line[..at]);
            out.push_str("<host>");
            out.push_str(&line[at + words[n].len()..]);
            continue;
        }
        out.push_str(&prompt(line).unwrap_or_else(|| line.to_owned()));
    }
    out
}

/// Returns true if a time in the notation of a system log is at this word, before a machine and a process.
fn is_log(words: &[&str], n: usize) -> bool {
    let is_name = words.get(n + 1).is_some_and(|name| {
        name.contains(|c: char| c.is_alphabetic())
            && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c))
    });
    let Some(process) = words.get(n + 2).filter(|word| is_process(word)) else { return false };
    let is_classic = n >= 2 && is_clock(words[n]) && is_month(words[n - 2]);
    let is_iso =
        words[n].len() >= 19 && words[n].as_bytes()[10] == b'T' && words[n].starts_with("20");
    is_name && (is_classic || is_iso && (*process == "kernel:" || process.ends_with("]:")))
}

fn is_clock(word: &str) -> bool {
    word.len() >= 8
        && word.bytes().all(|b| b.is_ascii_digit() || b == b':' || b == b'.')
        && word.matches(':').count() == 2
}

fn is_month(word: &str) -> bool {
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        .contains(&word)
}

fn is_process(word: &str) -> bool {
    word.ends_with(':') && word.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Replaces `user@host:` in a shell's prompt, and after `ssh` and `scp`.
fn prompt(line: &str) -> Option<String> {
    let is_name = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c))
    };
    let in_brackets = line.contains("]$") || line.contains("]#");
    let mut remote = false;
    line.split_whitespace().find_map(|word| {
        let word = word.trim_start_matches(['[', '(', '`', '"', '\'']);
        if ["ssh", "scp", "rsync", "sftp"].contains(&word) {
            remote = true;
        }
        let (user, rest) = word.split_once('@')?;
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "-_.".contains(c)));
        let (host, path) = rest.split_at(end.unwrap_or(rest.len()));
        let is_prompt =
            path.starts_with(":~") || path.starts_with(":/") || (path.is_empty() && in_brackets);
        let found = is_name(user) && is_name(host) && (is_prompt || remote);
        found.then(|| line.replacen(&format!("{user}@{host}"), "<user>@<host>", 1))
    })
}

/// Returns the replacement of a word that identifies a person or machine. `domain` is the machine's own.
pub(super) fn identifying(word: &str, domain: &str) -> Option<String> {
    let address = word.rsplit_once(':').map_or(word, |(address, port)| {
        let is_port = port.bytes().all(|b| b.is_ascii_digit()) && !address.contains(':');
        if is_port { address } else { word }
    });
    let whole = if is_token(word) {
        "<secret>"
    } else if is_mac(word) {
        "<mac>"
    } else if is_mail(word) {
        "<mail>"
    } else if is_ipv4(address) || (address != word && is_dotted(address)) || is_ipv6(word) {
        "<ip>"
    } else if is_server(word) || is_private_host(address, domain) {
        "<host>"
    } else {
        return uuids(word);
    };
    Some(whole.to_owned())
}

fn hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Replaces UUIDs in a word, which may have a prefix such as `GPU-`, and ids of GPUs without dashes.
fn uuids(word: &str) -> Option<String> {
    // rocminfo prints ids of GPUs as `GPU-` and 16 hexadecimal digits; a log may have cut them off.
    if let Some(id) = ["GPU-", "MIG-"].iter().find_map(|prefix| word.strip_prefix(prefix)) {
        let digits: String = id.split('-').collect();
        let digits = digits.trim_end_matches('.');
        if digits.len() >= 8 && hex(digits) {
            return Some(format!("{}<uuid>", &word[..4]));
        }
    }
    const LENGTH: usize = 36;
    let mut out = String::new();
    let (mut last, mut at) = (0, 0);
    while at + LENGTH <= word.len() {
        let edge = |c: Option<&u8>| !c.is_some_and(u8::is_ascii_hexdigit);
        let bytes = word.as_bytes();
        if edge(at.checked_sub(1).map(|n| &bytes[n]))
            && edge(bytes.get(at + LENGTH))
            && is_uuid(&word[at..at + LENGTH])
        {
            out.push_str(&word[last..at]);
            out.push_str("<uuid>");
            at += LENGTH;
            last = at;
        } else {
            at += 1;
        }
    }
    (last > 0).then(|| out + &word[last..])
}

fn is_uuid(word: &str) -> bool {
    let lengths: Vec<usize> = word.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && word.split('-').all(hex)
}

/// Returns true for the three notations of MAC addresses: `00:1a:2b:3c:4d:5e`, `00-1a-...` and `001a.2b3c.4d5e`.
fn is_mac(word: &str) -> bool {
    let groups = |separator: char, count: usize, length: usize| {
        let parts: Vec<&str> = word.split(separator).collect();
        parts.len() == count && parts.iter().all(|part| part.len() == length && hex(part))
    };
    // Three numbers of four digits may be a version.
    let dotted = groups('.', 3, 4)
        && (word.starts_with('0') || word.bytes().any(|b| b.is_ascii_alphabetic()));
    groups(':', 6, 2) || groups('-', 6, 2) || dotted
}

/// Returns true if the word has the prefix of a well-known service token, or is a JSON Web Token.
fn is_token(word: &str) -> bool {
    // Each prefix with the least length of what follows.
    const STARTS: [(&str, usize); 50] = [
        ("ghp_", 16),
        ("gho_", 16),
        ("ghu_", 16),
        ("ghs_", 16),
        ("ghr_", 16),
        ("github_pat_", 16),
        ("glpat-", 16),
        ("gldt-", 16),
        ("glrt-", 16),
        ("glcbt-", 16),
        ("hf_", 16),
        ("sk-", 16),
        ("sk_live_", 12),
        ("sk_test_", 12),
        ("rk_live_", 12),
        ("pk_live_", 12),
        ("xoxb-", 10),
        ("xoxp-", 10),
        ("xoxa-", 10),
        ("xoxr-", 10),
        ("xoxs-", 10),
        ("xapp-", 10),
        ("AKIA", 16),
        ("ASIA", 16),
        ("AROA", 16),
        ("AIDA", 16),
        ("AIza", 20),
        ("ya29.", 16),
        ("GOCSPX-", 16),
        ("pypi-", 16),
        ("npm_", 16),
        ("dop_v1_", 16),
        ("SG.", 16),
        ("shpat_", 16),
        ("lin_api_", 16),
        ("ATATT", 16),
        ("dckr_pat_", 16),
        ("nvapi-", 16),
        ("r8_", 16),
        ("gsk_", 16),
        ("tskey-", 12),
        ("AGE-SECRET-KEY-", 16),
        ("hvs.", 16),
        ("hvb.", 16),
        ("whsec_", 16),
        ("figd_", 16),
        ("xai-", 16),
        ("sbp_", 16),
        ("dapi", 32),
        ("NRAK-", 16),
    ];
    let word = word.split(':').next().unwrap_or(word);
    let is_key = |body: &str, least: usize| {
        let part = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
        // Identifiers such as `hf_transformer_layers` are words, keys are not.
        let mixed = body.bytes().any(|b| b.is_ascii_digit())
            || body.bytes().any(|b| b.is_ascii_uppercase())
                && body.bytes().any(|b| b.is_ascii_lowercase());
        body.len() >= least && body.bytes().all(part) && mixed
    };
    STARTS
        .iter()
        .any(|(start, least)| word.strip_prefix(start).is_some_and(|body| is_key(body, *least)))
        || (word.starts_with("eyJ") && word.matches('.').count() >= 2 && word.len() >= 30)
}

fn is_mail(word: &str) -> bool {
    word.split_once('@').is_some_and(|(name, domain)| {
        let top = domain.rsplit('.').next().unwrap_or_default();
        !name.is_empty()
            && domain.contains('.')
            && top.len() >= 2
            && top.bytes().all(|b| b.is_ascii_alphabetic())
    })
}

/// Returns true for the address of a licence server, `27000@licences`.
fn is_server(word: &str) -> bool {
    word.split_once('@').is_some_and(|(port, host)| {
        port.len() >= 2
            && port.bytes().all(|b| b.is_ascii_digit())
            && host.starts_with(|c: char| c.is_ascii_alphabetic())
    })
}

/// Returns true for names below domains of private networks, names below the machine's own domain, and the names that
/// clouds give by address.
fn is_private_host(word: &str, domain: &str) -> bool {
    const TOPS: [&str; 11] = [
        ".local",
        ".lan",
        ".internal",
        ".corp",
        ".cluster",
        ".intranet",
        ".localdomain",
        ".home.arpa",
        ".private",
        ".localnet",
        ".intra",
    ];
    let word = word.strip_suffix('.').unwrap_or(word).to_ascii_lowercase();
    let is_name = |name: &str| {
        name.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
    };
    let below = |top: &str| word.strip_suffix(top).is_some_and(is_name);
    let own = domain.contains('.') && below(&format!(".{}", domain.to_ascii_lowercase()));
    let by_address = ["ip-", "ec2-"].iter().any(|prefix| {
        let numbers = word.strip_prefix(prefix).map(|rest| rest.split('.').next().unwrap_or(rest));
        numbers.is_some_and(|n| {
            n.split('-').count() == 4 && n.split('-').all(|n| n.parse::<u8>().is_ok())
        })
    });
    is_name(&word) && (TOPS.iter().any(|top| below(top)) || own || by_address)
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
