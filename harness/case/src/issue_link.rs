//! Parses the two forms in which cases name an upstream issue.

/// Returns true if the text has the form `owner/repository#number`.
pub(crate) fn is_issue(link: &str) -> bool {
    let name = |s: &str| {
        !s.is_empty() && s.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    link.split_once('#').is_some_and(|(repository, number)| {
        number.starts_with(|c: char| c.is_ascii_digit())
            && number.parse::<u32>().is_ok()
            && repository.split_once('/').is_some_and(|(owner, repo)| name(owner) && name(repo))
    })
}

/// Returns the issue in the form `owner/repository#number` for the path of its web address, such as
/// `ROCm/hip/issues/13`. Text after the number is ignored. Returns `None` if the path does not belong to an issue or a
/// pull request.
pub(crate) fn of_address(path: &str) -> Option<String> {
    let [owner, repository, "issues" | "pull", number] =
        path.split('/').take(4).collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    Some(format!("{owner}/{repository}#{}", &number[..end]))
}
