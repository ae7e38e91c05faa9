//! Reads lists of CI runs. The archives that one run published together are one build, and the run's manifest contains
//! the commits.

use download::DownloadError;
use serde::Deserialize;

use super::{ListingClient, escaped};
use crate::{Archive, Build, BuildLocation, BuildSource, Components, Date};

/// Number of days before the last day of a query for which runs are listed if the query has no first day.
const DAYS: i64 = 120;

/// Maximum number of pages to read: GitHub returns at most 1000 runs per query.
const MAX_PAGES: usize = 10;

struct Run {
    id: String,
    version: String,
    day: Option<Date>,
}

pub(super) fn list(
    source: &BuildSource,
    families: &[String],
    from: Option<Date>,
    to: Option<Date>,
    http: &ListingClient<'_>,
) -> Result<Vec<Build>, String> {
    let to = to.unwrap_or_else(Date::today);
    let from = from.unwrap_or_else(|| to.plus(-DAYS));
    let runs = match (&source.runs, &source.status) {
        (Some(template), _) => pushes(template, from, to, http)?,
        (None, Some(template)) => nightlies(template, from, to, http)?,
        (None, None) => Vec::new(),
    };
    let family = families.first().cloned().unwrap_or_default();
    let build = |run: Run| {
        let base = source.url.replace("{run}", &run.id);
        // Older runs published .tar.xz archives instead of .tar.zst.
        let place = |ending: &str| BuildLocation::Archives {
            source: source.name.clone(),
            archives: source
                .parts
                .iter()
                .map(|part| {
                    let name = format!("{part}{ending}");
                    let url = format!("{base}{}", escaped(&name));
                    let sha256_url = Some(format!("{url}.sha256sum"));
                    Archive { name, url, size: None, sha256: None, sha256_url }
                })
                .collect(),
        };
        Build {
            date: run.day,
            family: family.clone(),
            places: vec![place(".tar.zst"), place(".tar.xz")],
            run: Some(run.id),
            ..Build::named(run.version.clone(), run.version)
        }
    };
    Ok(runs.into_iter().map(build).collect())
}

/// Status file of a nightly build, as [Quartz](https://github.com/ROCm/quartz) writes it. Any minor version of the
/// schema is accepted.
#[derive(Deserialize)]
struct Status {
    rocm_version: Option<String>,
    trigger_workflow_run_id: Option<serde_json::Value>,
}

impl Status {
    fn run(&self) -> Option<String> {
        match self.trigger_workflow_run_id.as_ref()? {
            serde_json::Value::String(id) => Some(id.clone()),
            serde_json::Value::Number(id) => Some(id.to_string()),
            _ => None,
        }
    }
}

/// Reads the status file of a day. `template` is the address of the file, with `{date}` in place of the day. Returns
/// `None` if the host has no status file for that day.
fn status(template: &str, day: Date, http: &ListingClient<'_>) -> Result<Option<Status>, String> {
    let url = template.replace("{date}", &day.compact());
    match http.get(&url, "application/json") {
        Ok((text, _)) => serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| format!("{url}: not a status: {error}")),
        Err(DownloadError::Missing { .. }) => Ok(None),
        Err(failure) => Err(failure.to_string()),
    }
}

/// Returns one run for each day that has a status file. A day without a status file had no nightly build.
///
/// # Errors
/// A status file cannot be read, so it is unknown whether there was a nightly build.
fn nightlies(
    template: &str,
    from: Date,
    to: Date,
    http: &ListingClient<'_>,
) -> Result<Vec<Run>, String> {
    let mut runs = Vec::new();
    let mut day = from;
    while day <= to {
        if let Some(status) = status(template, day, http)?
            && let (Some(id), Some(rocm)) = (status.run(), status.rocm_version)
        {
            let dated = crate::builds::names::day(&rocm).is_some();
            let version = if dated { rocm } else { format!("{rocm}a{}", day.compact()) };
            runs.push(Run { id, version, day: Some(day) });
        }
        day = day.plus(1);
    }
    Ok(runs)
}

/// List of workflow runs, as [GitHub](https://docs.github.com/en/rest/actions/workflow-runs) returns it.
#[derive(Deserialize)]
struct Pushes {
    workflow_runs: Vec<Push>,
}

#[derive(Deserialize)]
struct Push {
    id: u64,
    head_sha: String,
    created_at: String,
    event: String,
}

/// Returns one CI run for each push, the oldest first. The runs of one day are ordered by their ids.
fn pushes(
    template: &str,
    from: Date,
    to: Date,
    http: &ListingClient<'_>,
) -> Result<Vec<Run>, String> {
    let filled = template.replace("{from}", &from.to_string()).replace("{to}", &to.to_string());
    let mut runs: Vec<(u64, Run)> = Vec::new();
    for page in 1..=MAX_PAGES {
        let url = if page == 1 { filled.clone() } else { format!("{filled}&page={page}") };
        let (body, _) = http.text(&url, "application/vnd.github+json")?;
        let list: Pushes = serde_json::from_str(&body)
            .map_err(|error| format!("{url}: not a list of runs: {error}"))?;
        let before = runs.len();
        for push in list.workflow_runs.into_iter().filter(|push| push.event == "push") {
            // A second run for the same push builds the same source code.
            if runs.iter().all(|(_, known)| known.version != push.head_sha) {
                let day = push.created_at.parse().ok();
                runs.push((push.id, Run { id: push.id.to_string(), version: push.head_sha, day }));
            }
        }
        // GitHub returns a page without new runs after the last page.
        if runs.len() == before {
            break;
        }
    }
    runs.sort_by_key(|(id, _)| *id);
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

/// Reads the commits of a build from the manifest of its CI run. `None` if the run is unknown, or if its manifest
/// cannot be read.
pub(crate) fn components(
    source: &BuildSource,
    build: &Build,
    http: &ListingClient<'_>,
) -> Option<Components> {
    let manifest = source.manifest.as_ref()?;
    let run = build
        .run
        .clone()
        .or_else(|| status(source.status.as_ref()?, build.date?, http).ok()??.run())?;
    let url = manifest.replace("{run}", &run);
    Components::parse(&http.text(&url, "application/json").ok()?.0)
}
