//! Branches, calls and barriers, and the instructions that end a wave or make it sleep.

use crate::{
    exec::{Binder, on_machine, on_wave},
    operation::{DataFlow, Operation, Table, operations},
    text::{Text, register},
    wave::{State, Stop, Wave},
};

fn branch_if(condition: impl Fn(&Wave) -> bool + Copy + Send + Sync + 'static) -> Binder {
    Box::new(move |text| {
        let target = text.branch_target();
        on_wave(move |wave| {
            if condition(wave) {
                wave.pc = target;
            }
        })
    })
}

fn wait_at_barrier() -> Binder {
    Box::new(|_| on_wave(|wave| wave.state = State::AtBarrier))
}

pub(crate) fn register(table: &mut Table) {
    operations! { table;
        "s_branch" => Operation::from(branch_if(|_| true)).with_flow(DataFlow::Nothing);
        "s_cbranch_scc0" => Operation::from(branch_if(|wave| !wave.scc())).with_flow(DataFlow::Branches(register::SCC));
        "s_cbranch_scc1" => Operation::from(branch_if(|wave| wave.scc())).with_flow(DataFlow::Branches(register::SCC));
        "s_cbranch_vccz" => Operation::from(branch_if(|wave| wave.mask(register::VCC) == 0)).with_flow(DataFlow::Branches(register::VCC));
        "s_cbranch_vccnz" => Operation::from(branch_if(|wave| wave.mask(register::VCC) != 0)).with_flow(DataFlow::Branches(register::VCC));
        "s_cbranch_execz" => Operation::from(branch_if(|wave| wave.exec() == 0)).with_flow(DataFlow::Nothing);
        "s_cbranch_execnz" => Operation::from(branch_if(|wave| wave.exec() != 0)).with_flow(DataFlow::Nothing);
        // These instructions branch if a debugger is attached, which is never the case.
        "s_cbranch_cdbgsys" | "s_cbranch_cdbguser" =>
            Operation::from(branch_if(|_| false)).with_flow(DataFlow::Nothing);
        "s_setpc_b64" | "s_set_pc_i64" => Operation::from(Box::new(|text: &Text| {
            let source = text.plain_source::<u64>(0)?;
            on_wave(move |wave| wave.pc = source.uniform(wave))
        })).with_flow(DataFlow::Nothing);
        "s_swappc_b64" | "s_swap_pc_i64" => Box::new(|text: &Text| {
            let (target, source) = (text.scalar(0, 2)?, text.plain_source::<u64>(1)?);
            let next = text.next_address();
            on_wave(move |wave| {
                let to = source.uniform(wave);
                wave.set_pair(target, next);
                wave.pc = to;
            })
        });
        "s_call_b64" | "s_call_i64" => Box::new(|text: &Text| {
            let (target, next, to) = (text.scalar(0, 2)?, text.next_address(), text.branch_target());
            on_wave(move |wave| {
                wave.set_pair(target, next);
                wave.pc = to;
            })
        });
        "s_endpgm" | "s_endpgm_saved" => Operation::from(Box::new(|_: &Text| on_wave(|wave| wave.state = State::Ended))).with_flow(DataFlow::Nothing);
        "s_barrier" | "s_barrier_wait" => Operation::from(wait_at_barrier()).with_flow(DataFlow::Nothing);
        // `s_barrier_signal` does nothing here, because the wait that follows it implements the barrier: no wave passes
        // the wait before all waves have reached it.
        "s_barrier_signal" => Operation::from(Box::new(|_: &Text| on_wave(|_| {}))).with_flow(DataFlow::Nothing);
        "s_trap" | "s_sethalt" => Operation::from(Box::new(|_: &Text| on_machine(|_, _| Err(Box::new(Stop::Abort))))).with_flow(DataFlow::Nothing);
        // The wave's turn ends here, because a wave that sleeps usually waits for another wave.
        "s_sleep" | "s_sleep_var" => Operation::from(Box::new(|_: &Text| on_wave(|wave| wave.state = State::Resting))).with_flow(DataFlow::Nothing);
    }
}
