//! What is done around a trial on a GPU, which trials share and which may be broken: an emulated device is made anew for each.

use report::Record;
use supervise::Cancel;

use crate::{
    Job, Session,
    execute::run_at_once,
    health::{self, Gated, may_have_broken},
    record::without,
};

/// What is known of the GPU until somebody has looked at it.
const NOT_LOOKED: &str = "not known: the run was ended before the health check was over";

/// Runs a trial when its turn on the GPU has come, and not where the GPU is broken. After a failure `told` hears how it ended, and the
/// GPU is looked at.
pub(crate) fn on_gpu(
    session: &Session,
    job: &Job<'_>,
    told: &dyn Fn(Record),
    cancel: &Cancel,
) -> Option<Record> {
    let gate = match session.turn(job.case.needs.alone, cancel) {
        Ok(turn) => turn?,
        Err(error) => {
            let why = format!("no turn on the GPU: {error}");
            return Some(without(session, job, "not-started", why));
        }
    };
    let turn = match gate {
        Gated::Open(turn) => turn,
        Gated::Closed(why) => return Some(without(session, job, health::BROKEN, why)),
    };
    let Some(mut record) = run_at_once(session, job, Some(turn.slot), cancel) else {
        session.remember_stuck(&job.id(), turn.slot);
        return None;
    };
    if let Some(ended) = may_have_broken(&record) {
        let tell = || told(Record { gpu_after: NOT_LOOKED.to_owned(), ..record.clone() });
        record.gpu_after = session.look_at_the_gpu(&record, ended, &tell, turn, cancel);
    }
    Some(record)
}
