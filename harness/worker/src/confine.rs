//! Keeps the worker of a case from elsewhere to the folders that it needs.

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};
use plan::Event;

/// What is asked of the kernel: Landlock as of Linux 6.12. An older one does what it can.
const ASKED: ABI = ABI::V6;

/// From here on this thread, and all that it starts, can write nowhere but in these folders, open no TCP connection and signal
/// nobody outside. Says how far the kernel enforces that.
pub(crate) fn confine(writable: &[String]) -> Event {
    let (complete, why) = match restrict(writable) {
        Ok(RulesetStatus::FullyEnforced) => (true, String::new()),
        Ok(RulesetStatus::PartiallyEnforced) => {
            (false, "the Landlock of this kernel is older and enforces only a part".to_owned())
        }
        Ok(RulesetStatus::NotEnforced) => {
            (false, "this kernel has no Landlock, or it is switched off".to_owned())
        }
        Err(error) => (false, error.to_string()),
    };
    Event::Confined { complete, why }
}

fn restrict(writable: &[String]) -> Result<RulesetStatus, RulesetError> {
    let status = Ruleset::default()
        .handle_access(AccessFs::from_write(ASKED))?
        .handle_access(AccessNet::from_all(ASKED))?
        .scope(Scope::from_all(ASKED))?
        .create()?
        .add_rules(path_beneath_rules(writable, AccessFs::from_write(ASKED)))?
        .restrict_self()?;
    Ok(status.ruleset)
}
