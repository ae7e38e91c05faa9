/// A range of characters in a case file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceSpan {
    /// Line number, from 1.
    pub line: u32,
    /// Column number in characters, from 1.
    pub column: u32,
    /// Length in characters, at least 1.
    pub length: u32,
}

/// One mistake in a case file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// Position of the mistake in the case file.
    pub at: SourceSpan,
    /// Message, without a full stop.
    pub message: String,
    /// Suggestion, for example "did you mean `copy`?".
    pub help: Option<String>,
}

pub(crate) fn sorted(mut mistakes: Vec<Diagnostic>) -> Vec<Diagnostic> {
    mistakes.sort();
    mistakes.dedup();
    mistakes
}

pub(crate) fn finish(mistakes: Vec<Diagnostic>) -> Result<(), Vec<Diagnostic>> {
    let mistakes = sorted(mistakes);
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

/// Returns the known name that is most similar to a misspelt name; `None` if none is similar. A name in which every
/// letter differs is not similar, however short it is.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(name, k), k))
        .filter(|(distance, k)| *distance <= 1 + k.len() / 4 && *distance < k.len())
        .min()
        .map(|(_, k)| k)
}

const MAX_LISTED_NAMES: usize = 60;

/// Returns "did you mean ...?" if a known name is similar to the misspelt name, else a list of the known names; `None`
/// if no names are known. A long list is cut to the names whose first letters agree best with the misspelt name.
pub(crate) fn suggest<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<String> {
    match nearest(name, known.clone()) {
        Some(k) => Some(format!("did you mean `{k}`?")),
        None => {
            let mut named: Vec<_> = known.into_iter().filter(|k| !k.is_empty()).collect();
            let others = named.len().saturating_sub(MAX_LISTED_NAMES);
            if others > 0 {
                let alike =
                    |k: &&str| k.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
                named.sort_by_key(|k| std::cmp::Reverse(alike(k)));
                named.truncate(MAX_LISTED_NAMES);
            }
            let list: Vec<_> = named.iter().map(|k| format!("`{k}`")).collect();
            let others = if others > 0 { format!(" and {others} more") } else { String::new() };
            (!list.is_empty()).then(|| format!("possible here: {}{others}", list.join(", ")))
        }
    }
}
