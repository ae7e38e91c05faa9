//! Several processes that make one plan at the same time, on one GPU: what only happens where they are in each other's way.

use std::{io, panic::resume_unwind, thread};

use judge::Kind;
use report::Record;
use supervise::Cancel;

use super::run_here;
use crate::{Job, Session, record::without, slots::Slot};

/// Runs a trial in as many processes as its case needs, and judges each by itself. The record is that of the first that failed, else of
/// the first without a verdict, else of the first. An emulated device belongs to one process, so each has its own there.
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
            let why = format!("no thread could be started for each of its processes: {error}");
            return Some(without(session, job, "not-started", why));
        }
    };
    Some(told(records.into_iter().collect::<Option<_>>()?))
}

/// What came of so many at the same time, at least one; each is given its number from 0.
///
/// # Errors
/// A thread that cannot be started; those that were come to their end first.
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

/// The one record of all, which says how many of them ended like it.
fn told(mut records: Vec<Record>) -> Record {
    let processes = records.len();
    let kinds: Vec<Kind> = records.iter().map(|record| record.outcome.kind).collect();
    let at = first_to_tell(&kinds);
    let mut record = records.swap_remove(at);
    if processes > 1 {
        let failed = kinds.iter().filter(|kind| kind.is_failure()).count();
        let text = format!("process {} of {processes} at once; {failed} of them failed", at + 1);
        record.outcome.details.insert(0, text);
    }
    record
}

fn first_to_tell(kinds: &[Kind]) -> usize {
    let first = |of: fn(&Kind) -> bool| kinds.iter().position(of);
    first(|kind| kind.is_failure()).or_else(|| first(|kind| *kind == Kind::NoVerdict)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_before_what_has_no_verdict_and_that_before_what_passed() {
        use Kind::{Hang, NoVerdict, Pass, WrongData};
        assert_eq!(first_to_tell(&[Pass]), 0);
        assert_eq!(first_to_tell(&[Pass, Pass, Pass]), 0);
        assert_eq!(first_to_tell(&[Pass, NoVerdict, NoVerdict]), 1);
        assert_eq!(first_to_tell(&[NoVerdict, Pass, Hang, WrongData]), 2);
    }
}
