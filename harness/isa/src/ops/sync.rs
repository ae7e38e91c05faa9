//! Instructions of global wave sync, which use counters that the waves of all workgroups share.

use crate::{
    exec::{Bound, on_machine},
    sync::Action,
    text::{Base, Text, Unsupported, register},
    wave::{State, Stop, active},
};

fn action(name: &str) -> Option<Action> {
    Some(match name {
        "init" => Action::Init,
        "barrier" => Action::Barrier,
        "sema_v" => Action::Release,
        "sema_br" => Action::ReleaseSome,
        "sema_release_all" => Action::ReleaseAll,
        "sema_p" => Action::Acquire,
        _ => return None,
    })
}

/// Returns true for a global-wave-sync instruction. `name` is the mnemonic without `ds_`.
pub(crate) fn is_sync(name: &str) -> bool {
    name.starts_with("gws_")
}

/// Binds a global-wave-sync instruction. A wave that must wait stays at this instruction. On hardware the wave
/// continues to the next wait for LGKM_CNT, which compilers place directly after the instruction. The sanitizer treats
/// that wait as the synchronisation.
pub(crate) fn bind(text: &Text, name: &str) -> Bound {
    let action = name.strip_prefix("gws_").and_then(action).ok_or(Unsupported)?;
    let has_value = matches!(action, Action::Init | Action::Barrier | Action::ReleaseSome);
    // In the text of an instruction without operands, the first modifier may be parsed as an operand.
    let words = text.operands.iter().skip(usize::from(has_value));
    let all_words = words.clone().all(|operand| operand.base == Base::Word("gds".to_owned()));
    text.only(&["offset", "gds"])?;
    if !all_words || !(text.has("gds") || words.count() == 1) {
        return Err(Unsupported);
    }
    let row = if has_value { Some(text.row(0, 1)?) } else { None };
    let offset = text.number("offset")? as usize;
    on_machine(move |wave, machine| {
        // The instruction does nothing if no lane is active.
        let Some(first) = active(wave.exec()).next() else { return Ok(()) };
        let Some(sync) = machine.sync else {
            return Err(Box::new(Stop::Unsupported(
                "global wave sync on a queue that is not cooperative",
            )));
        };
        let base = wave.scalar[usize::from(register::M0)] >> 16 & 63;
        let value = row.map_or(0, |row| wave.lane(row, first));
        let (synced, awaits) = sync.act(action, base as usize + offset, value);
        machine.synced = Some(synced);
        if awaits.is_some() {
            (wave.awaits, wave.state) = (awaits, State::AtSync);
        }
        Ok(())
    })
}
