//! Runs one plan in several processes at the same time on one GPU.

use std::{io, panic::resume_unwind, thread};

use judge::Kind;
use report::Record;
use supervise::Cancel;

use super::run_here;
use crate::{Job, Session, record::record_without_result, slots::Slot};

/// Runs one trial in several processes at the same time; the case determines their number. Returns the record of the
/// first process that failed; if none failed, that of the first without a verdict; otherwise that of the first process.
pub(crate) fn run_at_once(
    session: &Session,
    job: &Job<'_>,
    slot: Option<&Slot>,
    cancel: &Cancel,
) -> Option<Record> {
    let run = |_| run_here(session, job, &session.limits, slot, cancel);
    let records = match at_once(job.case.needs.processes, run) {
        Ok(records) => records,
        Err(error) => {
            let why = format!("cannot start a thread for each process of the trial: {error}");
            return Some(record_without_result(session, job, "not-started", why));
        }
    };
    Some(representative(records.into_iter().collect::<Option<_>>()?))
}

/// Calls `run` in `processes` threads at the same time, with the number of each thread, from 0. Returns the results in
/// the order of these numbers.
///
/// # Errors
/// Returns an error if a thread cannot be started.
pub fn at_once<T: Send>(processes: u32, run: impl Fn(u32) -> T + Sync) -> io::Result<Vec<T>> {
    thread::scope(|scope| {
        let run = &run;
        let start = |nth| thread::Builder::new().spawn_scoped(scope, move || run(nth));
        let others = (1..processes).map(start).collect::<io::Result<Vec<_>>>()?;
        let mut all = vec![run(0)];
        for other in others {
            all.push(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        Ok(all)
    })
}

fn representative(mut records: Vec<Record>) -> Record {
    let processes = records.len();
    let kinds: Vec<Kind> = records.iter().map(|record| record.outcome.kind).collect();
    let at = representative_index(&kinds);
    let mut record = records.swap_remove(at);
    if processes > 1 {
        let failed = kinds.iter().filter(|kind| kind.is_failure()).count();
        let text = format!(
            "process {} of {processes} that ran at the same time; {failed} of them failed",
            at + 1
        );
        record.outcome.details.insert(0, text);
    }
    record
}

fn representative_index(kinds: &[Kind]) -> usize {
    let first = |of: fn(&Kind) -> bool| kinds.iter().position(of);
    first(|kind| kind.is_failure()).or_else(|| first(|kind| *kind == Kind::NoVerdict)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_represent_all_processes() {
        use Kind::{Hang, NoVerdict, Pass, WrongData};
        assert_eq!(representative_index(&[Pass]), 0);
        assert_eq!(representative_index(&[Pass, Pass, Pass]), 0);
        assert_eq!(representative_index(&[Pass, NoVerdict, NoVerdict]), 1);
        assert_eq!(representative_index(&[NoVerdict, Pass, Hang, WrongData]), 2);
    }
}
