//! Redacts the names of one machine and its users.

use std::{cell::RefCell, rc::Rc};

use regex::{Captures, Regex, escape};

use super::{Identity, names::is_ordinary, values::Values};

/// Login name that every machine has, so that it does not identify a person.
const ROOT: &str = "root";

/// Names of products and tools that may also be login or host names. They are replaced only where they are whole words
/// in the same case.
const COMMON: [&str; 22] = [
    "admin", "amd", "build", "ci", "debian", "dev", "docker", "fedora", "gpu", "hip", "hsa",
    "kernel", "linux", "main", "python", "rocm", "runner", "test", "tests", "torch", "ubuntu",
    "work",
];

/// Compiled patterns for the names and values in an [`Identity`].
pub(super) struct CompiledIdentity {
    pub(super) values: Values,
    folders: Vec<(Regex, String)>,
    names: Vec<(Regex, &'static str)>,
}

thread_local! {
    /// The patterns that were compiled last. They can be reused, because all texts of a file are redacted for one
    /// identity.
    static CACHE: RefCell<Vec<(Identity, Rc<CompiledIdentity>)>> = const { RefCell::new(Vec::new()) };
}

/// Calls `then` with the compiled patterns for an identity.
pub(super) fn with_patterns<T>(who: &Identity, then: impl FnOnce(&CompiledIdentity) -> T) -> T {
    let known = CACHE.with_borrow_mut(|built| {
        if let Some((_, known)) = built.iter().find(|(of, _)| of == who) {
            return Rc::clone(known);
        }
        let known = Rc::new(CompiledIdentity::compile(who));
        built.truncate(3);
        built.insert(0, (who.clone(), Rc::clone(&known)));
        known
    });
    then(&known)
}

impl CompiledIdentity {
    fn compile(who: &Identity) -> CompiledIdentity {
        let mut folders: Vec<_> = who.folders.iter().collect();
        // A folder may be inside another one, so the longest path is replaced first.
        folders.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
        let folders =
            folders.into_iter().filter_map(|(path, name)| Some((folder(path)?, name.clone())));
        let (short, domain) = who.host.split_once('.').unwrap_or((&who.host, ""));
        let users =
            std::iter::once(&who.user).chain(&who.users).map(|user| (user.as_str(), "<user>"));
        let hosts = [(who.host.as_str(), "<host>"), (short, "<host>")];
        let names = hosts.into_iter().chain(users).filter_map(|(n, word)| Some((name(n)?, word)));
        let below = is_domain(domain).then(|| domain_hosts(domain)).flatten();
        CompiledIdentity {
            values: Values::from_identity(who),
            folders: folders.collect(),
            names: below.map(|pattern| (pattern, "<host>")).into_iter().chain(names).collect(),
        }
    }

    /// Replaces the folders of the user by short names such as `~`, also where they are the beginning of longer paths.
    pub(super) fn folders(&self, text: &str) -> String {
        self.folders
            .iter()
            .fold(text.to_owned(), |text, (pattern, name)| replace(pattern, text, name))
    }

    /// Replaces login names, the host name, and the names of machines in the host's domain.
    pub(super) fn names(&self, text: &str) -> String {
        self.names
            .iter()
            .fold(text.to_owned(), |text, (pattern, word)| replace(pattern, text, word))
    }
}

/// Replaces each match, except for its two groups, which are the characters before and after a name.
fn replace(pattern: &Regex, text: String, by: &str) -> String {
    if !pattern.is_match(&text) {
        return text;
    }
    let part =
        |found: &Captures, n: usize| found.get(n).map_or("", |group| group.as_str()).to_owned();
    // Two names may share the character between them. The second name is then found in a second pass.
    let once = |text: &str| {
        pattern
            .replace_all(text, |found: &Captures| part(found, 1) + by + &part(found, 2))
            .into_owned()
    };
    once(&once(&text))
}

/// Returns false if names that end with the domain may be something else: files, or names of products.
fn is_domain(domain: &str) -> bool {
    const FILES: [&str; 8] = ["c", "cpp", "h", "hip", "hpp", "py", "rs", "so"];
    let domain = domain.to_lowercase();
    !domain.is_empty() && !COMMON.contains(&&*domain) && !FILES.contains(&&*domain)
}

/// Returns the pattern of a folder; `None` for the root folder and for an empty path. Case is ignored, and slashes may
/// be repeated or escaped.
fn folder(path: &str) -> Option<Regex> {
    const SLASH: &str = r"(?:(?:\\?/)+(?:\.(?:\\?/)+)*|%2[Ff])";
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).map(escape).collect();
    if parts.is_empty() {
        return None;
    }
    // A folder with a single component may also be part of other paths, such as `/usr/root`.
    let before = match parts.len() {
        1 => r"(^|file://|-[A-Za-z]|[^\p{L}\p{N}/.])",
        _ => "()",
    };
    let end = r"($|[^\p{L}\p{N}_.-]|[.-](?:$|[^\p{L}\p{N}_]))";
    Regex::new(&format!("(?i){before}{SLASH}{}{end}", parts.join(SLASH))).ok()
}

/// Returns the pattern of a name as a whole word; `None` for an empty name, `root` and `localhost`. Unless the name is
/// short or common, case is ignored and underscores may surround it.
fn name(name: &str) -> Option<Regex> {
    if name.is_empty() || name == ROOT || name == "localhost" {
        return None;
    }
    let lower = name.to_lowercase();
    let is_exact = name.len() < 3 || COMMON.contains(&&*lower) || is_ordinary(&lower);
    let (flags, more) = if is_exact { ("", "_") } else { ("(?i)", "") };
    let name = escape(name);
    // The escape sequences of colours and of control characters end with a letter, which is not part of a word.
    let escape = r"\x1b\[[0-9;]*m|\\u001b\[[0-9;]*m|\\u\{1b\}\[[0-9;]*m|\\x1b\[[0-9;]*m|\\033\[[0-9;]*m|\\e\[[0-9;]*m|\\[nrt]|\\u000[9ad]";
    Regex::new(&format!(
        r"{flags}(^|[^\p{{L}}\p{{N}}{more}]|{escape}){name}($|[^\p{{L}}\p{{N}}{more}])"
    ))
    .ok()
}

/// Returns the pattern of the names of machines in a domain.
fn domain_hosts(domain: &str) -> Option<Regex> {
    let domain = escape(domain);
    Regex::new(&format!(
        r"(?i)(^|[^0-9a-z._-])(?:[0-9a-z_-]+\.)+{domain}($|[^0-9a-z._-]|\.(?:$|[^0-9a-z]))"
    ))
    .ok()
}
