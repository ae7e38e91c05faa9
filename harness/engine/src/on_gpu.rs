//! Runs a trial on a GPU: waits until the GPU is free, and runs the health check afterwards.

use report::Record;
use supervise::Cancel;

use crate::{
    Job, Session,
    execute::run_at_once,
    health::{self, GateResult, may_have_broken},
    record::record_without_result,
};

/// State of the GPU that a record contains until the health check has ended.
const NOT_CHECKED: &str = "unknown: the run was interrupted during the health check";

/// Runs a trial when the GPU is free and works. After a failure, passes the provisional record to `report_end` and then
/// runs the health check. Returns `None` if the run was cancelled.
pub(crate) fn on_gpu(
    session: &Session,
    job: &Job<'_>,
    report_end: &dyn Fn(Record),
    cancel: &Cancel,
) -> Option<Record> {
    let gate = match session.turn(job.case.needs.alone, cancel) {
        Ok(turn) => turn?,
        Err(error) => {
            let why = format!("cannot lock the GPU: {error}");
            return Some(record_without_result(session, job, "not-started", why));
        }
    };
    let turn = match gate {
        GateResult::Open(turn) => turn,
        GateResult::Closed(why) => {
            return Some(record_without_result(session, job, health::BROKEN, why));
        }
    };
    let Some(mut record) = run_at_once(session, job, Some(turn.slot), cancel) else {
        session.remember_stuck(&job.id(), turn.slot);
        return None;
    };
    if let Some(ended) = may_have_broken(&record) {
        let tell = || report_end(Record { gpu_after: NOT_CHECKED.to_owned(), ..record.clone() });
        record.gpu_after = session.check_gpu_after_failure(&record, ended, &tell, turn, cancel);
    }
    Some(record)
}
